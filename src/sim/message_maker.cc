#include "sim/message_maker.h"

#include <algorithm>

#include "sim/engine_call.h"
#include "sim/exchange.h"

namespace rrdma::sim {

using objects::SendEntry;
using objects::SendOpcode;
using objects::Status;
using transport::QpType;

namespace {

constexpr std::uint32_t kFlippedKeyBits = 0x00ffff00;

}  // namespace

MessageMaker::MessageMaker(Endpoint& endpoint, Instant now)
    : endpoint_(endpoint),
      plan_(endpoint.plan_),
      site_(endpoint.site_),
      exchange_(endpoint.exchange_),
      prng_(endpoint.exchange_.prng()),
      now_(now) {}

std::uint32_t MessageMaker::pick_length() {
  const std::uint32_t low = plan_.octets_min;
  const std::uint32_t high = plan_.octets_max;
  const std::uint32_t mtu = transport::mtu_octets(plan_.mtu_code);
  std::uint64_t length = 0;
  switch (prng_.below(8)) {
    case 0: length = prng_.below(65); break;
    case 1: length = prng_.below(high / mtu + 1) * mtu; break;
    case 2: length = prng_.below(high / mtu + 1) * mtu + 1; break;
    case 3: length = prng_.between(1, high / mtu + 1) * mtu - 1; break;
    case 4: length = 0; break;
    default: length = prng_.between(low, high); break;
  }
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(length, low, high));
}

Message& MessageMaker::start(SendOpcode opcode, std::uint32_t length) {
  Message& message = exchange_.new_message();
  message.opcode = opcode;
  message.length = length;
  message.from = &endpoint_;
  message.posted = now_;
  entry_ = SendEntry();
  entry_.wr_id = message.id;
  entry_.opcode = opcode;
  list_ = {};
  return message;
}

bool MessageMaker::take_local(Message& message, std::uint32_t pool, std::uint32_t length) {
  message.local = site_.arena.take(pool);
  if (message.local == nullptr) return false;
  const Layout layout =
      cut(prng_, length, message.local->size, std::min<std::uint32_t>(plan_.sges, kPiecesMax));
  message.carried.layout = message.answer.layout = layout;
  return true;
}

bool MessageMaker::carry(Message& message) {
  if (!take_local(message, site_.sources, message.length)) return false;
  message.carried.id = message.id;
  message.carried.length = message.length;
  site_.arena.write(*message.local, message.carried);
  list_ = site_.sges(*message.local, message.carried.layout, site_.local_region->key, sges_);
  const bool fits = message.length <= plan_.inline_octets;
  if (fits && prng_.chance_ppm(plan_.inline_ppm)) {
    message.flags |= objects::kSendInline;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const std::uint8_t* octets =
          site_.arena.host(message.local->at + message.carried.layout.pieces[i].offset);
      sges_[i].address = reinterpret_cast<std::uintptr_t>(octets);
    }
  }
  return true;
}

// Reserves a range of the peer's target region exclusively.
bool MessageMaker::aim(Message& message, std::uint32_t alignment) {
  Endpoint& peer = *endpoint_.peer;
  Endpoint::Window& window = peer.window_;
  Site& there = peer.site_;
  if (window.state == Endpoint::Window::State::kBound && window.uses == 0 &&
      message.opcode != SendOpcode::kFlush && prng_.below(3) == 0) {
    message.target = window.slot;
    message.through_window = message.keeps_target = true;
    window.uses = 1;
    entry_.rkey = wire::RKey{window.key};
  } else {
    message.target = there.arena.take(there.targets);
    if (message.target == nullptr) return false;
    entry_.rkey = wire::RKey{there.target_region->key};
  }
  std::uint32_t offset = static_cast<std::uint32_t>(prng_.below(message.target->size - message.length + 1));
  offset = offset / alignment * alignment;
  message.target_content.layout.count = 1;
  message.target_content.layout.pieces[0] = {offset, message.length};
  entry_.remote_address = there.arena.address(message.target->at + offset);
  if (message.through_window && window.zero_based) entry_.remote_address = offset;
  return true;
}

