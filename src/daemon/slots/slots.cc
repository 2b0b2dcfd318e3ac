#include "daemon/slots/slots.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/process_facts.h"

namespace rrdma::daemon {
namespace {

constexpr Duration kOrphanGrace = seconds(60);
constexpr Duration kReapingPause = seconds(1);
// Each costs a look at /proc.
constexpr unsigned kReapedInOneTurn = 64;
constexpr unsigned kServedInOneTurn = 64;
constexpr Duration kReapingTurn = milliseconds(10);

}  // namespace

Slots::Slots(Server& server, Network& network, Counters& counters, KeySource& keys, Relay* relay)
    : server_(server),
      network_(network),
      counters_(counters),
      keys_(keys),
      relay_(relay),
      shares_(control::kSlotCount - 1, ::geteuid()) {
  server_.on_claim(
      [this](Client& client, const control::SlotClaim& claim) { return handle_claim(client, claim); });
  server_.on_network_up([this] { handle_network_up(); });
  if (relay_ == nullptr) return;
  server_.on_welcome([this](Client& client) { renew_relays(client); });
  counters_.follow("relay.datagrams", relay_->tally().datagrams);
  counters_.follow("relay.dropped_full", relay_->tally().dropped_full);
  counters_.follow("relay.dropped_other", relay_->tally().dropped_other);
}

Subsystem::Verdict Slots::handle_message(Client& client, control::Received& message) {
  switch (message.type()) {
    case control::MessageType::kRequestSlot:
      if (!message.as<control::RequestSlot>()) return Verdict::kMalformed;
      handle_request(client, message);
      return Verdict::kHandled;
    case control::MessageType::kReleaseSlot: {
      const auto release_slot = message.as<control::ReleaseSlot>();
      if (!release_slot) return Verdict::kMalformed;
      if (owners_[release_slot->slot] != &client) {
        client.fail(message, ENOENT, "the program does not hold that slot.");
        return Verdict::kHandled;
      }
      release(client, release_slot->slot, release_slot->next_index);
      announce_end(client, {release_slot->slot}, message.header.serial);
      return Verdict::kHandled;
    }
    default: return Verdict::kOthers;
  }
}

void Slots::handle_client_gone(Client& client) {
  if (std::erase_if(waiting_, [&](const Waiting& one) { return one.client == &client; }) != 0)
    shares_.give_back(client.account);
  const std::vector<Slot> slots = client.slots;
  for (const Slot slot : slots) {
    const auto known = client.page ? client.page->next_index(slot) : std::nullopt;
    release(client, slot, known.value_or(index_after_unknown(slot)));
  }
  announce_end(client, slots);
}

// If a dead program's next QPN is not known, skip at least an eighth of the slot from the last known one.
std::uint16_t Slots::index_after_unknown(Slot slot) {
  const std::uint32_t count = control::qpns_of(slot).count;
  const std::uint64_t next = network_.ledger().row(slot).next_index + keys_.between(count / 8, count / 8 * 7);
  return static_cast<std::uint16_t>(next % count);
}

void Slots::handle_request(Client& client, const control::Received& request) {
  if (client.hello.role != control::Role::kProgram) {
    return client.fail(request, EPERM, "only a program may hold a slot.");
  }
  if (client.slots.size() >= control::kSlotsOfProgramMax || !shares_.take(client.payer())) {
    counters_.add("slots.refused_share");
    return client.fail(request, EDQUOT,
                       "this user's programs hold " + std::to_string(shares_.of(client.account)) +
                           " slots of UDP port 4791, and others need some: end some of them.");
  }
  const bool has_turn = waiting_.empty();
  Result<Slot, Problem> chosen = problem(EBUSY, "an earlier request of this program waits for a slot.");
  if (has_turn) chosen = choose();
  if (chosen) return grant(client, request.header.serial, *chosen);
  if ((has_turn && orphans_.none()) || is_waiting(client))
    return refuse(client, request.header.serial, chosen.error());
  const std::uint64_t passes = passes_ + (reap_from_ == 1 ? 1 : 2);
  waiting_.push_back({.client = &client, .serial = request.header.serial, .passes = passes});
  next_reaping_ = std::min(next_reaping_, EventLoop::now() + kReapingTurn);
}

bool Slots::is_waiting(const Client& client) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Waiting& one) { return one.client == &client; });
}

