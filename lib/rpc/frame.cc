#include "lib/rpc/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "rrdma/rpc/status.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {

static_assert(std::endian::native == std::endian::little,
              "frames are read and written as they lie in memory");

constexpr std::size_t kHead = 8;
constexpr std::size_t kWritten = 8;
constexpr std::size_t kWindow = 16;
constexpr std::array<std::byte, 4> kMagic = {std::byte{'R'}, std::byte{'R'}, std::byte{'P'}, std::byte{'C'}};

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

std::string_view text_of(std::span<const std::byte> octets) {
  return {reinterpret_cast<const char*>(octets.data()), octets.size()};
}

// Reads the parts of a frame. Missing bytes invalidate the frame.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> rest) : rest_(rest) {}
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) {
      good_ = false;
      return {};
    }
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  Region region() {
    const auto octets = take(kRegionSize);
    if (octets.empty()) return {};
    Region region{load<std::uint64_t>(octets.data()), load<std::uint32_t>(octets.data() + 8),
                  load<std::uint32_t>(octets.data() + 12)};
    // Reject an empty region and one that wraps around the address space.
    if (region.length == 0 || region.address + (region.length - 1) < region.address) good_ = false;
    return region;
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
  bool good_ = true;
};

std::uint8_t flags_of(Kind kind) {
  switch (kind) {
    case Kind::kCall: return flag::kOffered | flag::kLent;
    case Kind::kReply: return flag::kWritten | flag::kRefused;
    case Kind::kItem: return flag::kLast | flag::kMore | flag::kEmpty;
    default: return 0;
  }
}

bool parse_call(Cursor& cursor, Frame& frame, std::size_t metadata) {
  const auto head = cursor.take(kCallHead - kHead);
  if (!cursor.good()) return false;
  frame.method = load<std::uint64_t>(head.data());
  frame.timeout = load<std::uint64_t>(head.data() + 8);
  frame.schema = load<std::uint32_t>(head.data() + 16);
  frame.window = load<std::uint32_t>(head.data() + 20);
  if (frame.has(flag::kOffered)) frame.offered = cursor.region();
  if (frame.has(flag::kLent)) frame.lent = cursor.region();
  frame.metadata = cursor.take(metadata);
  return cursor.good();
}

bool parse_reply(Cursor& cursor, Frame& frame, std::size_t metadata) {
  const auto head = cursor.take(kReplyHead - kHead);
  if (!cursor.good()) return false;
  frame.status = load<std::uint8_t>(head.data());
  const auto message = load<std::uint16_t>(head.data() + 2);
  const auto details = load<std::uint16_t>(head.data() + 4);
  if (frame.status > kHighestCode || load<std::uint8_t>(head.data() + 1) != 0 ||
      load<std::uint16_t>(head.data() + 6) != 0)
    return false;
  if (frame.has(flag::kWritten)) {
    const auto written = cursor.take(kWritten);
    if (!cursor.good() || load<std::uint32_t>(written.data() + 4) != 0) return false;
    frame.written = load<std::uint32_t>(written.data());
  }
  frame.metadata = cursor.take(metadata);
  frame.message = text_of(cursor.take(message));
  frame.details = text_of(cursor.take(details));
  // Only a success has a result; only a failure is a refusal; a result that was written is not sent as well.
  const bool good = frame.status == 0;
  if (good ? frame.has(flag::kRefused) || (frame.has(flag::kWritten) && !cursor.rest().empty())
           : frame.has(flag::kWritten) || !cursor.rest().empty())
    return false;
  return cursor.good();
}

// A sequence of frames, each preceded by its length, that fills the body exactly.
bool parse_pack(Cursor rest) {
  if (rest.rest().empty()) return false;
  while (!rest.rest().empty()) {
    const auto head = rest.take(kPackedHead);
    if (!rest.good() || load<std::uint16_t>(head.data() + 2) != 0) return false;
    const auto size = load<std::uint16_t>(head.data());
    if (size < kHead || rest.take(size).empty()) return false;
  }
  return true;
}

bool parse_item(const Cursor& cursor, const Frame& frame) {
  if (frame.has(flag::kEmpty)) return frame.flags == (flag::kEmpty | flag::kLast) && cursor.rest().empty();
  return !(frame.has(flag::kMore) && (frame.has(flag::kLast) || cursor.rest().empty()));
}

}  // namespace

