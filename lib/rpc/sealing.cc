#include "lib/rpc/sealing.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::size_t kNonceOctets = 12;
// The most bytes of one call of EVP, which takes an int.
constexpr std::size_t kMostAtOnce = 1U << 30;

// libcrypto fails here only if memory is exhausted or the algorithm is missing. Never go on without a cipher.
void must(bool good) {
  if (!good) std::abort();
}
const unsigned char* octets_in(const std::byte* at) { return reinterpret_cast<const unsigned char*>(at); }
unsigned char* octets_in(std::byte* at) { return reinterpret_cast<unsigned char*>(at); }

}  // namespace

Key derive_key(std::span<const std::byte> secret, std::span<const std::byte> salt, std::string_view purpose) {
  struct Free {
    void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  };
  const std::unique_ptr<EVP_PKEY_CTX, Free> context(EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr));
  Key key{};
  std::size_t size = key.size();
  must(context != nullptr && EVP_PKEY_derive_init(context.get()) == 1 &&
       EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1 &&
       (salt.empty() || EVP_PKEY_CTX_set1_hkdf_salt(context.get(), octets_in(salt.data()),
                                                    static_cast<int>(salt.size())) == 1) &&
       EVP_PKEY_CTX_set1_hkdf_key(context.get(), octets_in(secret.data()), static_cast<int>(secret.size())) ==
           1 &&
       EVP_PKEY_CTX_add1_hkdf_info(context.get(), reinterpret_cast<const unsigned char*>(purpose.data()),
                                   static_cast<int>(purpose.size())) == 1 &&
       EVP_PKEY_derive(context.get(), octets_in(key.data()), &size) == 1 && size == key.size());
  return key;
}

SealKeys::~SealKeys() {
  for (Key* key : {&frames_out, &frames_in, &offers_out, &offers_in})
    OPENSSL_cleanse(key->data(), key->size());
}

void SealKey::Freed::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

SealKey::~SealKey() { OPENSSL_cleanse(base_.data(), base_.size()); }

evp_cipher_ctx_st* SealKey::begin(std::uint64_t number, bool sealing) {
  const std::uint64_t epoch = number / kEpoch;
  if (!context_) {
    context_.reset(EVP_CIPHER_CTX_new());
    must(context_ != nullptr);
  }
  if (epoch != epoch_) {
    Key key = derive_key(base_, std::as_bytes(std::span(&epoch, 1)), "rrdma rpc epoch");
    must(EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, octets_in(key.data()), nullptr,
                           sealing ? 1 : 0) == 1);
    OPENSSL_cleanse(key.data(), key.size());
    epoch_ = epoch;
  }
  std::array<unsigned char, kNonceOctets> nonce{};
  std::memcpy(nonce.data() + nonce.size() - sizeof(number), &number, sizeof(number));
  must(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), sealing ? 1 : 0) == 1);
  return context_.get();
}

void SealKey::seal(std::uint64_t number, std::span<const std::byte> head, std::span<const std::byte> plain,
                   std::byte* into) {
  EVP_CIPHER_CTX* context = begin(number, true);
  int done = 0;
  must(EVP_CipherUpdate(context, nullptr, &done, octets_in(head.data()), static_cast<int>(head.size())) == 1);
  while (!plain.empty()) {
    const std::size_t size = std::min(plain.size(), kMostAtOnce);
    must(EVP_CipherUpdate(context, octets_in(into), &done, octets_in(plain.data()), static_cast<int>(size)) ==
         1);
    into += size;
    plain = plain.subspan(size);
  }
  must(EVP_CipherFinal_ex(context, octets_in(into), &done) == 1);
  must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, kSealTag, into) == 1);
}

bool SealKey::open(std::uint64_t number, std::span<const std::byte> head, std::span<std::byte> sealed) {
  if (sealed.size() < kSealTag) return false;
  EVP_CIPHER_CTX* context = begin(number, false);
  int done = 0;
  must(EVP_CipherUpdate(context, nullptr, &done, octets_in(head.data()), static_cast<int>(head.size())) == 1);
  auto rest = sealed.first(sealed.size() - kSealTag);
  while (!rest.empty()) {
    const std::size_t size = std::min(rest.size(), kMostAtOnce);
    must(EVP_CipherUpdate(context, octets_in(rest.data()), &done, octets_in(rest.data()),
                          static_cast<int>(size)) == 1);
    rest = rest.subspan(size);
  }
  must(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, kSealTag, rest.data() + rest.size()) == 1);
  return EVP_CipherFinal_ex(context, octets_in(rest.data()), &done) == 1;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