// In the order of the requests.
void Slots::serve_waiting() {
  for (unsigned served = 0; !waiting_.empty() && served < kServedInOneTurn; ++served) {
    const Waiting next = waiting_.front();
    const auto chosen = choose();
    if (!chosen && orphans_.any() && passes_ < next.passes) return;
    waiting_.pop_front();
    if (chosen) {
      grant(*next.client, next.serial, *chosen);
    } else {
      refuse(*next.client, next.serial, chosen.error());
    }
  }
}

void Slots::refuse(Client& client, std::uint32_t serial, const Problem& why) {
  shares_.give_back(client.account);
  counters_.add("slots.refused");
  (void)client.answer(serial, control::Failed{.error = why.error, .sentence = why.sentence});
}

void Slots::grant(Client& client, std::uint32_t serial, Slot slot) {
  Handout handout;
  if (network_.is_up()) handout = hand_out(client, slot, clean(slot, held_receive_buffer()));
  const control::SlotGranted granted{.slot = slot,
                                     .next_index = network_.ledger().row(slot).next_index,
                                     .families = handout.families,
                                     .relayed = handout.relayed};
  // Before the program learns of it: this daemon may be killed at any point.
  network_.ledger().hold(slot, client.identity);
  if (!client.answer(serial, granted, handout.numbers())) {
    const int error = errno;
    if (relay_ != nullptr) relay_->close(slot);
    network_.ledger().free(slot, granted.next_index);
    return refuse(client, serial,
                  {error, std::string("the sockets of the slot cannot be passed to the program: ") +
                              std::strerror(error) +
                              "; this user has too many descriptors in flight, raise `ulimit -n`."});
  }
  hand_over(client, slot);
  without_sockets_.set(slot, handout.fds.empty());
  counters_.add("slots.granted");
}

std::vector<int> Slots::Handout::numbers() const {
  std::vector<int> all;
  for (const OwnedFd& fd : fds) all.push_back(fd.get());
  return all;
}

Slots::Handout Slots::hand_out(const Client& client, Slot slot, IpSockets sockets) {
  Handout handout{.families = control::families_of(sockets), .relayed = relay_ != nullptr};
  if (relay_ == nullptr) {
    if (sockets.v4) handout.fds.push_back(std::move(sockets.v4));
    if (sockets.v6) handout.fds.push_back(std::move(sockets.v6));
    return handout;
  }
  if (handout.families == 0) return handout;
  auto relayed = relay_->open(slot, client.account, std::move(sockets));
  if (!relayed) {
    counters_.add("relay.failed");
    return {.relayed = true};
  }
  handout.fds.push_back(std::move(*relayed));
  return handout;
}

// A program that returns from an earlier daemon has no source of packets, because that daemon relayed them.
void Slots::renew_relays(Client& client) {
  if (!network_.is_up()) return;
  for (const Slot slot : client.slots) {
    if (relay_->has(slot) || slot >= network_.slots_bound()) continue;
    const Handout handout = hand_out(client, slot, network_.sockets_of(slot));
    const bool sent = client.notify(control::SlotGranted{.slot = slot,
                                                         .next_index = network_.ledger().row(slot).next_index,
                                                         .families = handout.families,
                                                         .relayed = true},
                                    handout.numbers());
    if (!sent) relay_->close(slot);
    without_sockets_.set(slot, !sent);
  }
}

int Slots::held_receive_buffer() const {
  return relay_ != nullptr ? kRelayedReceiveBuffer : kHeldReceiveBuffer;
}

// REQUIRES: the slot is counted for the client's user.
void Slots::hand_over(Client& client, Slot slot) {
  owners_[slot] = &client;
  client.slots.push_back(slot);
}

bool Slots::is_free(unsigned slot) const {
  return owners_[slot] == nullptr && !orphans_[slot] && !leaving_[slot];
}

unsigned Slots::best_below(unsigned end) const {
  unsigned best = control::kSlotCount;
  const auto order = [&](unsigned slot) {
    return network_.ledger().row(static_cast<Slot>(slot)).freed_order;
  };
  for (const control::SlotSize& size : {control::kLargeSlots, control::kMediumSlots, control::kSmallSlots}) {
    const unsigned first = std::max<unsigned>(size.first_slot, control::kDaemonSlot + 1u);
    for (unsigned slot = first; slot < std::min<unsigned>(end, size.first_slot + size.slots); ++slot) {
      if (is_free(slot) && (best == control::kSlotCount || order(slot) < order(best))) best = slot;
    }
    if (best < control::kSlotCount) break;
  }
  return best;
}

