// FaultLink: a decorator that drops, duplicates, delays, corrupts and marks sent frames, as a FaultSpec says
// (fault_dice.h). Received packets pass unchanged (see arrival_faults.h).
//
// Every frame carries the faults injected into it (Frame::faults). A dropped frame is passed down as lost, so
// that a capture below records it with its mark.
//
// Held frames are copies (HeldFrames); flush() sends those that are due. A reordered frame is held until
// enough later frames have passed it, or for a while (FaultDice::wait_of).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "link/fault_dice.h"
#include "link/fault_spec.h"
#include "link/held_frames.h"
#include "link/link.h"

namespace rrdma::link {

struct FaultCounters {
  void add(const FaultCounters& other);

  std::uint64_t dropped = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t marked = 0;
  std::uint64_t delayed = 0;
  std::uint64_t too_long = 0;  // for the path's MTU: dropped silently
  std::uint64_t blocked = 0;   // FaultGate: dropped by a blocking scope
  std::uint64_t spared = 0;    // should have been held but could not be copied
};

class FaultLink final : public Link {
 public:
  static constexpr std::size_t kHeldMax = 2048;

  // `inner` must outlive the link. `rule`: the number of the fault rule, if it has one.
  FaultLink(Link& inner, const FaultSpec& spec, std::uint32_t rule = 0);

  [[nodiscard]] const FaultSpec& spec() const { return dice_.spec(); }
  [[nodiscard]] const FaultCounters& tally() const { return tally_; }

  objects::Frame* reserve(const objects::Path& path) override;
  void commit(objects::Frame& frame) override;
  void cancel(objects::Frame& frame) override { inner_->cancel(frame); }
  void lose(objects::Frame& frame) override { inner_->lose(frame); }
  void note_faults(std::uint32_t rule, std::uint8_t faults) override { inner_->note_faults(rule, faults); }
  // Replaces the inner link, when a decorator was added or removed below. REQUIRES: no frame is reserved, all
  // are flushed.
  void set_inner(Link& inner) { inner_ = &inner; }
  void flush(Instant now) override;
  std::size_t poll(Receiver& receiver, Instant now, std::size_t burst_max) override {
    return inner_->poll(receiver, now, burst_max);
  }
  [[nodiscard]] Instant next_deadline() const override;
  [[nodiscard]] std::span<const LinkCounter> counters() override;

 private:
  static constexpr Duration kRoomRetry = microseconds(20);

  struct Waiting {
    objects::Frame* frame = nullptr;
    Instant due;                   // valid once `dated`
    Duration delay;                // from the next flush
    std::uint32_t overtakers = 0;  // this many later frames also make it due; 0: only time does
    bool queued = false;           // behind all others on a slow cable
    bool dated = false;
    bool overtaken = false;    // by the required number, just now
    bool handed_over = false;  // kept until the flush, because the inner link reads it then
  };

  void blame(objects::Frame& frame, std::uint8_t fault) const;
  void mark(objects::Frame& frame);
  void pass(objects::Frame& frame, bool twice);
  [[nodiscard]] bool hold(const objects::Frame& frame, Duration delay, std::uint32_t overtakers);
  void hold_double(objects::Frame& frame, Duration delay);
  void decide(objects::Frame& frame);
  [[nodiscard]] bool overtake();
  void hand_over_overtaken();
  [[nodiscard]] bool hand_over(const Waiting& waiting);
  void date(Instant now);
  [[nodiscard]] std::size_t hand_over_due(Instant now);
  void release(std::size_t handed_over);

  Link* inner_;
  FaultDice dice_;
  const std::uint32_t rule_;
  FaultCounters tally_;
  HeldFrames held_;
  std::vector<Waiting> waiting_;            // in order of arrival
  std::deque<objects::Path> marked_paths_;  // frames sent since the last flush point to them
  std::size_t marked_count_ = 0;
  objects::Frame spare_;
  bool blocked_ = false;  // the inner link had no room for a frame that was due
  Instant last_flush_{};
  Instant cable_free_{};  // when the slow cable can take the next frame
  std::vector<LinkCounter> published_;
};

}  // namespace rrdma::link
