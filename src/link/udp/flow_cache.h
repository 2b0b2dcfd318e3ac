// FlowCache: what is known about the senders of packets: the seed of their ICRC, and how they number their
// IPv4 packets.
//
// The socket does not report the identification, which the ICRC covers. It is solved from the ICRC, which
// leaves 16 bits of check (identification_solver.h). An RRDMA sender numbers 0 .. 63: once a flow has shown
// this, only those values are accepted, which leaves 26 bits. A flow that deviates several times in a row is
// taken for another sender behind the same address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/octets.h"
#include "wire/gid.h"
#include "wire/icrc.h"
#include "wire/identification_solver.h"

namespace rrdma::link {

struct FlowKey {
  wire::Gid source;
  wire::Gid destination;
  std::uint16_t source_port = 0;
  friend bool operator==(const FlowKey&, const FlowKey&) = default;
};

class Flow {
 public:
  [[nodiscard]] bool is(const FlowKey& key) const { return seed_ && key_ == key; }
  void start(const FlowKey& key) {
    *this = Flow();
    key_ = key;
    seed_ = key.source.is_ipv4()
                ? wire::IcrcSeed::ipv4({key.source.ipv4()}, {key.destination.ipv4()}, key.source_port)
                : wire::IcrcSeed::ipv6({key.source.octets}, {key.destination.octets}, key.source_port);
  }

  // REQUIRES: started.
  [[nodiscard]] const wire::IcrcSeed& seed() const { return *seed_; }
  [[nodiscard]] std::uint16_t expected_identification() const { return expected_; }

  // True if an identification that explains the ICRC is accepted.
  [[nodiscard]] bool believes(std::uint16_t identification) {
    const bool small = identification < kSmallIdentifications;
    if (numbering_ == Numbering::kUnknown) numbering_ = small ? Numbering::kSmall : Numbering::kAny;
    if (numbering_ == Numbering::kSmall && !small) {
      if (++surprises_ < kSurprisesMax) return false;
      numbering_ = Numbering::kAny;
    }
    surprises_ = 0;
    expected_ = static_cast<std::uint16_t>(identification + 1);
    return true;
  }

 private:
  static constexpr std::uint16_t kSmallIdentifications = 64;  // packets in a segmented send
  static constexpr std::uint8_t kSurprisesMax = 4;
  enum class Numbering : std::uint8_t { kUnknown, kSmall, kAny };

  FlowKey key_;
  std::optional<wire::IcrcSeed> seed_;
  std::uint16_t expected_ = 0;
  Numbering numbering_ = Numbering::kUnknown;
  std::uint8_t surprises_ = 0;
};

class FlowCache {
 public:
  FlowCache() : flows_(kFlows) {}

  // The flow with this key; replaces another one if necessary.
  [[nodiscard]] Flow& find(const FlowKey& key) {
    const std::uint64_t mixed =
        (load_native<std::uint64_t>(key.source.octets.data() + 8) * 0x9e3779b97f4a7c15u) ^
        (load_native<std::uint64_t>(key.source.octets.data()) * 0xd6e8feb86659fd93u) ^
        (load_native<std::uint64_t>(key.destination.octets.data() + 8) * 0xc2b2ae3d27d4eb4fu) ^
        key.source_port;
    Flow& flow = flows_[(mixed ^ mixed >> 31) * 0x9e3779b97f4a7c15u >> 40 & (kFlows - 1)];
    if (!flow.is(key)) flow.start(key);
    return flow;
  }

 private:
  static constexpr std::size_t kFlows = 256;
  std::vector<Flow> flows_;
};

}  // namespace rrdma::link
