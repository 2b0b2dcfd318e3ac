// Planted bugs: known mistakes that the mutant build of the engine makes on request, to prove that the swarm's oracle
// finds them. In every other build planted() is false at compile time.
#pragma once

#include <cstdint>

namespace rrdma::transport {

enum class PlantedBug : std::uint8_t {
  kNone,
  kSkipDuplicateCheck,  // execute a duplicate request again
  kAckBeforePlacing,    // acknowledge a message although its last packet was not placed
  kWrongPsnCompare,     // compare PSNs as plain integers
  kForgetFence,         // send a fenced request while READs are unanswered
  kExecuteAtomicAgain,  // replay an atomic by executing it again
  kLoseCompletion,      // drop the completion when an ACK covers several requests
  kIgnoreRegionBounds,  // write beyond the registered region
  kExecuteEarlyTwice,   // execute an early request twice
  kBitmapOffByOne,      // report the packet before the one that is held
  kForgetEarly,         // drop reported packets when a request finds no receive request
  kDoneWhenArrived,     // treat packets that wait at the peer as executed
  kRepairNext,          // send the packet after the lost one
  kExecuteOverGap,      // execute packets behind a missing one
  kPlaceOverBoundary,   // place payload although a message may have ended before it
  kProbeSpendsRetry,    // count each probe as a retry
  kCountResponseTwice,  // take a duplicate response for a missing one
  kTrustRepair,         // never consider a repair lost
  kStayNarrow,          // never reopen a window after a loss
};

#ifdef RRDMA_PLANTED_BUGS
inline PlantedBug planted_bug = PlantedBug::kNone;
inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
constexpr bool planted(PlantedBug) { return false; }
#endif

}  // namespace rrdma::transport
