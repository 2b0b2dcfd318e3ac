#include "link/arrival_faults.h"

#include <algorithm>
#include <cstring>

namespace rrdma::link {
std::uint8_t ArrivalFaults::loss_of(const FaultDice::Fate& fate, const wire::TransportPacket& packet) {
  const std::uint32_t mtu = dice_.spec().mtu;
  if (fate.drop) {
    ++tally_.dropped;
    return objects::kFaultDrop;
  }
  if (mtu != 0 && packet.payload.size() > mtu) {
    ++tally_.too_long;
    return objects::kFaultDrop;
  }
  if (!fate.corrupt) return 0;
  ++tally_.corrupted;
  return objects::kFaultCorrupt;
}

std::uint8_t ArrivalFaults::take(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                                 Receiver& receiver, Instant now) {
  const FaultDice::Fate fate = dice_.roll();
  overtake(now);
  if (const std::uint8_t loss = loss_of(fate, packet); loss != 0) return loss;
  std::uint8_t done = 0;
  const auto blame = [&](objects::InjectedFault fault) { done = static_cast<std::uint8_t>(done | fault); };
  objects::PacketOrigin from = origin;
  if (fate.mark) {
    from.ecn_marked = true;
    from.traffic_class |= kCongestionExperienced;
    ++tally_.marked;
    blame(objects::kFaultEcn);
  }
  if (fate.duplicate) blame(objects::kFaultDuplicate);
  const auto due_after = [&](Duration wait) {
    Instant due = now + wait;
    if (dice_.spec().rate_kbps != 0) {
      const std::size_t octets = wire::shape_of(packet.headers.bth.opcode).header_octets +
                                 packet.payload.size() + wire::pad_for(packet.payload.size());
      due = cable_free_ = std::max(cable_free_, due) + time_on_cable(dice_.spec(), octets);
    }
    return due;
  };
  const bool waits = dice_.delays() || fate.reorder;
  const std::uint32_t overtakers = fate.reorder && !dice_.delays() ? fate.overtakers : 0;
  if (waits && hold(packet, from, due_after(dice_.wait_of(fate)), overtakers)) {
    ++(fate.reorder ? tally_.reordered : tally_.delayed);
    blame(fate.reorder ? objects::kFaultReorder : objects::kFaultDelay);
    if (fate.duplicate && hold(packet, from, due_after(fate.duplicate_delay), 0)) ++tally_.duplicated;
    return done;
  }
  if (waits && packet.payload.size() <= kHeldPayloadOctetsMax) {  // the queue is full
    ++tally_.dropped;
    return objects::kFaultDrop;
  }
  if (waits) ++tally_.spared;
  receiver.on_packet(packet, from);
  if (fate.duplicate) {
    ++tally_.duplicated;
    receiver.on_packet(packet, from);
  }
  return done;
}

// One more packet has passed those that wait to be overtaken.
void ArrivalFaults::overtake(Instant now) {
  for (Waiting& waiting : waiting_) {
    if (waiting.overtakers != 0 && --waiting.overtakers == 0) waiting.due = now;
  }
}

void ArrivalFaults::give_memory() {
  slots_.resize(kHeldMax);
  payloads_.reset(new std::uint8_t[kHeldMax * kHeldPayloadOctetsMax]);
  waiting_.reserve(kHeldMax);
  due_.reserve(kHeldMax);
  free_.reserve(kHeldMax);
  for (std::size_t i = kHeldMax; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
}

bool ArrivalFaults::hold(const wire::TransportPacket& packet, const objects::PacketOrigin& origin,
                         Instant due, std::uint32_t overtakers) {
  if (slots_.empty()) give_memory();
  if (free_.empty() || packet.payload.size() > kHeldPayloadOctetsMax) return false;
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.headers = packet.headers;
  slot.origin = origin;
  slot.payload_octets = packet.payload.size();
  slot.has_grh = origin.grh != nullptr;
  if (slot.has_grh) std::memcpy(slot.grh.data(), origin.grh, slot.grh.size());
  if (!packet.payload.empty())
    std::memcpy(payloads_.get() + index * kHeldPayloadOctetsMax, packet.payload.data(),
                packet.payload.size());
  waiting_.push_back({.slot = index, .due = due, .overtakers = overtakers});
  return true;
}

std::size_t ArrivalFaults::release(Receiver& receiver, Instant now) {
  if (waiting_.empty()) return 0;
  due_.clear();
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.due > now) return false;
    due_.push_back(waiting);
    return true;
  });
  std::stable_sort(due_.begin(), due_.end(),
                   [](const Waiting& a, const Waiting& b) { return a.due < b.due; });
  for (const Waiting& waiting : due_) {
    Slot& slot = slots_[waiting.slot];
    slot.origin.grh = slot.has_grh ? slot.grh.data() : nullptr;
    const std::uint8_t* const payload = payloads_.get() + waiting.slot * kHeldPayloadOctetsMax;
    receiver.on_packet({.headers = slot.headers, .payload = Octets(payload, slot.payload_octets)},
                       slot.origin);
    free_.push_back(waiting.slot);
  }
  return due_.size();
}

Instant ArrivalFaults::next_deadline() const {
  Instant earliest = kNever;
  for (const Waiting& waiting : waiting_) earliest = std::min(earliest, waiting.due);
  return earliest;
}

}  // namespace rrdma::link
