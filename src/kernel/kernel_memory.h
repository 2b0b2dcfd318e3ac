// KernelMemory: memory of the kernel's own users (NVMe-oF, NFS), as a kind of memory. An address is a place
// in the file /dev/rrdma: what a posted request or a fast registration of the kernel grants. Copies are
// pread() and pwrite(); the kernel checks each.
#pragma once

#include <mutex>

#include "kernel/channel.h"
#include "objects/memory_kind.h"

namespace rrdma::kernel {

class KernelMemory final : public objects::MemoryKind {
 public:
  // The channel must outlive this object and its lines.
  explicit KernelMemory(const Channel& channel) : channel_(channel) {}

  [[nodiscard]] std::string_view name() const override { return "kernel"; }
  [[nodiscard]] std::unique_ptr<objects::CopyLine> open_line() override;
  [[nodiscard]] bool run_atomic(objects::AtomicCall& call) override;

 private:
  const Channel& channel_;
  std::mutex atomics_;
};

}  // namespace rrdma::kernel
