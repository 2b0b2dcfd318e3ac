// Arguments: what a test program was asked for on its command line, as --name=value or --name. Every name
// that a program asks for is known to it; check() ends the program when the command line holds another.
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
  // After everything was asked for.
  void check() const;

 private:
  std::vector<std::string> words_;
  std::set<std::string> known_;
};

}  // namespace proof
