// CudaPrimary: the primary context of one CUDA device, as the program uses it. A program may reset it at any
// time; everything that was created in it is gone then, and it counts as dead from there on.
#pragma once

#include <mutex>

#include "nic/memory/cuda_library.h"

namespace rrdma::nic {

class CudaPrimary {
 public:
  CudaPrimary(const CudaLibrary& cuda, int ordinal) : cuda_(cuda), ordinal_(ordinal) {}

  [[nodiscard]] const CudaLibrary& cuda() const { return cuda_; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  // The first call retains the context. False if there is none.
  [[nodiscard]] bool retain();
  // True while the context is the one that was retained.
  [[nodiscard]] bool is_alive() const;

  // Makes the context current in this thread while it lives, and allows calls that a program's stream capture
  // would forbid: they have nothing to do with the captured streams. REQUIRES: retain() was true.
  class Current {
   public:
    explicit Current(const CudaPrimary& primary);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    // False: the context is dead.
    explicit operator bool() const { return pushed_; }

   private:
    const CudaLibrary& cuda_;
    int mode_ = kCudaCaptureRelaxed;
    bool pushed_ = false;
    bool exchanged_ = false;
  };

  // A stream of our own, which waits for no other stream, with the highest priority; null on failure.
  // REQUIRES: the context is current.
  [[nodiscard]] CudaStream create_stream() const;

 private:
  [[nodiscard]] unsigned long long id_of_context() const;

  const CudaLibrary& cuda_;
  const int ordinal_;
  std::mutex mutex_;  // guards the members below while they are set
  CudaDevice device_ = 0;
  CudaContext context_ = nullptr;
  unsigned long long id_ = 0;
};

}  // namespace rrdma::nic
