#include "daemon/slots/network.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <cerrno>

#include "control/identity.h"
#include "control/names.h"
#include "daemon/slots/port_holder.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace rrdma::daemon {
namespace {

// Programs detect the end of their daemon at once and reconnect within a few milliseconds of the start of the
// next. The rest of the time is for a busy machine.
constexpr Duration kOfferWait = milliseconds(600);
constexpr Duration kRetryPause = milliseconds(100);
constexpr timespec kLockPause = {.tv_sec = 0, .tv_nsec = 2'000'000};
constexpr int kLockAttempts = 100;
constexpr int kDaemonReceiveBuffer = 1024 * 1024;

SlotLedger fresh_ledger(KeySource& keys, bool relayed) {
  auto ledger = SlotLedger::create(keys, relayed);
  RRDMA_ASSERT(ledger.ok());  // one memfd, at startup
  return std::move(ledger).value();
}

// Members must leave the group from its end; in any other order the kernel would move another member.
void close_from_the_end(std::vector<IpSockets>& slots) {
  while (!slots.empty()) slots.pop_back();
}

// Appends `count` slots of the families to `slots`. Returns 0, or an errno with the new ones closed again.
int bind_slots(std::uint8_t families, std::size_t count, std::vector<IpSockets>& slots) {
  std::vector<IpSockets> added;
  for (std::size_t i = 0; i < count; ++i) {
    IpSockets slot;
    for (const auto& [bit, family] :
         {std::pair{control::kFamilyV4, AF_INET}, {control::kFamilyV6, AF_INET6}}) {
      if ((families & bit) == 0) continue;
      auto socket = bind_slot_socket(family, false);
      if (!socket) {
        const int error = socket.error();
        slot = {};
        close_from_the_end(added);
        return error;
      }
      lock_steering(socket->get());
      (family == AF_INET ? slot.v4 : slot.v6) = std::move(*socket);
    }
    added.push_back(std::move(slot));
  }
  for (IpSockets& slot : added) slots.push_back(std::move(slot));
  return 0;
}

int steer(const IpSockets& first, unsigned slots_bound) {
  for (const OwnedFd* socket : {&first.v4, &first.v6}) {
    if (!socket->valid()) continue;
    if (const int error = steer_group(socket->get(), slots_bound); error != 0) return error;
  }
  return 0;
}

}  // namespace

Network::Network(Counters& counters, KeySource& keys, bool relayed)
    : counters_(counters), keys_(keys), relayed_(relayed), ledger_(fresh_ledger(keys, relayed)) {}

void Network::open(Instant now) {
  next_attempt_ = now + kRetryPause;
  // An earlier daemon of this user may be exiting: its names vanish one after the other.
  for (int i = 0; i < kLockAttempts && !take_lock() && lock_holder_ && control::is_own_user(*lock_holder_);
       ++i) {
    (void)raw::ppoll(nullptr, 0, &kLockPause);
  }
  if (!may_take_port() || bind_group()) return;
  if (is_own_orphaned_group(find_port_holder())) awaits_offer_until_ = now + kOfferWait;
}

bool Network::retry(Instant now) {
  if (is_up() || now < next_attempt_ || !settled(now)) return false;
  next_attempt_ = now + kRetryPause;
  if (!may_take_port()) return false;
  return (offered_ && adopt(std::move(offered_))) || bind_group();
}

bool Network::take_lock() {
  if (lock_) return true;
  lock_holder_.reset();
  lock_ = control::listen_on(control::kNetworkName);
  if (lock_) return true;
  if (errno != EADDRINUSE) {
    state_ = explain_failure("lock", errno);
    return false;
  }
  const OwnedFd other = control::connect_to(control::kNetworkName);
  if (other) lock_holder_ = control::peer_identity(other.get());
  return false;
}

// The name is a lock between daemons of one user. Any process may have taken it, so the port itself shows
// whether another user's daemon has the port.
bool Network::may_take_port() {
  if (take_lock()) return true;
  if (!lock_holder_ || control::is_own_user(*lock_holder_)) {
    state_ = explain_lock_taken(::geteuid(), lock_holder_ ? lock_holder_->pid : 0);
    return false;
  }
  return true;
}

