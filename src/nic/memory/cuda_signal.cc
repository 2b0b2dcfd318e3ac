#include "nic/memory/cuda_signal.h"

#include <atomic>

namespace rrdma::nic {

constexpr std::size_t kSignalPageOctets = 4096;  // the driver pins whole pages

struct alignas(kSignalPageOctets) CudaSignal::Page {
  std::atomic<std::uint32_t> word{0};
};

void CudaSignal::open(const CudaLibrary& cuda) {
  if (cuda.cuStreamWriteValue32 == nullptr || cuda.cuMemHostGetDevicePointer == nullptr) return;
  auto page = std::make_shared<Page>();
  if (cuda.cuMemHostRegister(page.get(), sizeof(Page), kCudaHostRegisterPortable) != kCudaSuccess) return;
  if (cuda.cuMemHostGetDevicePointer(&address_, page.get(), 0) == kCudaSuccess)
    page_ = std::move(page);
  else
    (void)cuda.cuMemHostUnregister(page.get());
}

bool CudaSignal::send(const CudaLibrary& cuda, CudaStream stream) {
  return page_ != nullptr && cuda.cuStreamWriteValue32(stream, address_, ++sent_, 0) == kCudaSuccess;
}

bool CudaSignal::wait() const {
  constexpr int kLooks = 100'000;  // a tenth of a millisecond
  for (int looks = 0; looks < kLooks; ++looks) {
    if (page_->word.load(std::memory_order_acquire) == sent_) return true;
  }
  return false;
}

void CudaSignal::close(const CudaLibrary& cuda) {
  if (page_ != nullptr) (void)cuda.cuMemHostUnregister(page_.get());
  page_.reset();
}

}  // namespace rrdma::nic
