// Proofs of knowledge of the shared secret: HMAC-SHA256 over the role and both nonces.
#pragma once

#include <span>
#include <string_view>

#include "lib/rpc/frame.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

enum class Role : std::uint8_t { kClient, kServer };

[[nodiscard]] Nonce fresh_nonce();
[[nodiscard]] Proof proof_of(std::string_view secret, Role role, const Nonce& client, const Nonce& server);
// Compares in constant time.
[[nodiscard]] bool same(const Proof& expected, std::span<const std::byte> given);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
