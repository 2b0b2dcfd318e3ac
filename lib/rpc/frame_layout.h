// The layout of the frames and hellos, stated once: each function lists the fields of one kind in the order
// of the wire. Visitors walk it: to parse, to emit and to measure (frame.cc), to show fields (`rrdma
// decode`), and to write the table of the Wireshark plugin, which ctest rpc.frames compares. A new field is a
// member of Frame and a line here.
//
// A visitor has: number(field, value); zero(size), reserved; unused(size), ignored by receivers; bit(field,
// size, flag); bytes(array); length(part, view), two bytes; part(field, part, view); region(field, region);
// and only(frame, flag), whether to visit the fields that this flag adds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/rpc/frame.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// How a field is shown. Its size on the wire is that of its member.
enum class Show : std::uint8_t {
  kKind,
  kFlags,
  kNumber,
  kNumberIfSet,  // not if it is 0
  kHex,
  kDuration,  // nanoseconds; 0: none
  kMethod,
  kStatus,
  kRegion,
  kText,
  kCount,  // only the number of bytes
  kPairs,  // metadata
};

struct FieldInfo {
  std::string_view key;
  std::string_view label;
  Show show;
  std::string_view meaning;
};

// The parts of variable size. Their lengths precede them.
enum class Part : std::uint8_t { kMetadata, kMessage, kDetails };
inline constexpr std::size_t kParts = 3;

template <typename Visitor, typename Any>
constexpr void layout_head(Visitor& v, Any& f) {
  v.number({"kind", "Kind", Show::kKind, "What the frame says."}, f.kind);
  v.number({"flags", "Flags", Show::kFlags, "What else the frame carries or means."}, f.flags);
  v.length(Part::kMetadata, f.metadata);
  v.number({"call", "Call", Show::kHex, "Its number: the slot below, a count above."}, f.call);
}

template <typename Visitor, typename Any>
constexpr void layout_metadata(Visitor& v, Any& f) {
  v.part({"metadata", "Metadata", Show::kPairs, "Pairs that travel beside the argument or result."},
         Part::kMetadata, f.metadata);
}

// The region that a frame offers.
template <typename Visitor, typename Any>
constexpr void layout_offered(Visitor& v, Any& f, std::string_view meaning) {
  if (v.only(f, flag::kOffered)) v.region({"offered", "Offered", Show::kRegion, meaning}, f.offered);
  if (v.only(f, flag::kSealed)) {
    v.number({"seal", "Seal", Show::kNumber, "The number that the region was encrypted with."},
             f.offered.seal);
  }
}

template <typename Visitor, typename Any>
constexpr void layout_call(Visitor& v, Any& f) {
  v.number({"method", "Method", Show::kMethod, "FNV-1a of its path; the name where it is known."}, f.method);
  v.number({"timeout", "Timeout", Show::kDuration, "How long the caller still waits."}, f.timeout);
  v.number({"schema", "Schema", Show::kHex, "What both ends must agree on beside the name."}, f.schema);
  v.number({"window", "Window", Show::kNumberIfSet, "Bytes of results that may be under way at first."},
           f.window);
  layout_offered(v, f, "The server READs the argument from here.");
  if (v.only(f, flag::kLent)) {
    v.region({"lent", "Lent", Show::kRegion, "The server may WRITE the result to here."}, f.lent);
  }
  layout_metadata(v, f);
}

template <typename Visitor, typename Any>
constexpr void layout_reply(Visitor& v, Any& f) {
  v.number({"status", "Status", Show::kStatus, "How the call ended; the numbers are those of gRPC."},
           f.status);
  v.zero(1);
  v.length(Part::kMessage, f.message);
  v.length(Part::kDetails, f.details);
  v.zero(2);
  if (v.only(f, flag::kWritten)) {
    v.number({"written", "Written", Show::kNumber, "Bytes of the result in the lent region."}, f.written);
    v.zero(4);
  }
  layout_offered(v, f, "The client READs the result from here.");
  layout_metadata(v, f);
  v.part({"message", "Message", Show::kText, "What the server says of it."}, Part::kMessage, f.message);
  v.part({"details", "Details", Show::kCount, "Bytes for the application."}, Part::kDetails, f.details);
}

template <typename Visitor, typename Any>
constexpr void layout_window(Visitor& v, Any& f) {
  v.number(
      {"window", "Window", Show::kNumber, "By how much the receiver of this may send more of the stream."},
      f.window);
  v.zero(4);
}

