// CudaSignal: a word of this process that the GPU writes when the earlier work of a stream has ended. To read
// the word costs nothing; cuStreamQuery takes 0.4 us, and a copy of a few bytes ends 0.8 us later if the CPU
// asks for it all the time (H200).
//
// The page belongs to this process, not to the context, so the word can be read after a reset of the device.
#pragma once

#include <cstdint>
#include <memory>

#include "nic/memory/cuda_primary.h"

namespace rrdma::nic {

class CudaSignal {
 public:
  // Pins the page. Later, kernels of the program may delay that. Without it, send() is false. REQUIRES: the
  // context is current.
  void open(const CudaLibrary& cuda);
  // The word changes when the work that was given to the stream so far has ended. False: ask the stream.
  [[nodiscard]] bool send(const CudaLibrary& cuda, CudaStream stream);
  // True if it changed. False if that takes long, or if the work failed. REQUIRES: send() was true.
  [[nodiscard]] bool wait() const;
  // REQUIRES: the context is current, or gone. May wait for kernels.
  void close(const CudaLibrary& cuda);

 private:
  struct Page;
  std::shared_ptr<Page> page_;  // null: not pinned
  CudaAddress address_ = 0;     // of the word, for the GPU
  std::uint32_t sent_ = 0;
};

}  // namespace rrdma::nic
