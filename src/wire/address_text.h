// Addresses as text: aa:bb:cc:dd:ee:ff, 10.0.0.1, fe80::1 (RFC 5952). The GID of an IPv4 address is written
// as that address.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "wire/address.h"

namespace rrdma::wire {

[[nodiscard]] std::string to_text(const MacAddress& address);
[[nodiscard]] std::string to_text(const Ipv4Address& address);
[[nodiscard]] std::string to_text(const Ipv6Address& address);
[[nodiscard]] std::string to_text(const Gid& gid);
// The GID of an IPv4 or IPv6 address; nothing if the text is neither.
[[nodiscard]] std::optional<Gid> gid_of_text(std::string_view text);

}  // namespace rrdma::wire
