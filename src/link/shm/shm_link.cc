#include "link/shm/shm_link.h"

#include <linux/membarrier.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "link/shm/introduction.h"
#include "wire/bth_words.h"
#include "wire/icrc.h"

namespace rrdma::link {
namespace {

constexpr std::size_t kTurnMax = 16;  // records of one channel before the next has its turn
constexpr std::size_t kHotPorts = 8;
constexpr int kDoorbellsAtOnce = 16;
constexpr int kKnocksAtOnce = 64;
constexpr std::uint8_t kSendOnly =
    wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendOnly).value;
constexpr std::uint8_t kSendOnlyImmediate =
    wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendOnlyImmediate).value;
constexpr std::uint8_t kAcknowledge =
    wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kAcknowledge).value;

}  // namespace

ShmLink::ShmLink(OwnedFd epoll)
    : epoll_(std::move(epoll)),
      has_barrier_(raw::membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0),
      counters_{{{"shm_frames_sent", 0},
                 {"shm_frames_received", 0},
                 {"shm_no_room", 0},
                 {"shm_dropped_no_channel", 0},
                 {"shm_dropped_source_fault", 0},
                 {"shm_dropped_corrupted", 0},
                 {"shm_dropped_bad_headers", 0},
                 {"shm_dropped_bad_payload_length", 0},
                 {"shm_lost_bad_record", 0},
                 {"shm_lost_hang_up", 0},
                 {"shm_doorbells_rung", 0},
                 {"shm_doorbells_heard", 0},
                 {"shm_direct_done", 0},
                 {"shm_direct_mapped", 0},
                 {"shm_direct_far", 0},
                 {"shm_direct_not_listed", 0},
                 {"shm_direct_fault", 0},
                 {"shm_direct_refused", 0},
                 {"shm_direct_retire_overdue", 0}}} {}

ShmLink::~ShmLink() = default;

Result<std::unique_ptr<ShmLink>, ShmError> ShmLink::create() {
  OwnedFd epoll = lifted(raw::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Failure{ShmError{ShmProblem::kDoorbell, errno}};
  return std::unique_ptr<ShmLink>(new ShmLink(std::move(epoll)));
}

ShmLink::Port* ShmLink::find(std::uint32_t peer) const {
  const std::size_t slot = peer & 0xffff;
  if (slot >= slots_.size() || slots_[slot] == nullptr || slots_[slot]->peer != peer) return nullptr;
  return slots_[slot];
}

Result<std::uint32_t, ShmError> ShmLink::add_channel(ShmChannel channel, std::uint32_t party) {
  std::size_t slot = 0;
  while (slot < slots_.size() && slots_[slot] != nullptr) ++slot;
  if (slot == kChannelsMax) return Failure{ShmError{ShmProblem::kMemory, EMFILE}};
  if (slot == slots_.size()) {
    slots_.push_back(nullptr);
    generations_.push_back(0);
  }
  const std::uint32_t peer =
      static_cast<std::uint32_t>(generations_[slot]) << 16 | static_cast<std::uint32_t>(slot);
  epoll_event interest{.events = EPOLLIN | EPOLLRDHUP, .data = {.u32 = peer}};
  if (raw::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, channel.doorbell(), &interest) != 0) {
    return Failure{ShmError{ShmProblem::kDoorbell, errno}};
  }
  ports_.push_back(std::make_unique<Port>(std::move(channel), peer, party));
  slots_[slot] = ports_.back().get();
  unflushed_.reserve(ports_.size());
  unserved_.reserve(ports_.size());
  if (table_) introduce(*ports_.back());
  return peer;
}

void ShmLink::remove_channel(std::uint32_t peer) {
  Port* port = find(peer);
  if (port == nullptr) return;
  if (!port->hung_up) raw::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, port->channel.doorbell(), nullptr);
  if (port->hung_up && !port->lost_told) --hung_up_;
  std::erase(unflushed_, port);
  std::erase(unserved_, port);
  if (reserved_ == port) reserved_ = nullptr;
  slots_[peer & 0xffff] = nullptr;
  ++generations_[peer & 0xffff];
  std::erase_if(ports_, [port](const auto& entry) { return entry.get() == port; });
  next_hot_ = next_cold_ = next_demoted_ = 0;
}

