// The protocol between a program (or a tool) and rrdmad: every message as a struct.
//
// One SOCK_SEQPACKET connection on an abstract unix name (names.h), one message in one datagram:
//
//   message = Header, body                 descriptors travel beside it (SCM_RIGHTS), at most kFdsMax
//   session = Hello, (Welcome | Refused), then requests and events in any order
//
// A request has a nonzero serial, and exactly one reply carries the same serial (ListProcesses: any number of
// ProcessEntry, then Done; ListDevices likewise). Events, which the daemon sends unasked, have serial 0. A
// failed request is answered by Failed, whose sentence is written for people.
//
// Versions: the layout of Header, the numbers of Hello and Refused and the body of Refused never change. Any
// two versions can therefore detect that they differ. Everything else may change with kProtocolVersion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ip_sockets.h"
#include "base/octets.h"
#include "control/codec.h"
#include "control/slot.h"
#include "wire/gid.h"

namespace rrdma::control {

inline constexpr std::uint32_t kMagic = 0x52524443;  // "RRDC"
inline constexpr std::uint16_t kProtocolVersion = 5;

inline constexpr std::size_t kMessageMax = 12 * 1024;  // fits one forwarded frame of the largest path MTU
inline constexpr std::size_t kFdsMax = 6;
inline constexpr std::size_t kOpaqueMax = 256;
inline constexpr std::size_t kChannelFdsMax = 4;
inline constexpr std::size_t kFrameMax = 9 * 1024;
inline constexpr std::size_t kSentenceMax = 1024;
inline constexpr std::size_t kNameMax = 64;
inline constexpr std::size_t kCountersMax = 64;

// Each subsystem has a range of numbers.
enum class MessageType : std::uint16_t {
  // The session and the slots.
  kHello = 1,  // frozen
  kWelcome,
  kRefused = 3,  // frozen
  kDone,
  kFailed,
  kRequestSlot,
  kSlotGranted,
  kReleaseSlot,
  kUpdateProcess,
  kNetworkUp,  // event
  kRetire,     // event

  // Peers on this host.
  kLookUpSlot = 0x40,
  kSlotOwner,
  kOfferChannel,
  kChannelOffered,  // event
  kPeerGone,        // event
  kForwardFrame,
  kFrameForwarded,  // event

  // Requests of tools.
  kListProcesses = 0x80,
  kProcessEntry,
  kQueryStatus,
  kStatus,
  kListDevices,
  kDeviceEntry,

  // Multicast.
  kJoinGroup = 0xc0,
  kLeaveGroup,

  // The connection manager and QP1.
  kCmFirst = 0x100,
  kCmBind = kCmFirst,
  kCmBound,
  kCmRelease,
  kCmListen,
  kCmConnect,
  kCmStarted,
  kCmLookUp,
  kCmAccept,
  kCmReject,
  kCmReplyLookUp,
  kCmReady,
  kCmNotify,
  kCmDisconnect,
  kCmDestroy,
  kCmEstablished,
  kCmRestore,
  kCmEvent = 0x120,
  kClaimMads = 0x1f0,
  kSendMad,
  kMadArrived,  // event
  kCmLast = 0x1ff,

  // Captures.
  kStartCapture = 0x200,
  kCaptureStarted,
  kStopCapture,
  kCaptureOrder,
  kWatchMads,
  kMadSeen,

  // Features of peers on other hosts.
  kRecognisePeer = 0x210,
  kPeerRecognised,

  // Injected faults.
  kSetFault = 0x220,
  kFaultWasSet,
  kClearFault,
  kListFaults,
  kFaultList,
  kFaultOrder,
  kFaultInjected,
};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  std::uint16_t type = 0;
  std::uint32_t serial = 0;
  std::uint32_t body_size = 0;
};
static_assert(sizeof(Header) == 16);

enum class Role : std::uint8_t {
  kProgram = 0,
  kTool = 1,    // only queries; holds no slot
  kKeeper = 2,  // holds the parked sockets while a system daemon restarts
};

// The links that a process allows for its queue pairs; both ends of a QP use the intersection.
inline constexpr std::uint32_t kLinkUdp = 1u << 0;
inline constexpr std::uint32_t kLinkShm = 1u << 1;
inline constexpr std::uint32_t kLinkDirect = 1u << 2;  // the initiator executes one-sided operations
inline constexpr std::uint32_t kLinkTrains = 1u << 3;  // shm frames larger than one path MTU

inline constexpr std::uint8_t kFamilyV4 = 1u << 0;
inline constexpr std::uint8_t kFamilyV6 = 1u << 1;

[[nodiscard]] inline std::uint8_t families_of(const IpSockets& sockets) {
  return static_cast<std::uint8_t>((sockets.v4 ? kFamilyV4 : 0) | (sockets.v6 ? kFamilyV6 : 0));
}

