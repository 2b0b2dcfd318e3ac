// One engine between a random caller and a hostile peer, both driven by the input: any request on any QP in
// any state, any packet with numbers near the right ones, jumps of time, a full link. Invariants: a request
// completes at most once and in order, nothing completes after its QP is destroyed, and memory that was not
// opened does not change. At the end, everything left is flushed.
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "cost.h"
#include "input.h"
#include "objects/completion_queue.h"
#include "objects/memory.h"
#include "transport/engine.h"
#include "wire/transport_packet.h"

namespace rrdma::engine_fuzz {

using namespace rrdma::transport;
using fuzz::Input;

constexpr std::size_t kStepsMax = 600;
constexpr std::uint32_t kQpCount = 7;
constexpr std::uint32_t kQueueEntries = 8;
constexpr std::size_t kPage = 4096;
constexpr std::uint8_t kUntouched = 0xa5;
constexpr std::uint32_t kXrcQueue = 0x40, kForbiddenQueue = 0x41;
constexpr std::uint64_t kAddress = 0x10000;  // of the first page; the others follow

// The use of each page. Pages between them are unregistered.
enum Page : std::size_t { kGuardLow, kOpen, kGuardMiddle, kLocalOnly, kReadOnly, kGuardHigh, kPages };
constexpr std::array kNeverWritten = {kGuardLow, kGuardMiddle, kReadOnly, kGuardHigh};

// Discards frames, or has no room.
class Drain final : public objects::FrameSink {
 public:
  objects::Frame* reserve(const objects::Path&) override { return room_-- > 0 ? &frame_ : nullptr; }
  void commit(objects::Frame& frame) override {
    wire::TransportHeaders headers;
    RRDMA_ASSERT(wire::parse_transport_headers({frame.header.data(), frame.header_octets}, headers) ==
                 wire::TransportError::kNone);
    RRDMA_ASSERT(frame.span_count <= frame.spans.size() && frame.payload_octets <= kPages * kPage);
    std::size_t total = 0;
    for (std::size_t i = 0; i < frame.span_count; ++i) {
      for (std::size_t k = 0; k < frame.spans[i].length; ++k) sum_ = sum_ + frame.spans[i].data[k];
      total += frame.spans[i].length;
    }
    RRDMA_ASSERT(total == frame.payload_octets);
    frame.clear();
  }
  void set_room(int frames) { room_ = frames; }

 private:
  objects::Frame frame_;
  int room_ = 0;
  volatile std::uint32_t sum_ = 0;  // reads every byte, so that a sanitizer detects a span beyond its memory
};

class World final : private EventSink {
 public:
  explicit World(Input input)
      : input_(input),
        memory_(kPages * kPage, kUntouched),
        table_(7),
        queue_(4096, nullptr),
        shared_(kQueueEntries, 2),
        xrc_(kQueueEntries, 2),
        forbidden_(kQueueEntries, 2),
        engine_({}, table_, *this) {
    open_page(kOpen, objects::kLocalWrite | objects::kRemoteWrite | objects::kRemoteRead |
                         objects::kRemoteAtomic | objects::kWindowBind);
    open_page(kLocalOnly, objects::kLocalWrite);
    open_page(kReadOnly, objects::kRemoteRead);
    // One XRC queue of the target's domain, and one of another, to which requests are refused.
    xrc_.pd = forbidden_.pd = &pd_;
    xrc_.completions = forbidden_.completions = &queue_;
    xrc_.xrc_domain = &domain_;
    forbidden_.xrc_domain = &other_domain_;
    engine_.set_xrc_queue(kXrcQueue, &xrc_);
    engine_.set_xrc_queue(kForbiddenQueue, &forbidden_);
    const objects::Sge nowhere{};
    while (forbidden_.post(0, {&nowhere, 1})) ++forbidden_entries_;
    window_ = *table_.allocate_window(pd_, objects::WindowType::kType2);
    handle_.pd = &pd_;
    handle_.path = path();
    for (Slot& slot : slots_) create(slot);
  }