namespace {

bool parse_rest(Cursor& cursor, Frame& frame, std::size_t metadata) {
  switch (frame.kind) {
    case Kind::kCall: return parse_call(cursor, frame, metadata);
    case Kind::kReply: return parse_reply(cursor, frame, metadata);
    case Kind::kItem: return parse_item(cursor, frame);
    case Kind::kPart: return !cursor.rest().empty();
    case Kind::kWindow: {
      const auto head = cursor.take(kWindow - kHead);
      if (!cursor.good() || !cursor.rest().empty() || load<std::uint32_t>(head.data() + 4) != 0) return false;
      frame.window = load<std::uint32_t>(head.data());
      return frame.window != 0;
    }
    case Kind::kCancel: return cursor.rest().empty();
    case Kind::kGoAway: return frame.call == 0;
    case Kind::kProof: return frame.call == 0 && cursor.rest().size() == kProofSize;
    case Kind::kPack: return frame.call == 0 && parse_pack(cursor);
  }
  return false;
}

bool parse(std::span<const std::byte> octets, Frame& frame) {
  if (octets.size() < kHead || octets.size() > kFrameLimit) return false;
  frame.kind = static_cast<Kind>(load<std::uint8_t>(octets.data()));
  frame.flags = load<std::uint8_t>(octets.data() + 1);
  const auto metadata = load<std::uint16_t>(octets.data() + 2);
  frame.call = load<std::uint32_t>(octets.data() + 4);
  if ((frame.flags & ~flags_of(frame.kind)) != 0) return false;
  const bool carries = frame.kind == Kind::kCall || frame.kind == Kind::kReply;
  if (carries ? metadata > kMaxMetadata : metadata != 0) return false;
  Cursor cursor(octets.subspan(kHead));
  if (!parse_rest(cursor, frame, metadata)) return false;
  frame.body = cursor.rest();
  return true;
}

}  // namespace

std::optional<Frame> parse_frame(std::span<const std::byte> octets) {
  // Parse in place: a Frame is larger than most frames on the wire.
  std::optional<Frame> frame(std::in_place);
  if (!parse(octets, *frame)) frame.reset();
  return frame;
}

static_assert(kPackHead == kHead);

std::span<const std::byte> next_packed(std::span<const std::byte>& body) {
  const auto size = load<std::uint16_t>(body.data());
  const auto packed = body.subspan(kPackedHead, size);
  body = body.subspan(kPackedHead + size);
  return packed;
}

void emit_packed_head(std::size_t size, std::byte* into) { store(into, static_cast<std::uint32_t>(size)); }

std::size_t head_size(const Frame& frame) {
  switch (frame.kind) {
    case Kind::kCall:
      return kCallHead + (frame.has(flag::kOffered) ? kRegionSize : 0) +
             (frame.has(flag::kLent) ? kRegionSize : 0) + frame.metadata.size();
    case Kind::kReply:
      return kReplyHead + (frame.has(flag::kWritten) ? kWritten : 0) + frame.metadata.size() +
             frame.message.size() + frame.details.size();
    case Kind::kWindow: return kWindow;
    default: return kHead;
  }
}

namespace {

std::byte* put(std::byte* at, const Region& region) {
  store(at, region.address);
  store(at + 8, region.key);
  store(at + 12, region.length);
  return at + kRegionSize;
}
std::byte* put(std::byte* at, const void* data, std::size_t size) {
  if (size != 0) std::memcpy(at, data, size);
  return at + size;
}

}  // namespace

void emit_head(const Frame& frame, std::byte* into) {
  store(into, static_cast<std::uint8_t>(frame.kind));
  store(into + 1, frame.flags);
  store(into + 2, static_cast<std::uint16_t>(frame.metadata.size()));
  store(into + 4, frame.call);
  std::byte* at = into + kHead;
  if (frame.kind == Kind::kCall) {
    store(at, frame.method);
    store(at + 8, frame.timeout);
    store(at + 16, frame.schema);
    store(at + 20, frame.window);
    at = into + kCallHead;
    if (frame.has(flag::kOffered)) at = put(at, frame.offered);
    if (frame.has(flag::kLent)) at = put(at, frame.lent);
    put(at, frame.metadata.data(), frame.metadata.size());
  } else if (frame.kind == Kind::kReply) {
    store(at, std::uint16_t{frame.status});
    store(at + 2, static_cast<std::uint16_t>(frame.message.size()));
    store(at + 4, static_cast<std::uint16_t>(frame.details.size()));
    store(at + 6, std::uint16_t{0});
    at = into + kReplyHead;
    if (frame.has(flag::kWritten)) {
      store(at, std::uint64_t{frame.written});
      at += kWritten;
    }
    at = put(at, frame.metadata.data(), frame.metadata.size());
    at = put(at, frame.message.data(), frame.message.size());
    put(at, frame.details.data(), frame.details.size());
  } else if (frame.kind == Kind::kWindow) {
    store(at, std::uint64_t{frame.window});
  }
}