// A slot that the program already holds from an earlier daemon.
struct SlotClaim {
  Slot slot = 0;
  std::uint16_t next_index = 0;  // of the next QPN, within the slot
  std::uint8_t families = 0;     // families that it has sockets for

  static void fields(auto& archive, auto& self) {
    archive.slot(self.slot);
    archive(self.next_index, self.families);
  }
};

// Descriptors, in this order, if the flags are set: the process page, the end of the parking.
struct Hello {
  static constexpr MessageType kType = MessageType::kHello;
  Role role = Role::kProgram;
  std::uint32_t links = kLinkUdp | kLinkShm | kLinkDirect;
  std::string program;  // the name of the executable
  std::string devices;  // a description: "rrdma0 on eth0"
  std::string library_version;
  bool has_page = false;
  bool offers_parking = false;
  std::vector<SlotClaim> claims;
  std::uint64_t token = 0;  // random, chosen by the program; the same for every daemon

  static void fields(auto& archive, auto& self) {
    archive.enumeration(self.role, Role::kKeeper);
    archive.value(self.links);
    archive.text(self.program, kNameMax);
    archive.text(self.devices, kNameMax);
    archive.text(self.library_version, kNameMax);
    archive(self.has_page, self.offers_parking);
    archive.list(self.claims, kSlotsOfProgramMax);
    archive.value(self.token);
  }
};

// The network service that the daemon can provide. If a family is missing, `reason` and `remedy` hold one
// sentence each; otherwise both are empty.
struct NetworkState {
  std::uint8_t families = 0;
  std::string reason;
  std::string remedy;

  static void fields(auto& archive, auto& self) {
    archive.value(self.families);
    archive.text(self.reason, kSentenceMax);
    archive.text(self.remedy, kSentenceMax);
  }
};

// Descriptors: the end of the parking if has_parking. The program keeps it open while it lives and offers it
// to the next daemon: it keeps the slot sockets alive.
struct Welcome {
  static constexpr MessageType kType = MessageType::kWelcome;
  std::uint32_t daemon_pid = 0;
  std::uint32_t daemon_uid = 0;
  bool is_system = false;
  std::uint64_t token = 0;  // identifies this program; LookUpSlot of a peer returns the same
  bool has_parking = false;
  NetworkState network;
  std::vector<Slot> lost_slots;  // claims that other programs hold by now

  static void fields(auto& archive, auto& self) {
    archive(self.daemon_pid, self.daemon_uid, self.is_system, self.token, self.has_parking, self.network);
    archive.list(self.lost_slots, kSlotsOfProgramMax);
  }
};

// Frozen: one text.
struct Refused {
  static constexpr MessageType kType = MessageType::kRefused;
  std::string sentence;

  static void fields(auto& archive, auto& self) { archive.text(self.sentence, kSentenceMax); }
};

struct Done {
  static constexpr MessageType kType = MessageType::kDone;
  static void fields(auto&, auto&) {}
};

struct Failed {
  static constexpr MessageType kType = MessageType::kFailed;
  std::int32_t error = 0;  // an errno
  std::string sentence;

  static void fields(auto& archive, auto& self) {
    archive.value(self.error);
    archive.text(self.sentence, kSentenceMax);
  }
};

struct RequestSlot {
  static constexpr MessageType kType = MessageType::kRequestSlot;
  static void fields(auto&, auto&) {}
};

// Descriptors: one socket for each family in `families`, IPv4 first. The program may only receive from them;
// it must not send, connect, join or attach anything. `relayed`: the daemon keeps these sockets. There is one
// unix socket instead, and the daemon passes on to it what they receive (link/udp/envelope.h).
struct SlotGranted {
  static constexpr MessageType kType = MessageType::kSlotGranted;
  Slot slot = 0;
  std::uint16_t next_index = 0;  // of the first QPN to assign, within the slot
  std::uint8_t families = 0;
  bool relayed = false;

  static void fields(auto& archive, auto& self) {
    archive.slot(self.slot);
    archive(self.next_index, self.families, self.relayed);
  }
};

// Reply: Done.
struct ReleaseSlot {
  static constexpr MessageType kType = MessageType::kReleaseSlot;
  Slot slot = 0;
  std::uint16_t next_index = 0;

  static void fields(auto& archive, auto& self) {
    archive.slot(self.slot);
    archive.value(self.next_index);
  }
};

// Reply: Done.
struct UpdateProcess {
  static constexpr MessageType kType = MessageType::kUpdateProcess;
  std::uint32_t links = 0;
  std::string devices;

  static void fields(auto& archive, auto& self) {
    archive.value(self.links);
    archive.text(self.devices, kNameMax);
  }
};