  void run() {
    for (std::size_t step = 0; step < kStepsMax && !input_.empty(); ++step) {
      const fuzz::Cost cost({.ms = 200, .octets = 1 << 20});
      one_step(slots_[input_.below(kQpCount)]);
      poll();
      check_memory();
    }
    finish();
  }

 private:
  struct Posted {
    std::uint64_t id;
    bool signaled;
  };
  struct Slot {
    QueuePair* qp = nullptr;
    QpType type = QpType::kRc;
    std::deque<Posted> sends;
    std::uint64_t generation = 0;
  };

  void open_page(Page page, std::uint32_t access) {
    regions_[page] = *table_.register_region({.pd = &pd_,
                                              .host = memory_.data() + page * kPage,
                                              .length = kPage,
                                              .address = kAddress + page * kPage,
                                              .access = access});
  }
  static objects::Path path() {
    objects::Path path;
    path.local = wire::gid_of_ipv4({10, 0, 0, 1});
    path.remote = wire::gid_of_ipv4({10, 0, 0, 2});
    return path;
  }

  // ---- the caller ----

  void one_step(Slot& slot) {
    switch (input_.below(12)) {
      case 0:
      case 1: post_send(slot); break;
      case 2: post_receive(slot); break;
      case 3: modify(slot, input_.octet()); break;
      case 4:
        now_ = now_ + nanoseconds(std::int64_t{1} << input_.below(34));
        engine_.handle_timers(now_);
        break;
      case 5: recreate(slot, input_.octet()); break;
      default: hostile_packet(slot); break;
      case 11:
        drain_.set_room(static_cast<int>(input_.below(8)));
        engine_.transmit(drain_, now_);
        engine_.flushed(now_);
        break;
    }
  }

  void create(Slot& slot) {
    static constexpr std::array kTypes = {QpType::kRc, QpType::kRc,      QpType::kRc,        QpType::kUc,
                                          QpType::kUd, QpType::kXrcSend, QpType::kXrcReceive};
    const auto index = static_cast<std::uint32_t>(&slot - slots_.data());
    slot.type = kTypes[index];
    slot.sends.clear();
    slot.generation = ++generations_;
    QpInit init;
    init.type = slot.type;
    init.pd = &pd_;
    init.send_cq = init.receive_cq = &queue_;
    init.send_entries = init.receive_entries = kQueueEntries;
    init.send_sges = init.receive_sges = 2;
    init.inline_octets = 64;
    if (index == 2) init.shared_receive_queue = &shared_;
    if (slot.type == QpType::kXrcReceive) init.xrc_domain = &domain_;
    slot.qp = &engine_.create_qp(init, wire::Qpn(0x100 + index));
    connect(slot);
  }
  void recreate(Slot& slot, std::uint8_t choice) {
    if ((choice & 1) == 0) return connect(slot);
    engine_.destroy_qp(*slot.qp);
    create(slot);
  }
  void connect(Slot& slot) {
    go(slot, QpState::kReset, 0);
    slot.sends.clear();  // a reset discards them without a completion
    poll();
    if (slot.type == QpType::kUd) {
      go(slot, QpState::kInit, kAttrPKeyIndex | kAttrPort | kAttrQKey);
      go(slot, QpState::kReadyToReceive, 0);
      go(slot, QpState::kReadyToSend, kAttrSendPsn);
      return;
    }
    const bool rc =
        slot.type == QpType::kRc || slot.type == QpType::kXrcSend || slot.type == QpType::kXrcReceive;
    go(slot, QpState::kInit, kAttrPKeyIndex | kAttrPort | kAttrAccessFlags);
    go(slot, QpState::kReadyToReceive,
       kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn |
           (rc ? kAttrMaxDestinationReads | kAttrMinRnrTimer : 0u));
    go(slot, QpState::kReadyToSend,
       kAttrSendPsn | (rc ? kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads : 0u));
  }
  void go(Slot& slot, QpState state, std::uint32_t mask) {
    (void)engine_.modify_qp(*slot.qp, attributes(state), kAttrState | mask, now_).ok();
  }
  QpAttributes attributes(QpState state) {
    QpAttributes attributes;
    attributes.state = state;
    attributes.path = path();
    attributes.path_mtu = static_cast<std::uint8_t>(1 + input_.below(3));
    attributes.destination = wire::Qpn(0x200);
    attributes.receive_psn = attributes.send_psn = wire::Psn(0xfffff0 + input_.below(64));
    attributes.timeout = 10;
    attributes.retry_count = 2;
    attributes.rnr_retry = static_cast<std::uint8_t>(input_.below(8));
    attributes.max_reads = attributes.max_destination_reads = 2;
    attributes.access_flags = objects::kRemoteWrite | objects::kRemoteRead | objects::kRemoteAtomic;
    attributes.qkey = {0x11111111};
    return attributes;
  }
  void modify(Slot& slot, std::uint8_t choice) {
    static constexpr std::array kStates = {QpState::kError, QpState::kDrain, QpState::kReadyToSend,
                                           QpState::kInit};
    go(slot, kStates[choice & 3], (choice & 4) != 0 ? static_cast<std::uint32_t>(input_.word()) << 3 : 0);
  }