void MessageMaker::give_up(Message& message) {
  if (message.local != nullptr) {
    site_.arena.refill(*message.local);
    site_.arena.give_back(*message.local);
    message.local = nullptr;
  }
  if (message.target != nullptr && !message.through_window) {
    endpoint_.peer->site_.arena.give_back(*message.target);
  }
  if (message.through_window) endpoint_.peer->window_.uses = 0;
  message.target = nullptr;
}

bool MessageMaker::post(Message& message) {
  if (prng_.chance_ppm(plan_.fence_ppm)) message.flags |= objects::kSendFence;
  if (message.takes_receive && prng_.below(3) == 0) message.flags |= objects::kSendSolicited;
  const bool last = endpoint_.budget_ <= 1 || endpoint_.unsignaled_ + 1 >= plan_.send_entries / 2;
  const bool quiet = !last && prng_.chance_ppm(plan_.unsignaled_ppm);
  if (!quiet) message.flags |= objects::kSendSignaled;
  message.signaled = !quiet || plan_.signal_all;
  endpoint_.unsignaled_ = message.signaled ? 0 : endpoint_.unsignaled_ + 1;
  entry_.flags = message.flags;
  transport::PostError error;
  {
    EngineCall guard;
    error = site_.host.engine.post_send(*endpoint_.qp_, {entry_, list_}, now_);
  }
  if (error != transport::PostError::kNone) {
    endpoint_.violate("post_send was refused: " + std::string(transport::describe(error)), &message);
    return false;
  }
  if (message.provocation != Provocation::kNone) endpoint_.connection_.error_excused = true;
  if ((message.flags & objects::kSendInline) != 0) {  // copied when posted: the source may change at once
    site_.arena.refill(*message.local);
    site_.arena.give_back(*message.local);
    message.local = nullptr;
  }
  endpoint_.outstanding_.push_back(&message);
  if (message.takes_receive) endpoint_.peer->incoming_.push_back(&message);
  if (endpoint_.budget_ != 0) --endpoint_.budget_;
  ++exchange_.count().messages_posted;
  site_.host.transmit_posted(*endpoint_.qp_, now_);
  return true;
}

bool MessageMaker::make(Operation operation, bool provoke) {
  if (plan_.type == QpType::kUd) return make_datagram(operation, provoke);
  const bool answered = operation >= Operation::kRead && operation != Operation::kLocalInvalidate &&
                        operation != Operation::kBindWindow;
  if (answered && plan_.max_reads == 0 && !provoke) operation = Operation::kSend;
  if (provoke && plan_.type == QpType::kRc)
    return plan_.max_reads == 0 && prng_.below(2) == 0 ? make_read() : make_wrong();
  switch (operation) {
    case Operation::kSend: return make_send(SendOpcode::kSend, provoke);
    case Operation::kSendImmediate: return make_send(SendOpcode::kSendImmediate, provoke);
    case Operation::kSendInvalidate: return make_invalidate();
    case Operation::kWrite: return make_write(SendOpcode::kWrite, provoke);
    case Operation::kWriteImmediate: return make_write(SendOpcode::kWriteImmediate, provoke);
    case Operation::kRead: return make_read();
    case Operation::kCompareSwap: return make_atomic(SendOpcode::kCompareSwap);
    case Operation::kFetchAdd: return make_atomic(SendOpcode::kFetchAdd);
    case Operation::kFlush: return make_flush();
    case Operation::kAtomicWrite: return make_write(SendOpcode::kAtomicWrite, false);
    case Operation::kLocalInvalidate: return make_local_invalidate();
    case Operation::kBindWindow: return make_bind();
    case Operation::kWriteReadBack: return make_write_read_back();
    case Operation::kReadThenWrite: return make_read_then_write();
    case Operation::kReadThenSend: return make_read_then_send();
  }
  return false;
}

bool MessageMaker::make_send(SendOpcode opcode, bool bad_key) {
  Message& message = start(opcode, std::max(pick_length(), bad_key ? 1u : 0u));
  message.takes_receive = true;
  if (!carry(message)) return false;
  if (opcode == SendOpcode::kSendImmediate)
    entry_.immediate_or_key = message.immediate = static_cast<std::uint32_t>(prng_.next());
  if (bad_key) spoil_local(message);
  return post(message);
}

