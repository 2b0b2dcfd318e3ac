// Settings: all sizes and times of an Endpoint. The bounds add up: an Endpoint holds at most connections_max
// connections of about 700 bytes, tombstones included. Each of them has at most one timer and
// kEventsForEachConnection undelivered events. At most outgoing_max MADs wait to be sent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/instant.h"

namespace rrdma::cm {

inline constexpr std::size_t kEventsForEachConnection = 4;

struct Settings {
  std::uint64_t ca_guid = 0;       // used if the parameters name no adapter
  std::uint8_t ca_ack_delay = 15;  // as in the device's attributes

  std::size_t connections_max = 65'536;
  std::size_t listeners_max = 65'536;
  std::size_t tombstones_max = 4'096;  // a new one evicts the oldest
  std::size_t outgoing_max = 16'384;   // further MADs are lost and counted
  std::size_t backlog_max = 1'024;     // also the meaning of a backlog of 0
  std::size_t half_open_max = 4'096;   // per listener: accepted, but no RTU yet

  // A duplicate of a request that the owner has not answered is answered by an MRA with this code (24: 68 s).
  std::uint8_t mra_code = 24;
  // A lost MAD is repeated long before the peer's response timeout: first after this time, then at doubling
  // intervals. Zero: only after the response timeout, max_cm_retries times.
  Duration first_retry = milliseconds(200);
  // The same after an MRA, which may have crossed the answer: a lost REJ or RTU must be detected.
  Duration first_retry_after_mra = seconds(1);
  // How often a REP is repeated by timer to an address that has never proved that it receives our messages.
  // The source of a REQ may be forged, and the real host would receive all repetitions. A duplicate of the
  // REQ is always answered.
  std::uint8_t repeats_to_strangers = 2;
  std::size_t known_peers_max = 4'096;
  // The longest interval between two sends.
  Duration retry_interval_max = seconds(8);
  // Times that a peer requests are honoured up to these codes (24: 68 s, 21: 8.6 s).
  std::uint8_t response_code_max = 24;
  std::uint8_t timewait_code_max = 21;
  // How long an answer that may have been lost is kept for duplicates of its request.
  Duration linger = seconds(30);
};

}  // namespace rrdma::cm