void ShmLink::hang_up(Port& port, Count reason) {
  if (port.hung_up) return;
  port.hung_up = true;
  port.direct.reset();
  ++hung_up_;
  count(reason);
  // A socket that hung up stays readable forever.
  raw::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, port.channel.doorbell(), nullptr);
}

std::optional<std::uint32_t> ShmLink::poll_lost() {
  if (hung_up_ == 0) return std::nullopt;
  for (const auto& port : ports_) {
    if (!port->hung_up || port->lost_told) continue;
    if (!port->reader.broken() && port->reader.has_record()) continue;
    port->lost_told = true;
    --hung_up_;
    return port->peer;
  }
  return std::nullopt;
}

std::atomic<std::uint64_t>* ShmLink::claim_answer(std::uint32_t peer, wire::Qpn qpn) {
  Port* port = find(peer);
  return port == nullptr ? nullptr : port->answers.claim(qpn);
}

void ShmLink::release_answer(std::uint32_t peer, wire::Qpn qpn) {
  if (Port* port = find(peer)) port->answers.release(qpn);
}

std::uint32_t ShmLink::party_of(std::uint32_t peer) const {
  const Port* port = find(peer);
  return port == nullptr ? 0 : port->party;
}

// If both ends made a channel at the same time, each QP writes into the channel that its own side sends
// through.
std::optional<wire::LastAnswer> ShmLink::last_answer(std::uint32_t peer, wire::Qpn qpn) const {
  const std::uint32_t party = party_of(peer);
  for (const auto& port : ports_) {
    if (port->party != party) continue;
    if (const auto answer = port->answers.find_peers(qpn)) return answer;
  }
  return std::nullopt;
}

void ShmLink::attend() {
  if (!has_barrier_) return;
  for (const auto& port : ports_) {
    if (std::exchange(port->attended, true)) continue;
    port->channel.control(1 - port->channel.own_direction()).attentive.store(1, std::memory_order_relaxed);
  }
}

// After the barrier a writer has either published its frames or will see that it must check `armed`.
void ShmLink::attend_no_more() {
  bool any = false;
  for (const auto& port : ports_) {
    if (!std::exchange(port->attended, false)) continue;
    port->channel.control(1 - port->channel.own_direction()).attentive.store(0, std::memory_order_relaxed);
    any = true;
  }
  if (!any || raw::membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0) return;
  has_barrier_ = false;  // now filtered: any CPU publishes its stores within this time
  const timespec moment{.tv_sec = 0, .tv_nsec = 1'000'000};
  (void)raw::ppoll(nullptr, 0, &moment);
}