void MessageMaker::spoil_local(Message& message) {
  if ((message.flags & objects::kSendInline) != 0) return;
  message.provocation = Provocation::kUnknownLocalKey;
  message.expected = Status::kLocalProtectionError;
  // Spoil the last non-empty piece: the pieces before it may be sent.
  for (std::size_t i = list_.size(); i-- > 0;) {
    if (sges_[i].length == 0) continue;
    sges_[i].lkey.value ^= kFlippedKeyBits;
    return;
  }
}

bool MessageMaker::make_invalidate() {
  Endpoint::Window& window = endpoint_.peer->window_;
  if (window.state != Endpoint::Window::State::kBound || window.uses != 0)
    return make_send(SendOpcode::kSend, false);
  Message& message = start(SendOpcode::kSendInvalidate, pick_length());
  message.takes_receive = true;
  if (!carry(message)) return false;
  entry_.immediate_or_key = message.immediate = window.key;
  window.state = Endpoint::Window::State::kInvalidating;
  return post(message);
}

bool MessageMaker::make_write(SendOpcode opcode, bool bad_key) {
  const bool atomic = opcode == SendOpcode::kAtomicWrite;
  Message& message = start(opcode, atomic ? 8 : std::max(pick_length(), bad_key ? 1u : 0u));
  message.takes_receive = opcode == SendOpcode::kWriteImmediate;
  if (plan_.type == QpType::kUc) return make_unreliable_write(message, bad_key);
  if (!carry(message)) return false;
  if (!aim(message, atomic ? 8 : 1)) {
    give_up(message);
    return false;
  }
  message.target_content.id = message.id;
  message.target_content.length = message.length;
  if (message.takes_receive)
    entry_.immediate_or_key = message.immediate = static_cast<std::uint32_t>(prng_.next());
  return post(message);
}

// A write on an unreliable connection may arrive in part, late or twice. So a target rests for a packet
// lifetime before it is used again.
bool MessageMaker::make_unreliable_write(Message& message, bool bad_key) {
  constexpr std::size_t kTargets = 4;
  auto& targets = endpoint_.unreliable_targets_;
  Site& there = endpoint_.peer->site_;
  if (targets.size() < kTargets) {
    if (Slot* slot = there.arena.take(there.targets); slot != nullptr)
      targets.push_back({slot, {}, Instant{} - seconds(1)});
  }
  const auto rested = std::find_if(targets.begin(), targets.end(), [&](const Endpoint::Target& target) {
    return target.used != kNever && now_ - target.used > exchange_.plan().packet_lifetime;
  });
  if (rested == targets.end()) return make_send(SendOpcode::kSend, false);
  if (!carry(message)) return false;
  if (std::string wrong = there.arena.check_partial(*rested->slot, rested->content); !wrong.empty()) {
    endpoint_.violate(wrong);
    return false;
  }
  there.arena.refill(*rested->slot);
  message.target = rested->slot;
  message.keeps_target = true;
  const auto offset = static_cast<std::uint32_t>(prng_.below(rested->slot->size - message.length + 1));
  message.target_content.layout.count = 1;
  message.target_content.layout.pieces[0] = {offset, message.length};
  message.target_content.id = message.id;
  message.target_content.length = message.length;
  entry_.rkey = wire::RKey{there.target_region->key};
  entry_.remote_address = there.arena.address(message.target->at + offset);
  if (message.takes_receive)
    entry_.immediate_or_key = message.immediate = static_cast<std::uint32_t>(prng_.next());
  if (bad_key) {  // the responder drops it silently
    entry_.rkey.value ^= kFlippedKeyBits;
    message.takes_receive = false;
    message.target_content.length = 0;
    message.target_content.layout.pieces[0].length = 0;
    message.provocation = Provocation::kUnknownRemoteKey;
  }
  rested->content = message.target_content;
  rested->used = kNever;
  return post(message);
}

