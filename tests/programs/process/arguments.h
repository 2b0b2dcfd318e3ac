// Arguments: the command line of a test program, as --name=value or --name. A name is known once the program
// has asked for it; check() ends the program if the command line holds any other name.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace proof {

class Arguments {
 public:
  Arguments(int argc, char** argv) : words_(argv + 1, argv + argc) {}

  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise = {});
  [[nodiscard]] long number(const std::string& name, long otherwise);
  [[nodiscard]] bool flag(const std::string& name);
  // REQUIRES: the program has asked for all its arguments.
  void check() const;

 private:
  std::vector<std::string> words_;
  std::set<std::string> known_;
};

}  // namespace proof
