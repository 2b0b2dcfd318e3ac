// FarMemory: a MemoryKind for tests. Its addresses belong to no page, so a touch by the CPU is a fault. A
// copy happens only when somebody waits for it, and as late as possible, so a buffer that is reused too early
// shows.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "objects/memory_kind.h"

namespace rrdma::objects {

class FarMemory final : public MemoryKind {
 public:
  static constexpr std::uint64_t kBase =
      0x00ff'0000'0000'0000;  // not canonical on x86-64, not mapped on ARM64

  explicit FarMemory(std::size_t size) : octets(size) {}

  std::string_view name() const override { return "far"; }
  std::unique_ptr<CopyLine> open_line() override {
    return reachable ? std::make_unique<Line>(*this) : nullptr;
  }
  bool run_atomic(AtomicCall& call) override {
    const auto at = reinterpret_cast<std::uintptr_t>(call.target);
    if (!covers(at, 8)) return false;
    std::memcpy(&call.original, octets.data() + (at - kBase), 8);
    const std::uint64_t result = call.result(call.original);
    std::memcpy(octets.data() + (at - kBase), &result, 8);
    return true;
  }
  [[nodiscard]] bool covers(std::uint64_t at, std::size_t length) const {
    return reachable && at >= kBase && at - kBase <= octets.size() && length <= octets.size() - (at - kBase);
  }
  [[nodiscard]] static std::uint8_t* address(std::size_t offset) {
    return reinterpret_cast<std::uint8_t*>(kBase + offset);
  }

  std::vector<std::uint8_t> octets;
  bool reachable = true;  // false: copies cannot begin
  bool breaks = false;    // copies begin, and fail later
  int life = 0;           // a change breaks all lines
  std::size_t reads = 0;  // copies
  std::size_t writes = 0;
  std::vector<std::size_t> write_lengths;
  std::function<void()> after_write;

 private:
  class Line final : public CopyLine {
   public:
    explicit Line(FarMemory& memory) : memory_(memory), life_(memory.life) {}
    void prepare(const std::shared_ptr<std::uint8_t[]>& buffers, std::size_t length) override {
      buffers_ = {buffers.get(), length};
    }
    bool begin_read(std::uint8_t* near, std::uint64_t away, std::size_t length) override {
      return begin({near, away, length, false});
    }
    bool begin_write(std::uint64_t away, const std::uint8_t* near, std::size_t length) override {
      return begin({const_cast<std::uint8_t*>(near), away, length, true});
    }
    Mark mark() override { return done_ + copies_.size(); }
    bool wait(Mark mark) override {
      for (; done_ < mark && !copies_.empty(); ++done_) {
        run(copies_.front());
        copies_.pop_front();
      }
      return !memory_.breaks && !is_broken();
    }
    bool is_broken() const override { return life_ != memory_.life; }

   private:
    struct Copy {
      std::uint8_t* near;
      std::uint64_t away;
      std::size_t length;
      bool writes;
    };
    bool begin(const Copy& copy) {
      const bool prepared =
          copy.near >= buffers_.data() && copy.near + copy.length <= buffers_.data() + buffers_.size();
      if (!prepared || is_broken() || !memory_.covers(copy.away, copy.length)) return false;
      copies_.push_back(copy);
      return true;
    }
    void run(const Copy& copy) {
      std::uint8_t* const far = memory_.octets.data() + (copy.away - kBase);
      if (!copy.writes) {
        ++memory_.reads;
        std::memcpy(copy.near, far, copy.length);
        return;
      }
      ++memory_.writes;
      memory_.write_lengths.push_back(copy.length);
      std::memcpy(far, copy.near, copy.length);
      if (memory_.after_write) memory_.after_write();
    }

    FarMemory& memory_;
    const int life_;
    std::span<std::uint8_t> buffers_;
    std::deque<Copy> copies_;
    Mark done_ = 0;
  };
};

}  // namespace rrdma::objects
