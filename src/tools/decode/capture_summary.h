// The summary of a capture: one row for each direction of each connection, and the number of packets left
// out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "dissection/packet_dissection.h"
#include "dissection/printer.h"
#include "wire/gid.h"
#include "wire/numbers.h"

namespace rrdma::tools {

struct FlowSums {
  std::optional<wire::Qpn> source_qp;
  std::uint64_t packets = 0;
  std::uint64_t octets = 0;  // payload
  std::uint64_t requests = 0;
  std::uint64_t acks = 0;
  std::uint64_t naks = 0;
  std::uint64_t rnr_naks = 0;
  std::uint64_t bad = 0;
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
};

class CaptureSummary {
 public:
  void add(const wire::Dissection& packet, std::uint64_t time_ns, std::optional<wire::Qpn> source_qp);
  [[nodiscard]] std::string text(const wire::Palette& palette, std::size_t columns) const;
  [[nodiscard]] std::string json(std::uint64_t left_out) const;

 private:
  using Flow = std::tuple<wire::Gid, wire::Gid, std::uint32_t>;  // source, destination, destination queue
                                                                 // pair
  std::map<Flow, FlowSums> flows_;
};

}  // namespace rrdma::tools
