// The words that can stand next on a command line of `rrdma`. They come from the same declarations as the
// help, so shells never offer an option that does not exist. The scripts for the shells only print what is
// found here.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace rrdma::tools {

struct Candidate {
  std::string word;
  std::string meaning;  // may be empty
};

struct Candidates {
  std::vector<Candidate> words;
  bool files = false;          // names of files fit, too
  std::size_t program_at = 0;  // the index of the program that `rrdma run` starts; 0: the word is our own
};

// `words`: the words after "rrdma"; the last one is being typed and may be empty.
[[nodiscard]] Candidates candidates_for(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace rrdma::tools
