// Addresses as text: aa:bb:cc:dd:ee:ff, 10.0.0.1, fe80::1 (RFC 5952). The GID of an IPv4 address is written as that
// address.
#pragma once

#include <string>

#include "wire/address.h"

namespace rrdma::wire {

[[nodiscard]] std::string to_text(const MacAddress& address);
[[nodiscard]] std::string to_text(const Ipv4Address& address);
[[nodiscard]] std::string to_text(const Ipv6Address& address);
[[nodiscard]] std::string to_text(const Gid& gid);

}  // namespace rrdma::wire
