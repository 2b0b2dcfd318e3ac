// CudaKind: the memory of one CUDA device. Copies run on streams of our own, which wait for no other stream, with the
// highest priority. They belong to the device's primary context. A context that was reset, or memory that was freed,
// makes a copy fail; it is never touched.
#pragma once

#include <memory>
#include <mutex>

#include "nic/memory/cuda_library.h"
#include "objects/memory_kind.h"

namespace rrdma::nic {

class CudaKind final : public objects::MemoryKind {
 public:
  CudaKind(const CudaLibrary& cuda, int ordinal) : cuda_(cuda), ordinal_(ordinal) {}

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] std::unique_ptr<objects::CopyLine> open_line() override;
  [[nodiscard]] bool run_atomic(objects::AtomicCall& call) override;

  [[nodiscard]] int ordinal() const { return ordinal_; }
  // Memory that is to be registered: copies that the program makes synchronously end before the call returns, as
  // GPUDirect RDMA asks of programs. Managed and pooled memory does not support that.
  void prepare(std::uint64_t address);

 private:
  class Line;
  class Current;
  // The primary context, retained by the first call; null if there is none.
  [[nodiscard]] CudaContext context();
  // True while the context is the one that was retained.
  [[nodiscard]] bool is_alive() const;
  [[nodiscard]] unsigned long long id_of_context() const;

  const CudaLibrary& cuda_;
  const int ordinal_;
  std::mutex mutex_;  // guards the members below while they are set; run_atomic holds it throughout
  CudaDevice device_ = 0;
  CudaContext context_ = nullptr;
  unsigned long long id_ = 0;
  std::unique_ptr<objects::CopyLine> atomics_;
};

}  // namespace rrdma::nic