template <typename Visitor, typename Any>
constexpr void layout_item(Visitor& v, Any& f) {
  layout_offered(v, f, "The receiver READs the item from here.");
}

template <typename Visitor, typename Any>
constexpr void layout_taken(Visitor& v, Any& f) {
  v.number({"address", "Address", Show::kHex, "Where the offered region begins that is needed no longer."},
           f.address);
}

// The fields between the common head and the body.
template <typename Visitor, typename Any>
constexpr void layout_rest(Visitor& v, Any& f) {
  switch (f.kind) {
    case Kind::kCall: return layout_call(v, f);
    case Kind::kReply: return layout_reply(v, f);
    case Kind::kItem: return layout_item(v, f);
    case Kind::kWindow: return layout_window(v, f);
    case Kind::kTaken: return layout_taken(v, f);
    case Kind::kHeaders: return layout_metadata(v, f);
    default: return;
  }
}

// The hellos follow a magic number.
template <typename Visitor, typename Any>
constexpr void layout_client_hello(Visitor& v, Any& h) {
  v.number({"lowest", "Lowest version", Show::kNumber, "That it speaks."}, h.lowest);
  v.number({"highest", "Highest version", Show::kNumber, "That it speaks."}, h.highest);
  v.bit({"secret", "Secret", Show::kNumber, "It asks the server for a proof, and gives one."}, 2, h.secret);
  v.number({"max_result", "Largest result", Show::kNumber, "In bytes; of items as well."}, h.max_result);
  v.number({"encryption", "Encryption", Show::kNumber, "0: it cannot encrypt; 1: it can; 2: it must."},
           h.encryption);
  v.unused(3);
  v.bytes(h.nonce);
}

template <typename Visitor, typename Any>
constexpr void layout_server_hello(Visitor& v, Any& h) {
  v.number({"version", "Version", Show::kNumber, "That is spoken."}, h.version);
  v.bit({"secret", "Secret", Show::kNumber, "The client must give a proof first."}, 1, h.secret);
  v.number({"max_calls", "Calls at a time", Show::kNumber, "Of this connection."}, h.max_calls);
  v.number({"max_argument", "Largest argument", Show::kNumber, "In bytes; of items as well."},
           h.max_argument);
  v.number({"window", "Window", Show::kNumber, "Of each stream of arguments, at first."}, h.window);
  v.bytes(h.nonce);
  v.bytes(h.proof);
  v.bytes(h.key);
}

struct KindInfo {
  Kind kind;
  std::string_view name;
  std::uint8_t flags;     // that it may have
  bool metadata = false;  // that it may have
};
inline constexpr std::array<KindInfo, 13> kKinds = {{
    {Kind::kCall, "CALL", flag::kOffered | flag::kSealed | flag::kLent, true},
    {Kind::kReply, "REPLY", flag::kOffered | flag::kSealed | flag::kWritten | flag::kRefused, true},
    {Kind::kItem, "ITEM", flag::kOffered | flag::kSealed | flag::kLast | flag::kMore | flag::kEmpty},
    {Kind::kWindow, "WINDOW", 0},
    {Kind::kCancel, "CANCEL", 0},
    {Kind::kGoAway, "GO AWAY", 0},
    {Kind::kPart, "PART", 0},
    {Kind::kProof, "PROOF", 0},
    {Kind::kPack, "PACK", 0},
    {Kind::kTaken, "TAKEN", 0},
    {Kind::kKey, "KEY", 0},
    {Kind::kSealed, "SEALED", 0},
    {Kind::kHeaders, "HEADERS", 0, true},
}};
// Null if there is no such kind.
constexpr const KindInfo* info_of(Kind kind) {
  const std::size_t index = static_cast<std::size_t>(kind) - 1;
  return index < kKinds.size() ? &kKinds[index] : nullptr;
}

struct FlagInfo {
  std::uint8_t flag;
  std::string_view word;
};
inline constexpr std::array<FlagInfo, 8> kFlags = {{
    {flag::kOffered, "offered"},
    {flag::kLent, "lent"},
    {flag::kWritten, "written"},
    {flag::kLast, "last"},
    {flag::kMore, "more"},
    {flag::kRefused, "refused"},
    {flag::kEmpty, "empty"},
    {flag::kSealed, "sealed"},
}};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