bool MessageMaker::make_read() {
  Message& message = start(SendOpcode::kRead, pick_length());
  if (!aim_read(message)) return false;
  return post(message);
}

bool MessageMaker::aim_read(Message& message) {
  if (!take_local(message, site_.sinks, message.length)) return false;
  if (!aim(message, 1)) {
    give_up(message);
    return false;
  }
  message.answer.id = message.target->fill_id;
  message.answer.length = message.length;
  message.answer.skip = message.target_content.layout.pieces[0].offset;
  list_ = site_.sges(*message.local, message.answer.layout, site_.local_region->key, sges_);
  if (plan_.max_reads == 0) {
    message.provocation = Provocation::kReadNotAllowed;
    message.expected = Status::kLocalQpOperationError;
  }
  return true;
}

bool MessageMaker::make_atomic(SendOpcode opcode) {
  Site& there = endpoint_.peer->site_;
  const auto word = static_cast<std::uint32_t>(prng_.below(there.words.size()));
  if (!there.words[word].history.usable()) return make_read();
  Message& message = start(opcode, 8);
  if (!take_local(message, site_.sinks, 8)) return false;
  list_ = site_.sges(*message.local, message.answer.layout, site_.local_region->key, sges_);
  message.word = word;
  message.call.swap = opcode == SendOpcode::kCompareSwap;
  message.call.posted = now_;
  message.call.compare_add = prng_.next() | 1;
  message.call.swap_value = prng_.next();
  if (message.call.swap && prng_.below(4) != 0)
    message.call.compare_add = there.word_value(there.words[word]);
  entry_.rkey = wire::RKey{there.word_region->key};
  entry_.remote_address = there.arena.address(there.words[word].at);
  entry_.atomic.compare_add = message.call.compare_add;
  entry_.atomic.swap = message.call.swap_value;
  return post(message);
}

bool MessageMaker::make_flush() {
  Message& message = start(SendOpcode::kFlush, pick_length());
  if (!aim(message, 1)) return false;
  entry_.length = message.length;
  entry_.flush.placement = static_cast<std::uint8_t>(prng_.between(1, 3));
  entry_.flush.selectivity = static_cast<std::uint8_t>(prng_.below(2));
  return post(message);
}

bool MessageMaker::make_local_invalidate() {
  Endpoint::Window& window = endpoint_.window_;
  if (window.state != Endpoint::Window::State::kBound || window.uses != 0) return make_bind();
  Message& message = start(SendOpcode::kLocalInvalidate, 0);
  entry_.immediate_or_key = window.key;
  window.state = Endpoint::Window::State::kInvalidating;
  return post(message);
}

bool MessageMaker::make_bind() {
  Endpoint::Window& window = endpoint_.window_;
  if (window.window == nullptr || window.state != Endpoint::Window::State::kIdle)
    return make_send(SendOpcode::kSend, false);
  window.slot = site_.arena.take(site_.targets);
  if (window.slot == nullptr) return false;
  Message& message = start(SendOpcode::kBindWindow, 0);
  window.stale_key = window.window->key;
  window.key = objects::MemoryTable::next_variant(window.window->key);
  window.zero_based = prng_.below(2) == 0;
  window.state = Endpoint::Window::State::kBinding;
  entry_.bind = {
      window.window, site_.target_region, site_.arena.address(window.slot->at), window.slot->size,
      objects::kRemoteRead | objects::kRemoteWrite | (window.zero_based ? objects::kZeroBased : 0u)};
  entry_.rkey = wire::RKey{window.key};
  return post(message);
}

