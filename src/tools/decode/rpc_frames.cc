#include "tools/decode/rpc_frames.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "base/format.h"
#include "dissection/packet_fields.h"
#include "lib/rpc/frame_layout.h"
#include "rrdma/rpc/method.h"
#include "rrdma/rpc/status.h"
#include "tools/terminal.h"
#include "wire/cm_ip_header.h"

namespace rrdma::tools {
namespace {

namespace frames = rpc::detail;

constexpr std::size_t kMessageHeader = 8;  // of rrdma::comm: kind, 0, credits (2), length (4)
constexpr std::uint8_t kData = 1;
constexpr std::size_t kMessageLimit = frames::kLargeFrameLimit + frames::kSealing;  // without that header
// Precedes the application's bytes. Starts with "Rc" and a version.
constexpr std::size_t kCommHello = 12;
constexpr std::string_view kBuiltIn[] = {"rrdma.Health/check", "rrdma.Reflection/list",
                                         "rrdma.Reflection/describe", "rrdma.Metrics/text",
                                         "rrdma.Versions/check"};

std::span<const std::byte> bytes_of(Octets octets) { return std::as_bytes(std::span(octets)); }

// The application's part of the private data in a REQ or REP of rrdma::comm.
Octets application_hello(Octets private_data) {
  if (private_data.size() < kCommHello || private_data[0] != 'R' || private_data[1] != 'c') return {};
  const std::size_t length = private_data[3];
  if (private_data.size() < kCommHello + length) return {};
  return private_data.subspan(kCommHello, length);
}
Octets hello_of(const wire::CmReq& req) {
  const Octets all(req.private_data);
  const Octets plain = application_hello(all);
  return plain.empty() ? application_hello(all.subspan(wire::kIpCmHeaderOctets)) : plain;
}

// A frame, as far as this packet contains it.
struct Seen {
  std::optional<frames::Frame> frame;
  std::size_t length = 0;
  std::size_t here = 0;
  // The size of the argument, result or item, including the part in later packets.
  [[nodiscard]] std::size_t body_octets() const { return frame->body.size() + (length - here); }
};
Seen seen_in(std::span<const std::byte> octets, std::size_t length) {
  Seen seen;
  seen.length = length;
  seen.here = std::min(octets.size(), length);
  seen.frame = frames::parse_frame(octets.first(seen.here));
  return seen;
}

// The header of a pack that continues in later packets. parse_frame rejects it, because its lengths do not
// fill it.
std::optional<frames::Frame> cut_pack(std::span<const std::byte> octets) {
  constexpr std::array<std::byte, frames::kPackHead> kHead{static_cast<std::byte>(frames::Kind::kPack)};
  if (octets.size() < kHead.size() || !std::equal(kHead.begin(), kHead.end(), octets.begin()))
    return std::nullopt;
  frames::Frame frame;
  frame.kind = frames::Kind::kPack;
  frame.body = octets.subspan(kHead.size());
  return frame;
}

std::vector<Seen> packed_in(std::span<const std::byte> body) {
  std::vector<Seen> all;
  while (body.size() > frames::kPackedHead) {
    std::uint16_t length = 0;
    std::memcpy(&length, body.data(), sizeof(length));
    body = body.subspan(frames::kPackedHead);
    if (length < frames::kPackHead) break;  // no frame, in a pack whose rest was not captured
    all.push_back(seen_in(body, length));
    body = body.subspan(all.back().here);
  }
  return all;
}

// A group of fields refers to its names, so keep names for as many frames as a message can hold.
struct PackedName {
  std::string key;
  std::string label;
};
const PackedName& packed_name(std::size_t index) {
  static const std::vector<PackedName> names = [] {
    std::vector<PackedName> all;
    for (std::size_t i = 1; i <= kMessageLimit / (frames::kPackedHead + frames::kPackHead); ++i)
      all.push_back({formatted("frame_{}", i), formatted("Frame {}", i)});
    return all;
  }();
  return names.at(index);
}

// A message of rrdma::comm, its frame, and the frames packed in it.
struct RpcMessage : Seen {
  std::uint16_t credits = 0;
  std::vector<Seen> packed;
};
std::optional<RpcMessage> message_in(Octets payload) {
  if (payload.size() < kMessageHeader || payload[0] != kData || payload[1] != 0) return std::nullopt;
  RpcMessage message;
  std::memcpy(&message.credits, payload.data() + 2, sizeof(message.credits));
  std::uint32_t length = 0;
  std::memcpy(&length, payload.data() + 4, sizeof(length));
  if (length > kMessageLimit) return std::nullopt;
  const auto rest = bytes_of(payload.subspan(kMessageHeader));
  static_cast<Seen&>(message) = seen_in(rest, length);
  if (!message.frame && message.here < message.length) message.frame = cut_pack(rest.first(message.here));
  if (message.frame && message.frame->kind == frames::Kind::kPack)
    message.packed = packed_in(message.frame->body);
  return message;
}

std::string region_text(const frames::Region& region) {
  return formatted("{} bytes at 0x{:x}, key 0x{:08x}", region.length, region.address, region.key);
}

std::string_view kind_name(frames::Kind kind) {
  const frames::KindInfo* info = frames::info_of(kind);
  return info != nullptr ? info->name : "?";
}

std::string flag_words(std::uint8_t flags) {
  std::string words;
  for (const auto& [flag, word] : frames::kFlags) {
    if ((flags & flag) == 0) continue;
    if (!words.empty()) words += ", ";
    words += word;
  }
  return words;
}

std::string metadata_text(std::span<const std::byte> octets) {
  rpc::Metadata metadata;
  std::string text;
  if (!frames::parse_metadata(octets, metadata)) return text;
  for (const auto& [name, value] : metadata)
    text += formatted("{}{}: {}", text.empty() ? "" : "; ", printable(name), printable(value));
  return text;
}

// Adds the fields of a layout (lib/rpc/frame_layout.h) to a group.
class ShownFields {
 public:
  using MethodText = std::function<std::string(std::uint64_t)>;
  ShownFields(wire::Field& group, MethodText method_text)
      : group_(group), method_text_(std::move(method_text)) {}

