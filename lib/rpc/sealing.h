// SealKey: authenticated encryption of one direction of a connection, with AES-256-GCM from libcrypto. Every
// sealed piece has a number of its own, which is the nonce; the caller never uses a number twice. After
// kEpoch numbers the key of the cipher changes, so that no key encrypts more than AES-GCM allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lib/rpc/frame.h"

struct evp_cipher_ctx_st;

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// HKDF-SHA256 (RFC 5869).
[[nodiscard]] Key derive_key(std::span<const std::byte> secret, std::span<const std::byte> salt,
                             std::string_view purpose);

class SealKey {
 public:
  explicit SealKey(const Key& base) : base_(base) {}
  SealKey(const SealKey&) = delete;
  SealKey& operator=(const SealKey&) = delete;
  ~SealKey();

  // Writes plain.size() + kSealTag bytes. `head` is authenticated but not encrypted.
  void seal(std::uint64_t number, std::span<const std::byte> head, std::span<const std::byte> plain,
            std::byte* into);
  // Decrypts in place, and leaves the last kSealTag bytes. Returns false if the bytes are not those that were
  // sealed with this number; then they hold nothing of use.
  [[nodiscard]] bool open(std::uint64_t number, std::span<const std::byte> head, std::span<std::byte> sealed);

 private:
  struct Freed {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  static constexpr std::uint64_t kEpoch = 1U << 20;
  // Prepares the cipher for a piece.
  evp_cipher_ctx_st* begin(std::uint64_t number, bool sealing);

  Key base_;
  std::uint64_t epoch_ = ~std::uint64_t{0};
  std::unique_ptr<evp_cipher_ctx_st, Freed> context_;
};

// The keys of an end: of the frames that it sends and receives, and of the memory that it and its peer offer.
struct SealKeys {
  Key frames_out, frames_in, offers_out, offers_in;
  ~SealKeys();  // leaves nothing of them in memory
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
