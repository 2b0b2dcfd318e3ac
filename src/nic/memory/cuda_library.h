// CudaLibrary: the functions of libcuda that the CUDA kind of memory calls. The library is never loaded from
// here. It is found if the program has loaded it, so a program without CUDA pays nothing and the build needs
// nothing of CUDA. The types repeat the stable ABI of the driver.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rrdma::nic {

using CudaResult = int;
using CudaDevice = int;
using CudaAddress = unsigned long long;
using CudaContext = struct CudaContextRecord*;
using CudaStream = struct CudaStreamRecord*;
using CudaEvent = struct CudaEventRecord*;
using CudaAllocation = unsigned long long;  // CUmemGenericAllocationHandle

struct CudaUuid {
  std::uint8_t octets[16];
};
struct CudaIpcHandle {
  std::uint8_t octets[64];
};
struct CudaAccess {
  int location_type;
  int device;
  int flags;
};

inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaNotReady = 600;
inline constexpr unsigned kCudaMemoryDevice = 2;  // CU_MEMORYTYPE_DEVICE
inline constexpr int kCudaAttributeMemoryType = 2;
inline constexpr int kCudaAttributeSyncMemops = 6;
inline constexpr int kCudaAttributeBufferId = 7;
inline constexpr int kCudaAttributeDeviceOrdinal = 9;
inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventNoTiming = 2;
inline constexpr unsigned kCudaHostRegisterPortable = 1;
inline constexpr int kCudaCaptureRelaxed = 2;
inline constexpr unsigned kCudaIpcLazyPeerAccess = 1;
inline constexpr int kCudaHandlePosixFd = 1;
inline constexpr int kCudaLocationDevice = 1;
inline constexpr int kCudaReadWrite = 3;

struct CudaLibrary {
  CudaResult (*cuPointerGetAttributes)(unsigned count, int* attributes, void** values, CudaAddress address);
  CudaResult (*cuDeviceGet)(CudaDevice* device, int ordinal);
  CudaResult (*cuDevicePrimaryCtxRetain)(CudaContext* context, CudaDevice device);
  CudaResult (*cuDevicePrimaryCtxGetState)(CudaDevice device, unsigned* flags, int* active);
  CudaResult (*cuCtxPushCurrent)(CudaContext context);
  CudaResult (*cuCtxPopCurrent)(CudaContext* context);
  CudaResult (*cuCtxGetStreamPriorityRange)(int* least, int* greatest);
  CudaResult (*cuStreamCreateWithPriority)(CudaStream* stream, unsigned flags, int priority);
  CudaResult (*cuStreamDestroy)(CudaStream stream);
  CudaResult (*cuEventCreate)(CudaEvent* event, unsigned flags);
  CudaResult (*cuEventRecord)(CudaEvent event, CudaStream stream);
  CudaResult (*cuEventQuery)(CudaEvent event);
  CudaResult (*cuEventDestroy)(CudaEvent event);
  CudaResult (*cuMemcpyHtoDAsync)(CudaAddress to, const void* from, std::size_t octets, CudaStream stream);
  CudaResult (*cuMemcpyDtoHAsync)(void* to, CudaAddress from, std::size_t octets, CudaStream stream);
  CudaResult (*cuMemHostRegister)(void* memory, std::size_t octets, unsigned flags);
  CudaResult (*cuMemHostUnregister)(void* memory);
  // Newer than some drivers; may be null.
  CudaResult (*cuCtxGetId)(CudaContext context, unsigned long long* id);
  CudaResult (*cuThreadExchangeStreamCaptureMode)(int* mode);
  CudaResult (*cuPointerSetAttribute)(const void* value, int attribute, CudaAddress address);
  CudaResult (*cuStreamWriteValue32)(CudaStream stream, CudaAddress to, std::uint32_t value, unsigned flags);
  CudaResult (*cuMemHostGetDevicePointer)(CudaAddress* address, void* memory, unsigned flags);

  // Memory of other processes; all are there if `sharing`.
  bool sharing;
  CudaResult (*cuDeviceGetCount)(int* count);
  CudaResult (*cuDeviceGetUuid)(CudaUuid* uuid, CudaDevice device);
  CudaResult (*cuMemGetAddressRange)(CudaAddress* first, std::size_t* octets, CudaAddress address);
  CudaResult (*cuMemcpyAsync)(CudaAddress to, CudaAddress from, std::size_t octets, CudaStream stream);
  CudaResult (*cuStreamQuery)(CudaStream stream);
  CudaResult (*cuIpcGetMemHandle)(CudaIpcHandle* handle, CudaAddress address);
  CudaResult (*cuIpcOpenMemHandle)(CudaAddress* address, CudaIpcHandle handle, unsigned flags);
  CudaResult (*cuIpcCloseMemHandle)(CudaAddress address);
  CudaResult (*cuMemRetainAllocationHandle)(CudaAllocation* allocation, void* address);
  CudaResult (*cuMemExportToShareableHandle)(void* handle, CudaAllocation allocation, int type,
                                             unsigned long long flags);
  CudaResult (*cuMemImportFromShareableHandle)(CudaAllocation* allocation, void* handle, int type);
  CudaResult (*cuMemAddressReserve)(CudaAddress* address, std::size_t octets, std::size_t alignment,
                                    CudaAddress wanted, unsigned long long flags);
  CudaResult (*cuMemAddressFree)(CudaAddress address, std::size_t octets);
  CudaResult (*cuMemMap)(CudaAddress address, std::size_t octets, std::size_t skip, CudaAllocation allocation,
                         unsigned long long flags);
  CudaResult (*cuMemUnmap)(CudaAddress address, std::size_t octets);
  CudaResult (*cuMemSetAccess)(CudaAddress address, std::size_t octets, const CudaAccess* access,
                               std::size_t count);
  CudaResult (*cuMemRelease)(CudaAllocation allocation);

  // Null if the program has not loaded libcuda, or one without these functions. The result stays valid.
  [[nodiscard]] static const CudaLibrary* find();
};

// The device that holds the memory at an address; -1: it is not CUDA's. Any thread.
[[nodiscard]] int cuda_device_of(const CudaLibrary& cuda, std::uintptr_t address);

}  // namespace rrdma::nic