  static bool only(const frames::Frame& frame, std::uint8_t flag) { return frame.has(flag); }
  template <typename T>
  void number(const frames::FieldInfo& info, const T& value) {
    add(info, static_cast<std::uint64_t>(value), 2 * sizeof(T));
  }
  void bit(const frames::FieldInfo& info, std::size_t, bool value) {
    group_.add_flag(info.key, info.label, value, info.meaning);
  }
  void region(const frames::FieldInfo& info, const frames::Region& region) {
    group_.add_text(info.key, info.label, region_text(region), info.meaning);
  }
  void part(const frames::FieldInfo& info, frames::Part, std::string_view text) {
    if (text.empty()) return;
    if (info.show == frames::Show::kText) {
      group_.add_text(info.key, info.label, printable(text), info.meaning);
    } else {
      group_.add_number(info.key, info.label, static_cast<std::uint32_t>(text.size()), info.meaning);
    }
  }
  void part(const frames::FieldInfo& info, frames::Part, std::span<const std::byte> octets) {
    std::string text = metadata_text(octets);
    if (!text.empty()) group_.add_text(info.key, info.label, std::move(text), info.meaning);
  }
  // These are not shown.
  static void zero(std::size_t) {}
  static void unused(std::size_t) {}
  template <typename T>
  static void bytes(const T&) {}
  template <typename View>
  static void length(frames::Part, const View&) {}

 private:
  void add(const frames::FieldInfo& info, std::uint64_t value, unsigned digits) {
    using frames::Show;
    const auto small = static_cast<std::uint32_t>(value);
    const auto text = [&](std::string words) {
      group_.add_text(info.key, info.label, std::move(words), info.meaning);
    };
    switch (info.show) {
      case Show::kKind: return text(std::string(kind_name(static_cast<frames::Kind>(value))));
      case Show::kFlags:
        if (value != 0) text(flag_words(static_cast<std::uint8_t>(value)));
        return;
      case Show::kNumberIfSet:
        if (value == 0) return;
        break;
      case Show::kHex: group_.add_hex(info.key, info.label, value, digits, info.meaning); return;
      case Show::kDuration: return text(value == 0 ? "none" : wire::duration_text(value));
      case Show::kMethod: return text(method_text_(value));
      case Show::kStatus:
        group_.add(info.key, info.label, small,
                   formatted("{} ({})", small, rpc::name_of(static_cast<rpc::Code>(value))), info.meaning);
        return;
      default: break;
    }
    group_.add_number(info.key, info.label, small, info.meaning);
  }