bool MessageMaker::make_write_read_back() {
  Message& write = start(SendOpcode::kWrite, pick_length());
  if (!carry(write)) return false;
  if (!aim(write, 1)) {
    give_up(write);
    return false;
  }
  Message& read = exchange_.new_message();
  read.opcode = SendOpcode::kRead;
  read.length = write.length;
  read.from = &endpoint_;
  read.posted = now_;
  if (!take_local(read, site_.sinks, read.length)) {
    give_up(write);
    return false;
  }
  write.target_content.id = write.id;
  write.target_content.length = write.length;
  read.target = write.target;
  read.target_content = write.target_content;
  read.keeps_target = write.keeps_target;
  read.through_window = write.through_window;
  write.through_window = false;  // the READ ends the use of the window
  write.keeps_target = true;
  read.answer.id = write.id;
  read.answer.length = read.length;
  if (!post(write)) return false;
  const SendEntry first = entry_;
  entry_ = SendEntry();
  entry_.wr_id = read.id;
  entry_.opcode = SendOpcode::kRead;
  entry_.rkey = first.rkey;
  entry_.remote_address = first.remote_address;
  list_ = site_.sges(*read.local, read.answer.layout, site_.local_region->key, sges_);
  return post(read);
}

bool MessageMaker::make_read_then_write() {
  Message& read = start(SendOpcode::kRead, pick_length());
  if (!aim_read(read)) return false;
  const SendEntry read_entry = entry_;
  const auto read_sges = sges_;
  const std::size_t read_count = list_.size();
  Message& write = start(SendOpcode::kWrite, read.length);
  if (!carry(write)) {
    give_up(read);
    return false;
  }
  const SendEntry write_entry = entry_;
  const auto write_sges = sges_;
  const std::size_t write_count = list_.size();
  write.target = read.target;
  write.target_content = read.target_content;
  write.target_content.id = write.id;
  write.target_content.length = write.length;
  write.keeps_target = read.keeps_target;
  write.through_window = read.through_window;
  read.keeps_target = true;
  read.through_window = false;
  read.target_overwritten = true;

  entry_ = read_entry;
  sges_ = read_sges;
  list_ = {sges_.data(), read_count};
  if (!post(read)) return false;
  entry_ = write_entry;
  entry_.rkey = read_entry.rkey;
  entry_.remote_address = read_entry.remote_address;
  sges_ = write_sges;
  list_ = {sges_.data(), write_count};
  write.flags |= objects::kSendFence;
  return post(write);
}

bool MessageMaker::make_read_then_send() {
  Message& read = start(SendOpcode::kRead, pick_length());
  if (!aim_read(read)) return false;
  read.keeps_local = true;
  if (!post(read)) return false;
  const auto sges = sges_;
  const std::size_t count = list_.size();
  Message& send = start(SendOpcode::kSend, read.length);
  send.takes_receive = true;
  send.local = read.local;
  send.carried = read.answer;
  send.flags |= objects::kSendFence;
  sges_ = sges;
  list_ = {sges_.data(), count};
  return post(send);
}

namespace {

SendOpcode opcode_that_provokes(Provocation kind) {
  switch (kind) {
    case Provocation::kMisalignedAtomic: return SendOpcode::kFetchAdd;
    case Provocation::kBadReadSink: return SendOpcode::kRead;
    case Provocation::kBadInvalidate: return SendOpcode::kSendInvalidate;
    case Provocation::kBadBind: return SendOpcode::kBindWindow;
    default: return SendOpcode::kWrite;
  }
}

}  // namespace

// Makes a request that must fail, in one of the ways in which a request can be wrong.
bool MessageMaker::make_wrong() {
  static constexpr Provocation kKinds[] = {Provocation::kUnknownRemoteKey, Provocation::kOtherDomainKey,
                                           Provocation::kBeyondRegion,     Provocation::kNoRights,
                                           Provocation::kMisalignedAtomic, Provocation::kUnknownLocalKey,
                                           Provocation::kBadReadSink,      Provocation::kStaleWindow,
                                           Provocation::kBadInvalidate,    Provocation::kBadBind};
  const Provocation kind = kKinds[prng_.below(std::size(kKinds))];
  if (kind == Provocation::kUnknownLocalKey) return make_send(SendOpcode::kSend, true);

  const bool atomic = kind == Provocation::kMisalignedAtomic;
  const bool sink = kind == Provocation::kBadReadSink || atomic;
  const SendOpcode opcode = opcode_that_provokes(kind);
  if (kind == Provocation::kBadBind && endpoint_.window_.window == nullptr)
    return make_send(SendOpcode::kSend, true);
  const bool small = kind == Provocation::kOtherDomainKey || kind == Provocation::kNoRights;
  std::uint32_t length = atomic ? 8 : std::max(pick_length(), 1u);
  if (small) length = std::min(length, 512u);
  if (sink && plan_.max_reads == 0) return make_send(SendOpcode::kSend, true);
  Message& message = start(opcode, opcode == SendOpcode::kBindWindow ? 0 : length);
  message.provocation = kind;
  message.expected = atomic ? Status::kRemoteInvalidRequest : Status::kRemoteAccessError;
  if (sink) {
    if (!take_local(message, site_.sinks, length)) return false;
    list_ = site_.sges(*message.local, message.answer.layout, site_.local_region->key, sges_);
  } else if (opcode != SendOpcode::kBindWindow && !carry(message)) {
    return false;
  }
  spoil(message);
  return post(message);
}

