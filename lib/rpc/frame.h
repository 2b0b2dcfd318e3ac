// Frames: what one message of rrdma::comm carries between an RPC client and a server, as docs/rpc-protocol.md describes it. All of it is
// little-endian. Parsing checks every bound and every reserved octet; what it returns points into the octets it was given.
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

// Everybody takes frames of this size; nobody sends larger ones.
inline constexpr std::size_t kFrameLimit = 4096;
inline constexpr std::uint8_t kLowestVersion = 1;
inline constexpr std::uint8_t kProtocolVersion = 2;  // the highest
// From this one on a message may carry several frames.
inline constexpr std::uint8_t kPackingVersion = 2;
// What an item costs of a stream's window beside its octets.
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
};

namespace flag {
inline constexpr std::uint8_t kOffered =
    1;  // call: the argument, or the bulk beside it, lies in the caller's memory
inline constexpr std::uint8_t kLent = 2;      // call: the result may be written into the caller's memory
inline constexpr std::uint8_t kWritten = 4;   // reply: the result was written there
inline constexpr std::uint8_t kLast = 8;      // item: none follows in this direction
inline constexpr std::uint8_t kMore = 16;     // item: it goes on in the next one
inline constexpr std::uint8_t kRefused = 32;  // reply: the call was not begun
inline constexpr std::uint8_t kEmpty = 64;    // item: there is none, only the end (with kLast)
}  // namespace flag

// Memory of a peer.
struct Region {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

// Any frame; which members count is said by `kind`.
struct Frame {
  Kind kind = Kind::kCall;
  std::uint8_t flags = 0;
  std::uint32_t call = 0;
  // kCall
  std::uint64_t method = 0;
  std::uint64_t timeout = 0;  // nanoseconds that are left; 0: no end
  std::uint32_t schema = 0;
  std::uint32_t window = 0;  // of the result's stream; also kWindow: what is added
  Region offered = {};
  Region lent = {};
  // kReply
  std::uint8_t status = 0;
  std::uint32_t written = 0;
  std::string_view message = {};
  std::string_view details = {};
  std::span<const std::byte> metadata = {};  // kCall, kReply
  std::span<const std::byte> body = {};      // what follows

  [[nodiscard]] bool has(std::uint8_t which) const { return (flags & which) != 0; }
};

// Nothing: this is no frame that this protocol allows.
[[nodiscard]] std::optional<Frame> parse_frame(std::span<const std::byte> octets);
// A kPack is the one frame that holds others, each behind its length. parse_frame has seen that those lengths fill its body exactly, not what they hold.
inline constexpr std::size_t kPackHead = 8;
inline constexpr std::size_t kPackedHead = 4;
// The next one of a body, which is shortened by it. REQUIRES: the body, or what is left of the body, of a kPack; not empty.
[[nodiscard]] std::span<const std::byte> next_packed(std::span<const std::byte>& body);
// Puts the head of one that follows; the frame itself goes behind it. REQUIRES: room for kPackedHead.
void emit_packed_head(std::size_t size, std::byte* into);
// What is before the metadata of a call without regions, and of a reply in one frame.
inline constexpr std::size_t kCallHead = 32;
inline constexpr std::size_t kReplyHead = 16;
inline constexpr std::size_t kRegionSize = 16;
// Octets of everything before the body.
[[nodiscard]] std::size_t head_size(const Frame& frame);
// Writes everything before the body; the body follows at head_size(). REQUIRES: room for it; each part within its limits.
void emit_head(const Frame& frame, std::byte* into);

[[nodiscard]] std::size_t emitted_size(const Metadata& metadata);
// REQUIRES: room for emitted_size().
void emit_metadata(const Metadata& metadata, std::byte* into);
// False: malformed.
[[nodiscard]] bool parse_metadata(std::span<const std::byte> octets, Metadata& into);
// Whether it can travel at all.
[[nodiscard]] bool fits(const Metadata& metadata);

// What a client and a server say when they connect, in the private data of the connection.
inline constexpr std::size_t kNonceSize = 16;
inline constexpr std::size_t kProofSize = 32;
using Nonce = std::array<std::byte, kNonceSize>;
using Proof = std::array<std::byte, kProofSize>;

// Why a server refuses a connection, in the number beside the text.
inline constexpr std::uint8_t kRefusedVersion = 1;
inline constexpr std::uint8_t kRefusedForeign = 2;
inline constexpr std::uint8_t kRefusedSecret = 3;

struct ClientHello {
  std::uint8_t lowest = kLowestVersion;
  std::uint8_t highest = kLowestVersion;
  bool secret = false;           // the client asks for the proof
  std::uint32_t max_result = 0;  // octets of the largest result, and of the largest item of a stream
  Nonce nonce{};
};
struct ServerHello {
  std::uint8_t version = kLowestVersion;
  bool secret = false;  // the server asks for the proof
  std::uint16_t max_calls = 0;
  std::uint32_t max_argument = 0;
  std::uint32_t window = 0;  // of each stream of arguments, at first
  Nonce nonce{};
  Proof proof{};
};
inline constexpr std::size_t kClientHelloSize = 32;
inline constexpr std::size_t kServerHelloSize = 64;

[[nodiscard]] std::array<std::byte, kClientHelloSize> emit(const ClientHello& hello);
[[nodiscard]] std::array<std::byte, kServerHelloSize> emit(const ServerHello& hello);
[[nodiscard]] std::optional<ClientHello> parse_client_hello(std::span<const std::byte> octets);
[[nodiscard]] std::optional<ServerHello> parse_server_hello(std::span<const std::byte> octets);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
