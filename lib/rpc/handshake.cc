#include "lib/rpc/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::string_view kServerProof = "rrdma rpc 4 server's proof";
constexpr std::string_view kClientProof = "rrdma rpc 4 client's proof";

std::span<const std::byte> octets_of_text(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}
std::string_view text_of_octets(std::span<const std::byte> octets) {
  return {reinterpret_cast<const char*>(octets.data()), octets.size()};
}

// An HMAC whose key serves this purpose only.
Proof proof_with(std::string_view secret, std::string_view purpose, std::string_view said) {
  Key key = derive_key(octets_of_text(secret), {}, purpose);
  Proof proof{};
  unsigned size = kProofSize;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(said.data()), said.size(),
           reinterpret_cast<unsigned char*>(proof.data()), &size) == nullptr)
    std::abort();
  OPENSSL_cleanse(key.data(), key.size());
  return proof;
}

}  // namespace

void Handshake::Freed::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

Handshake::Handshake(Role role, std::string_view secret) : role_(role), secret_(secret) {
  EVP_PKEY_CTX* context = EVP_PKEY_CTX_new_id(EVP_PKEY_X25519, nullptr);
  EVP_PKEY* made = nullptr;
  std::size_t size = key_.size();
  const bool good =
      context != nullptr && EVP_PKEY_keygen_init(context) == 1 && EVP_PKEY_keygen(context, &made) == 1 &&
      EVP_PKEY_get_raw_public_key(made, reinterpret_cast<unsigned char*>(key_.data()), &size) == 1;
  EVP_PKEY_CTX_free(context);
  if (!good) std::abort();  // no random numbers or no memory
  own_.reset(made);
}
Handshake::Handshake(Handshake&&) noexcept = default;
Handshake::~Handshake() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

Proof Handshake::prove_server(std::span<const std::byte> hello, std::span<const std::byte> answer) {
  hellos_.clear();
  for (const auto octets : {hello, answer})
    hellos_.append(1, static_cast<char>(octets.size())).append(text_of_octets(octets));
  const Proof proof = proof_with(secret_, kServerProof, hellos_);
  hellos_ += text_of_octets(proof);
  return proof;
}

bool Handshake::check_server(std::span<const std::byte> hello, std::span<const std::byte> answer) {
  if (answer.size() < kServerHelloSize) return false;
  std::vector<std::byte> unproven(answer.begin(), answer.end());
  std::fill_n(unproven.begin() + kProofOffset, kProofSize, std::byte{0});
  return same(prove_server(hello, unproven), answer.subspan(kProofOffset, kProofSize));
}

Proof Handshake::client_proof(const Key& client) const {
  return proof_with(secret_, kClientProof, hellos_ + std::string(text_of_octets(client)));
}

std::array<std::byte, kKeyBody> Handshake::client_body() const {
  std::array<std::byte, kKeyBody> body{};
  const Proof proof = client_proof(key_);
  std::copy(proof.begin(), proof.end(), std::copy(key_.begin(), key_.end(), body.begin()));
  return body;
}

std::optional<SealKeys> Handshake::client_keys(const Key& server) const { return keys(server, key_); }

std::optional<SealKeys> Handshake::server_keys(std::span<const std::byte> body) const {
  if (body.size() != kKeyBody) return std::nullopt;
  Key client{};
  std::copy_n(body.begin(), client.size(), client.begin());
  // The proof comes first: a stranger must not cost an X25519 operation.
  if (!same(client_proof(client), body.subspan(client.size()))) return std::nullopt;
  return keys(client, client);
}

std::optional<SealKeys> Handshake::keys(const Key& peer, const Key& client) const {
  const std::unique_ptr<EVP_PKEY, Freed> other(EVP_PKEY_new_raw_public_key(
      EVP_PKEY_X25519, nullptr, reinterpret_cast<const unsigned char*>(peer.data()), peer.size()));
  EVP_PKEY_CTX* context = EVP_PKEY_CTX_new(own_.get(), nullptr);
  std::string shared;
  shared.reserve(kKeySize + secret_.size());  // memory that grows would leave a copy behind
  shared.resize(kKeySize);
  std::size_t size = shared.size();
  // Fails for a public key of small order, with which the result would not depend on the other key.
  const bool good = other != nullptr && context != nullptr && EVP_PKEY_derive_init(context) == 1 &&
                    EVP_PKEY_derive_set_peer(context, other.get()) == 1 &&
                    EVP_PKEY_derive(context, reinterpret_cast<unsigned char*>(shared.data()), &size) == 1 &&
                    size == kKeySize;
  EVP_PKEY_CTX_free(context);
  if (!good) return std::nullopt;
  const std::string said = hellos_ + std::string(text_of_octets(client));
  std::array<std::byte, SHA256_DIGEST_LENGTH> transcript{};
  SHA256(reinterpret_cast<const unsigned char*>(said.data()), said.size(),
         reinterpret_cast<unsigned char*>(transcript.data()));
  shared += secret_;
  const auto key_for = [&](std::string_view purpose) {
    return derive_key(octets_of_text(shared), transcript, purpose);
  };
  SealKeys keys{key_for("rrdma rpc 4 frames to the server"), key_for("rrdma rpc 4 frames to the client"),
                key_for("rrdma rpc 4 offers to the server"), key_for("rrdma rpc 4 offers to the client")};
  OPENSSL_cleanse(shared.data(), shared.size());
  if (role_ == Role::kServer) {
    std::swap(keys.frames_out, keys.frames_in);
    std::swap(keys.offers_out, keys.offers_in);
  }
  return keys;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