bool ShmLink::arm() {
  armed_ = true;
  for (const auto& port : ports_) {
    if (port->hung_up) continue;
    port->channel.control(1 - port->channel.own_direction()).armed.store(1, std::memory_order_relaxed);
    if (port->writer.starved()) {
      port->channel.control(port->channel.own_direction()).starved.store(1, std::memory_order_relaxed);
    }
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (hung_up_ != 0) return false;
  for (const auto& port : ports_) {
    if (port->hung_up) continue;
    if (port->reader.has_record() || port->reader.broken()) return false;
    if (port->writer.starved() && port->writer.room_came()) return false;
  }
  return true;
}

void ShmLink::disarm() {
  armed_ = false;
  for (const auto& port : ports_) {
    auto& armed = port->channel.control(1 - port->channel.own_direction()).armed;
    if (armed.load(std::memory_order_relaxed) != 0) armed.store(0, std::memory_order_relaxed);
    if (!port->writer.starved()) continue;
    port->writer.clear_starved();
    port->channel.control(port->channel.own_direction()).starved.store(0, std::memory_order_relaxed);
  }
}

void ShmLink::handle_doorbells() {
  epoll_event events[kDoorbellsAtOnce];
  const int ready = raw::epoll_wait(epoll_.get(), events, kDoorbellsAtOnce, 0);
  for (int i = 0; i < ready; ++i) {
    Port* port = find(events[i].data.u32);
    if (port == nullptr) continue;
    hear_doorbell(*port);
  }
}

void ShmLink::hear_doorbell(Port& port) {
  HeardIntroduction heard;
  for (int knock = 0; knock < kKnocksAtOnce; ++knock) {
    switch (hear(port.channel.doorbell(), heard)) {
      case Heard::kNothing: return;
      case Heard::kHangUp: return hang_up(port, kHungUp);
      case Heard::kKnock: count(kDoorbellsHeard); break;
      case Heard::kIntroduction: {
        if (!table_ || port.introduced) break;
        port.introduced = true;
        raw::setsockopt(port.channel.doorbell(), SOL_SOCKET, SO_PASSCRED, 0);
        auto& in_use = port.channel.control(port.channel.own_direction()).in_use;
        auto peer = DirectPeer::open(heard.table, heard.pid, heard.introduction, in_use, far_copier_);
        if (peer)
          port.direct.emplace(std::move(peer).value());
        else
          count(kDirectRefused);
        break;
      }
    }
  }
}

void ShmLink::wake(Port& port) {
  count(kDoorbellsRung);
  if (!port.channel.ring_doorbell()) hang_up(port, kHungUp);
}

void ShmLink::tell_served() {
  for (Port* port : unserved_) {
    port->unserved = false;
    port->reader.tell_served();
  }
  unserved_.clear();
}

bool ShmLink::served(std::uint32_t peer) const {
  const Port* port = find(peer);
  return port == nullptr || port->writer.served();
}

// A thread that sleeps told its peers on arming which rings it waits for. Meanwhile the program may post,
// find another ring full and go to sleep. The reader of that ring must be told, or it would never ring.
bool ShmLink::has_room(Port& port, std::size_t payload_octets) {
  if (port.writer.has_room(payload_octets)) return true;
  if (!armed_) return false;
  port.channel.control(port.channel.own_direction()).starved.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return port.writer.room_came() && port.writer.has_room(payload_octets);
}

objects::Frame* ShmLink::reserve(const objects::Path& path) {
  RRDMA_ASSERT(path.train_octets <= kShmTrainOctetsMax);
  reserved_ = find(path.peer);
  if (reserved_ != nullptr && reserved_->hung_up) reserved_ = nullptr;
  if (reserved_ != nullptr &&
      !has_room(*reserved_, path.train_octets != 0 ? path.train_octets : kShmFrameOctetsMax)) {
    count(kNoRoom);
    if (!reserved_->writer.broken()) return nullptr;
    hang_up(*reserved_, kBadRecord);
    reserved_ = nullptr;
  }
  frame_.clear();
  frame_.path = &path;
  return &frame_;
}

void ShmLink::commit(objects::Frame& frame) {
  if (reserved_ == nullptr) {
    count(kNoChannel);
    return;
  }
  Port& port = *reserved_;
  if (port.writer.write(frame) == WriteVerdict::kSourceFault) {
    count(kSourceFault);
    if (!frame.ack.present) return;
    // Only this request is lost, not the answer to another.
    leave_ack_alone(frame);
    if (port.writer.write(frame) != WriteVerdict::kWritten) return;
  }
  count(kSent);
  if (port.unflushed) return;
  port.unflushed = true;
  unflushed_.push_back(&port);
}

void ShmLink::leave_ack_alone(objects::Frame& frame) {
  const wire::Bth request = wire::parse_bth(frame.header.data());
  wire::TransportHeaders headers;
  headers.bth = {.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kAcknowledge),
                 .pkey = request.pkey,
                 .destination = request.destination,
                 .psn = frame.ack.psn};
  headers.aeth = frame.ack.aeth;
  const objects::Path* const path = frame.path;
  frame.clear();
  frame.path = path;
  frame.header_octets = static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame.header.data()));
}

void ShmLink::flush(Instant) {
  if (unflushed_.empty()) return;
  bool fenced = false;
  for (Port* port : unflushed_) {
    port->unflushed = false;
    DirectionControl& control = port->channel.control(port->channel.own_direction());
    if (has_barrier_ && control.attentive.load(std::memory_order_relaxed) != 0) continue;
    if (!std::exchange(fenced, true)) std::atomic_thread_fence(std::memory_order_seq_cst);
    std::atomic<std::uint32_t>& armed = control.armed;
    if (armed.load(std::memory_order_relaxed) != 0 && armed.exchange(0, std::memory_order_relaxed) != 0)
      wake(*port);
  }
  unflushed_.clear();
}

