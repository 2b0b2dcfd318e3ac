#include "nic/memory/cuda_primary.h"

namespace rrdma::nic {

CudaPrimary::Current::Current(const CudaPrimary& primary) : cuda_(primary.cuda_) {
  if (!primary.is_alive()) return;
  pushed_ = cuda_.cuCtxPushCurrent(primary.context_) == kCudaSuccess;
  if (pushed_ && cuda_.cuThreadExchangeStreamCaptureMode != nullptr)
    exchanged_ = cuda_.cuThreadExchangeStreamCaptureMode(&mode_) == kCudaSuccess;
}

CudaPrimary::Current::~Current() {
  if (exchanged_) (void)cuda_.cuThreadExchangeStreamCaptureMode(&mode_);
  CudaContext popped = nullptr;
  if (pushed_) (void)cuda_.cuCtxPopCurrent(&popped);
}

bool CudaPrimary::retain() {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr) return true;
  if (cuda_.cuDeviceGet(&device_, ordinal_) != kCudaSuccess ||
      cuda_.cuDevicePrimaryCtxRetain(&context_, device_) != kCudaSuccess) {
    context_ = nullptr;
    return false;
  }
  id_ = id_of_context();
  return true;
}

unsigned long long CudaPrimary::id_of_context() const {
  unsigned long long id = 0;
  if (cuda_.cuCtxGetId != nullptr) (void)cuda_.cuCtxGetId(context_, &id);
  return id;
}

// After a reset the handle is used for the next context.
bool CudaPrimary::is_alive() const {
  unsigned flags = 0;
  int active = 0;
  return cuda_.cuDevicePrimaryCtxGetState(device_, &flags, &active) == kCudaSuccess && active != 0 &&
         id_of_context() == id_;
}

CudaStream CudaPrimary::create_stream() const {
  int least = 0, greatest = 0;
  (void)cuda_.cuCtxGetStreamPriorityRange(&least, &greatest);
  CudaStream stream = nullptr;
  if (cuda_.cuStreamCreateWithPriority(&stream, kCudaStreamNonBlocking, greatest) != kCudaSuccess)
    return nullptr;
  return stream;
}

}  // namespace rrdma::nic
