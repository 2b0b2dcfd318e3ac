// Planted bugs: known mistakes that the mutant build of the engine can be told to make, so that a test
// can show that the swarm's oracle finds them. In every other build planted() is false at compile time.
#pragma once

#include <cstdint>

namespace rrdma::transport {

enum class PlantedBug : std::uint8_t {
  kNone,
  kSkipDuplicateCheck,  // execute a duplicate request again
  kAckBeforePlacing,    // acknowledge a message whose last packet was not placed
  kWrongPsnCompare,     // compare PSNs as plain integers
  kForgetFence,         // send a fenced request while READs are unanswered
  kExecuteAtomicAgain,  // replay an atomic by executing it again
  kLoseCompletion,      // drop the completion when an ACK covers several requests
  kIgnoreRegionBounds,  // write beyond the granted region
  kExecuteEarlyTwice,   // execute a request that came early once more
  kBitmapOffByOne,      // tell of the packet before the one that is here
  kForgetEarly,         // drop what was told of when a request finds no receive
  kDoneWhenArrived,     // take what waits at the peer for executed
  kRepairNext,          // send the packet behind the one that is lost
  kExecuteOverGap,      // execute what waits behind a packet that is missing
  kPlaceOverBoundary,   // place octets where a message may have ended before them
  kProbeSpendsRetry,    // take each probe for a retry
  kCountResponseTwice,  // take a response that is here already for one that was missing
  kTrustRepair,         // never take a repair for lost
  kStayNarrow,          // never open a window again that a loss has closed
};

#ifdef RRDMA_PLANTED_BUGS
inline PlantedBug planted_bug = PlantedBug::kNone;
inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
constexpr bool planted(PlantedBug) { return false; }
#endif

}  // namespace rrdma::transport