// The network came up after Welcome. Descriptors: the end of the parking, if the program may have it. One
// SlotGranted event follows for each slot that the program holds without sockets.
struct NetworkUp {
  static constexpr MessageType kType = MessageType::kNetworkUp;
  NetworkState network;

  static void fields(auto& archive, auto& self) { archive.nested(self.network); }
};

// To a keeper: the daemon exits on purpose and needs no successor.
struct Retire {
  static constexpr MessageType kType = MessageType::kRetire;
  static void fields(auto&, auto&) {}
};

// Asks for the program that holds a slot on this host. Reply: SlotOwner. PeerGone follows when that owner is
// gone.
struct LookUpSlot {
  static constexpr MessageType kType = MessageType::kLookUpSlot;
  Slot slot = 0;

  static void fields(auto& archive, auto& self) { archive.slot(self.slot); }
};

struct SlotOwner {
  static constexpr MessageType kType = MessageType::kSlotOwner;
  bool found = false;
  bool same_user = false;  // provably: see identity.h
  std::uint32_t pid = 0;   // as seen by the daemon; 0: in another PID namespace
  std::uint32_t links = 0;
  std::uint64_t token = 0;

  static void fields(auto& archive, auto& self) {
    archive(self.found, self.same_user, self.pid, self.links, self.token);
  }
};

// Passes descriptors to the owner of `to_slot`, which must be the same user. Reply: Done once they are sent,
// else Failed. REQUIRES: the sender holds from_slot.
struct OfferChannel {
  static constexpr MessageType kType = MessageType::kOfferChannel;
  Slot from_slot = 0;
  Slot to_slot = 0;
  std::vector<std::uint8_t> opaque;

  static void fields(auto& archive, auto& self) {
    archive.slot(self.from_slot);
    archive.slot(self.to_slot);
    archive.blob(self.opaque, kOpaqueMax);
  }
};

struct ChannelOffered {
  static constexpr MessageType kType = MessageType::kChannelOffered;
  Slot from_slot = 0;
  Slot to_slot = 0;
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint32_t links = 0;
  std::uint64_t token = 0;
  std::vector<std::uint8_t> opaque;

  static void fields(auto& archive, auto& self) {
    archive.slot(self.from_slot);
    archive.slot(self.to_slot);
    archive(self.pid, self.uid, self.links, self.token);
    archive.blob(self.opaque, kOpaqueMax);
  }
};

// The process that held this slot is gone or released the slot. Sent to processes that looked it up or
// exchanged offers with it.
struct PeerGone {
  static constexpr MessageType kType = MessageType::kPeerGone;
  enum class Fate : std::uint8_t {
    kReleased,  // the process may still run
    kExited,    // it ran its exit handlers
    kKilled,    // it did not: a signal, a crash, or a direct system call
  };
  Slot slot = 0;
  std::uint64_t token = 0;
  Fate fate = Fate::kReleased;
  std::uint32_t pid = 0;  // 0, and no program: of another user
  std::string program;

  static void fields(auto& archive, auto& self) {
    archive.slot(self.slot);
    archive.value(self.token);
    archive.enumeration(self.fate, Fate::kKilled);
    archive.value(self.pid);
    archive.text(self.program, kNameMax);
  }
};

// A received RoCEv2 datagram (from BTH to ICRC) with its socket metadata. UDP GRO may merge adjacent
// datagrams of one 4-tuple that belong to different slots; the program that receives a foreign frame forwards
// it.
struct FrameFields {
  wire::Gid source;
  wire::Gid destination;
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint32_t interface_index = 0;
  std::vector<std::uint8_t> frame;

  static void fields(auto& archive, auto& self) {
    archive.array(self.source.octets);
    archive.array(self.destination.octets);
    archive(self.source_port, self.traffic_class, self.interface_index);
    archive.blob(self.frame, kFrameMax);
  }
};

// No reply; undeliverable frames are dropped and counted, as in a network.
struct ForwardFrame {
  static constexpr MessageType kType = MessageType::kForwardFrame;
  FrameFields content;

  static void fields(auto& archive, auto& self) { archive.nested(self.content); }
};

struct FrameForwarded {
  static constexpr MessageType kType = MessageType::kFrameForwarded;
  FrameFields content;

  static void fields(auto& archive, auto& self) { archive.nested(self.content); }
};

// Reply: ProcessEntry for each process that the requester may see (its own user's; for root, all), then Done.
struct ListProcesses {
  static constexpr MessageType kType = MessageType::kListProcesses;
  static void fields(auto&, auto&) {}
};

// Descriptors: the process page if has_page (process_page.h), read-only.
struct ProcessEntry {
  static constexpr MessageType kType = MessageType::kProcessEntry;
  std::uint32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint64_t token = 0;
  std::uint64_t age_ms = 0;
  std::uint32_t links = 0;
  std::string program;
  std::string devices;
  std::string library_version;
  bool has_page = false;
  std::vector<Slot> slots;

