// EngineCall: marks that the engine is at work, so that a test which counts allocations can tell the
// engine's from those of the simulation around it. Posting, receiving and transmitting must make none.
#pragma once

#include <cstdint>

namespace rrdma::sim {

inline thread_local std::uint32_t engine_calls = 0;           // nesting; 0: not in the engine
inline thread_local std::uint64_t allocations_in_engine = 0;  // counted by whoever replaces operator new

class EngineCall {
 public:
  EngineCall() { ++engine_calls; }
  ~EngineCall() { --engine_calls; }
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;

  // What the engine calls back into is not the engine.
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
