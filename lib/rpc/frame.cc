// Visitors that parse, emit and measure the layouts of frame_layout.h, the rules that a frame must keep
// beside them, and metadata.
#include "lib/rpc/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/rpc/frame_layout.h"
#include "rrdma/rpc/status.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
namespace {

static_assert(std::endian::native == std::endian::little,
              "frames are read and written as they lie in memory");

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

// Parses. Missing bytes invalidate the frame.
class LayoutReader {
 public:
  explicit LayoutReader(std::span<const std::byte> rest) : rest_(rest) {}

  static bool only(const Frame& frame, std::uint8_t flag) { return frame.has(flag); }
  template <typename T>
  void number(const FieldInfo&, T& value) {
    read(value);
  }
  void zero(std::size_t size) {
    for (const std::byte octet : take(size)) good_ = good_ && octet == std::byte{0};
  }
  void unused(std::size_t size) { take(size); }
  void bit(const FieldInfo&, std::size_t size, bool& value) {
    const auto octets = take(size);
    value = !octets.empty() && (octets[0] & std::byte{1}) != std::byte{0};
  }
  template <std::size_t kSize>
  void bytes(std::array<std::byte, kSize>& value) {
    const auto octets = take(kSize);  // a hello of an earlier version ends before its last ones
    std::copy(octets.begin(), octets.end(), value.begin());
  }
  template <typename View>
  void length(Part part, const View&) {
    read(lengths_[static_cast<std::size_t>(part)]);
  }
  void part(const FieldInfo&, Part part, std::span<const std::byte>& view) { view = take(length_of(part)); }
  void part(const FieldInfo&, Part part, std::string_view& view) {
    const auto octets = take(length_of(part));
    view = {reinterpret_cast<const char*>(octets.data()), octets.size()};
  }
  void region(const FieldInfo&, Region& region) {
    read(region.address);
    read(region.key);
    read(region.length);
    // Reject an empty region and one that wraps around the address space.
    if (region.length == 0 || region.address + (region.length - 1) < region.address) good_ = false;
  }

  [[nodiscard]] std::uint16_t length_of(Part part) const { return lengths_[static_cast<std::size_t>(part)]; }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) {
      good_ = false;
      return {};
    }
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  template <typename T>
  void read(T& value) {
    const auto octets = take(sizeof(T));
    if (!octets.empty()) value = load<T>(octets.data());
  }

 private:
  std::span<const std::byte> rest_;
  std::array<std::uint16_t, kParts> lengths_{};
  bool good_ = true;
};

// Emits. The caller has made room.
class LayoutWriter {
 public:
  explicit LayoutWriter(std::byte* at) : at_(at) {}

  static bool only(const Frame& frame, std::uint8_t flag) { return frame.has(flag); }
  template <typename T>
  void number(const FieldInfo&, const T& value) {
    write(value);
  }
  void zero(std::size_t size) {
    std::memset(at_, 0, size);
    at_ += size;
  }
  void unused(std::size_t size) { zero(size); }
  void bit(const FieldInfo&, std::size_t size, bool value) {
    std::byte* const at = at_;
    zero(size);
    *at = std::byte{value};
  }
  template <std::size_t kSize>
  void bytes(const std::array<std::byte, kSize>& value) {
    copy(value.data(), kSize);
  }
  template <typename View>
  void length(Part, const View& view) {
    write(static_cast<std::uint16_t>(view.size()));
  }
  template <typename View>
  void part(const FieldInfo&, Part, const View& view) {
    copy(view.data(), view.size());
  }
  void region(const FieldInfo&, const Region& region) {
    write(region.address);
    write(region.key);
    write(region.length);
  }
  void copy(const void* data, std::size_t size) {
    if (size != 0) std::memcpy(at_, data, size);
    at_ += size;
  }
  template <typename T>
  void write(T value) {
    copy(&value, sizeof(T));
  }

 private:
  std::byte* at_;
};