  static void fields(auto& archive, auto& self) {
    archive(self.pid, self.uid, self.token, self.age_ms, self.links);
    archive.text(self.program, kNameMax);
    archive.text(self.devices, kNameMax);
    archive.text(self.library_version, kNameMax);
    archive.flag(self.has_page);
    archive.list(self.slots, kSlotsOfProgramMax);
  }
};

struct QueryStatus {
  static constexpr MessageType kType = MessageType::kQueryStatus;
  static void fields(auto&, auto&) {}
};

struct NamedCounter {
  std::string name;
  std::uint64_t value = 0;

  static void fields(auto& archive, auto& self) {
    archive.text(self.name, kNameMax);
    archive.value(self.value);
  }
};

// Reply: DeviceEntry for each device that programs of the requester's user use or have used (for root, of all
// users), then Done.
struct ListDevices {
  static constexpr MessageType kType = MessageType::kListDevices;
  static void fields(auto&, auto&) {}
};

struct DeviceEntry {
  static constexpr MessageType kType = MessageType::kDeviceEntry;
  std::string name;
  std::uint32_t programs = 0;  // that use it now
  std::vector<NamedCounter> counters;

  static void fields(auto& archive, auto& self) {
    archive.text(self.name, kNameMax);
    archive.value(self.programs);
    archive.list(self.counters, kCountersMax);
  }
};

struct Status {
  static constexpr MessageType kType = MessageType::kStatus;
  std::uint32_t daemon_pid = 0;
  std::uint32_t daemon_uid = 0;
  std::string version;
  bool is_system = false;
  bool stays = false;
  bool took_over = false;  // the sockets came from an earlier daemon
  std::uint64_t uptime_ms = 0;
  std::uint16_t clients = 0;
  std::uint16_t slots_bound = 0;
  std::uint16_t slots_held = 0;
  std::uint16_t slots_orphaned = 0;  // held by programs that have not reconnected since a takeover
  NetworkState network;
  std::vector<NamedCounter> counters;

  static void fields(auto& archive, auto& self) {
    archive(self.daemon_pid, self.daemon_uid);
    archive.text(self.version, kNameMax);
    archive(self.is_system, self.stays, self.took_over, self.uptime_ms, self.clients, self.slots_bound,
            self.slots_held, self.slots_orphaned, self.network);
    archive.list(self.counters, kCountersMax);
  }
};

// Steering does not apply to multicast, so a group is joined on the one socket that wants it. The socket
// outlives its program, so the daemon joins, keeps track, and leaves. Reply: Done.
struct JoinGroup {
  static constexpr MessageType kType = MessageType::kJoinGroup;
  Slot slot = 0;
  std::uint32_t interface_index = 0;
  wire::Gid group;

  static void fields(auto& archive, auto& self) {
    archive.slot(self.slot);
    archive.value(self.interface_index);
    archive.array(self.group.octets);
  }
};

struct LeaveGroup {
  static constexpr MessageType kType = MessageType::kLeaveGroup;
  Slot slot = 0;
  std::uint32_t interface_index = 0;
  wire::Gid group;

  static void fields(auto& archive, auto& self) {
    archive.slot(self.slot);
    archive.value(self.interface_index);
    archive.array(self.group.octets);
  }
};

// The whole datagram of a message.
template <typename Message>
[[nodiscard]] std::vector<std::uint8_t> encode(const Message& message, std::uint32_t serial) {
  Encoder encoder;
  Header header{.type = static_cast<std::uint16_t>(Message::kType), .serial = serial};
  encoder.octets().resize(sizeof header);
  Message::fields(encoder, message);
  RRDMA_ASSERT(encoder.octets().size() <= kMessageMax);
  header.body_size = static_cast<std::uint32_t>(encoder.octets().size() - sizeof header);
  std::memcpy(encoder.octets().data(), &header, sizeof header);
  return std::move(encoder.octets());
}

// The fields of a body; empty if it is malformed.
template <typename Message>
[[nodiscard]] std::optional<Message> decode(Octets body) {
  Decoder decoder(body);
  Message message;
  Message::fields(decoder, message);
  if (!decoder.complete()) return std::nullopt;
  return message;
}

// The header of a datagram, if it is a message of this protocol in any version.
[[nodiscard]] inline std::optional<Header> parse_header(Octets datagram) {
  Header header;
  if (datagram.size() < sizeof header || datagram.size() > kMessageMax) return std::nullopt;
  std::memcpy(&header, datagram.data(), sizeof header);
  if (header.magic != kMagic || header.body_size != datagram.size() - sizeof header) return std::nullopt;
  return header;
}

}  // namespace rrdma::control
