#include "nic/memory/cuda_kind.h"

#include <sched.h>

#include <array>

#include "nic/memory/cuda_sharing.h"
#include "nic/memory/deferred_release.h"

namespace rrdma::nic {

using objects::AtomicCall;
using objects::CopyLine;

// A mark is the number of an event. An event that was recorded again since names later copies too.
class CudaKind::Line final : public CopyLine {
 public:
  explicit Line(const CudaKind& kind)
      : kind_(kind), keep_(kind.primary_), primary_(*keep_), cuda_(primary_.cuda()) {}
  // A kernel of the program may wait for the thread that closes the device.
  ~Line() override {
    release_later([primary = keep_, stream = stream_, events = events_, pinned = pinned_] {
      const CudaLibrary& cuda = primary->cuda();
      const CudaPrimary::Current current(*primary);
      if (!current) return;  // everything went with the context
      for (const CudaEvent event : events) {
        if (event != nullptr) (void)cuda.cuEventDestroy(event);
      }
      if (pinned != nullptr) (void)cuda.cuMemHostUnregister(pinned.get());
      if (stream != nullptr) (void)cuda.cuStreamDestroy(stream);
    });
  }

  bool open() {
    const CudaPrimary::Current current(primary_);
    if (!current) return false;
    stream_ = primary_.create_stream();
    if (stream_ == nullptr) return false;
    for (CudaEvent& event : events_) {
      if (cuda_.cuEventCreate(&event, kCudaEventNoTiming) != kCudaSuccess) return false;
    }
    return true;
  }

  // Without pinned buffers copies are slower, and just as correct.
  void prepare(const std::shared_ptr<std::uint8_t[]>& buffers, std::size_t octets) override {
    const CudaPrimary::Current current(primary_);
    if (current && cuda_.cuMemHostRegister(buffers.get(), octets, kCudaHostRegisterPortable) == kCudaSuccess)
      pinned_ = buffers;
  }

  // The driver takes a freed address for one of the CPU's, and would touch it.
  bool begin_read(std::uint8_t* near, std::uint64_t away, std::size_t octets) override {
    const CudaPrimary::Current current(primary_);
    return current && kind_.holds(away, octets) &&
           cuda_.cuMemcpyDtoHAsync(near, away, octets, stream_) == kCudaSuccess;
  }

  bool begin_write(std::uint64_t away, const std::uint8_t* near, std::size_t octets) override {
    const CudaPrimary::Current current(primary_);
    return current && kind_.holds(away, octets) &&
           cuda_.cuMemcpyHtoDAsync(away, near, octets, stream_) == kCudaSuccess;
  }

  Mark mark() override {
    const CudaPrimary::Current current(primary_);
    ++last_;
    broken_ = broken_ || !current || cuda_.cuEventRecord(events_[last_ % kEvents], stream_) != kCudaSuccess;
    return last_;
  }

  bool wait(Mark mark) override {
    if (broken_) return false;
    if (mark <= done_) return true;
    const CudaPrimary::Current current(primary_);
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

  [[nodiscard]] bool is_broken() const override { return broken_ || !primary_.is_alive(); }

 private:
  static constexpr std::size_t kEvents = 64;
  static constexpr int kLooksBeforeYield = 1000;  // half a millisecond

  const CudaKind& kind_;
  const std::shared_ptr<const CudaPrimary> keep_;
  const CudaPrimary& primary_;
  const CudaLibrary& cuda_;
  CudaStream stream_ = nullptr;
  std::array<CudaEvent, kEvents> events_{};
  std::shared_ptr<std::uint8_t[]> pinned_;
  Mark last_ = 0;
  Mark done_ = 0;
  bool broken_ = false;
};

// cuMemcpyHtoD from pageable memory otherwise returns while the data is still on its way. A copy of ours, on
// another stream, could overtake it.
void CudaKind::prepare(std::uint64_t address) {
  const CudaLibrary& cuda = primary_->cuda();
  if (primary_->retain() && !primary_->is_alive()) {
    atomics_.reset();
    primary_ = std::make_shared<CudaPrimary>(cuda, primary_->ordinal());
  }
  if (cuda.cuPointerSetAttribute == nullptr || !primary_->retain()) return;
  const CudaPrimary::Current current(*primary_);
  const unsigned on = 1;
  if (current) (void)cuda.cuPointerSetAttribute(&on, kCudaAttributeSyncMemops, address);
}

void CudaKind::join(objects::MemoryTable& table, std::uint8_t number) {
  number_ = number;
  table.add_listener(*this);
}

void CudaKind::on_region_opened(const objects::MemoryRegion& region) {
  if (region.kind == number_)
    identities_.add(region.key, reinterpret_cast<std::uintptr_t>(region.host), region.length);
}

void CudaKind::on_region_closed(const objects::MemoryRegion& region) {
  if (region.kind == number_) identities_.remove(region.key);
}

std::unique_ptr<CopyLine> CudaKind::open_line() {
  if (!primary_->retain()) return nullptr;
  auto line = std::make_unique<Line>(*this);
  return line->open() ? std::unique_ptr<CopyLine>(std::move(line)) : nullptr;
}

std::unique_ptr<objects::FarExport> CudaKind::export_memory(std::uint64_t address, std::uint64_t length) {
  return primary_->retain() ? export_cuda_memory(*primary_, address, length) : nullptr;
}

// Atomic with respect to every other RDMA atomic in this process, as IBV_ATOMIC_HCA promises, and not with
// respect to kernels on the device.
bool CudaKind::run_atomic(AtomicCall& call) {
  if (!primary_->retain()) return false;
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
