#include "link/fault_link.h"

#include <algorithm>

namespace rrdma::link {

using objects::Frame;

namespace {

constexpr std::uint8_t kCongestionExperienced = 3;  // both ECN bits

}  // namespace

void FaultCounters::add(const FaultCounters& other) {
  dropped += other.dropped;
  duplicated += other.duplicated;
  reordered += other.reordered;
  corrupted += other.corrupted;
  marked += other.marked;
  delayed += other.delayed;
  too_long += other.too_long;
  blocked += other.blocked;
  spared += other.spared;
}

FaultLink::FaultLink(Link& inner, const FaultSpec& spec, std::uint32_t rule)
    : inner_(&inner), spec_(spec), rule_(rule), prng_(spec.seed), held_(kHeldMax) {
  waiting_.reserve(kHeldMax);
}

void FaultLink::set_spec(const FaultSpec& spec) {
  spec_ = spec;
  prng_ = Prng(spec.seed);
}

Frame* FaultLink::reserve(const objects::Path& path) {
  // A frame and its double may both have to be held.
  if (held_.room() < 2) return nullptr;
  return inner_->reserve(path);
}

// Only what the specification can do is left to chance: to draw costs time that the figures of a bench would tell of.
FaultLink::Fate FaultLink::draw() {
  const auto happens = [&](std::uint32_t ppm) { return ppm != 0 && prng_.chance_ppm(ppm); };
  const auto delay = [&] {
    if (spec_.delay_spread.ns == 0) return spec_.delay;
    const auto spread = static_cast<std::uint64_t>(spec_.delay_spread.ns);
    const auto offset = static_cast<std::int64_t>(prng_.between(0, 2 * spread));
    return Duration{std::max<std::int64_t>(0, spec_.delay.ns - spec_.delay_spread.ns + offset)};
  };
  Fate fate;
  fate.drop = spec_.drop_ppm != 0 && loss_.lose(spec_, prng_);
  fate.duplicate = happens(spec_.duplicate_ppm);
  fate.reorder = happens(spec_.reorder_ppm);
  fate.corrupt = happens(spec_.corrupt_ppm);
  fate.mark = happens(spec_.ecn_ppm);
  if (fate.corrupt) fate.corrupt_bit = static_cast<std::int32_t>(prng_.below(1u << 20));
  if (fate.reorder) fate.overtakers = static_cast<std::uint32_t>(prng_.between(1, overtakers_max()));
  fate.delay = delay();
  if (fate.duplicate) fate.duplicate_delay = delay();
  return fate;
}

void FaultLink::commit(Frame& frame) {
  const Fate fate = draw();
  overtake();
  if (fate.drop) {
    ++tally_.dropped;
    blame(frame, objects::kFaultDrop);
    inner_->lose(frame);
    return;
  }
  if (spec_.mtu != 0 && frame.payload_octets > spec_.mtu) {
    ++tally_.too_long;
    blame(frame, objects::kFaultDrop);
    inner_->lose(frame);
    return;
  }
  if (fate.mark) mark(frame);
  if (fate.corrupt) {
    ++tally_.corrupted;
    frame.corrupt_bit = fate.corrupt_bit;
    blame(frame, objects::kFaultCorrupt);
  }
  const bool delays = spec_.delay.ns != 0 || spec_.delay_spread.ns != 0 || spec_.rate_kbps != 0;
  const bool reorders = fate.reorder && !delays;
  if (!delays && !fate.reorder) {
    pass(frame, fate.duplicate);
    return;
  }
  // Where nobody comes to overtake it, it waits as much less as fewer were to. With a delay, what is reordered waits
  // longer than those behind it can.
  Duration wait = reorders ? kReorderHold * fate.overtakers / overtakers_max() : fate.delay;
  if (fate.reorder && delays) wait = spec_.delay + spec_.delay_spread + fate.delay;
  const std::uint8_t before = frame.faults;
  blame(frame, fate.reorder ? objects::kFaultReorder : objects::kFaultDelay);
  if (!hold(frame, wait, reorders ? fate.overtakers : 0)) {
    ++tally_.spared;
    frame.faults = before;
    pass(frame, fate.duplicate);
    return;
  }
  ++(fate.reorder ? tally_.reordered : tally_.delayed);
  if (fate.duplicate) hold_double(frame, fate.duplicate_delay);
  inner_->cancel(frame);
}

void FaultLink::blame(Frame& frame, std::uint8_t fault) const {
  frame.faults = static_cast<std::uint8_t>(frame.faults | fault);
  frame.fault_rule = rule_;
}

void FaultLink::mark(Frame& frame) {
  if (marked_count_ == marked_paths_.size()) marked_paths_.emplace_back();
  objects::Path& path = marked_paths_[marked_count_++];
  path = *frame.path;
  path.traffic_class |= kCongestionExperienced;
  frame.path = &path;
  blame(frame, objects::kFaultEcn);
  ++tally_.marked;
}

void FaultLink::pass(Frame& frame, bool twice) {
  if (!twice) {
    inner_->commit(frame);
    return;
  }
  copy_frame(frame, spare_);
  inner_->commit(frame);
  if (Frame* second = inner_->reserve(*spare_.path)) {
    copy_frame(spare_, *second);
    second->faults = 0;
    blame(*second, objects::kFaultDuplicate);
    inner_->commit(*second);
    ++tally_.duplicated;
  }
}

void FaultLink::hold_double(Frame& frame, Duration delay) {
  frame.faults = 0;
  blame(frame, objects::kFaultDuplicate);
  if (hold(frame, delay, 0)) ++tally_.duplicated;
}

bool FaultLink::hold(const Frame& frame, Duration delay, std::uint32_t overtakers) {
  const HeldFrames::Held held = held_.hold(frame);
  if (held.verdict != HeldFrames::Verdict::kHeld) return false;
  waiting_.push_back({.frame = held.frame,
                      .due = kNever,
                      .delay = delay,
                      .overtakers = overtakers,
                      .queued = spec_.rate_kbps != 0});
  return true;
}

// One more frame has gone past those that wait to be overtaken.
void FaultLink::overtake() {
  for (Waiting& waiting : waiting_) {
    if (waiting.overtakers == 0) continue;
    if (--waiting.overtakers == 0) {
      waiting.delay = {};
      waiting.dated = false;
    }
  }
}

void FaultLink::date(Instant now) {
  for (Waiting& waiting : waiting_) {
    if (waiting.dated) continue;
    waiting.due = now + waiting.delay;
    waiting.dated = true;
    if (!waiting.queued) continue;
    cable_free_ = std::max(cable_free_, waiting.due) + time_on_cable(*waiting.frame);
    waiting.due = cable_free_;
    waiting.queued = false;  // it has its turn
  }
}

Duration FaultLink::time_on_cable(const Frame& frame) const {
  constexpr std::uint64_t kOuterOctets =
      14 + 20 + 8 + 4 + 4;  // Ethernet, IPv4 and UDP, the ICRC and the frame check sequence
  const std::uint64_t octets = kOuterOctets + frame.header_octets + frame.payload_octets + frame.pad;
  return nanoseconds(static_cast<std::int64_t>(octets * 8 * 1'000'000 / spec_.rate_kbps));
}

void FaultLink::flush(Instant now) {
  last_flush_ = now;
  date(now);
  const std::size_t handed_over = hand_over_due(now);
  inner_->flush(now);
  release(handed_over);
  marked_count_ = 0;
}

// Sorts what is due to the front, earliest first, and gives it to the inner link. Returns how many went.
std::size_t FaultLink::hand_over_due(Instant now) {
  blocked_ = false;
  const auto end =
      std::stable_partition(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.due <= now; });
  std::stable_sort(waiting_.begin(), end, [](const Waiting& a, const Waiting& b) { return a.due < b.due; });
  std::size_t count = 0;
  for (auto waiting = waiting_.begin(); waiting != end; ++waiting, ++count) {
    Frame* const frame = inner_->reserve(*waiting->frame->path);
    if (frame == nullptr) {
      blocked_ = true;
      break;
    }
    copy_frame(*waiting->frame, *frame);
    inner_->commit(*frame);
  }
  return count;
}

void FaultLink::release(std::size_t handed_over) {
  for (std::size_t i = 0; i < handed_over; ++i) held_.release(waiting_[i].frame);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(handed_over));
}

Instant FaultLink::next_deadline() const {
  Instant earliest = inner_->next_deadline();
  for (const Waiting& waiting : waiting_) {
    const Instant due = waiting.dated ? waiting.due : last_flush_;
    earliest = std::min(earliest, blocked_ ? std::max(due, last_flush_ + kRoomRetry) : due);
  }
  return earliest;
}

std::span<const LinkCounter> FaultLink::counters() {
  published_.clear();
  published_.push_back({"faults_dropped", tally_.dropped});
  published_.push_back({"faults_duplicated", tally_.duplicated});
  published_.push_back({"faults_reordered", tally_.reordered});
  published_.push_back({"faults_corrupted", tally_.corrupted});
  published_.push_back({"faults_marked", tally_.marked});
  published_.push_back({"faults_delayed", tally_.delayed});
  published_.push_back({"faults_too_long", tally_.too_long});
  published_.push_back({"faults_spared", tally_.spared});
  const auto inner = inner_->counters();
  published_.insert(published_.end(), inner.begin(), inner.end());
  return published_;
}

}  // namespace rrdma::link
