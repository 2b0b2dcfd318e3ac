// CudaKind: the memory of one CUDA device. Copies run on streams of our own, which wait for no other stream,
// with the highest priority. They belong to the device's primary context. A context that was reset, or memory
// that was freed, makes a copy fail; it is never touched.
#pragma once

#include <memory>
#include <mutex>

#include "nic/memory/cuda_primary.h"
#include "objects/memory_kind.h"

namespace rrdma::nic {

class CudaKind final : public objects::MemoryKind {
 public:
  CudaKind(const CudaLibrary& cuda, int ordinal) : primary_(cuda, ordinal) {}

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] std::unique_ptr<objects::CopyLine> open_line() override;
  [[nodiscard]] bool run_atomic(objects::AtomicCall& call) override;
  [[nodiscard]] std::unique_ptr<objects::FarExport> export_memory(std::uint64_t address,
                                                                  std::uint64_t length) override;

  [[nodiscard]] int ordinal() const { return primary_.ordinal(); }
  // Memory that is to be registered: copies that the program makes synchronously end before the call returns,
  // as GPUDirect RDMA asks of programs. Managed and pooled memory does not support that.
  void prepare(std::uint64_t address);

 private:
  class Line;

  CudaPrimary primary_;
  std::mutex mutex_;  // run_atomic holds it throughout
  std::unique_ptr<objects::CopyLine> atomics_;
};

}  // namespace rrdma::nic
