// Recorder: keeps the last packets of a world with their fates, and writes them as text or as a pcapng file.
// Runs are repeatable, so it is enabled only to examine a run that failed.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "link/sim/sim_network.h"

namespace rrdma::sim {

class Recorder final : public link::PacketObserver {
 public:
  explicit Recorder(std::size_t packets_max) : packets_max_(packets_max) {}

  void on_sent(const link::PacketView& packet, Instant now) override;
  void on_fate(const link::PacketView& packet, link::Fate fate, Instant now) override;

  // One line for each event, oldest first: time, hosts, packet, fate.
  [[nodiscard]] std::string trace(std::size_t lines_max) const;
  // The contents of a pcapng file with every packet that was sent; losses appear as comments.
  [[nodiscard]] std::vector<std::uint8_t> pcapng() const;

 private:
  struct Event {
    Instant at;
    bool sent = false;
    link::Fate fate = link::Fate::kDelivered;
    link::HostIndex from = 0;
    link::HostIndex to = 0;
    std::vector<std::uint8_t> frame;
  };
  void record(const link::PacketView& packet, Instant now, bool sent, link::Fate fate);

  std::size_t packets_max_;
  std::deque<Event> events_;
};

}  // namespace rrdma::sim
