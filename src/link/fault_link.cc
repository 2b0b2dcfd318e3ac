#include "link/fault_link.h"

#include <algorithm>

namespace rrdma::link {

using objects::Frame;

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
    : inner_(&inner), dice_(spec), rule_(rule), held_(kHeldMax) {
  waiting_.reserve(kHeldMax);
}

Frame* FaultLink::reserve(const objects::Path& path) {
  // A frame and its duplicate may both have to be held.
  if (held_.room() < 2) return nullptr;
  return inner_->reserve(path);
}

void FaultLink::commit(Frame& frame) {
  const bool overtaken = overtake();
  decide(frame);
  if (overtaken) hand_over_overtaken();
}

void FaultLink::decide(Frame& frame) {
  const FaultDice::Fate fate = dice_.roll();
  if (fate.drop) {
    ++tally_.dropped;
    blame(frame, objects::kFaultDrop);
    inner_->lose(frame);
    return;
  }
  if (spec().mtu != 0 && frame.payload_octets > spec().mtu) {
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
  const bool delays = dice_.delays();
  const bool reorders = fate.reorder && !delays;
  if (!delays && !fate.reorder) {
    pass(frame, fate.duplicate);
    return;
  }
  const std::uint8_t before = frame.faults;
  blame(frame, fate.reorder ? objects::kFaultReorder : objects::kFaultDelay);
  if (!hold(frame, dice_.wait_of(fate), reorders ? fate.overtakers : 0)) {
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
                      .queued = spec().rate_kbps != 0});
  return true;
}

// One more frame passes those that wait to be overtaken. True if it is the last for one of them.
bool FaultLink::overtake() {
  bool last = false;
  for (Waiting& waiting : waiting_) {
    if (waiting.overtakers == 0) continue;
    if (--waiting.overtakers == 0) {
      waiting.delay = {};
      waiting.dated = false;
      waiting.overtaken = last = true;
    }
  }
  return last;
}

// Sends overtaken frames at once, not with the next flush: no more frames than intended may overtake them. A
// frame that finds no room goes with the flush.
void FaultLink::hand_over_overtaken() {
  for (Waiting& waiting : waiting_) {
    if (!waiting.overtaken) continue;
    waiting.overtaken = false;
    waiting.handed_over = hand_over(waiting);
  }
}

bool FaultLink::hand_over(const Waiting& waiting) {
  Frame* const frame = inner_->reserve(*waiting.frame->path);
  if (frame == nullptr) return false;
  copy_frame(*waiting.frame, *frame);
  inner_->commit(*frame);
  return true;
}

void FaultLink::date(Instant now) {
  for (Waiting& waiting : waiting_) {
    if (waiting.dated) continue;
    waiting.due = now + waiting.delay;
    waiting.dated = true;
    if (!waiting.queued) continue;
    const Frame& frame = *waiting.frame;
    const std::size_t octets = frame.header_octets + frame.payload_octets + frame.pad;
    cable_free_ = std::max(cable_free_, waiting.due) + time_on_cable(spec(), octets);
    waiting.due = cable_free_;
    waiting.queued = false;  // it has its place in the queue
  }
}

void FaultLink::flush(Instant now) {
  last_flush_ = now;
  date(now);
  const std::size_t handed_over = hand_over_due(now);
  inner_->flush(now);
  release(handed_over);
  marked_count_ = 0;
}

// Moves due frames to the front, earliest first, and gives them to the inner link. Returns how many were
// sent.
std::size_t FaultLink::hand_over_due(Instant now) {
  blocked_ = false;
  const auto end =
      std::stable_partition(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.due <= now; });
  // Frames that were sent already come first: they are released together with the others.
  std::stable_sort(waiting_.begin(), end, [](const Waiting& a, const Waiting& b) {
    return a.handed_over != b.handed_over ? a.handed_over : a.due < b.due;
  });
  std::size_t count = 0;
  for (auto waiting = waiting_.begin(); waiting != end; ++waiting, ++count) {
    if (waiting->handed_over || hand_over(*waiting)) continue;
    blocked_ = true;
    break;
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