  wire::Field& group_;
  MethodText method_text_;
};

void add_hello(wire::Field& root, const wire::CmMad& cm) {
  const auto shown_in = [&](std::string_view label, std::string_view meaning) {
    return ShownFields(root.add_group("rpc_hello", label, "", meaning), {});
  };
  if (const auto* req = std::get_if<wire::CmReq>(&cm.message)) {
    const auto hello = frames::parse_client_hello(bytes_of(hello_of(*req)));
    if (!hello) return;
    ShownFields shown =
        shown_in("rrdma::rpc, the client's hello", "What the client says of itself when it connects.");
    frames::layout_client_hello(shown, *hello);
  } else if (const auto* rep = std::get_if<wire::CmRep>(&cm.message)) {
    const auto hello = frames::parse_server_hello(bytes_of(application_hello(rep->private_data)));
    if (!hello) return;
    ShownFields shown = shown_in("rrdma::rpc, the server's hello", "What the server answers.");
    frames::layout_server_hello(shown, *hello);
  }
}

}  // namespace

RpcFrames::RpcFrames(bool everywhere, const std::vector<std::string>& methods) : everywhere_(everywhere) {
  for (const std::string_view path : kBuiltIn) methods_[rpc::hash_of(path)] = path;
  for (const std::string& path : methods) methods_[rpc::hash_of(path)] = path;
}

void RpcFrames::learn(const wire::Dissection& packet) {
  if (!packet.frame || !packet.cm) return;
  const PacketEnds ends = ends_of(*packet.frame);
  if (const auto* req = std::get_if<wire::CmReq>(&packet.cm->message)) {
    if (!frames::parse_client_hello(bytes_of(hello_of(*req)))) return;
    callers_.insert_or_assign({ends.source, req->local_comm_id.value}, req->local_qpn);
  } else if (const auto* rep = std::get_if<wire::CmRep>(&packet.cm->message)) {
    const auto caller = callers_.find({ends.destination, rep->remote_comm_id.value});
    if (caller == callers_.end()) return;
    ends_.insert({ends.destination, caller->second.value});
    ends_.insert({ends.source, rep->local_qpn.value});
  }
}

void RpcFrames::learn(const wire::CaptureNote& note) {
  const std::string_view path = wire::method_named_in(note);
  if (!path.empty() && methods_.size() < kMethodsMax) methods_.try_emplace(rpc::hash_of(path), path);
}

bool RpcFrames::begins_message(const wire::Dissection& packet) const {
  if (!packet.frame || !packet.transport || packet.mad) return false;
  const wire::Bth& bth = packet.transport->headers.bth;
  const wire::OpcodeShape& shape = wire::shape_of(bth.opcode);
  if (shape.kind != wire::Kind::kSend || !shape.starts_message || shape.deth) return false;
  return everywhere_ || ends_.contains({ends_of(*packet.frame).destination, bth.destination.value});
}

std::string RpcFrames::method_text(std::uint64_t number) const {
  const auto found = methods_.find(number);
  return found != methods_.end() ? printable(found->second) : formatted("0x{:016x}", number);
}

std::string RpcFrames::line(const wire::Dissection& packet, Octets payload) const {
  if (!begins_message(packet)) return {};
  const auto message = message_in(payload);
  if (!message) return {};
  // If the packet or the capture ends within a frame's header, the frame is cut but may be valid.
  const auto text_of = [this](const Seen& seen) -> std::string {
    if (!seen.frame) return seen.here < seen.length ? "cut" : "no frame";
    return frame_text(*seen.frame, seen.body_octets());
  };
  if (!message->frame) return "rpc, " + text_of(*message);
  if (message->frame->kind != frames::Kind::kPack) return "rpc " + text_of(*message);
  std::string text = formatted("rpc PACK of {}", wire::octets_text(message->length));
  for (const Seen& seen : message->packed)
    text += (&seen == message->packed.data() ? ": " : "; ") + text_of(seen);
  return text;
}

std::vector<RpcFrames::Summary> RpcFrames::summaries(const wire::Dissection& packet) const {
  if (!begins_message(packet)) return {};
  const auto message = message_in(packet.transport->payload);
  std::vector<Summary> all;
  if (!message || !message->frame) return all;
  const auto add = [&](const Seen& seen) {
    if (!seen.frame) return;
    const frames::Frame& frame = *seen.frame;
    Summary summary{.call = frame.call, .octets = seen.body_octets()};
    switch (frame.kind) {
      case frames::Kind::kCall: summary.method = method_text(frame.method); break;
      case frames::Kind::kReply:
        summary.kind = Summary::Kind::kReply;
        summary.status = rpc::name_of(static_cast<rpc::Code>(frame.status));
        break;
      case frames::Kind::kItem: summary.kind = Summary::Kind::kItem; break;
      default: return;
    }
    all.push_back(std::move(summary));
  };
  if (message->frame->kind != frames::Kind::kPack) {
    add(*message);
  } else {
    for (const Seen& seen : message->packed) add(seen);
  }
  return all;
}

std::string RpcFrames::frame_text(const rpc::detail::Frame& frame, std::size_t body) const {
  std::string text(kind_name(frame.kind));
  if (frame.call != 0 || frame.kind == frames::Kind::kCall) text += formatted(" 0x{:08x}", frame.call);
  switch (frame.kind) {
    case frames::Kind::kCall: text += " " + method_text(frame.method); break;
    case frames::Kind::kReply:
      text += formatted(" {}", rpc::name_of(static_cast<rpc::Code>(frame.status)));
      break;
    case frames::Kind::kWindow: return text + formatted(" +{}", frame.window);
    case frames::Kind::kCancel: return text;
    default: break;
  }
  const std::string flags = flag_words(frame.flags);
  return text + (flags.empty() ? "" : " (" + flags + ")") + formatted(", {}", wire::octets_text(body));
}

void RpcFrames::add_frame(wire::Field& group, const rpc::detail::Frame& frame, std::size_t body) const {
  ShownFields shown(group, [this](std::uint64_t number) { return method_text(number); });
  frames::layout_head(shown, frame);
  frames::layout_rest(shown, frame);
  group.add_number("body", "Body", static_cast<std::uint32_t>(body),
                   frame.kind == frames::Kind::kPack ? "Bytes of the frames in it, and of their lengths."
                                                     : "Bytes of the argument, result or item.");
}

void RpcFrames::add_fields(wire::Field& root, const wire::Dissection& packet, Octets payload) const {
  if (packet.cm) add_hello(root, *packet.cm);
  if (!begins_message(packet)) return;
  const auto message = message_in(payload);
  if (!message) return;
  wire::Field& group = root.add_group("rpc", "rrdma::rpc", wire::octets_text(message->length),
                                      "A frame of the RPC framework.");
  group.add_number("credits", "Credits", message->credits,
                   "Messages that the receiver of this may send more than before.");
  if (!message->frame) {
    group.add_flag("wrong", "Wrong", message->here == message->length,
                   "This is no frame that the protocol allows.");
    return;
  }
  add_frame(group, *message->frame, message->body_octets());
  for (std::size_t i = 0; i < message->packed.size(); ++i) {
    const Seen& seen = message->packed[i];
    const PackedName& name = packed_name(i);
    wire::Field& inner = group.add_group(name.key, name.label, wire::octets_text(seen.length),
                                         "One of those that travel in this message.");
    if (seen.frame) {
      add_frame(inner, *seen.frame, seen.body_octets());
    } else {
      inner.add_flag("wrong", "Wrong", seen.here == seen.length,
                     "This is no frame that the protocol allows.");
    }
  }
}

}  // namespace rrdma::tools
