// EngineCall: marks the time spent inside the engine, so that a test can tell the engine's allocations from
// those of the simulation around it. Posting, receiving and transmitting must not allocate.
#pragma once

#include <cstdint>

namespace rrdma::sim {

inline thread_local std::uint32_t engine_calls = 0;           // nesting depth; 0: not in the engine
inline thread_local std::uint64_t allocations_in_engine = 0;  // counted by a replacement of operator new

class EngineCall {
 public:
  EngineCall() { ++engine_calls; }
  ~EngineCall() { --engine_calls; }
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;

  // Callbacks from the engine are not the engine.
  class Pause {
   public:
    Pause() : saved_(engine_calls) { engine_calls = 0; }
    ~Pause() { engine_calls = saved_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    std::uint32_t saved_;
  };
};

}  // namespace rrdma::sim
