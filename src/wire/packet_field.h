// Field: one thing that a packet says, with its name, its value and a sentence on what it is for. A
// packet's fields form a tree: headers are groups. The tree for people and the JSON objects are both
// made from it, so that they cannot disagree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rrdma::wire {

struct Field {
  // A group, a truth value, a number of at most 32 bits, or text. Numbers of 64 bits are text in
  // hexadecimal: many readers of JSON keep only 53 bits of a number.
  using Value = std::variant<std::monostate, bool, std::uint32_t, std::string>;

  std::string_view key;      // in JSON; stable
  std::string_view label;    // as the specification names it
  Value value;               // of a group: none
  std::string text;          // the value as people read it
  std::string_view meaning;  // one sentence; may be empty
  std::vector<Field> children;

  [[nodiscard]] bool is_group() const { return std::holds_alternative<std::monostate>(value); }

  // Adds to a group; each returns what was added. The views must be of literals.
  Field& add_group(std::string_view its_key, std::string_view its_label, std::string its_text,
                   std::string_view its_meaning) {
    return children.emplace_back(
        Field{its_key, its_label, std::monostate{}, std::move(its_text), its_meaning, {}});
  }
  Field& add(std::string_view its_key, std::string_view its_label, Value its_value, std::string its_text,
             std::string_view its_meaning) {
    return children.emplace_back(
        Field{its_key, its_label, std::move(its_value), std::move(its_text), its_meaning, {}});
  }
  // A number in decimal, a flag, or text as it is.
  Field& add_number(std::string_view its_key, std::string_view its_label, std::uint32_t number,
                    std::string_view its_meaning) {
    return add(its_key, its_label, number, std::to_string(number), its_meaning);
  }
  Field& add_flag(std::string_view its_key, std::string_view its_label, bool flag,
                  std::string_view its_meaning) {
    return add(its_key, its_label, flag, flag ? "yes" : "no", its_meaning);
  }
  Field& add_text(std::string_view its_key, std::string_view its_label, std::string words,
                  std::string_view its_meaning) {
    return add(its_key, its_label, words, words, its_meaning);
  }
  // A number in hexadecimal, `digits` long; of more than eight digits it is text in JSON.
  Field& add_hex(std::string_view its_key, std::string_view its_label, std::uint64_t number, unsigned digits,
                 std::string_view its_meaning);
};

}  // namespace rrdma::wire
