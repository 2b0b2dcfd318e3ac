#include "daemon/slots/relay.h"

#include <linux/sockios.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>

#include "base/octets.h"
#include "base/result_try.h"

namespace rrdma::daemon {
namespace {

// Bytes that the kernel keeps for programs that do not read, for one slot and for all. They are charged to
// the daemon, so the sum is a fraction of the unit's limit (packaging/systemd).
constexpr int kUnreadOctetsOfSlot = 4 * 1024 * 1024;
constexpr std::uint64_t kUnreadOctetsOfAll = 128 * 1024 * 1024;
constexpr std::size_t kReadySocketsInOneTurn = 16;
constexpr std::size_t kReadyUsersInOneTurn = 64;
constexpr std::size_t kOctetsInOneTurn = 512 * 1024;
constexpr std::uint32_t kDropsBetweenCounts = 256;
constexpr std::size_t kBthQpnOffset = 5;
constexpr std::size_t kPacketMin = 16;  // a BTH and an ICRC
constexpr int kRelayNice = -10;         // as the unit has it
constexpr std::uint64_t kSignal = ~std::uint64_t{0};

int add_to(int epoll, int fd, std::uint64_t data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = data;
  return raw::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? errno : 0;
}

Slot slot_of_packet(Octets packet) { return control::slot_of_qpn(load_be24(packet.data() + kBthQpnOffset)); }

void set_buffer(int socket, int forced, int usual, int octets) {
  if (raw::setsockopt(socket, SOL_SOCKET, forced, octets) < 0)
    (void)raw::setsockopt(socket, SOL_SOCKET, usual, octets);
}

// Creates our end and the program's. Ours accepts nothing from the program. A unix socket does not use the
// program's receive buffer size, so it tells the program how much may wait for it.
Result<std::pair<OwnedFd, OwnedFd>, int> socket_pair() {
  int ends[2];
  if (raw::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) return Failure{errno};
  std::pair pair(lifted(ends[0]), lifted(ends[1]));
  if (::shutdown(pair.first.get(), SHUT_RD) < 0) return Failure{errno};
  set_buffer(pair.first.get(), SO_SNDBUFFORCE, SO_SNDBUF, kUnreadOctetsOfSlot);
  set_buffer(pair.second.get(), SO_RCVBUFFORCE, SO_RCVBUF, kUnreadOctetsOfSlot);
  return pair;
}

}  // namespace

Relay::Flock::Flock() : buffers(new std::uint8_t[kFlock * link::kDatagramOctetsMax]) {
  for (std::size_t i = 0; i < kFlock; ++i) {
    pieces[i] = {buffers.get() + i * link::kDatagramOctetsMax, link::kDatagramOctetsMax};
    msghdr& message = messages[i].msg_hdr;
    message.msg_name = &addresses[i];
    message.msg_iov = &pieces[i];
    message.msg_iovlen = 1;
    message.msg_control = controls[i].octets.data();
  }
}

Relay::Relay()
    : epoll_(lifted(raw::epoll_create1(EPOLL_CLOEXEC))),
      signal_(lifted(raw::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  RRDMA_ASSERT(epoll_.valid() && signal_.valid());  // two descriptors, at startup
  RRDMA_ASSERT(add_to(epoll_.get(), signal_.get(), kSignal) == 0);
}

Relay::~Relay() {
  stopped_.store(true);
  const std::uint64_t one = 1;
  (void)!raw::write(signal_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

Result<OwnedFd, int> Relay::open(Slot slot, uid_t uid, IpSockets sockets) {
  RRDMA_ASSERT(!has(slot));
  auto pair = socket_pair();
  RRDMA_TRY(pair);
  auto line = std::make_unique<Line>(Line{uid, std::move(sockets), std::move(pair->first)});
  waiting_for_mutex_.fetch_add(1);
  const std::lock_guard lock(mutex_);
  waiting_for_mutex_.fetch_sub(1);
  User& user = users_[uid];
  if (!user.epoll) {
    user.epoll = lifted(raw::epoll_create1(EPOLL_CLOEXEC));
    if (!user.epoll || add_to(epoll_.get(), user.epoll.get(), uid) != 0) {
      const int error = errno;
      users_.erase(uid);
      return Failure{error};
    }
  }
  for (const OwnedFd* socket : {&line->sockets.v4, &line->sockets.v6}) {
    if (socket->valid())
      (void)add_to(user.epoll.get(), socket->get(), static_cast<std::uint64_t>(socket->get()));
  }
  user.slots.push_back(slot);
  lines_[slot] = std::move(line);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return std::move(pair->second);
}

void Relay::close(Slot slot) {
  std::unique_ptr<Line> ended;
  waiting_for_mutex_.fetch_add(1);
  const std::lock_guard lock(mutex_);
  waiting_for_mutex_.fetch_sub(1);
  ended = std::move(lines_[slot]);
  if (ended == nullptr) return;
  User& user = users_.at(ended->user);
  // They are parked, too, so closing ours does not remove them.
  for (const OwnedFd* socket : {&ended->sockets.v4, &ended->sockets.v6}) {
    if (socket->valid()) (void)raw::epoll_ctl(user.epoll.get(), EPOLL_CTL_DEL, socket->get(), nullptr);
  }
  std::erase(user.slots, slot);
  if (!user.slots.empty()) return;
  waiting_ -= user.waiting;
  users_.erase(ended->user);
}

namespace {

// Polling programs keep their cores busy. Without a short slice and a higher priority, this thread would wait
// for one of their slices (milliseconds) before it forwards a packet. Best effort: an old kernel has no
// slices, a sandbox no priority.
void ask_for_early_turns() {
  struct {
    std::uint32_t size = 48;  // SCHED_ATTR_SIZE_VER0
    std::uint32_t policy = 0;
    std::uint64_t flags = 0;
    std::int32_t nice = kRelayNice;
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 100'000;  // the slice
    std::uint64_t deadline_ns = 0;
    std::uint64_t period_ns = 0;
  } attributes;
  if (::syscall(SYS_sched_setattr, 0, &attributes, 0) == 0) return;
  attributes.nice = 0;
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

void Relay::run() {
  ask_for_early_turns();
  sigset_t all;
  sigfillset(&all);
  (void)::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::array<epoll_event, kReadyUsersInOneTurn> ready;
  while (!stopped_.load()) {
    const int count = raw::epoll_wait(epoll_.get(), ready.data(), kReadyUsersInOneTurn, -1);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t key = ready[static_cast<std::size_t>(i)].data.u64;
      if (key == kSignal) continue;
      while (waiting_for_mutex_.load() > 0) std::this_thread::yield();
      const std::lock_guard lock(mutex_);
      const auto user = users_.find(static_cast<uid_t>(key));
      if (user != users_.end()) serve(user->second);
    }
  }
}

void Relay::serve(User& user) {
  std::array<epoll_event, kReadySocketsInOneTurn> ready;
  const int count = raw::epoll_wait(user.epoll.get(), ready.data(), kReadySocketsInOneTurn, 0);
  std::size_t octets = 0;
  for (int i = 0; i < count && octets < kOctetsInOneTurn; ++i)
    octets += relay_from(static_cast<int>(ready[static_cast<std::size_t>(i)].data.u64));
}

std::size_t Relay::relay_from(int socket) {
  for (mmsghdr& message : flock_.messages) {
    message.msg_hdr.msg_namelen = sizeof(link::SenderAddress);
    message.msg_hdr.msg_controllen = sizeof(Control);
  }
  const int count = raw::recvmmsg(socket, flock_.messages.data(), kFlock, MSG_DONTWAIT, nullptr);
  std::size_t octets = 0;
  for (int i = 0; i < count; ++i) {
    const mmsghdr& message = flock_.messages[static_cast<std::size_t>(i)];
    pass_on(message);
    octets += message.msg_len;
  }
  return octets;
}

void Relay::pass_on(const mmsghdr& received) {
  const msghdr& message = received.msg_hdr;
  Octets datagram(static_cast<const std::uint8_t*>(message.msg_iov->iov_base), received.msg_len);
  const bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  const auto envelope = whole ? link::read_envelope(message) : std::nullopt;
  const std::size_t step =
      envelope && envelope->segment_octets != 0 ? envelope->segment_octets : datagram.size();
  if (!envelope || datagram.size() < kPacketMin || step < kPacketMin) {
    ++tally_.dropped_other;
    return;
  }
  // Forward the longest run for one slot at a time; that is usually everything.
  while (datagram.size() >= kPacketMin) {
    const Slot slot = slot_of_packet(datagram);
    std::size_t run = std::min(step, datagram.size());
    while (datagram.size() - run >= kPacketMin && slot_of_packet(datagram.subspan(run)) == slot)
      run += std::min(step, datagram.size() - run);
    deliver(slot, *envelope, datagram.first(run));
    datagram = datagram.subspan(run);
  }
}

void Relay::deliver(Slot slot, link::Envelope envelope, Octets segments) {
  const Line* line = lines_[slot].get();
  if (line == nullptr) {
    ++tally_.dropped_other;
    return;
  }
  User& user = users_.at(line->user);
  link::RelayHeader header = link::relay_header(envelope);
  std::array<iovec, 2> pieces = {
      {{&header, sizeof header}, {const_cast<std::uint8_t*>(segments.data()), segments.size()}}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const std::size_t octets = sizeof header + segments.size();
  const bool sent =
      has_room(user, octets) && raw::sendmsg(line->out.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  if (!sent) {
    ++tally_.dropped_full;
    return;
  }
  user.waiting += octets;
  waiting_ += octets;
  ++tally_.datagrams;
}

// `waiting` counts the bytes sent. The kernel is asked for the bytes read meanwhile only if the count reaches
// the user's bound. That costs a call for each slot: if it does not make much room, the program does not
// read, and the next ones are dropped without asking.
bool Relay::has_room(User& user, std::size_t octets) {
  if (user.waiting + octets <= share_of(user)) return true;
  if (user.drops++ % kDropsBetweenCounts != 0) return false;
  const auto has_much = [&] { return user.waiting + octets <= share_of(user) / 8 * 7; };
  count_waiting(user);
  if (!has_much()) {
    for (auto& [uid, other] : users_) count_waiting(other);
  }
  if (!has_much()) return false;
  user.drops = 0;
  return true;
}

// Half of what the others leave.
std::uint64_t Relay::share_of(const User& user) const {
  const std::uint64_t others = waiting_ - user.waiting;
  return others < kUnreadOctetsOfAll ? (kUnreadOctetsOfAll - others) / 2 : 0;
}

void Relay::count_waiting(User& user) {
  std::uint64_t octets = 0;
  for (const Slot slot : user.slots) {
    int unread = 0;
    if (::ioctl(lines_[slot]->out.get(), SIOCOUTQ, &unread) == 0 && unread > 0)
      octets += static_cast<std::uint64_t>(unread);
  }
  waiting_ = waiting_ - user.waiting + octets;
  user.waiting = octets;
}

}  // namespace rrdma::daemon
