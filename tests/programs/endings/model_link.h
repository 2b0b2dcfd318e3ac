// The links of the model: a wire in memory, and its two ends. A ring shows a frame to the peer on commit, a
// socket on flush. The links call `step` wherever another thread could run.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "link/capture_sink.h"
#include "link/link.h"
#include "link/udp/intake.h"

namespace rrdma::endings {

struct Wire {
  bool ring = false;
  std::array<std::deque<std::vector<std::uint8_t>>, 2> to;  // packets on their way to each end
};

// One end. After die() no packet passes it.
class WireEnd final : public link::Link {
 public:
  WireEnd(Wire& wire, std::size_t own, std::function<void()> step)
      : wire_(wire), own_(own), step_(std::move(step)) {}

  void die() { dead_ = true; }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }        // frames that the peer can see
  [[nodiscard]] std::uint64_t handled() const { return handled_; }  // packets that were handed over

  objects::Frame* reserve(const objects::Path& path) override;
  void commit(objects::Frame& frame) override;
  void flush(Instant now) override;
  std::size_t poll(link::Receiver& receiver, Instant now, std::size_t burst_max) override;
  [[nodiscard]] std::span<const link::LinkCounter> counters() override { return {}; }

 private:
  using Packets = std::vector<std::vector<std::uint8_t>>;
  void show(Packets& packets);

  Wire& wire_;
  const std::size_t own_;
  const std::function<void()> step_;
  objects::Frame frame_;
  Packets unflushed_;
  std::uint64_t sent_ = 0, handled_ = 0;
  bool dead_ = false;
};

// A capture file. After die() it keeps the written packets; the collected ones are lost.
class ModelFile final : public link::CaptureSink {
 public:
  explicit ModelFile(std::function<void()> step) : step_(std::move(step)) {}
  void die() { dead_ = true; }
  [[nodiscard]] std::uint64_t packets() const { return packets_; }

  void append(Octets block) override {
    collected_ += link::kind_of(block) == link::BlockKind::kPacket ? 1 : 0;
  }
  void write_out() override;
  [[nodiscard]] std::uint64_t take_lost() override { return 0; }

 private:
  const std::function<void()> step_;
  std::uint64_t collected_ = 0, packets_ = 0;
  bool dead_ = false;
};

// The links of a lane, as nic::take_round() uses them.
class ModelLinks {
 public:
  ModelLinks(link::Link& link, ModelFile* file) : link_(link), file_(file) {}
  std::size_t poll(link::Receiver& receiver, Instant now) { return link_.poll(receiver, now, kBurst); }
  std::size_t poll_all(link::Look, link::Receiver& receiver, Instant now) { return poll(receiver, now); }
  [[nodiscard]] Instant next_deadline() const { return link_.next_deadline(); }
  void note_served() {}
  void write_captures() {
    if (file_ != nullptr) file_->write_out();
  }

 private:
  static constexpr std::size_t kBurst = 64;
  link::Link& link_;
  ModelFile* file_;
};

}  // namespace rrdma::endings