// --- metadata --------------------------------------------------------------------------------------------------
// A pair: length of the name (1 byte, not 0), length of the value (2 bytes), name, value.

std::size_t emitted_size(const Metadata& metadata) {
  std::size_t size = 0;
  for (const auto& [name, value] : metadata) size += 3 + name.size() + value.size();
  return size;
}

bool fits(const Metadata& metadata) {
  for (const auto& [name, value] : metadata) {
    if (name.empty() || name.size() > 255) return false;
  }
  return emitted_size(metadata) <= kMaxMetadata;
}

void emit_metadata(const Metadata& metadata, std::byte* into) {
  for (const auto& [name, value] : metadata) {
    store(into, static_cast<std::uint8_t>(name.size()));
    store(into + 1, static_cast<std::uint16_t>(value.size()));
    into = put(into + 3, name.data(), name.size());
    into = put(into, value.data(), value.size());
  }
}

bool parse_metadata(std::span<const std::byte> octets, Metadata& into) {
  Cursor cursor(octets);
  while (!cursor.rest().empty()) {
    const auto lengths = cursor.take(3);
    if (!cursor.good()) return false;
    const auto name = cursor.take(load<std::uint8_t>(lengths.data()));
    const auto value = cursor.take(load<std::uint16_t>(lengths.data() + 1));
    if (!cursor.good() || name.empty()) return false;
    into.add(std::string(text_of(name)), std::string(text_of(value)));
  }
  return true;
}

// --- hello -----------------------------------------------------------------------------------------------------

std::array<std::byte, kClientHelloSize> emit(const ClientHello& hello) {
  std::array<std::byte, kClientHelloSize> octets{};
  std::copy(kMagic.begin(), kMagic.end(), octets.begin());
  store(octets.data() + 4, hello.lowest);
  store(octets.data() + 5, hello.highest);
  store(octets.data() + 6, std::uint16_t{hello.secret});
  store(octets.data() + 8, hello.max_result);
  std::copy(hello.nonce.begin(), hello.nonce.end(), octets.begin() + 16);
  return octets;
}

std::optional<ClientHello> parse_client_hello(std::span<const std::byte> octets) {
  // Later versions may append fields.
  if (octets.size() < kClientHelloSize || !std::equal(kMagic.begin(), kMagic.end(), octets.begin()))
    return std::nullopt;
  ClientHello hello;
  hello.lowest = load<std::uint8_t>(octets.data() + 4);
  hello.highest = load<std::uint8_t>(octets.data() + 5);
  hello.secret = (load<std::uint16_t>(octets.data() + 6) & 1) != 0;
  hello.max_result = load<std::uint32_t>(octets.data() + 8);
  std::copy_n(octets.begin() + 16, kNonceSize, hello.nonce.begin());
  return hello;
}

std::array<std::byte, kServerHelloSize> emit(const ServerHello& hello) {
  std::array<std::byte, kServerHelloSize> octets{};
  std::copy(kMagic.begin(), kMagic.end(), octets.begin());
  store(octets.data() + 4, hello.version);
  store(octets.data() + 5, std::uint8_t{hello.secret});
  store(octets.data() + 6, hello.max_calls);
  store(octets.data() + 8, hello.max_argument);
  store(octets.data() + 12, hello.window);
  std::copy(hello.nonce.begin(), hello.nonce.end(), octets.begin() + 16);
  std::copy(hello.proof.begin(), hello.proof.end(), octets.begin() + 32);
  return octets;
}

std::optional<ServerHello> parse_server_hello(std::span<const std::byte> octets) {
  if (octets.size() < kServerHelloSize || !std::equal(kMagic.begin(), kMagic.end(), octets.begin()))
    return std::nullopt;
  ServerHello hello;
  hello.version = load<std::uint8_t>(octets.data() + 4);
  hello.secret = (load<std::uint8_t>(octets.data() + 5) & 1) != 0;
  hello.max_calls = load<std::uint16_t>(octets.data() + 6);
  hello.max_argument = load<std::uint32_t>(octets.data() + 8);
  hello.window = load<std::uint32_t>(octets.data() + 12);
  std::copy_n(octets.begin() + 16, kNonceSize, hello.nonce.begin());
  std::copy_n(octets.begin() + 32, kProofSize, hello.proof.begin());
  if (hello.max_calls == 0) return std::nullopt;
  return hello;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
