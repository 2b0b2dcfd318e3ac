// Nonces come from the kernel, the HMAC from libcrypto.
#include "lib/rpc/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

Nonce fresh_nonce() {
  Nonce nonce{};
  // getrandom() returns so few bytes completely or not at all.
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) std::abort();
  return nonce;
}

Proof proof_of(std::string_view secret, Role role, const Nonce& client, const Nonce& server) {
  std::string said = role == Role::kClient ? "rrdma rpc client" : "rrdma rpc server";
  said.append(reinterpret_cast<const char*>(client.data()), client.size());
  said.append(reinterpret_cast<const char*>(server.data()), server.size());
  Proof proof{};
  unsigned size = kProofSize;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(said.data()), said.size(),
       reinterpret_cast<unsigned char*>(proof.data()), &size);
  return proof;
}

bool same(const Proof& expected, std::span<const std::byte> given) {
  return given.size() == expected.size() &&
         CRYPTO_memcmp(expected.data(), given.data(), expected.size()) == 0;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