// The peer wrote the route, but this side knows which party owns the ring.
void ShmLink::follow_route(Port& port) {
  const PeerRoute& route = port.reader.route();
  port.origin.source = route.source;
  port.origin.destination = route.destination;
  port.origin.traffic_class = route.traffic_class;
  port.origin.ecn_marked = (route.traffic_class & 3) == 3;
}

// The packet, if it is a SEND of a reliable connection in one record, or an answer without data. These need
// no table of shapes. Null: the general parser decides.
const wire::TransportPacket* ShmLink::parse_straight(const RecordView& record) {
  const std::uint8_t* const headers = record.headers.data();
  const std::size_t header_octets = record.head.header_octets;
  wire::TransportPacket* packet = &send_;
  switch (headers[0]) {
    case kSendOnly:
      if (header_octets != wire::kBthOctets) return nullptr;
      send_.headers.immediate = {};
      break;
    case kSendOnlyImmediate:
      if (header_octets != wire::kBthOctets + wire::kImmediateOctets) return nullptr;
      send_.headers.immediate = wire::parse_immediate(headers + wire::kBthOctets);
      break;
    case kAcknowledge:
      if (header_octets != wire::kBthOctets + wire::kAethOctets || !record.payload.empty()) return nullptr;
      packet = &answer_;
      answer_.headers.aeth = wire::parse_aeth(headers + wire::kBthOctets);
      break;
    default: return nullptr;
  }
  wire::parse_bth_words(headers, packet->headers.bth);
  packet->payload = record.payload;
  const wire::Bth& bth = packet->headers.bth;
  return bth.version == 0 && bth.pad == wire::pad_for(record.payload.size()) ? packet : nullptr;
}

void ShmLink::deliver(const RecordView& record, Port& port, Receiver& receiver) {
  if ((record.head.flags & (kRecordRoute | kRecordCorrupted)) != 0) {
    if ((record.head.flags & kRecordCorrupted) != 0) return count(kCorrupted);
    follow_route(port);
  }
  const wire::TransportPacket* const packet = parse_straight(record);
  if (packet == nullptr) return deliver_any(record, port, receiver);
  if ((record.head.flags & kRecordAck) != 0 &&
      !deliver_ack(record, packet->headers.bth, port.origin, receiver))
    return count(kBadHeaders);
  count(kReceived);
  receiver.on_packet(*packet, port.origin);
}

void ShmLink::deliver_any(const RecordView& record, const Port& port, Receiver& receiver) {
  const PeerRoute& route = port.reader.route();
  wire::TransportPacket packet;
  const auto error =
      wire::parse_transport_headers(Octets(record.headers).first(record.head.header_octets), packet.headers);
  const wire::OpcodeShape& shape = wire::shape_of(packet.headers.bth.opcode);
  if (error != wire::TransportError::kNone || shape.header_octets != record.head.header_octets)
    return count(kBadHeaders);
  packet.payload = record.payload;
  if (!wire::payload_allowed(shape.payload, packet.payload.size()) ||
      packet.headers.bth.pad != wire::pad_for(packet.payload.size())) {
    return count(kBadPayload);
  }
  objects::PacketOrigin origin = port.origin;
  if (shape.deth) {
    if (packet.payload.size() > kShmFrameOctetsMax) return count(kBadPayload);  // a datagram is never a train
    // The GRH area that a UD receive would get from the network.
    wire::emit_grh_area({.source = route.source,
                         .destination = route.destination,
                         .traffic_class = route.traffic_class,
                         .hop_limit = route.hop_limit,
                         .flow_label = route.flow_label,
                         .datagram_octets = shape.header_octets + packet.payload.size() +
                                            packet.headers.bth.pad + wire::kIcrcOctets},
                        grh_);
    origin.grh = grh_.data();
  }
  if ((record.head.flags & kRecordAck) != 0 && !deliver_ack(record, packet.headers.bth, origin, receiver))
    return count(kBadHeaders);
  count(kReceived);
  receiver.on_packet(packet, origin);
}

