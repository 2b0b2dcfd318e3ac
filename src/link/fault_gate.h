// FaultGate: a link around a link that disturbs packets of chosen paths, while a program runs: each scope names the
// addresses and directions that it is for and either lets nothing pass (a port that is down, a partition, a NIC that is
// frozen), or hands what is sent to a FaultLink of its own; of what arrives it can lose some. The first scope that covers a
// path in a direction has it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "link/fault_link.h"
#include "link/link.h"

namespace rrdma::link {

struct FaultScope {
  std::uint32_t number = 0;         // of the rule that made it
  std::vector<wire::Gid> locals;    // empty: all
  std::optional<wire::Gid> remote;  // none: all
  bool blocked = false;
  bool outbound = true;
  bool inbound = true;
  FaultSpec spec;  // unless blocked

  [[nodiscard]] bool covers(const wire::Gid& local, const wire::Gid& peer) const;
  friend bool operator==(const FaultScope&, const FaultScope&) = default;
};

class FaultGate final : public Link, private Receiver {
 public:
  // `inner` must outlive it. `past` is what was done before it: counters only grow.
  FaultGate(Link& inner, const std::vector<FaultScope>& scopes, const FaultCounters& past = {});

  objects::Frame* reserve(const objects::Path& path) override;
  void commit(objects::Frame& frame) override;
  void cancel(objects::Frame& frame) override { (current_ != nullptr ? *current_ : *inner_).cancel(frame); }
  void lose(objects::Frame& frame) override { (current_ != nullptr ? *current_ : *inner_).lose(frame); }
  void refuse(std::uint32_t rule, objects::InjectedFault fault) override { inner_->refuse(rule, fault); }
  // As FaultLink::set_inner().
  void set_inner(Link& inner);
  void flush(Instant now) override;
  std::size_t poll(Receiver& receiver, Instant now, std::size_t burst_max) override;
  [[nodiscard]] Instant next_deadline() const override;
  [[nodiscard]] std::span<const LinkCounter> counters() override;
  [[nodiscard]] FaultCounters tally() const;

 private:
  struct Scope {
    FaultScope wanted;
    std::unique_ptr<FaultLink> faults;  // null: blocked
    Prng prng{1};                       // of what arrives
    BurstLoss loss;
    FaultCounters arrived;  // what was done to it, and in either direction what met the barrier
  };
  [[nodiscard]] Scope* scope_of(const wire::Gid& local, const wire::Gid& remote, bool FaultScope::*direction);
  [[nodiscard]] static bool loses(Scope& scope, const wire::TransportPacket& packet);
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override;

  Link* inner_;
  const FaultCounters past_;
  std::vector<Scope> scopes_;
  Link* current_ = nullptr;    // that gave out the frame
  Scope* blocking_ = nullptr;  // that will swallow it
  Receiver* receiver_ = nullptr;
  std::vector<LinkCounter> published_;
};

}  // namespace rrdma::link
