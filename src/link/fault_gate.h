// FaultGate: a decorator that injects faults into packets of selected paths while a program runs. Each scope
// selects addresses and directions. It either blocks them (port down, partition, frozen NIC), or passes sent
// packets through a FaultLink and arriving ones through ArrivalFaults. The first scope that covers a path in
// a direction applies.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "link/arrival_faults.h"
#include "link/fault_link.h"
#include "link/link.h"

namespace rrdma::link {

struct FaultScope {
  std::uint32_t number = 0;        // of the rule that created it
  std::vector<wire::Gid> locals;   // empty: all
  std::vector<wire::Gid> remotes;  // empty: all
  bool blocked = false;
  bool outbound = true;
  bool inbound = true;
  FaultSpec spec;  // if not blocked

  [[nodiscard]] bool covers(const wire::Gid& local, const wire::Gid& peer) const;
  friend bool operator==(const FaultScope&, const FaultScope&) = default;
};

class FaultGate final : public Link, private Receiver {
 public:
  // `inner` must outlive the gate. `past` holds the totals of the previous gate: counters never decrease.
  FaultGate(Link& inner, const std::vector<FaultScope>& scopes, const FaultCounters& past = {});

  objects::Frame* reserve(const objects::Path& path) override;
  void commit(objects::Frame& frame) override;
  void cancel(objects::Frame& frame) override { (current_ != nullptr ? *current_ : *inner_).cancel(frame); }
  void lose(objects::Frame& frame) override { (current_ != nullptr ? *current_ : *inner_).lose(frame); }
  void note_faults(std::uint32_t rule, std::uint8_t faults) override { inner_->note_faults(rule, faults); }
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
    ArrivalFaults arrivals;
    std::uint64_t blocked = 0;  // in either direction
  };
  [[nodiscard]] Scope* scope_of(const wire::Gid& local, const wire::Gid& remote, bool FaultScope::*direction);
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override;

  Link* inner_;
  const FaultCounters past_;
  std::vector<Scope> scopes_;
  Link* current_ = nullptr;    // the link that reserved the frame
  Scope* blocking_ = nullptr;  // the scope that will drop it
  Receiver* receiver_ = nullptr;
  Instant now_{};  // of the current poll
  std::vector<LinkCounter> published_;
};

}  // namespace rrdma::link
