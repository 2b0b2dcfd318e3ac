#include "link/fault_gate.h"

#include <algorithm>

namespace rrdma::link {

bool FaultScope::covers(const wire::Gid& local, const wire::Gid& peer) const {
  const bool ours = locals.empty() || std::find(locals.begin(), locals.end(), local) != locals.end();
  return ours && (remotes.empty() || std::find(remotes.begin(), remotes.end(), peer) != remotes.end());
}

FaultGate::FaultGate(Link& inner, const std::vector<FaultScope>& scopes, const FaultCounters& past)
    : inner_(&inner), past_(past) {
  for (const FaultScope& wanted : scopes) {
    scopes_.push_back(
        {.wanted = wanted,
         .faults = wanted.blocked ? nullptr : std::make_unique<FaultLink>(inner, wanted.spec, wanted.number),
         .arrivals = ArrivalFaults(wanted.spec)});
  }
}

FaultGate::Scope* FaultGate::scope_of(const wire::Gid& local, const wire::Gid& remote,
                                      bool FaultScope::*direction) {
  const auto found = std::find_if(scopes_.begin(), scopes_.end(), [&](const Scope& scope) {
    return scope.wanted.*direction && scope.wanted.covers(local, remote);
  });
  return found != scopes_.end() ? &*found : nullptr;
}

objects::Frame* FaultGate::reserve(const objects::Path& path) {
  Scope* const scope = scope_of(path.local, path.remote, &FaultScope::outbound);
  blocking_ = scope != nullptr && scope->wanted.blocked ? scope : nullptr;
  current_ = scope != nullptr && scope->faults != nullptr ? scope->faults.get() : inner_;
  return current_->reserve(path);
}

void FaultGate::commit(objects::Frame& frame) {
  if (blocking_ == nullptr) return current_->commit(frame);
  ++blocking_->blocked;
  frame.faults = objects::kFaultBlock;
  frame.fault_rule = blocking_->wanted.number;
  current_->lose(frame);
}

void FaultGate::set_inner(Link& inner) {
  inner_ = &inner;
  current_ = nullptr;
  for (const Scope& scope : scopes_) {
    if (scope.faults != nullptr) scope.faults->set_inner(inner);
  }
}

void FaultGate::flush(Instant now) {
  for (const Scope& scope : scopes_) {
    if (scope.faults != nullptr) scope.faults->flush(now);
  }
  inner_->flush(now);
}

std::size_t FaultGate::poll(Receiver& receiver, Instant now, std::size_t burst_max) {
  receiver_ = &receiver;
  now_ = now;
  std::size_t count = inner_->poll(*this, now, burst_max);
  for (Scope& scope : scopes_) count += scope.arrivals.release(receiver, now);
  return count;
}

void FaultGate::on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
  Scope* const scope = scope_of(origin.destination, origin.source, &FaultScope::inbound);
  if (scope == nullptr) return receiver_->on_packet(packet, origin);
  if (scope->wanted.blocked) {
    ++scope->blocked;
    inner_->note_faults(scope->wanted.number, objects::kFaultBlock);
    return;
  }
  const std::uint8_t faults = scope->arrivals.take(packet, origin, *receiver_, now_);
  if (faults != 0) inner_->note_faults(scope->wanted.number, faults);
}

Instant FaultGate::next_deadline() const {
  Instant earliest = inner_->next_deadline();
  for (const Scope& scope : scopes_) {
    earliest = std::min(earliest, scope.arrivals.next_deadline());
    if (scope.faults != nullptr) earliest = std::min(earliest, scope.faults->next_deadline());
  }
  return earliest;
}

FaultCounters FaultGate::tally() const {
  FaultCounters sum = past_;
  for (const Scope& scope : scopes_) {
    sum.blocked += scope.blocked;
    sum.add(scope.arrivals.tally());
    if (scope.faults != nullptr) sum.add(scope.faults->tally());
  }
  return sum;
}

// The counters of the link itself, then the totals of all faults.
std::span<const LinkCounter> FaultGate::counters() {
  const std::span<const LinkCounter> own = inner_->counters();
  published_.assign(own.begin(), own.end());
  const FaultCounters sum = tally();
  for (const LinkCounter& counter :
       {LinkCounter{"faults_blocked", sum.blocked}, LinkCounter{"faults_dropped", sum.dropped},
        LinkCounter{"faults_duplicated", sum.duplicated}, LinkCounter{"faults_reordered", sum.reordered},
        LinkCounter{"faults_corrupted", sum.corrupted}, LinkCounter{"faults_marked", sum.marked},
        LinkCounter{"faults_delayed", sum.delayed}, LinkCounter{"faults_too_long", sum.too_long}})
    published_.push_back(counter);
  return published_;
}

}  // namespace rrdma::link
