// What owners of listeners hand to an Endpoint, and what it refuses. What they ask of connections is in
// cm/values/parameters.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "cm/values/parameters.h"

namespace rrdma::cm {

// Who may call a listener: the most specific one takes the call.
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
  std::size_t backlog = 0;      // requests that wait for their owner's answer; 0: as many as there may be
  bool reject_overflow = true;  // false: drop what is beyond the backlog, and let the caller try again
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
