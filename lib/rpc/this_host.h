// Whether an address belongs to this host, as far as this process sees it.
#pragma once

#include <string_view>

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// `address`: "ip:port" or "[ip]:port". False for a name.
[[nodiscard]] bool on_this_host(std::string_view address);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
