// A process to be killed: another instance of the program, as `PROGRAM victim WORDS...`.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/comm/context.h"
#include "rrdma/comm/task.h"

namespace seeds {

// The heartbeat of a process, in memory that it shares with another. A process that has no processor for long
// does not answer, and its peer rightly takes it for dead.
class Pulse {
 public:
  // Beats as long as the task exists.
  rrdma::comm::Task<> beat(rrdma::comm::Context& context);
  // Whether there was a pause in which the peer may have lost its patience.
  [[nodiscard]] bool paused() const;

 private:
  std::atomic<std::int64_t> last_;  // in ticks of comm::Clock; 0: none
  std::atomic<std::int64_t> longest_;
};

// In memory of zeros.
struct Pulses {
  Pulse victim, killer;
};

struct Victim {
  pid_t pid = 0;
  std::string address;  // as reported by the victim
  std::shared_ptr<Pulses> pulses;
};

// Returns when the victim has reported its address. The victim inherits descriptors without O_CLOEXEC, with
// the same numbers.
Victim start_victim(std::uint64_t seed, std::vector<std::string> words);

// Sleeps for a random time: often as short as a handshake, sometimes until many operations are in flight.
rrdma::comm::Task<> await_the_moment(rrdma::comm::Context& context, std::uint64_t seed);
// Sends SIGKILL. Fails if the victim had already ended.
void kill(const Victim& victim, std::uint64_t seed);

// Called first in the victim, so that it ends with the swarm.
void end_with_parent();
// Those that start_victim() made.
Pulses& pulses_of_this_victim();
void say_where(std::string address, std::uint64_t seed);

}  // namespace seeds
