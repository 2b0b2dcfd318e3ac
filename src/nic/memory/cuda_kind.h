// CudaKind: the memory of one CUDA device. Copies run on streams of our own, which wait for no other stream,
// with the highest priority. They belong to the device's primary context. A context that was reset, or memory
// that was freed, makes a copy fail; it is never touched.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "nic/memory/cuda_identities.h"
#include "nic/memory/cuda_primary.h"
#include "objects/memory.h"
#include "objects/memory_kind.h"

namespace rrdma::nic {

class CudaKind final : public objects::MemoryKind, public objects::KeyListener {
 public:
  CudaKind(const CudaLibrary& cuda, int ordinal)
      : primary_(std::make_shared<CudaPrimary>(cuda, ordinal)), identities_(cuda, ordinal) {}

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] std::unique_ptr<objects::CopyLine> open_line() override;
  [[nodiscard]] bool run_atomic(objects::AtomicCall& call) override;
  [[nodiscard]] std::unique_ptr<objects::FarExport> export_memory(std::uint64_t address,
                                                                  std::uint64_t length) override;

  [[nodiscard]] bool holds(std::uint64_t address, std::uint64_t octets) const override {
    return identities_.holds(address, octets);
  }

  [[nodiscard]] int ordinal() const { return primary_->ordinal(); }
  // Hears of its regions from then on.
  void join(objects::MemoryTable& table, std::uint8_t number);
  // The keys of regions whose memory was freed, and is part of these bytes now.
  [[nodiscard]] std::vector<std::uint32_t> find_stale(std::uint64_t address, std::uint64_t octets) const {
    return identities_.find_stale(address, octets);
  }
  void on_region_opened(const objects::MemoryRegion& region) override;
  void on_region_closed(const objects::MemoryRegion& region) override;
  void on_window_opened(const objects::MemoryWindow&) override {}
  void on_window_closed(const objects::MemoryWindow&) override {}
  // Memory that is to be registered: copies that the program makes synchronously end before the call returns,
  // as GPUDirect RDMA asks of programs. Managed and pooled memory does not support that. After a reset of the
  // device, copies use the new context from then on. REQUIRES: the locks of all lanes.
  void prepare(std::uint64_t address);

 private:
  class Line;

  std::shared_ptr<CudaPrimary> primary_;  // of the latest registration; lines keep theirs
  CudaIdentities identities_;
  std::uint8_t number_ = 0;  // of the kind in the table
  std::mutex mutex_;         // run_atomic holds it throughout
  std::unique_ptr<objects::CopyLine> atomics_;
};

}  // namespace rrdma::nic
