// PrivateData: application data inside the messages that establish a connection.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "base/assert.h"
#include "base/octets.h"
#include "wire/cm_mad.h"

namespace rrdma::cm {

struct PrivateData {
  std::array<std::uint8_t, wire::kPrivateOctetsMax> octets{};
  std::uint8_t length = 0;

  PrivateData() = default;
  // REQUIRES: at most kPrivateOctetsMax bytes.
  template <typename Range>
  requires std::is_convertible_v<const Range&, Octets> PrivateData(const Range& range) {
    const Octets from(range);
    RRDMA_ASSERT(from.size() <= octets.size());
    std::copy(from.begin(), from.end(), octets.begin());
    length = static_cast<std::uint8_t>(from.size());
  }
  [[nodiscard]] Octets view() const { return Octets(octets).first(length); }
  [[nodiscard]] std::size_t size() const { return length; }
  friend bool operator==(const PrivateData& a, const PrivateData& b) {
    return std::equal(a.view().begin(), a.view().end(), b.view().begin(), b.view().end());
  }
};

}  // namespace rrdma::cm
