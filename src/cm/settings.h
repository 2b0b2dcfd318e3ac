// Settings: every number that an Endpoint is sized and timed by. The bounds add up: an Endpoint holds at
// most connections_max connections of some 700 octets, tombstones included; each of them has at most one
// timer and kEventsForEachConnection undelivered events; outgoing_max MADs wait to be sent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/instant.h"

namespace rrdma::cm {

inline constexpr std::size_t kEventsForEachConnection = 4;

struct Settings {
  std::uint64_t ca_guid = 0;       // where parameters name no adapter of their own
  std::uint8_t ca_ack_delay = 15;  // as the device's attributes say

  std::size_t connections_max = 65'536;
  std::size_t listeners_max = 65'536;
  std::size_t tombstones_max = 4'096;  // the oldest makes room for a new one
  std::size_t outgoing_max = 16'384;   // beyond it MADs are lost, and counted
  std::size_t backlog_max = 1'024;     // also what a backlog of 0 means
  std::size_t half_open_max = 4'096;   // of one listener: accepted, but no RTU yet

  // A duplicate of a request that the owner has not answered is met by an MRA with this code (24: 68 s).
  std::uint8_t mra_code = 24;
  // A lost MAD is sent again long before the peer's response timeout: first after this, then doubling.
  // Zero: only after the response timeout, max_cm_retries times.
  Duration first_retry = milliseconds(200);
  // The same behind an MRA, which may have crossed the answer: a lost REJ or RTU must be noticed.
  Duration first_retry_after_mra = seconds(1);
  // How often a REP is repeated unasked to an address that has never shown that it hears us: the source of a
  // REQ may be forged, and whoever really is there would get all of them. A double of the REQ is answered
  // every time.
  std::uint8_t repeats_to_strangers = 2;
  std::size_t known_peers_max = 4'096;
  // Longest pause between two sends.
  Duration retry_interval_max = seconds(8);
  // Times that a peer asks for are honoured up to these codes (24: 68 s, 21: 8.6 s).
  std::uint8_t response_code_max = 24;
  std::uint8_t timewait_code_max = 21;
  // How long an answer that may have been lost is kept for duplicates of its request.
  Duration linger = seconds(30);
};

}  // namespace rrdma::cm
