// CUDA memory between two processes of one host. cuMemAlloc memory travels as a handle of CUDA IPC,
// cuMemCreate memory as a file descriptor that the peer borrows. Managed and pooled memory cannot be
// exported.
//
// CudaCopier copies with one call for each piece, on a stream of its own. It waits for the end of a copy, but
// not for long: copies between two places of one device need its processors, and kernels of the program may
// occupy them. Memory of the host takes part only if it is pinned: its region is pinned on first use, and
// until it is deregistered.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "nic/memory/cuda_primary.h"
#include "nic/memory/cuda_signal.h"
#include "objects/far_memory.h"

namespace rrdma::nic {

// Null: the memory cannot be exported. REQUIRES: retained.
[[nodiscard]] std::unique_ptr<objects::FarExport> export_cuda_memory(const CudaPrimary& primary,
                                                                     std::uint64_t address,
                                                                     std::uint64_t length);

class CudaCopier final : public objects::FarCopier {
 public:
  // The table outlives it.
  explicit CudaCopier(const objects::MemoryTable& table) : table_(table) {}
  ~CudaCopier() override;

  [[nodiscard]] std::unique_ptr<objects::FarMapping> open(const objects::FarDescription& description,
                                                          pid_t owner) override;
  // Opens the stream of its device: later, kernels of the program may delay that.
  void on_region_opened(const objects::MemoryRegion& region) override;
  void on_window_opened(const objects::MemoryWindow&) override {}
  void on_window_closed(const objects::MemoryWindow&) override {}
  void on_region_closed(const objects::MemoryRegion& region) override;

 private:
  class Mapping;
  struct Device {
    std::shared_ptr<CudaPrimary> primary;  // releases that wait for kernels refer to it
    CudaStream stream = nullptr;
    CudaSignal signal;
  };
  // Null: the program does not use the device.
  [[nodiscard]] Device* device_of(const std::uint8_t* uuid);
  [[nodiscard]] Device* open_device(const CudaLibrary& cuda, int ordinal);
  // True if the GPU can copy from and to these bytes of this process.
  [[nodiscard]] bool is_reachable(const Device& device, const std::uint8_t* data, std::size_t octets);
  // False: the memory that was registered there was freed, and this is other memory.
  [[nodiscard]] bool is_as_registered(std::uint64_t address, std::uint64_t octets) const;
  [[nodiscard]] bool pin(const Device& device, const std::uint8_t* data, std::size_t octets);
  bool copy(const Device& device, CudaAddress to, CudaAddress from, std::size_t octets) const;
  // Waits for all copies of the device. False: they failed, or they took too long for anybody to wait.
  static bool wait(const Device& device);
  // The end of the latest copies. If they go on, `mark` names them.
  [[nodiscard]] static objects::FarCopy finish(Device& device, CudaEvent& mark);

  struct Pin {
    std::uint8_t* memory = nullptr;  // null: cannot be pinned
    std::uint64_t octets = 0;
    std::shared_ptr<CudaPrimary> primary;
  };
  static void unpin(const Pin& pin);

  const objects::MemoryTable& table_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unordered_map<std::uint32_t, Pin> pins_;  // by the key of their region
};

}  // namespace rrdma::nic
