// Direct access in ShmLink: introductions, publishing, retiring, and the operations.
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/entropy.h"
#include "base/result_try.h"
#include "link/shm/introduction.h"
#include "link/shm/shm_link.h"

namespace rrdma::link {
namespace {

std::int64_t monotonic_ns() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

bool has_hung_up(int doorbell) {
  pollfd look{.fd = doorbell, .events = 0, .revents = 0};
  const timespec no_time{};
  return raw::ppoll(&look, 1, &no_time) == 1 && (look.revents & (POLLHUP | POLLERR)) != 0;
}

// Waits until `in_use` has left the odd value `busy` or the initiator is gone. False on timeout.
bool wait_until_done(const std::atomic<std::uint64_t>& in_use, std::uint64_t busy, int doorbell,
                     std::int64_t until_ns) {
  constexpr int kSpins = 200;
  for (int i = 0; in_use.load(std::memory_order_acquire) == busy; ++i) {
    if (i < kSpins) continue;
    if (has_hung_up(doorbell)) return true;
    if (monotonic_ns() > until_ns) return false;
    const timespec nap{.tv_sec = 0, .tv_nsec = 20'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  }
  return true;
}

}  // namespace

Result<void, ShmError> ShmLink::enable_direct() {
  RRDMA_ASSERT(ports_.empty() && !table_);
  fill_with_system_entropy(nonce_);
  auto table = DirectTable::create();
  RRDMA_TRY(table);
  table_.emplace(std::move(table).value());
  return {};
}

// Request credentials only after our own message: a socket with SO_PASSCRED gets autobound at its first send.
void ShmLink::introduce(Port& port) {
  if (std::find(overdue_parties_.begin(), overdue_parties_.end(), port.party) != overdue_parties_.end())
    return;
  port.shown = true;
  const DirectIntroduction introduction{
      .nonce_address = reinterpret_cast<std::uintptr_t>(nonce_.data()), .nonce = nonce_, .peer = port.party};
  send_introduction(port.channel.doorbell(), introduction, table_->fd());
  raw::setsockopt(port.channel.doorbell(), SOL_SOCKET, SO_PASSCRED, 1);
}

// A process with such memory expects peers with such memory.
bool ShmLink::publish(const DirectKey& key) {
  if (key.far) met_far_ = true;
  return table_ && table_->publish(key);
}
bool ShmLink::publish(const DirectQp& qp) { return table_ && table_->publish(qp); }

bool ShmLink::retire(wire::RKey rkey) { return !table_ || !table_->unpublish(rkey) || wait_for_initiators(); }
bool ShmLink::retire(wire::Qpn qpn) { return !table_ || !table_->unpublish(qpn) || wait_for_initiators(); }

// Waits only once for a peer that stays in our memory or claims to: the next deregistration must not wait
// again. The peer loses its channel, and channels that it opens later are not shown our table.
bool ShmLink::wait_for_initiators() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::int64_t until_ns = monotonic_ns() + kRetireWait.ns;
  bool all_done = true;
  for (const auto& port : ports_) {
    const auto& in_use = port->channel.control(1 - port->channel.own_direction()).in_use;
    const std::uint64_t seen = in_use.load(std::memory_order_acquire);
    if (seen % 2 == 0 || port->hung_up || !port->shown) continue;
    if (wait_until_done(in_use, seen, port->channel.doorbell(), until_ns)) continue;
    overdue_parties_.push_back(port->party);
    hang_up(*port, kRetireOverdue);
    all_done = false;
  }
  return all_done;
}

bool ShmLink::reaches_directly(std::uint32_t peer) const {
  const Port* port = find(peer);
  return port != nullptr && port->direct.has_value();
}

bool ShmLink::account(DirectOutcome outcome) {
  switch (outcome) {
    case DirectOutcome::kMapped: count(kDirectMapped); [[fallthrough]];
    case DirectOutcome::kDone: count(kDirectDone); return true;
    case DirectOutcome::kFar:
      met_far_ = true;
      count(kDirectFar);
      count(kDirectDone);
      return true;
    case DirectOutcome::kGoesOn:
      met_far_ = true;
      unfinished_ = true;
      return false;
    case DirectOutcome::kNotListed: count(kDirectNotListed); return false;
    case DirectOutcome::kFault: count(kDirectFault); return false;
    case DirectOutcome::kRefused: count(kDirectRefused); return false;
  }
  return false;
}

bool ShmLink::direct_write(const objects::Path& path, const objects::DirectTarget& target,
                           std::span<const objects::PayloadSpan> from) {
  Port* port = find(path.peer);
  return port != nullptr && port->direct && account(port->direct->write(target, from));
}

bool ShmLink::direct_read(const objects::Path& path, const objects::DirectTarget& target,
                          std::span<const objects::MutableSpan> to) {
  Port* port = find(path.peer);
  return port != nullptr && port->direct && account(port->direct->read(target, to));
}

bool ShmLink::reaches_far(const objects::Path& path, const objects::DirectTarget& target) {
  Port* port = find(path.peer);
  return port != nullptr && port->direct && port->direct->reaches_far(target);
}

void ShmLink::review_copies() {
  if (!met_far_) return;
  for (const auto& port : ports_) {
    if (port->direct) port->direct->review();
  }
}

bool ShmLink::direct_atomic(const objects::Path& path, const objects::DirectTarget& target,
                            objects::AtomicCall& call) {
  Port* port = find(path.peer);
  return port != nullptr && port->direct && account(port->direct->atomic(target, call));
}

}  // namespace rrdma::link