// Chooses a bound slot; binds more if none is free. Without a network, chooses from the top of each size,
// because a later takeover finds slots that were given out from the bottom.
Result<Slot, Problem> Slots::choose() {
  if (!network_.is_up()) {
    for (const control::SlotSize& size :
         {control::kLargeSlots, control::kMediumSlots, control::kSmallSlots}) {
      for (unsigned slot = size.first_slot + size.slots - 1u; slot > size.first_slot; --slot) {
        if (is_free(slot)) return static_cast<Slot>(slot);
      }
    }
  }
  while (network_.is_up()) {
    if (const unsigned best = best_below(network_.slots_bound()); best < control::kSlotCount)
      return static_cast<Slot>(best);
    if (network_.slots_bound() == control::kSlotCount) break;
    if (auto grown = network_.grow(); !grown) return Failure{grown.error()};
  }
  return problem(EBUSY, "all " + std::to_string(control::kSlotCount - 1) +
                            " slots of UDP port 4791 are in use in this network namespace: end some RDMA "
                            "programs (`rrdma stat` lists them), or use another network namespace.");
}

IpSockets Slots::clean(Slot slot, int receive_buffer) {
  if (slot >= network_.slots_bound()) return {};
  IpSockets sockets = network_.sockets_of(slot);
  leave_all_groups(network_.ledger(), slot, sockets);
  std::uint64_t drained = 0;
  for (const OwnedFd* socket : {&sockets.v4, &sockets.v6}) {
    if (!socket->valid()) continue;
    prepare_slot_socket(socket->get(), socket == &sockets.v4 ? AF_INET : AF_INET6, receive_buffer);
    drained += drain_slot_socket(socket->get());
  }
  if (drained > 0) counters_.add("slots.drained_datagrams", drained);
  return sockets;
}

namespace {

// Whether the process exists and is not about to end: it may have closed its connection, or executed another
// program.
bool is_running(pid_t pid) {
  constexpr unsigned long kExiting = 0x4;  // PF_EXITING; the kernel sets it before it closes descriptors
  const auto stat = stat_of_process(pid);
  return stat && (stat->flags & kExiting) == 0;
}

control::PeerGone::Fate fate_of(const Client& client) {
  using Fate = control::PeerGone::Fate;
  if (!client.page) return Fate::kReleased;
  if (client.page->has_exited()) return Fate::kExited;
  // 0: a process of another PID namespace, which cannot be looked at.
  const pid_t pid = client.identity.pid;
  return pid == 0 || is_running(pid) ? Fate::kReleased : Fate::kKilled;
}

}  // namespace

void Slots::release(Client& client, Slot slot, std::uint16_t next_index) {
  owners_[slot] = nullptr;
  if (relay_ != nullptr) relay_->close(slot);
  std::erase(client.slots, slot);
  client.watched.reset(slot);
  network_.ledger().free(slot, next_index);
  if (network_.is_up() && !without_sockets_[slot]) (void)clean(slot, kFreeReceiveBuffer);
  without_sockets_.reset(slot);
  counters_.add("slots.released");
}

void Slots::announce_end(Client& client, const std::vector<Slot>& slots,
                         std::optional<std::uint32_t> serial) {
  if (slots.empty()) return;
  const control::PeerGone gone{.token = client.token,
                               .fate = fate_of(client),
                               .pid = static_cast<std::uint32_t>(client.identity.pid),
                               .program = client.hello.program};
  for (const Slot slot : slots) leaving_.set(slot);
  const auto tell = [slots, gone, user = client.identity](Client& other) {
    std::size_t told = 0;
    for (const Slot slot : slots) {
      if (!other.watched[slot]) continue;
      other.watched.reset(slot);
      control::PeerGone message{.slot = slot, .token = gone.token, .fate = gone.fate};
      if (control::is_one_user(other.identity, user)) {
        message.pid = gone.pid;
        message.program = gone.program;
      }
      (void)other.notify(message);
      ++told;
    }
    return told;
  };
  const auto end = [this, slots, account = client.account, serial](Client* asker) {
    for (const Slot slot : slots) leaving_.reset(slot);
    shares_.give_back(account, slots.size());
    if (asker != nullptr) (void)asker->answer(*serial, control::Done{});
  };
  server_.rounds().begin(client.account, serial ? &client : nullptr, tell, end);
}

