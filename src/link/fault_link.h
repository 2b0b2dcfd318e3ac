// FaultLink: a link around a link that loses, doubles, holds back, corrupts and marks what is sent, as a
// FaultSpec says (fault_dice.h). What is received passes untouched (arrival_faults.h is for that).
//
// Every frame says what was done to it (Frame::faults), and one that is dropped goes down as lost: a capture below writes
// it with its mark.
//
// Frames that are held are copies (HeldFrames); flush() hands over those that are due. A frame that is
// reordered is held until some later frames have passed it, or for a while (FaultDice::wait_of).
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
  std::uint64_t too_long = 0;  // for the path's MTU, and lost without a word
  std::uint64_t blocked = 0;   // FaultGate: met a barrier
  std::uint64_t spared = 0;    // should have been held, but could not be copied
};

class FaultLink final : public Link {
 public:
  static constexpr std::size_t kHeldMax = 2048;

  // `inner` must outlive it. `rule` is the number of the fault, where it has one.
  FaultLink(Link& inner, const FaultSpec& spec, std::uint32_t rule = 0);

  // From the next frame on. The random sequence starts anew.
  void set_spec(const FaultSpec& spec);
  [[nodiscard]] const FaultSpec& spec() const { return dice_.spec(); }
  [[nodiscard]] const FaultCounters& tally() const { return tally_; }

  objects::Frame* reserve(const objects::Path& path) override;
  void commit(objects::Frame& frame) override;
  void cancel(objects::Frame& frame) override { inner_->cancel(frame); }
  void lose(objects::Frame& frame) override { inner_->lose(frame); }
  void note_faults(std::uint32_t rule, std::uint8_t faults) override { inner_->note_faults(rule, faults); }
  // Another link around the same one, or none any more. REQUIRES: no frame is reserved, and all were flushed.
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
    Instant due;                   // once `dated`
    Duration delay;                // from the next flush
    std::uint32_t overtakers = 0;  // so many later frames make it due too; 0: time alone does
    bool queued = false;           // behind all others on a slow cable
    bool dated = false;
    bool overtaken = false;    // by as many as it waited for, just now
    bool handed_over = false;  // and kept until the flush, since the inner link reads it then
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
  std::vector<Waiting> waiting_;            // in the order they came
  std::deque<objects::Path> marked_paths_;  // of the frames since the last flush, which point to them
  std::size_t marked_count_ = 0;
  objects::Frame spare_;
  bool blocked_ = false;  // the inner link had no room for something that was due
  Instant last_flush_{};
  Instant cable_free_{};  // from when the slow cable takes the next frame
  std::vector<LinkCounter> published_;
};

}  // namespace rrdma::link