class LayoutSize {
 public:
  static constexpr bool only(const Frame& frame, std::uint8_t flag) { return frame.has(flag); }
  template <typename T>
  constexpr void number(const FieldInfo&, const T&) {
    size_ += sizeof(T);
  }
  constexpr void zero(std::size_t size) { size_ += size; }
  template <typename View>
  constexpr void length(Part, const View&) {
    size_ += sizeof(std::uint16_t);
  }
  template <typename View>
  constexpr void part(const FieldInfo&, Part, const View& view) {
    size_ += view.size();
  }
  constexpr void region(const FieldInfo&, const Region&) { size_ += kRegionSize; }
  [[nodiscard]] constexpr std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

constexpr std::size_t measured(const Frame& frame) {
  LayoutSize size;
  layout_head(size, frame);
  layout_rest(size, frame);
  return size.size();
}
constexpr std::size_t measured(Kind kind) {
  Frame frame;
  frame.kind = kind;
  return measured(frame);
}
static_assert(measured(Kind::kCall) == kCallHead && measured(Kind::kReply) == kReplyHead &&
              measured(Kind::kPack) == kPackHead && measured(Kind::kSealed) == kSealHead);

// A sequence of frames, each preceded by its length, that fills the body exactly.
bool valid_pack(std::span<const std::byte> body) {
  if (body.empty()) return false;
  for (LayoutReader rest(body); !rest.rest().empty();) {
    const auto head = rest.take(kPackedHead);
    if (!rest.good() || load<std::uint16_t>(head.data() + 2) != 0) return false;
    const auto size = load<std::uint16_t>(head.data());
    if (size < kPackHead || rest.take(size).empty()) return false;
  }
  return true;
}

// Only a success has a result; only a failure is a refusal; a result comes in one way.
bool valid_reply(const Frame& frame) {
  if (frame.status > kHighestCode) return false;
  const int ways = static_cast<int>(frame.has(flag::kWritten)) + static_cast<int>(frame.has(flag::kOffered)) +
                   static_cast<int>(!frame.body.empty());
  return frame.status == 0 ? !frame.has(flag::kRefused) && ways <= 1 : ways == 0;
}

bool valid_item(const Frame& frame) {
  if (frame.has(flag::kEmpty)) return frame.flags == (flag::kEmpty | flag::kLast) && frame.body.empty();
  if (frame.has(flag::kOffered)) return !frame.has(flag::kMore) && frame.body.empty();
  return !(frame.has(flag::kMore) && (frame.has(flag::kLast) || frame.body.empty()));
}

// Only what is offered is sealed, and it is more than its tag.
bool valid_offer(const Frame& frame) {
  if (!frame.has(flag::kSealed)) return true;
  return frame.has(flag::kOffered) && frame.offered.length > kSealTag;
}

// The rules beside the layout.
bool valid(const Frame& frame) {
  if (!valid_offer(frame)) return false;
  switch (frame.kind) {
    case Kind::kCall: return true;
    case Kind::kReply: return valid_reply(frame);
    case Kind::kItem: return valid_item(frame);
    case Kind::kPart: return !frame.body.empty();
    case Kind::kWindow: return frame.window != 0 && frame.body.empty();
    case Kind::kCancel: return frame.body.empty();
    case Kind::kGoAway: return frame.call == 0;
    case Kind::kProof: return frame.call == 0 && frame.body.size() == kProofSize;
    case Kind::kPack: return frame.call == 0 && valid_pack(frame.body);
    case Kind::kTaken: return frame.call == 0 && frame.body.empty();
    case Kind::kKey: return frame.call == 0 && frame.body.size() == kKeyBody;
    case Kind::kHeaders: return !frame.metadata.empty() && frame.body.empty();
    case Kind::kSealed: return frame.call == 0 && frame.body.size() > kSealTag;
  }
  return false;
}

bool parse(std::span<const std::byte> octets, Frame& frame) {
  LayoutReader reader(octets);
  layout_head(reader, frame);
  if (!reader.good()) return false;
  const bool sealed = frame.kind == Kind::kSealed;
  if (octets.size() > kLargeFrameLimit + (sealed ? kSealing : 0)) return false;
  const KindInfo* info = info_of(frame.kind);
  if (info == nullptr || (frame.flags & ~info->flags) != 0) return false;
  if (reader.length_of(Part::kMetadata) > (info->metadata ? kMaxMetadata : 0)) return false;
  layout_rest(reader, frame);
  frame.body = reader.rest();
  return reader.good() && valid(frame);
}

}  // namespace