  objects::Sge some_sge() {
    const std::size_t page = input_.below(kPages);
    const objects::MemoryRegion* region = regions_[page];
    return {kAddress + page * kPage + input_.octet(), input_.word() % 6000,
            wire::LKey{region == nullptr ? input_.word() : region->key}};
  }
  void post_send(Slot& slot) {
    static constexpr std::array kOpcodes = {
        objects::SendOpcode::kWrite,      objects::SendOpcode::kWriteImmediate,
        objects::SendOpcode::kSend,       objects::SendOpcode::kSendImmediate,
        objects::SendOpcode::kRead,       objects::SendOpcode::kCompareSwap,
        objects::SendOpcode::kFetchAdd,   objects::SendOpcode::kLocalInvalidate,
        objects::SendOpcode::kBindWindow, objects::SendOpcode::kSendInvalidate,
        objects::SendOpcode::kFlush,      objects::SendOpcode::kAtomicWrite};
    SendRequest request;
    request.entry.opcode = kOpcodes[input_.below(kOpcodes.size())];
    request.entry.flags = static_cast<std::uint8_t>(
        input_.octet() & (objects::kSendFence | objects::kSendSignaled | objects::kSendSolicited));
    request.entry.wr_id = next_id(slot);
    request.entry.rkey = {input_.word()};
    request.entry.remote_address = input_.word() & ~7u;
    if (request.entry.opcode == objects::SendOpcode::kBindWindow) {
      request.entry.bind = {window_, regions_[kOpen], kAddress + kOpen * kPage, input_.word() % 5000,
                            objects::kRemoteWrite};
      request.entry.rkey = {window_->key ^ input_.below(2)};
    }
    if (request.entry.opcode == objects::SendOpcode::kLocalInvalidate)
      request.entry.immediate_or_key = window_->key;
    if (slot.type == QpType::kUd) request.entry.datagram = {&handle_, 0x11111111, 0x200};
    const std::array list = {some_sge(), some_sge()};
    request.list = {list.data(), input_.below(3)};
    const bool signaled = (request.entry.flags & objects::kSendSignaled) != 0;
    if (engine_.post_send(*slot.qp, request, now_) == PostError::kNone)
      slot.sends.push_back({request.entry.wr_id, signaled});
  }
  void post_receive(Slot& slot) {
    const std::array list = {some_sge(), some_sge()};
    const std::span<const objects::Sge> some(list.data(), input_.below(3));
    if (slot.type == QpType::kXrcReceive) {
      (void)xrc_.post(0, some);
    } else if (slot.qp->shared_queue != nullptr) {
      (void)shared_.post(0, some);
    } else {
      (void)engine_.post_receive(*slot.qp, 0, some, now_);
    }
  }
  std::uint64_t next_id(const Slot& slot) { return slot.generation << 32 | ++ids_; }

