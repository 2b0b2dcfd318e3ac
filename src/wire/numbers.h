// The protocol's numbers as distinct types, so that they cannot be mixed up. Psn and Msn live on a circle of
// 2^24. They have no operator<, because "before" is defined only within half of the circle.
#pragma once

#include <compare>
#include <cstdint>

namespace rrdma::wire {

inline constexpr std::uint32_t kMask24 = 0xffffff;

// Packet sequence number.
struct Psn {
  std::uint32_t value = 0;

  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t v) : value(v & kMask24) {}

  friend constexpr bool operator==(Psn, Psn) = default;
  friend constexpr Psn operator+(Psn psn, std::uint32_t n) { return Psn(psn.value + n); }
  friend constexpr Psn operator-(Psn psn, std::uint32_t n) { return Psn(psn.value - n); }
  constexpr Psn& operator++() { return *this = *this + 1; }

  // Signed distance from `from` to this, in [-2^23, 2^23).
  [[nodiscard]] constexpr std::int32_t since(Psn from) const {
    return static_cast<std::int32_t>((value - from.value) << 8) >> 8;
  }
  [[nodiscard]] constexpr bool before(Psn other) const { return since(other) < 0; }
  [[nodiscard]] constexpr bool after(Psn other) const { return since(other) > 0; }
};

// Queue pair number.
struct Qpn {
  std::uint32_t value = 0;

  constexpr Qpn() = default;
  constexpr explicit Qpn(std::uint32_t v) : value(v & kMask24) {}
  friend constexpr auto operator<=>(Qpn, Qpn) = default;
};

inline constexpr Qpn kGeneralServicesQpn{1};
inline constexpr Qpn kMulticastQpn{0xffffff};

// Memory keys: the same number space, but distinct types because a local key never travels.
struct RKey {
  std::uint32_t value = 0;
  friend constexpr bool operator==(RKey, RKey) = default;
};
struct LKey {
  std::uint32_t value = 0;
  friend constexpr bool operator==(LKey, LKey) = default;
};
struct QKey {
  std::uint32_t value = 0;
  friend constexpr bool operator==(QKey, QKey) = default;
};

// 32 bits sent unchanged: the bytes in memory are the bytes on the wire.
struct Immediate {
  std::uint32_t raw = 0;
  friend constexpr bool operator==(Immediate, Immediate) = default;
};

inline constexpr std::uint16_t kDefaultPKey = 0xffff;

}  // namespace rrdma::wire
