#include "cuda_api.h"

#include <dlfcn.h>

namespace gpu {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

const Cuda* Cuda::open() {
  static Cuda cuda;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return nullptr;
  const bool found =
      find(library, "cuInit", cuda.init) && find(library, "cuDeviceGet", cuda.device) &&
      find(library, "cuDevicePrimaryCtxRetain", cuda.retain) &&
      find(library, "cuDevicePrimaryCtxReset_v2", cuda.reset) &&
      find(library, "cuCtxSetCurrent", cuda.set_current) && find(library, "cuCtxGetCurrent", cuda.current) &&
      find(library, "cuCtxCreate_v2", cuda.create_context) &&
      find(library, "cuCtxDestroy_v2", cuda.destroy_context) &&
      find(library, "cuCtxSynchronize", cuda.synchronize) && find(library, "cuMemAlloc_v2", cuda.allocate) &&
      find(library, "cuMemAllocManaged", cuda.allocate_managed) &&
      find(library, "cuMemAllocAsync", cuda.allocate_async) && find(library, "cuMemFree_v2", cuda.free) &&
      find(library, "cuMemcpyHtoD_v2", cuda.to_device) && find(library, "cuMemcpyDtoH_v2", cuda.to_host) &&
      find(library, "cuMemGetHandleForAddressRange", cuda.export_range) &&
      find(library, "cuMemHostAlloc", cuda.allocate_host) && find(library, "cuMemCreate", cuda.create) &&
      find(library, "cuMemAddressReserve", cuda.reserve) && find(library, "cuMemMap", cuda.map) &&
      find(library, "cuMemUnmap", cuda.unmap) && find(library, "cuMemSetAccess", cuda.set_access) &&
      find(library, "cuMemRelease", cuda.release);
  int device = 0;
  Context context = nullptr;
  if (!found || cuda.init(0) != 0 || cuda.device(&device, 0) != 0 || cuda.retain(&context, device) != 0 ||
      cuda.set_current(context) != 0)
    return nullptr;
  return &cuda;
}

}  // namespace gpu