  // ---- the peer ----

  void hostile_packet(Slot& slot) {
    wire::TransportHeaders headers;
    headers.bth.opcode = wire::Opcode(input_.octet());
    if (!wire::shape_of(headers.bth.opcode).known()) return;
    headers.bth.destination = slot.qp->qpn;
    headers.bth.ack_request = (input_.octet() & 1) != 0;
    const std::uint8_t near = input_.octet();
    const wire::Psn base = (near & 0x80) != 0 ? slot.qp->req.una : slot.qp->resp.expected;
    headers.bth.psn = wire::Psn(base.value + (near & 0x7f) - 32);
    headers.deth = {.qkey = {(near & 1) != 0 ? 0x11111111u : 0u}, .source = wire::Qpn(0x200)};
    headers.reth.rkey = headers.atomic.rkey = headers.invalidate = some_key();
    headers.reth.address = headers.atomic.address =
        kAddress + input_.below(kPages) * kPage + (input_.octet() & ~7u);
    headers.reth.length = input_.word() % 9000;
    headers.atomic.compare = input_.octet();
    headers.atomic.swap_or_add = input_.word();
    headers.aeth = {.syndrome = input_.octet(), .msn = input_.octet()};
    headers.feth.raw = input_.octet();
    headers.immediate.raw = input_.octet();
    headers.xrceth.srq = kXrcQueue + input_.below(3);
    static constexpr std::array<std::uint32_t, 8> kLengths = {0, 8, 40, 256, 512, 1024, 255, 4096};
    const std::uint32_t length = kLengths[input_.below(kLengths.size())];
    headers.bth.pad = wire::pad_for(length);
    deliver(headers, length);
  }
  wire::RKey some_key() {
    const std::uint8_t choice = input_.octet();
    const objects::MemoryRegion* region = regions_[choice % kPages];
    if (choice >= 0xf0) return {window_->key};
    return {region == nullptr ? choice : region->key};
  }
  // Parse each packet as usual: rejected packets never reach an engine.
  void deliver(const wire::TransportHeaders& headers, std::uint32_t length) {
    std::vector<std::uint8_t> octets(wire::kHeaderOctetsMax);
    octets.resize(wire::emit_transport_headers(headers, octets.data()));
    octets.resize(octets.size() + length + headers.bth.pad, 0x5a);
    octets.shrink_to_fit();  // so that a sanitizer detects a read beyond the end
    wire::TransportPacket packet;
    if (wire::parse_transport(octets, packet) != wire::TransportError::kNone) return;
    static constexpr std::array<std::uint8_t, 40> kGrh{};
    objects::PacketOrigin origin;
    origin.source = path().remote;
    origin.destination = path().local;
    origin.grh = kGrh.data();
    const std::uint8_t flaw = input_.octet();
    origin.ecn_marked = (flaw & 1) != 0;
    origin.source_port = (flaw & 2) != 0 ? 50000 : 50001;
    const bool stranger = (flaw & 0xf0) != 0 && mislead(origin, flaw >> 4);
    if (!stranger) return engine_.handle_packet(packet, origin, now_);
    expect_no_trace(packet, origin);
  }
  // Falsifies one property of the packet's origin.
  static bool mislead(objects::PacketOrigin& origin, unsigned kind) {
    switch (kind) {
      case 1: origin.source.octets[15] ^= 1; return true;
      case 2: origin.destination.octets[15] ^= 1; return true;
      case 3: origin.party = 7; return true;
      default: return false;
    }
  }
  // A packet from a stranger to a connected QP changes nothing but a counter.
  void expect_no_trace(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
    QueuePair* qp = engine_.find_qp(packet.headers.bth.destination);
    const Counters before = engine_.counters();
    const bool wanted = engine_.wants_transmit();
    const wire::Psn expected = qp->resp.expected, una = qp->req.una;
    engine_.handle_packet(packet, origin, now_);
    if (qp->type == QpType::kUd) return;  // accepts packets from every sender that knows its key
    const Counters& after = engine_.counters();
    RRDMA_ASSERT(after.cnps_received == before.cnps_received && after.acks_received == before.acks_received &&
                 after.messages_received == before.messages_received &&
                 after.ecn_marked == before.ecn_marked && after.duplicates == before.duplicates &&
                 after.out_of_order == before.out_of_order);
    RRDMA_ASSERT(engine_.wants_transmit() == wanted && qp->resp.expected == expected && qp->req.una == una);
  }

