// Encoder and Decoder for the fields of control messages. A message states its fields once, in a static
// function `fields(archive, self)`, for both directions. Values are in host byte order, because both ends run
// on one host. A decoder trusts nothing: a length or enumerator beyond its bound, or a missing or surplus
// byte, makes the whole message malformed. The caller then never sees the struct.
//
//   integer  = its bytes         boolean = one byte, 0 or 1
//   optional = boolean, the value if 1        variant = u8 index, that alternative
//   text     = u16 size, bytes (none of them 0); the decoder yields UTF-8 without control characters
//   blob     = u16 size, bytes
//   list     = u16 count, elements
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.h"
#include "base/octets.h"
#include "base/visible_text.h"
#include "control/slot.h"

namespace rrdma::control {

// Lists the fields of a type. By default the type does so itself; types of lower layers specialize this.
template <typename T>
struct FieldsOf {
  static void list(auto& archive, auto& self) { T::fields(archive, self); }
};

// The last enumerator, for every enumeration in a message.
template <typename E>
struct LastOf;

// Fields whose encoding follows from their type: archive(self.number, self.route, ...).
template <typename Archive>
class ByType {
 public:
  template <typename... T>
  void operator()(T&... fields) {
    (field(fields), ...);
  }

 private:
  template <typename T>
  void field(T& it) {
    using Value = std::remove_const_t<T>;
    auto& archive = static_cast<Archive&>(*this);
    if constexpr (std::is_same_v<Value, bool>) {
      archive.flag(it);
    } else if constexpr (std::is_integral_v<Value>) {
      archive.value(it);
    } else if constexpr (std::is_enum_v<Value>) {
      archive.enumeration(it, LastOf<Value>::kLast);
    } else {
      archive.nested(it);
    }
  }
};

// Replaces each byte that a terminal might obey, and each that is not UTF-8, by '?'.
[[nodiscard]] inline std::string visible(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t size = visible_octets(text);
    shown += size == 0 ? std::string_view("?") : text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return shown;
}

class Encoder : public ByType<Encoder> {
 public:
  static constexpr bool kDecodes = false;

  template <typename T>
  requires std::is_integral_v<T>
  void value(const T& from) { append(&from, sizeof from); }
  void flag(const bool& from) { value(static_cast<std::uint8_t>(from ? 1 : 0)); }
  template <typename E>
  void enumeration(const E& from, E last) {
    RRDMA_ASSERT(from <= last);
    value(static_cast<std::underlying_type_t<E>>(from));
  }
  // An open enumeration: a peer may send values without a name.
  template <typename E>
  void number(const E& from) {
    value(static_cast<std::underlying_type_t<E>>(from));
  }
  // Text is for people; too long text is cut.
  void text(const std::string& from, std::size_t size_max) {
    const std::string visible = from.substr(0, std::min(from.find('\0'), size_max));
    sized(visible.data(), visible.size());
  }
  // REQUIRES: from.size() <= size_max.
  void blob(const std::vector<std::uint8_t>& from, std::size_t size_max) {
    RRDMA_ASSERT(from.size() <= size_max);
    sized(from.data(), from.size());
  }
  template <typename T, std::size_t N>
  void array(const std::array<T, N>& from) {
    for (const T& element : from) value(element);
  }
  // Structs with fields, or integers. REQUIRES: from.size() <= count_max.
  template <typename T>
  void list(const std::vector<T>& from, std::size_t count_max) {
    RRDMA_ASSERT(from.size() <= count_max);
    value(static_cast<std::uint16_t>(from.size()));
    for (const T& element : from) {
      if constexpr (std::is_integral_v<T>) {
        value(element);
      } else {
        nested(element);
      }
    }
  }
  template <typename T>
  void nested(const T& from) {
    FieldsOf<T>::list(*this, from);
  }
  template <typename T>
  void nested(const std::optional<T>& from) {
    flag(from.has_value());
    if (from) (*this)(*from);
  }
  template <typename... T>
  void nested(const std::variant<T...>& from) {
    value(static_cast<std::uint8_t>(from.index()));
    std::visit([this](const auto& alternative) { this->nested(alternative); }, from);
  }
  // An invariant of every value of this type.
  void require(bool holds) { RRDMA_ASSERT(holds); }
  void slot(const Slot& from) { value(from); }

