// Staging: the buffers of one lane between memory that only a MemoryKind reaches and packets. Starting a copy
// costs as much as a hundred packets, so copies are gathered for each message:
//
//   fetch   (sending)    reads a long part of the message, and the next part while packets carry this one
//   store   (receiving)  collects the payload of packets; a copy begins when enough adjacent bytes have come
//   finish               the end of a message: its bytes have arrived, the last word after all others
//
// Nothing waits before the end of a message, except for a free buffer. Buffers are allocated when the first
// region of a kind is registered; a process without such memory has none.
//
// Threads: as the engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/octets.h"
#include "objects/memory.h"
#include "objects/memory_kind.h"
#include "wire/numbers.h"

namespace rrdma::objects {

// A message that is being sent. No two messages of a lane have the same name at the same time.
struct MessageName {
  wire::Qpn qpn;
  std::uint64_t number = 0;
  friend bool operator==(const MessageName&, const MessageName&) = default;
};

// The messages that a QP receives as responder, or the answers to its READs: one message at a time.
struct Inflow {
  wire::Qpn qpn;
  bool answers = false;
  friend bool operator==(const Inflow&, const Inflow&) = default;
};

class Staging final : public KeyListener {
 public:
  static constexpr std::size_t kSliceOctets = 256 * 1024;
  static constexpr std::size_t kReadSlices = 16;
  static constexpr std::size_t kWriteSlices = 8;
  // A copy of this length begins although more bytes may follow.
  static constexpr std::size_t kRunOctetsMax = 128 * 1024;

  struct Counts {
    std::uint64_t reads = 0, octets_read = 0, writes = 0, octets_written = 0, failures = 0;
  };

  explicit Staging(const MemoryTable& table) : table_(table) {}
  ~Staging() override;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // `length` bytes of a message, from `at` on. The message goes on for `ahead` bytes from there, which the
  // caller may read. The result is valid until flushed(). Null: the memory cannot be reached; or, if
  // take_starved() says so, all buffers are taken until flushed(). REQUIRES: kind != 0; length <= ahead,
  // length <= 64 KiB.
  [[nodiscard]] const std::uint8_t* fetch(std::uint8_t kind, const MessageName& message,
                                          const std::uint8_t* at, std::size_t length, std::uint64_t ahead);
  [[nodiscard]] bool take_starved() { return std::exchange(starved_, false); }
  // The frames that refer to fetched bytes were sent.
  void flushed() {
    if (lent_) [[unlikely]]
      take_back();
  }

  // Takes a part of an incoming message. With `final`, all parts have arrived when it returns. False: one of
  // them did not. REQUIRES: kind != 0.
  [[nodiscard]] bool store(std::uint8_t kind, const Inflow& inflow, std::uint8_t* at, Octets data,
                           bool final);
  // True if parts of some message have not arrived yet.
  [[nodiscard]] bool pending() const { return pending_; }
  [[nodiscard]] bool finish(const Inflow& inflow);

  // The QP has no messages any more.
  void forget(wire::Qpn qpn) {
    if (!sides_.empty()) [[unlikely]]
      forget_messages(qpn);
  }

  // By kind, from 1; empty for kinds that this lane has not met.
  [[nodiscard]] Counts counts(std::uint8_t kind) const;
  // Calls visit(kind, counts) for each kind that this lane has met.
  template <typename F>
  void for_each_kind(F visit) const {
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      const auto number = static_cast<std::uint8_t>(i + 1);
      if (sides_[i] != nullptr) visit(*table_.kind(number), sides_[i]->counts);
    }
  }

  // Buffers and the line exist before the first message: later, kernels of the program may delay their
  // creation. A line that broke, as by a reset of the device, is replaced.
  void on_region_opened(const MemoryRegion& region) override;
  void on_window_opened(const MemoryWindow&) override {}
  void on_window_closed(const MemoryWindow&) override {}
  // Pending parts arrive, or fail, before the memory is released.
  void on_region_closed(const MemoryRegion& region) override;

 private:
  struct ReadSlice {
    std::uint8_t* data = nullptr;
    const std::uint8_t* at = nullptr;  // in the other memory
    std::size_t octets = 0;            // 0: no message's
    MessageName message;
    CopyLine::Mark mark = 0;
    std::uint64_t last_use = 0;
    bool arrived = false;
    bool lent = false;    // a frame may refer to it
    bool served = false;  // to its end
  };
  struct WriteSlice {
    std::uint8_t* data = nullptr;
    CopyLine::Mark mark = 0;
  };
  // Adjacent bytes that wait for their copy to begin.
  struct Run {
    Inflow inflow;
    std::uint8_t* to = nullptr;
    const std::uint8_t* from = nullptr;
    std::size_t octets = 0;
  };
  // The state of a lane for one kind.
  struct Side {
    std::shared_ptr<std::uint8_t[]> buffers;
    std::unique_ptr<CopyLine> line;
    std::array<ReadSlice, kReadSlices> reads;
    std::array<WriteSlice, kWriteSlices> writes;
    std::size_t current = 0;  // write slice
    std::size_t filled = 0;   // of it
    Run run;
    bool unfinished = false;
    std::vector<Inflow> failed;
    Counts counts;
    std::uint64_t uses = 0;
  };

  [[nodiscard]] Side* side(std::uint8_t kind);
  bool open_line(Side& side, std::uint8_t kind);
  static bool begin(Side& side, ReadSlice& slice, const MessageName& message, const std::uint8_t* at,
                    std::size_t octets);
  [[nodiscard]] static ReadSlice* find(Side& side, const MessageName& message, const std::uint8_t* at,
                                       std::size_t length);
  [[nodiscard]] static ReadSlice* take_slice(Side& side);
  static void read_ahead(Side& side, const ReadSlice& slice, std::size_t length, const std::uint8_t* end);
  static void append(Side& side, const Inflow& inflow, std::uint8_t* to, Octets data);
  static void begin_run(Side& side);
  static void fail(Side& side, const Inflow& inflow);
  static void settle(Side& side);
  void settle_all();
  void take_back();
  void forget_messages(wire::Qpn qpn);

  const MemoryTable& table_;
  std::vector<std::unique_ptr<Side>> sides_;  // by kind - 1
  bool starved_ = false;
  bool lent_ = false;
  bool pending_ = false;
};

// For place(): memory of another kind, or the end of a message that has other parts there.
[[nodiscard]] bool place_staged(const AccessVerdict& access, std::span<const std::uint8_t> data, bool final,
                                Staging& staging, const Inflow& inflow);

// As place() of memory.h, for memory of any kind.
[[nodiscard]] inline bool place(const AccessVerdict& access, std::span<const std::uint8_t> data, bool final,
                                Staging& staging, const Inflow& inflow) {
  if (access.kind != 0 || (final && staging.pending())) [[unlikely]]
    return place_staged(access, data, final, staging, inflow);
  return access.null_region || place(access.host, data.data(), data.size(), final);
}

}  // namespace rrdma::objects
