// Tells the device the names of methods that this process serves or calls, for its captures.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "rrdma/comm/device.h"
#include "rrdma/rpc/method.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// The hashes of methods that the device knows, found with a few loads. If there are too many, some stay
// unnamed.
class NamedMethods {
 public:
  // Whether the method is new. Any thread.
  bool insert(std::uint64_t id) {
    for (std::uint64_t i = 0; i < kTries; ++i) {
      std::atomic<std::uint64_t>& place = places_[(id + i) % places_.size()];
      std::uint64_t known = place.load(std::memory_order_relaxed);
      if (known == 0 && place.compare_exchange_strong(known, id, std::memory_order_relaxed)) return true;
      if (known == id) return false;
    }
    return false;
  }

 private:
  static constexpr std::uint64_t kTries = 8;
  std::array<std::atomic<std::uint64_t>, 1024> places_{};
};

inline constinit NamedMethods named_methods;

inline void name_for_captures(const Method& method) {
  if (named_methods.insert(method.id)) [[unlikely]]
    comm::detail::name_method(method.path().c_str());
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
