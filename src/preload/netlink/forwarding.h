// Forwarding: a program's question by netlink is passed on to the kernel, and the kernel's answers back. The
// kernel fills as much of a list into a datagram as its reader has room for, so this one has no more room
// than the programs have: a page.
#pragma once

#include <cstddef>
#include <functional>

#include "base/octets.h"

namespace rrdma::netlink {

// The room of libmnl for a datagram, which the programs use: a page, but at most 8 KiB.
[[nodiscard]] std::size_t datagram_max();

// Asks the kernel by its socket. It answers within the calls. `pass` gets each datagram of the answer.
// Returns 0, or the errno because of which the answer is missing or has no end.
[[nodiscard]] int forward(int kernel, Octets question, const std::function<void(MutableOctets)>& pass);

}  // namespace rrdma::netlink