// Delivers it as if it had arrived before, in a packet of its own. False if it is invalid.
bool ShmLink::deliver_ack(const RecordView& record, const wire::Bth& request,
                          const objects::PacketOrigin& origin, Receiver& receiver) {
  const auto syndrome = static_cast<std::uint8_t>(record.ack.aeth >> 24);
  const wire::Transport transport = request.opcode.transport();
  if (record.ack.psn > 0xffffff || !wire::Aeth{.syndrome = syndrome}.is_ack() ||
      transport != wire::Transport::kReliableConnection)
    return false;
  wire::TransportHeaders& ack = riding_.headers;
  ack.bth.opcode = wire::Opcode(transport, wire::Step::kAcknowledge);
  ack.bth.pkey = request.pkey;
  ack.bth.destination = request.destination;
  ack.bth.psn = wire::Psn{record.ack.psn};
  ack.aeth.syndrome = syndrome;
  ack.aeth.msn = record.ack.aeth & 0xffffff;
  receiver.on_packet(riding_, origin);
  return true;
}

std::size_t ShmLink::poll_port(Port& port, Receiver& receiver, std::size_t burst_max) {
  std::size_t done = 0;
  RecordView record;
  while (done < burst_max) {
    const ReadVerdict verdict = port.reader.read(record);
    if (verdict == ReadVerdict::kBroken) {
      hang_up(port, kBadRecord);
      break;
    }
    if (verdict == ReadVerdict::kRecord) {
      ++done;
      deliver(record, port, receiver);
      port.reader.release();
      if (port.reader.has_record()) port.reader.fetch_ahead();
    }
    if (port.reader.writer_waits()) wake(port);
    if (verdict == ReadVerdict::kNothing) break;
  }
  if (done != 0) port.writer.note_answer();
  if (done != 0 && !std::exchange(port.unserved, true)) unserved_.push_back(&port);
  return done;
}

std::size_t ShmLink::poll_hot(Receiver& receiver, std::size_t burst_max) {
  const std::size_t hot = std::min(kHotPorts, ports_.size());
  std::size_t done = 0;
  std::size_t at = next_hot_;
  for (std::size_t i = 0; i < hot && done < burst_max; ++i) {
    Port& port = *ports_[at];
    if (++at >= hot) at = 0;
    if (!port.reader.has_record()) continue;
    done += poll_port(port, receiver, std::min(burst_max - done, kTurnMax));
    next_hot_ = at;
  }
  return done;
}

bool ShmLink::is_quiet() const {
  return !ports_.empty() && ports_.size() <= kHotPorts &&
         std::none_of(ports_.begin(), ports_.end(),
                      [](const auto& port) { return port->reader.has_record(); });
}

// Polls `looks` cold channels. One that has frames swaps places with a hot one.
std::size_t ShmLink::poll_cold(Receiver& receiver, std::size_t burst_max, std::size_t looks) {
  std::size_t done = 0;
  for (std::size_t i = 0; i < looks && done < burst_max; ++i) {
    if (next_cold_ < kHotPorts || next_cold_ >= ports_.size()) next_cold_ = kHotPorts;
    auto& place = ports_[next_cold_++];
    if (!place->reader.has_record()) continue;
    done += poll_port(*place, receiver, std::min(burst_max - done, kTurnMax));
    std::swap(place, ports_[next_demoted_]);
    next_demoted_ = (next_demoted_ + 1) % kHotPorts;
  }
  return done;
}

// With many channels, checking each costs more than a frame. While the hot ones have frames, only a few cold
// ones are checked in each poll. Returns 0 only if all were checked.
std::size_t ShmLink::poll(Receiver& receiver, Instant, std::size_t burst_max) {
  std::size_t done = poll_hot(receiver, burst_max);
  if (ports_.size() > kHotPorts) {
    const std::size_t cold = ports_.size() - kHotPorts;
    done += poll_cold(receiver, std::max<std::size_t>(burst_max - done, 1),
                      done != 0 ? std::min(cold, kHotPorts) : cold);
  }
  return done;
}

}  // namespace rrdma::link
