// Handshake: the key exchange of an encrypted connection. Both ends make a fresh X25519 key for the
// connection. The server's public key is in its hello, the client's in its first frame, KEY. Each end proves
// with the shared secret that it has seen the same hellos and public keys; the proofs of client and server
// have different keys, so neither can be returned to its sender. The keys of the connection follow from the
// X25519 result, the secret and everything exchanged. See docs/rpc-protocol.md.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/rpc/frame.h"
#include "lib/rpc/proof.h"
#include "lib/rpc/sealing.h"

struct evp_pkey_st;

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// The error of an end that is to encrypt without a secret.
inline constexpr const char* kNoSecret =
    "encryption needs a secret, which both ends must know: set `secret` in the options";

class Handshake {
 public:
  Handshake(Role role, std::string_view secret);
  Handshake(Handshake&&) noexcept;
  ~Handshake();

  // The public key of this end.
  [[nodiscard]] const Key& key() const { return key_; }

  // The server's proof. `answer`: its hello with the public key and without a proof.
  [[nodiscard]] Proof prove_server(std::span<const std::byte> hello, std::span<const std::byte> answer);
  // Checks the server's proof in its hello. Nothing else may be done with the server's hello if this fails.
  [[nodiscard]] bool check_server(std::span<const std::byte> hello, std::span<const std::byte> answer);

  // The body of the client's KEY frame. REQUIRES: check_server() succeeded.
  [[nodiscard]] std::array<std::byte, kKeyBody> client_body() const;
  // The keys of the client, if the server's public key is valid.
  [[nodiscard]] std::optional<SealKeys> client_keys(const Key& server) const;
  // Checks the body of a KEY frame. Returns the keys of the server if it proves that the client knows the
  // secret. REQUIRES: prove_server() was called.
  [[nodiscard]] std::optional<SealKeys> server_keys(std::span<const std::byte> body) const;

 private:
  struct Freed {
    void operator()(evp_pkey_st* key) const;
  };
  // `client`: the client's public key.
  [[nodiscard]] Proof client_proof(const Key& client) const;
  [[nodiscard]] std::optional<SealKeys> keys(const Key& peer, const Key& client) const;

  Role role_;
  std::string secret_;
  std::unique_ptr<evp_pkey_st, Freed> own_;
  Key key_{};
  std::string hellos_;  // of the client, then of the server, each after its length
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