bool Slots::handle_claim(Client& client, const control::SlotClaim& claim) {
  const bool is_claimable = client.hello.role == control::Role::kProgram &&
                            claim.slot != control::kDaemonSlot && owners_[claim.slot] == nullptr &&
                            !leaving_[claim.slot] && client.slots.size() < control::kSlotsOfProgramMax &&
                            network_.ledger().may_be_holder(claim.slot, client.identity);
  if (!is_claimable || !shares_.take(client.payer())) {
    counters_.add("slots.claims_lost");
    return false;
  }
  orphans_.reset(claim.slot);
  hand_over(client, claim.slot);
  without_sockets_.set(claim.slot, claim.families == 0);
  network_.ledger().hold(claim.slot, client.identity, claim.next_index);
  counters_.add("slots.claimed");
  return true;
}

void Slots::handle_network_up() {
  const Instant now = EventLoop::now();
  SlotLedger& ledger = network_.ledger();
  for (unsigned i = 1; i < control::kSlotCount; ++i) {
    const auto slot = static_cast<Slot>(i);
    if (ledger.row(slot).held && owners_[slot] == nullptr) orphans_.set(slot);
  }
  if (orphans_.any()) {
    orphans_since_ = now;
    next_reaping_ = now + kReapingPause;
  }
  // Programs that connected before the network was up get their sockets now.
  server_.for_each_client([&](Client& client) {
    std::vector<int> parking;
    if (server_.may_hold_parking(client)) parking.push_back(network_.parking_end());
    (void)client.notify(control::NetworkUp{.network = network_.state()}, parking);
  });
  for (unsigned i = 1; i < control::kSlotCount; ++i) {
    const auto slot = static_cast<Slot>(i);
    Client* owner = owners_[slot];
    if (owner == nullptr || !without_sockets_[slot]) continue;
    while (network_.slots_bound() <= slot && network_.grow().ok()) {
    }
    // A program that returned from an earlier daemon may hold the sockets of the same slot.
    if (slot >= network_.slots_bound() || (network_.took_over() && ledger.row(slot).held)) continue;
    ledger.hold(slot, owner->identity);
    const Handout handout = hand_out(*owner, slot, clean(slot, held_receive_buffer()));
    const bool sent = owner->notify(
        control::SlotGranted{
            .slot = slot, .next_index = 0, .families = handout.families, .relayed = handout.relayed},
        handout.numbers());
    if (!sent && relay_ != nullptr) relay_->close(slot);
    without_sockets_.set(slot, !sent || handout.fds.empty());
  }
}

void Slots::handle_deadline(Instant now) { reap(now); }

void Slots::reap(Instant now) {
  unsigned looked_at = 0;
  for (; reap_from_ < control::kSlotCount && looked_at < kReapedInOneTurn; ++reap_from_) {
    const auto slot = static_cast<Slot>(reap_from_);
    if (!orphans_[slot]) continue;
    ++looked_at;
    const auto state = network_.ledger().holder_state(slot);
    const bool too_long = state == SlotLedger::Holder::kUnknown && now - orphans_since_ >= kOrphanGrace;
    if (state != SlotLedger::Holder::kDead && !too_long) continue;
    orphans_.reset(slot);
    network_.ledger().free(slot, index_after_unknown(slot));
    (void)clean(slot, kFreeReceiveBuffer);
    counters_.add("slots.orphans_reaped");
  }
  const bool all = reap_from_ == control::kSlotCount;
  if (all) {
    reap_from_ = 1;
    ++passes_;
  }
  serve_waiting();
  if (!waiting_.empty()) {
    next_reaping_ = now + kReapingTurn;
  } else {
    next_reaping_ = orphans_.none() ? kNever : now + (all ? kReapingPause : kReapingTurn);
  }
}

unsigned Slots::held_count() const {
  unsigned held = 0;
  for (const Client* owner : owners_) held += owner != nullptr ? 1u : 0u;
  return held;
}

unsigned Slots::orphan_count() const { return static_cast<unsigned>(orphans_.count()); }

}  // namespace rrdma::daemon
