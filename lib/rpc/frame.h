// Frames: the contents of rrdma::comm messages between an RPC client and a server; see docs/rpc-protocol.md.
// All numbers are little-endian. Parsing checks every bound and every reserved byte. The result refers to the
// input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "rrdma/rpc/metadata.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// Every peer accepts frames of this size.
inline constexpr std::size_t kFrameLimit = 4096;
// The largest frame or pack from kLargeFrameVersion on: two items of 4 KiB, or one of 8 KiB, with all heads.
inline constexpr std::size_t kLargeFrameLimit = (8 << 10) + 256;
inline constexpr std::uint8_t kLowestVersion = 1;
inline constexpr std::uint8_t kProtocolVersion = 5;  // the highest
// From this version on, a message may carry several frames.
inline constexpr std::uint8_t kPackingVersion = 2;
// From this version on, results and stream items may be offered.
inline constexpr std::uint8_t kOfferingVersion = 3;
// From this version on, a connection may be encrypted, and a server may send headers.
inline constexpr std::uint8_t kSealingVersion = 4;
// From this version on, frames may be as large as the message limit of their receiver.
inline constexpr std::uint8_t kLargeFrameVersion = 5;
// The cost of an item in a stream's window, besides its bytes.
inline constexpr std::uint32_t kItemCost = 32;

enum class Kind : std::uint8_t {
  kCall = 1,
  kReply = 2,
  kItem = 3,
  kWindow = 4,
  kCancel = 5,
  kGoAway = 6,
  kPart = 7,
  kProof = 8,
  kPack = 9,
  kTaken = 10,
  kKey = 11,
  kSealed = 12,
  kHeaders = 13,
};

namespace flag {
// The argument, result or item is in the sender's memory.
inline constexpr std::uint8_t kOffered = 1;
inline constexpr std::uint8_t kLent = 2;      // call: the result may be written into the caller's memory
inline constexpr std::uint8_t kWritten = 4;   // reply: the result was written there
inline constexpr std::uint8_t kLast = 8;      // item: the last one in this direction
inline constexpr std::uint8_t kMore = 16;     // item: continued in the next one
inline constexpr std::uint8_t kRefused = 32;  // reply: the call never started
inline constexpr std::uint8_t kEmpty = 64;    // item: no item, only the end (with kLast)
inline constexpr std::uint8_t kSealed = 128;  // with kOffered: the memory is encrypted
}  // namespace flag

// Encryption adds a frame's head and a tag to each message, and a tag to what is offered.
inline constexpr std::size_t kSealTag = 16;
inline constexpr std::size_t kSealHead = 8;
inline constexpr std::size_t kSealing = kSealHead + kSealTag;

// Memory of a peer.
struct Region {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;
  std::uint64_t seal = 0;  // the number that it was encrypted with, if it was
  friend bool operator==(const Region&, const Region&) = default;
};

// Any frame. `kind` determines which members are valid.
struct Frame {
  Kind kind = Kind::kCall;
  std::uint8_t flags = 0;
  std::uint32_t call = 0;
  // kCall
  std::uint64_t method = 0;
  std::uint64_t timeout = 0;  // nanoseconds left; 0: no deadline
  std::uint32_t schema = 0;
  std::uint32_t window = 0;  // of the result's stream; for kWindow: the increment
  Region offered = {};       // also kReply, kItem
  Region lent = {};
  // kReply
  std::uint8_t status = 0;
  std::uint32_t written = 0;
  std::string_view message = {};
  std::string_view details = {};
  std::uint64_t address = 0;                 // kTaken
  std::span<const std::byte> metadata = {};  // kCall, kReply, kHeaders
  std::span<const std::byte> body = {};      // the rest of the frame

  [[nodiscard]] constexpr bool has(std::uint8_t which) const { return (flags & which) != 0; }
};