  // ---- invariants ----

  void poll() {
    while (const objects::Completion* completion = queue_.peek()) {
      if (completion->wr_id != 0) sent(*completion);
      queue_.pop();
    }
    RRDMA_ASSERT(!queue_.overflowed());
  }
  void sent(const objects::Completion& completion) {
    for (Slot& slot : slots_) {
      if (slot.generation != completion.wr_id >> 32 || slot.sends.empty()) continue;
      // Earlier requests were unsignalled and have succeeded.
      while (!slot.sends.empty() && slot.sends.front().id != completion.wr_id) {
        RRDMA_ASSERT(!slot.sends.front().signaled);
        slot.sends.pop_front();
      }
      RRDMA_ASSERT(!slot.sends.empty());
      RRDMA_ASSERT(slot.sends.front().signaled || completion.status != objects::Status::kSuccess);
      slot.sends.pop_front();
    }
  }
  void check_memory() const {
    RRDMA_ASSERT(forbidden_.size() == forbidden_entries_);
    for (const Page page : kNeverWritten) {
      const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(page * kPage);
      RRDMA_ASSERT(std::all_of(first, first + kPage, [](std::uint8_t octet) { return octet == kUntouched; }));
    }
  }
  void finish() {
    for (Slot& slot : slots_) {
      go(slot, QpState::kError, 0);
      poll();
      RRDMA_ASSERT(std::none_of(slot.sends.begin(), slot.sends.end(),
                                [](const Posted& posted) { return posted.signaled; }));
      engine_.destroy_qp(*slot.qp);
      poll();
    }
    RRDMA_ASSERT(engine_.next_deadline() == kNever && !engine_.wants_transmit() && engine_.qp_count() == 0);
    RRDMA_ASSERT(handle_.users == 0);
    for (const std::uint32_t number : {kXrcQueue, kForbiddenQueue}) engine_.set_xrc_queue(number, nullptr);
    table_.free_window(*window_);
    for (objects::MemoryRegion* region : regions_) {
      if (region != nullptr) RRDMA_ASSERT(table_.deregister(*region).ok());
    }
  }
  void on_qp_event(QueuePair&, QpEvent) override {}

  Input input_;
  Instant now_;
  std::vector<std::uint8_t> memory_;
  objects::MemoryTable table_;
  objects::ProtectionDomain pd_;
  std::array<objects::MemoryRegion*, kPages> regions_{};
  objects::MemoryWindow* window_ = nullptr;
  objects::AddressHandle handle_;
  objects::CompletionQueue queue_;
  objects::ReceiveQueue shared_, xrc_, forbidden_;
  std::uint32_t forbidden_entries_ = 0;
  const int domain_ = 0, other_domain_ = 0;
  Drain drain_;
  Engine engine_;
  std::array<Slot, kQpCount> slots_;
  std::uint64_t generations_ = 0;
  std::uint64_t ids_ = 0;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World(Input({data, size})).run();
  return 0;
}

}  // namespace rrdma::engine_fuzz