  [[nodiscard]] std::vector<std::uint8_t>& octets() { return octets_; }

 private:
  void sized(const void* from, std::size_t size) {
    value(static_cast<std::uint16_t>(size));
    append(from, size);
  }
  void append(const void* from, std::size_t size) {
    const auto* octets = static_cast<const std::uint8_t*>(from);
    octets_.insert(octets_.end(), octets, octets + size);
  }
  std::vector<std::uint8_t> octets_;
};

class Decoder : public ByType<Decoder> {
 public:
  static constexpr bool kDecodes = true;

  explicit Decoder(Octets octets) : octets_(octets) {}

  template <typename T>
  requires std::is_integral_v<T>
  void value(T& to) {
    const std::uint8_t* from = take(sizeof to);
    if (from != nullptr) std::memcpy(&to, from, sizeof to);
  }
  void flag(bool& to) {
    std::uint8_t octet = 0;
    value(octet);
    if (octet > 1) malformed_ = true;
    to = octet == 1;
  }
  template <typename E>
  void enumeration(E& to, E last) {
    std::underlying_type_t<E> number{};
    value(number);
    if (number > static_cast<std::underlying_type_t<E>>(last)) {
      malformed_ = true;
    } else {
      to = static_cast<E>(number);
    }
  }
  template <typename E>
  void number(E& to) {
    std::underlying_type_t<E> from{};
    value(from);
    to = static_cast<E>(from);
  }
  void text(std::string& to, std::size_t size_max) {
    const Octets octets = sized(size_max);
    to = visible({reinterpret_cast<const char*>(octets.data()), octets.size()});
    if (std::find(octets.begin(), octets.end(), 0) != octets.end()) malformed_ = true;
  }
  void blob(std::vector<std::uint8_t>& to, std::size_t size_max) {
    const Octets octets = sized(size_max);
    to.assign(octets.begin(), octets.end());
  }
  template <typename T, std::size_t N>
  void array(std::array<T, N>& to) {
    for (T& element : to) value(element);
  }
  template <typename T>
  void list(std::vector<T>& to, std::size_t count_max) {
    std::uint16_t count = 0;
    value(count);
    if (count > count_max) malformed_ = true;
    to.clear();
    for (std::uint16_t i = 0; i < count && !malformed_; ++i) {
      T element{};
      if constexpr (std::is_integral_v<T>) {
        value(element);
      } else {
        nested(element);
      }
      to.push_back(std::move(element));
    }
  }
  template <typename T>
  void nested(T& to) {
    FieldsOf<T>::list(*this, to);
  }
  template <typename T>
  void nested(std::optional<T>& to) {
    bool present = false;
    flag(present);
    to.reset();
    if (!present || malformed_) return;
    (*this)(to.emplace());
  }
  template <typename... T>
  void nested(std::variant<T...>& to) {
    std::uint8_t index = 0;
    value(index);
    if (index >= sizeof...(T)) malformed_ = true;
    if (!malformed_) alternative(to, index, std::index_sequence_for<T...>());
  }
  void require(bool holds) {
    if (!holds) malformed_ = true;
  }
  void slot(Slot& to) {
    value(to);
    require(to < kSlotCount);
  }

  // True if everything was in bounds and no bytes are left over.
  [[nodiscard]] bool complete() const { return !malformed_ && octets_.empty(); }

 private:
  template <typename Variant, std::size_t... I>
  void alternative(Variant& to, std::size_t index, std::index_sequence<I...>) {
    (void)((I == index && (nested(to.template emplace<I>()), true)) || ...);
  }
  const std::uint8_t* take(std::size_t size) {
    if (malformed_ || octets_.size() < size) {
      malformed_ = true;
      return nullptr;
    }
    const std::uint8_t* from = octets_.data();
    octets_ = octets_.subspan(size);
    return from;
  }
  Octets sized(std::size_t size_max) {
    std::uint16_t size = 0;
    value(size);
    if (size > size_max) malformed_ = true;
    const std::uint8_t* from = take(size);
    return from == nullptr ? Octets{} : Octets{from, size};
  }

  Octets octets_;
  bool malformed_ = false;
};

}  // namespace rrdma::control
