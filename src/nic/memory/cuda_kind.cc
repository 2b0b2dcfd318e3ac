#include "nic/memory/cuda_kind.h"

#include <sched.h>

#include <array>

namespace rrdma::nic {

using objects::AtomicCall;
using objects::CopyLine;

// Makes the kind's context current in this thread while it lives, and allows calls that a program's stream capture
// would forbid: they have nothing to do with the captured streams.
class CudaKind::Current {
 public:
  explicit Current(const CudaKind& kind) : cuda_(kind.cuda_) {
    if (!kind.is_alive()) return;
    pushed_ = cuda_.cuCtxPushCurrent(kind.context_) == kCudaSuccess;
    if (pushed_ && cuda_.cuThreadExchangeStreamCaptureMode != nullptr)
      exchanged_ = cuda_.cuThreadExchangeStreamCaptureMode(&mode_) == kCudaSuccess;
  }
  ~Current() {
    if (exchanged_) (void)cuda_.cuThreadExchangeStreamCaptureMode(&mode_);
    CudaContext popped = nullptr;
    if (pushed_) (void)cuda_.cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  explicit operator bool() const { return pushed_; }

 private:
  const CudaLibrary& cuda_;
  int mode_ = kCudaCaptureRelaxed;
  bool pushed_ = false;
  bool exchanged_ = false;
};

// A mark is the number of an event. An event that was recorded again since names later copies too.
class CudaKind::Line final : public CopyLine {
 public:
  explicit Line(CudaKind& kind) : kind_(kind), cuda_(kind.cuda_) {}
  ~Line() override {
    const Current current(kind_);
    if (!current) return;  // everything went with the context
    for (const CudaEvent event : events_) {
      if (event != nullptr) (void)cuda_.cuEventDestroy(event);
    }
    if (pinned_ != nullptr) (void)cuda_.cuMemHostUnregister(pinned_);
    if (stream_ != nullptr) (void)cuda_.cuStreamDestroy(stream_);
  }

  bool open() {
    const Current current(kind_);
    int least = 0, greatest = 0;
    if (!current) return false;
    (void)cuda_.cuCtxGetStreamPriorityRange(&least, &greatest);
    if (cuda_.cuStreamCreateWithPriority(&stream_, kCudaStreamNonBlocking, greatest) != kCudaSuccess)
      return false;
    for (CudaEvent& event : events_) {
      if (cuda_.cuEventCreate(&event, kCudaEventNoTiming) != kCudaSuccess) return false;
    }
    return true;
  }

  // Without pinned buffers copies are slower, and just as correct.
  void prepare(std::span<std::uint8_t> buffers) override {
    const Current current(kind_);
    if (current &&
        cuda_.cuMemHostRegister(buffers.data(), buffers.size(), kCudaHostRegisterPortable) == kCudaSuccess)
      pinned_ = buffers.data();
  }

  bool begin_read(std::uint8_t* near, std::uint64_t away, std::size_t octets) override {
    const Current current(kind_);
    return current && is_device_memory(away, octets) &&
           cuda_.cuMemcpyDtoHAsync(near, away, octets, stream_) == kCudaSuccess;
  }

  bool begin_write(std::uint64_t away, const std::uint8_t* near, std::size_t octets) override {
    const Current current(kind_);
    return current && is_device_memory(away, octets) &&
           cuda_.cuMemcpyHtoDAsync(away, near, octets, stream_) == kCudaSuccess;
  }

  Mark mark() override {
    const Current current(kind_);
    ++last_;
    broken_ = broken_ || !current || cuda_.cuEventRecord(events_[last_ % kEvents], stream_) != kCudaSuccess;
    return last_;
  }

  bool wait(Mark mark) override {
    if (broken_) return false;
    if (mark <= done_) return true;
    const Current current(kind_);
    for (int looks = 0;; ++looks) {
      const CudaResult result = current ? cuda_.cuEventQuery(events_[mark % kEvents]) : -1;
      if (result == kCudaSuccess) break;
      if (result != kCudaNotReady) {
        broken_ = true;
        return false;
      }
      if (looks > kLooksBeforeYield) sched_yield();
    }
    done_ = mark;
    return true;
  }

 private:
  static constexpr std::size_t kEvents = 64;
  static constexpr int kLooksBeforeYield = 1000;  // half a millisecond

  // The driver takes a freed address for one of the CPU's, and would touch it.
  [[nodiscard]] bool is_device_memory(std::uint64_t away, std::size_t octets) const {
    return cuda_device_of(cuda_, away) >= 0 && (octets <= 1 || cuda_device_of(cuda_, away + octets - 1) >= 0);
  }

  CudaKind& kind_;
  const CudaLibrary& cuda_;
  CudaStream stream_ = nullptr;
  std::array<CudaEvent, kEvents> events_{};
  void* pinned_ = nullptr;
  Mark last_ = 0;
  Mark done_ = 0;
  bool broken_ = false;
};

CudaContext CudaKind::context() {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr) return context_;
  if (cuda_.cuDeviceGet(&device_, ordinal_) != kCudaSuccess ||
      cuda_.cuDevicePrimaryCtxRetain(&context_, device_) != kCudaSuccess)
    return context_ = nullptr;
  id_ = id_of_context();
  return context_;
}

unsigned long long CudaKind::id_of_context() const {
  unsigned long long id = 0;
  if (cuda_.cuCtxGetId != nullptr) (void)cuda_.cuCtxGetId(context_, &id);
  return id;
}

// A program may reset a primary context at any time. Its handle is then used for the next one.
bool CudaKind::is_alive() const {
  unsigned flags = 0;
  int active = 0;
  return cuda_.cuDevicePrimaryCtxGetState(device_, &flags, &active) == kCudaSuccess && active != 0 &&
         id_of_context() == id_;
}

// cuMemcpyHtoD from pageable memory otherwise returns while the data is still on its way. A copy of ours, on another
// stream, could overtake it.
void CudaKind::prepare(std::uint64_t address) {
  if (cuda_.cuPointerSetAttribute == nullptr || context() == nullptr) return;
  const Current current(*this);
  const unsigned on = 1;
  if (current) (void)cuda_.cuPointerSetAttribute(&on, kCudaAttributeSyncMemops, address);
}

std::unique_ptr<CopyLine> CudaKind::open_line() {
  if (context() == nullptr) return nullptr;
  auto line = std::make_unique<Line>(*this);
  return line->open() ? std::unique_ptr<CopyLine>(std::move(line)) : nullptr;
}

// Atomic with respect to every other RDMA atomic in this process, as IBV_ATOMIC_HCA promises, and not with respect to
// kernels on the device.
bool CudaKind::run_atomic(AtomicCall& call) {
  if (context() == nullptr) return false;
  const std::lock_guard lock(mutex_);
  if (atomics_ == nullptr) {
    auto line = std::make_unique<Line>(*this);
    if (!line->open()) return false;
    atomics_ = std::move(line);
  }
  const auto at = reinterpret_cast<std::uintptr_t>(call.target);
  std::uint64_t word = 0;
  const auto near = reinterpret_cast<std::uint8_t*>(&word);
  if (!atomics_->begin_read(near, at, sizeof word) || !atomics_->wait(atomics_->mark())) return false;
  call.original = word;
  word = call.result(word);
  return word == call.original ||
         (atomics_->begin_write(at, near, sizeof word) && atomics_->wait(atomics_->mark()));
}

}  // namespace rrdma::nic