// Returns nothing if the bytes are not a valid frame.
[[nodiscard]] std::optional<Frame> parse_frame(std::span<const std::byte> octets);
// A kPack holds other frames, each preceded by its length. parse_frame has checked that the lengths fill the
// body exactly, but not the frames themselves.
inline constexpr std::size_t kPackHead = 8;
inline constexpr std::size_t kPackedHead = 4;
// Removes the next frame from a body and returns it. REQUIRES: the non-empty rest of a kPack's body.
[[nodiscard]] std::span<const std::byte> next_packed(std::span<const std::byte>& body);
// Writes the header of a packed frame; the frame follows it. REQUIRES: room for kPackedHead.
void emit_packed_head(std::size_t size, std::byte* into);
// The size before the metadata, for a call without regions and for a reply in one frame.
inline constexpr std::size_t kCallHead = 32;
inline constexpr std::size_t kReplyHead = 16;
inline constexpr std::size_t kRegionSize = 16;
inline constexpr std::size_t kSealNumber = 8;
// The number of bytes before the body.
[[nodiscard]] std::size_t head_size(const Frame& frame);
// Writes everything before the body, which starts at head_size(). REQUIRES: room for it; each part within its
// limits.
void emit_head(const Frame& frame, std::byte* into);

[[nodiscard]] std::size_t emitted_size(const Metadata& metadata);
// REQUIRES: room for emitted_size().
void emit_metadata(const Metadata& metadata, std::byte* into);
// Returns false if the metadata is malformed.
[[nodiscard]] bool parse_metadata(std::span<const std::byte> octets, Metadata& into);
// Whether the metadata is within its limits.
[[nodiscard]] bool fits(const Metadata& metadata);

// The hello messages of client and server, in the private data of the connection request and its reply.
inline constexpr std::size_t kNonceSize = 16;
inline constexpr std::size_t kProofSize = 32;
using Nonce = std::array<std::byte, kNonceSize>;
using Proof = std::array<std::byte, kProofSize>;
inline constexpr std::size_t kKeySize = 32;
using Key = std::array<std::byte, kKeySize>;
// The body of kKey: the client's public key and its proof.
inline constexpr std::size_t kKeyBody = kKeySize + kProofSize;
// The offset of the server's proof in its hello.
inline constexpr std::size_t kProofOffset = 32;

// Reasons for refusing a connection.
inline constexpr std::uint8_t kRefusedVersion = 1;
inline constexpr std::uint8_t kRefusedForeign = 2;
inline constexpr std::uint8_t kRefusedSecret = 3;
inline constexpr std::uint8_t kRefusedBusy = 4;
inline constexpr std::uint8_t kRefusedPlain = 5;   // the server demands encryption
inline constexpr std::uint8_t kRefusedSealed = 6;  // the server does not encrypt

// A client's word about encryption.
inline constexpr std::uint8_t kCannotEncrypt = 0;
inline constexpr std::uint8_t kCanEncrypt = 1;
inline constexpr std::uint8_t kMustEncrypt = 2;

struct ClientHello {
  std::uint8_t lowest = kLowestVersion;
  std::uint8_t highest = kLowestVersion;
  bool secret = false;           // the client requests a proof
  std::uint32_t max_result = 0;  // bytes of the largest result or stream item
  std::uint8_t encryption = kCannotEncrypt;
  Nonce nonce{};
};
struct ServerHello {
  std::uint8_t version = kLowestVersion;
  bool secret = false;  // the server requires a proof
  std::uint16_t max_calls = 0;
  std::uint32_t max_argument = 0;
  std::uint32_t window = 0;  // the initial window of each stream of arguments
  Nonce nonce{};
  Proof proof{};
  Key key{};  // the public key of an encrypted connection; 0: the connection is not encrypted
  [[nodiscard]] bool encrypted() const { return key != Key{}; }
};
inline constexpr std::size_t kClientHelloSize = 32;
inline constexpr std::size_t kServerHelloSize = 64;  // without the key
inline constexpr std::size_t kEncryptedHelloSize = 96;

[[nodiscard]] std::array<std::byte, kClientHelloSize> emit(const ClientHello& hello);
[[nodiscard]] std::array<std::byte, kEncryptedHelloSize> emit(const ServerHello& hello);
[[nodiscard]] std::optional<ClientHello> parse_client_hello(std::span<const std::byte> octets);
[[nodiscard]] std::optional<ServerHello> parse_server_hello(std::span<const std::byte> octets);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
