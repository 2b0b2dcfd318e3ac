// Field: one value of a packet, with its name and a sentence about its purpose. The fields of a packet form a
// tree in which headers are groups. The tree for people and the JSON objects are both derived from it, so
// that they cannot disagree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rrdma::wire {

struct Field {
  // A group, a bool, a number of at most 32 bits, or text. 64-bit numbers are hexadecimal text, because many
  // JSON readers keep only 53 bits of a number.
  using Value = std::variant<std::monostate, bool, std::uint32_t, std::string>;

  std::string_view key;      // the name in JSON; stable
  std::string_view label;    // as the specification names it
  Value value;               // empty for a group
  std::string text;          // the value in readable form
  std::string_view meaning;  // one sentence; may be empty
  std::vector<Field> children;

  [[nodiscard]] bool is_group() const { return std::holds_alternative<std::monostate>(value); }

  // Add to a group and return the new field. The views must refer to literals.
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
  // A decimal number, a flag, or text as it is.
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
  // A hexadecimal number of `digits` digits; with more than eight digits it is text in JSON.
  Field& add_hex(std::string_view its_key, std::string_view its_label, std::uint64_t number, unsigned digits,
                 std::string_view its_meaning);
};

}  // namespace rrdma::wire
