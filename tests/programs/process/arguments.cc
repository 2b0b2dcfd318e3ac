#include "arguments.h"

#include "verdict.h"

namespace proof {

std::string Arguments::text(const std::string& name, const std::string& otherwise) {
  known_.insert(name);
  const std::string head = "--" + name + "=";
  for (const std::string& word : words_) {
    if (word.compare(0, head.size(), head) == 0) return word.substr(head.size());
  }
  return otherwise;
}

long Arguments::number(const std::string& name, long otherwise) {
  const std::string value = text(name);
  return value.empty() ? otherwise : std::stol(value);
}

bool Arguments::flag(const std::string& name) {
  known_.insert(name);
  for (const std::string& word : words_) {
    if (word == "--" + name) return true;
  }
  return false;
}

void Arguments::check() const {
  for (const std::string& word : words_) {
    const std::string name = word.substr(0, word.find('='));
    if (name.compare(0, 2, "--") != 0 || known_.count(name.substr(2)) == 0) fail("unknown argument " + word);
  }
}

}  // namespace proof