std::optional<Frame> parse_frame(std::span<const std::byte> octets) {
  // Parse in place: a Frame is larger than most frames on the wire.
  std::optional<Frame> frame(std::in_place);
  if (!parse(octets, *frame)) frame.reset();
  return frame;
}

std::span<const std::byte> next_packed(std::span<const std::byte>& body) {
  const auto size = load<std::uint16_t>(body.data());
  const auto packed = body.subspan(kPackedHead, size);
  body = body.subspan(kPackedHead + size);
  return packed;
}

void emit_packed_head(std::size_t size, std::byte* into) { store(into, static_cast<std::uint32_t>(size)); }

std::size_t head_size(const Frame& frame) { return measured(frame); }

void emit_head(const Frame& frame, std::byte* into) {
  LayoutWriter writer(into);
  layout_head(writer, frame);
  layout_rest(writer, frame);
}

// ---- metadata ----
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
  LayoutWriter writer(into);
  for (const auto& [name, value] : metadata) {
    writer.write(static_cast<std::uint8_t>(name.size()));
    writer.write(static_cast<std::uint16_t>(value.size()));
    writer.copy(name.data(), name.size());
    writer.copy(value.data(), value.size());
  }
}

bool parse_metadata(std::span<const std::byte> octets, Metadata& into) {
  const auto text_of = [](std::span<const std::byte> text) {
    return std::string(reinterpret_cast<const char*>(text.data()), text.size());
  };
  for (LayoutReader reader(octets); !reader.rest().empty();) {
    std::uint8_t name_size = 0;
    std::uint16_t value_size = 0;
    reader.read(name_size);
    reader.read(value_size);
    const auto name = reader.take(name_size);
    const auto value = reader.take(value_size);
    if (!reader.good() || name.empty()) return false;
    into.add(text_of(name), text_of(value));
  }
  return true;
}

// ---- hello ----

namespace {
// Later versions may append fields.
std::optional<LayoutReader> hello_in(std::span<const std::byte> octets, std::size_t size) {
  if (octets.size() < size || !std::equal(kMagic.begin(), kMagic.end(), octets.begin())) return std::nullopt;
  return LayoutReader(octets.subspan(kMagic.size()));
}
}  // namespace

std::array<std::byte, kClientHelloSize> emit(const ClientHello& hello) {
  std::array<std::byte, kClientHelloSize> octets{};
  LayoutWriter writer(octets.data());
  writer.bytes(kMagic);
  layout_client_hello(writer, hello);
  return octets;
}

std::optional<ClientHello> parse_client_hello(std::span<const std::byte> octets) {
  auto reader = hello_in(octets, kClientHelloSize);
  if (!reader) return std::nullopt;
  ClientHello hello;
  layout_client_hello(*reader, hello);
  return hello;
}

std::array<std::byte, kEncryptedHelloSize> emit(const ServerHello& hello) {
  std::array<std::byte, kEncryptedHelloSize> octets{};
  LayoutWriter writer(octets.data());
  writer.bytes(kMagic);
  layout_server_hello(writer, hello);
  return octets;
}

std::optional<ServerHello> parse_server_hello(std::span<const std::byte> octets) {
  auto reader = hello_in(octets, kServerHelloSize);
  if (!reader) return std::nullopt;
  ServerHello hello;
  layout_server_hello(*reader, hello);
  if (hello.max_calls == 0) return std::nullopt;
  return hello;
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
