#include "nic/memory/cuda_library.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <mutex>

namespace rrdma::nic {
namespace {

template <typename Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool load_sharing(void* library, CudaLibrary& cuda) {
  return look_up(library, "cuDeviceGetCount", cuda.cuDeviceGetCount) &&
         look_up(library, "cuDeviceGetUuid", cuda.cuDeviceGetUuid) &&
         look_up(library, "cuMemGetAddressRange_v2", cuda.cuMemGetAddressRange) &&
         look_up(library, "cuMemcpyAsync", cuda.cuMemcpyAsync) &&
         look_up(library, "cuStreamQuery", cuda.cuStreamQuery) &&
         look_up(library, "cuIpcGetMemHandle", cuda.cuIpcGetMemHandle) &&
         look_up(library, "cuIpcOpenMemHandle_v2", cuda.cuIpcOpenMemHandle) &&
         look_up(library, "cuIpcCloseMemHandle", cuda.cuIpcCloseMemHandle) &&
         look_up(library, "cuMemRetainAllocationHandle", cuda.cuMemRetainAllocationHandle) &&
         look_up(library, "cuMemExportToShareableHandle", cuda.cuMemExportToShareableHandle) &&
         look_up(library, "cuMemImportFromShareableHandle", cuda.cuMemImportFromShareableHandle) &&
         look_up(library, "cuMemAddressReserve", cuda.cuMemAddressReserve) &&
         look_up(library, "cuMemAddressFree", cuda.cuMemAddressFree) &&
         look_up(library, "cuMemMap", cuda.cuMemMap) && look_up(library, "cuMemUnmap", cuda.cuMemUnmap) &&
         look_up(library, "cuMemSetAccess", cuda.cuMemSetAccess) &&
         look_up(library, "cuMemRelease", cuda.cuMemRelease);
}

bool load(void* library, CudaLibrary& cuda) {
  cuda.sharing = load_sharing(library, cuda);
  (void)look_up(library, "cuCtxGetId", cuda.cuCtxGetId);
  (void)look_up(library, "cuThreadExchangeStreamCaptureMode", cuda.cuThreadExchangeStreamCaptureMode);
  (void)look_up(library, "cuPointerSetAttribute", cuda.cuPointerSetAttribute);
  (void)look_up(library, "cuStreamWriteValue32_v2", cuda.cuStreamWriteValue32);
  (void)look_up(library, "cuMemHostGetDevicePointer_v2", cuda.cuMemHostGetDevicePointer);
  return look_up(library, "cuPointerGetAttributes", cuda.cuPointerGetAttributes) &&
         look_up(library, "cuDeviceGet", cuda.cuDeviceGet) &&
         look_up(library, "cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain) &&
         look_up(library, "cuDevicePrimaryCtxGetState", cuda.cuDevicePrimaryCtxGetState) &&
         look_up(library, "cuCtxPushCurrent_v2", cuda.cuCtxPushCurrent) &&
         look_up(library, "cuCtxPopCurrent_v2", cuda.cuCtxPopCurrent) &&
         look_up(library, "cuCtxGetStreamPriorityRange", cuda.cuCtxGetStreamPriorityRange) &&
         look_up(library, "cuStreamCreateWithPriority", cuda.cuStreamCreateWithPriority) &&
         look_up(library, "cuStreamDestroy_v2", cuda.cuStreamDestroy) &&
         look_up(library, "cuEventCreate", cuda.cuEventCreate) &&
         look_up(library, "cuEventRecord", cuda.cuEventRecord) &&
         look_up(library, "cuEventQuery", cuda.cuEventQuery) &&
         look_up(library, "cuEventDestroy_v2", cuda.cuEventDestroy) &&
         look_up(library, "cuMemcpyHtoDAsync_v2", cuda.cuMemcpyHtoDAsync) &&
         look_up(library, "cuMemcpyDtoHAsync_v2", cuda.cuMemcpyDtoHAsync) &&
         look_up(library, "cuMemHostRegister_v2", cuda.cuMemHostRegister) &&
         look_up(library, "cuMemHostUnregister", cuda.cuMemHostUnregister);
}

// The number of libraries that this process has ever loaded.
unsigned long long libraries_loaded() {
  unsigned long long loaded = 0;
  const auto take = [](dl_phdr_info* info, std::size_t, void* into) {
    *static_cast<unsigned long long*>(into) = info->dlpi_adds;
    return 1;
  };
  dl_iterate_phdr(take, &loaded);
  return loaded;
}

}  // namespace

const CudaLibrary* CudaLibrary::find() {
  static std::atomic<const CudaLibrary*> found{nullptr};
  if (const CudaLibrary* known = found.load(std::memory_order_acquire)) return known;
  // For a library that is not loaded, dlopen searches the file system. That costs more than all the rest of a
  // registration, so look only after the program has loaded something.
  static std::atomic<unsigned long long> looked_at{0};
  const unsigned long long loaded = libraries_loaded();
  if (loaded == looked_at.load(std::memory_order_relaxed)) return nullptr;
  // The handle is kept: it prevents that the library is unloaded while it is called.
  void* const library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) {
    looked_at.store(loaded, std::memory_order_relaxed);
    return nullptr;
  }
  static std::mutex loading;
  static CudaLibrary cuda;
  const std::lock_guard lock(loading);
  if (found.load(std::memory_order_relaxed) == nullptr && load(library, cuda))
    found.store(&cuda, std::memory_order_release);
  return found.load(std::memory_order_relaxed);
}

// Asking for several attributes is no error for an address that CUDA does not know: they are 0.
int cuda_device_of(const CudaLibrary& cuda, std::uintptr_t address) {
  unsigned type = 0;
  int ordinal = -1;
  int attributes[] = {kCudaAttributeMemoryType, kCudaAttributeDeviceOrdinal};
  void* values[] = {&type, &ordinal};
  if (cuda.cuPointerGetAttributes(2, attributes, values, address) != kCudaSuccess) return -1;
  return type == kCudaMemoryDevice && ordinal >= 0 ? ordinal : -1;
}

}  // namespace rrdma::nic