bool Network::bind_group() {
  std::vector<IpSockets> slots(1);
  auto v4 = bind_slot_socket(AF_INET, true);
  auto v6 = bind_slot_socket(AF_INET6, true);
  if (v4.ok()) slots[0].v4 = std::move(*v4);
  if (v6.ok()) slots[0].v6 = std::move(*v6);
  const std::uint8_t families = control::families_of(slots[0]);
  const int error = !v4.ok() ? v4.error() : !v6.ok() ? v6.error() : 0;
  control::NetworkState state;
  if (error == EADDRINUSE) {
    const PortHolder holder = find_port_holder();
    state = explain_port_taken(holder);
    // A group must be taken over as a whole, never partly recreated.
    if (is_own_orphaned_group(holder)) {
      state_ = state;
      return false;
    }
    if (lock_holder_ && holder.uid == lock_holder_->uid)
      state = explain_lock_taken(lock_holder_->uid, lock_holder_->pid);
  } else if (families == 0) {
    state = explain_failure("bind", error);
  }
  state.families = families;
  state_ = state;
  if (families == 0) return false;

  auto parking = Parking::create();
  int failed = parking.ok() ? bind_slots(families, parcel_slots(0) - 1u, slots) : parking.error();
  if (failed == 0) failed = steer(slots[0], parcel_slots(0));
  Parcel parcel;
  if (failed == 0) {
    parcel.families = families;
    parcel.ledger = OwnedFd(raw::fcntl(ledger_.fd(), F_DUPFD_CLOEXEC, 3));
    parcel.slots = std::move(slots);
    failed = parking->park(parcel);
  }
  if (failed != 0) {
    close_from_the_end(parcel.slots);
    state_ = explain_failure("group", failed);
    return false;
  }
  come_up(std::move(*parking), std::move(parcel.slots[0]));
  return true;
}

bool Network::adopt(OwnedFd parking_end) {
  if (is_up()) return false;
  if (!may_take_port()) {
    // Another daemon manages that group, or did until a moment ago.
    offered_ = std::move(parking_end);
    return false;
  }
  auto parking = Parking::adopt(std::move(parking_end));
  auto first = parking ? parking->peek(0) : std::nullopt;
  auto ledger = first ? SlotLedger::adopt(std::move(first->ledger), keys_) : std::nullopt;
  if (!ledger) {
    counters_.add("parking.refused");
    return false;
  }
  // Programs hold sockets of that group, and could read and steer the packets of all users.
  if (relayed_ && !ledger->is_relayed()) {
    counters_.add("parking.refused");
    refused_group_ = true;
    return false;
  }
  if (!relayed_) ledger->give_sockets_out();
  ledger_ = std::move(*ledger);
  state_ = {.families = first->families, .reason = {}, .remedy = {}};
  took_over_ = true;
  // An earlier daemon may have died between binding and steering.
  (void)steer(first->slots[0], parking->slots_parked());
  come_up(std::move(*parking), std::move(first->slots[0]));
  counters_.add("parking.taken_over");
  return true;
}

void Network::come_up(Parking parking, IpSockets daemon_slot) {
  parking_ = std::move(parking);
  daemon_slot_ = std::move(daemon_slot);
  for (const OwnedFd* socket : {&daemon_slot_.v4, &daemon_slot_.v6}) {
    if (!socket->valid()) continue;
    prepare_slot_socket(socket->get(), socket == &daemon_slot_.v4 ? AF_INET : AF_INET6, kDaemonReceiveBuffer);
    // Management datagrams are few, and single datagrams are simpler to parse.
    (void)raw::setsockopt(socket->get(), IPPROTO_UDP, UDP_GRO, 0);
  }
}

Result<void, Problem> Network::grow() {
  RRDMA_ASSERT(is_up() && slots_bound() < control::kSlotCount);
  const std::uint16_t count = parking_->next_parcel_slots();
  Parcel parcel;
  parcel.first_slot = static_cast<std::uint16_t>(slots_bound());
  parcel.families = state_.families;
  int error = bind_slots(parcel.families, count, parcel.slots);
  if (error == 0) error = parking_->park(parcel);
  if (error != 0) {
    close_from_the_end(parcel.slots);
    counters_.add("slots.growth_failed");
    return problem(error, explain_failure("more slots", error).reason + " " +
                              explain_failure("more slots", error).remedy);
  }
  if (const int failed = steer(daemon_slot_, slots_bound()); failed != 0) {
    return problem(failed, explain_failure("steering", failed).reason);
  }
  counters_.add("slots.bound", count);
  return {};
}

}  // namespace rrdma::daemon
