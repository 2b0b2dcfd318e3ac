#include "kernel/kernel_memory.h"

namespace rrdma::kernel {
namespace {

// Every copy has ended when it returns.
class KernelLine final : public objects::CopyLine {
 public:
  explicit KernelLine(const Channel& channel) : channel_(channel) {}

  void prepare(const std::shared_ptr<std::uint8_t[]>&, std::size_t) override {}
  [[nodiscard]] bool begin_read(std::uint8_t* near, std::uint64_t away, std::size_t octets) override {
    return channel_.load(away, {near, octets});
  }
  [[nodiscard]] bool begin_write(std::uint64_t away, const std::uint8_t* near, std::size_t octets) override {
    return channel_.store(away, {near, octets});
  }
  [[nodiscard]] Mark mark() override { return 0; }
  [[nodiscard]] bool wait(Mark) override { return true; }

 private:
  const Channel& channel_;
};

}  // namespace

std::unique_ptr<objects::CopyLine> KernelMemory::open_line() {
  return std::make_unique<KernelLine>(channel_);
}

bool KernelMemory::run_atomic(objects::AtomicCall& call) {
  const std::lock_guard lock(atomics_);
  const auto place = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(call.target));
  std::uint64_t word = 0;
  const std::span<std::uint8_t> near(reinterpret_cast<std::uint8_t*>(&word), sizeof word);
  if (!channel_.load(place, near)) return false;
  call.original = word;
  word = call.result(word);
  return channel_.store(place, near);
}

}  // namespace rrdma::kernel
