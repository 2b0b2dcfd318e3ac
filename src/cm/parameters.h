// The parameters of listeners, and the errors of an Endpoint. The parameters of connections are in
// cm/values/parameters.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "cm/values/parameters.h"

namespace rrdma::cm {

// The calls that a listener accepts. The most specific listener gets the call.
struct AddressMatch {
  enum class Kind : std::uint8_t {
    kExactIp,     // calls to `address`
    kAnyIpv4,     // calls to any IPv4 address
    kAnyIpv6,     // calls to any IPv6 address
    kAnyIp,       // both
    kEverything,  // also calls without an IP-CM header
  };
  Kind kind = Kind::kEverything;
  wire::Gid address;
  friend bool operator==(const AddressMatch&, const AddressMatch&) = default;
};

struct ListenParameters {
  OwnerToken owner = 0;
  std::uint64_t service_id = 0;
  AddressMatch match;
  std::size_t backlog = 0;      // requests that await the owner's answer; 0: the maximum
  bool reject_overflow = true;  // false: drop requests beyond the backlog, so that the caller retries
};

enum class Error : std::uint8_t {
  kUnknownConnection,
  kUnknownListener,
  kWrongState,
  kAlreadyEstablished,
  kPrivateDataTooLong,
  kInfoTooLong,
  kInvalidPathMtu,
  kInvalidQpType,
  kTooManyConnections,
  kTooManyListeners,
  kServiceInUse,
  kIdInUse,
};
[[nodiscard]] std::string_view describe(Error error);

}  // namespace rrdma::cm