// Inserts the mistake into an otherwise correct request.
void MessageMaker::spoil(Message& message) {
  Endpoint& peer = *endpoint_.peer;
  Site& there = peer.site_;
  entry_.rkey = wire::RKey{there.target_region->key};
  entry_.remote_address = there.arena.address(there.arena.pool_begin(there.targets));
  switch (message.provocation) {
    case Provocation::kUnknownRemoteKey: entry_.rkey.value ^= kFlippedKeyBits; break;
    case Provocation::kOtherDomainKey:
      entry_.rkey = wire::RKey{there.foreign_region->key};
      entry_.remote_address = there.foreign_region->address;
      break;
    case Provocation::kBeyondRegion:
      entry_.remote_address =
          there.target_region->address + there.target_region->length - prng_.below(message.length);
      break;
    case Provocation::kNoRights:
      entry_.rkey = wire::RKey{there.read_only_region->key};
      entry_.remote_address = there.read_only_region->address;
      break;
    case Provocation::kMisalignedAtomic:
      entry_.rkey = wire::RKey{there.word_region->key};
      entry_.remote_address = there.word_region->address + prng_.between(1, 7);
      entry_.atomic.compare_add = 1;
      break;
    case Provocation::kBadReadSink:
      message.expected = Status::kLocalProtectionError;
      for (std::size_t i = 0; i < list_.size(); ++i) sges_[i].lkey.value ^= kFlippedKeyBits;
      break;
    case Provocation::kStaleWindow:
      entry_.rkey = wire::RKey{peer.window_.stale_key ^ (peer.window_.window == nullptr ? 1u : 0u)};
      break;
    case Provocation::kBadInvalidate:
      message.takes_receive = true;
      message.expected = Status::kSuccess;
      entry_.immediate_or_key = there.target_region->key;  // a region cannot be invalidated this way
      break;
    default:
      message.expected = Status::kWindowBindError;
      entry_.bind = {endpoint_.window_.window, site_.target_region, site_.target_region->address + 1,
                     site_.target_region->length, objects::kRemoteRead};
      entry_.rkey = wire::RKey{objects::MemoryTable::next_variant(endpoint_.window_.window->key)};
      break;
  }
}

bool MessageMaker::make_datagram(Operation operation, bool provoke) {
  Endpoint* to = exchange_.random_datagram_peer(endpoint_);
  if (to == nullptr) return false;
  endpoint_.peer = to;
  const bool immediate = operation == Operation::kSendImmediate;
  Message& message = start(immediate ? SendOpcode::kSendImmediate : SendOpcode::kSend, pick_length());
  message.takes_receive = true;
  if (!carry(message)) return false;
  if (immediate) entry_.immediate_or_key = message.immediate = static_cast<std::uint32_t>(prng_.next());
  entry_.datagram.handle = &endpoint_.handle_to(*to);
  entry_.datagram.qkey = 0x11223344;
  entry_.datagram.remote_qpn = to->qpn_.value;
  if (provoke && prng_.below(2) == 0 && message.length != 0) {
    spoil_local(message);
  } else if (provoke) {  // a wrong Q_Key: dropped silently
    entry_.datagram.qkey ^= 1;
    message.takes_receive = false;
    message.provocation = Provocation::kUnknownRemoteKey;
  }
  return post(message);
}

}  // namespace rrdma::sim
