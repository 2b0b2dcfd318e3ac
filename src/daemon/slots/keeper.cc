#include "daemon/slots/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "control/identity.h"
#include "control/message_socket.h"
#include "control/names.h"
#include "daemon/log.h"
#include "daemon/slots/parking.h"
#include "daemon/slots/slot_ledger.h"

namespace rrdma::daemon {
namespace {

constexpr int kFirstListenFd = 3;  // systemd passes stored descriptors from here on
constexpr std::string_view kStoreName = "rrdma-parking";
constexpr timespec kReconnectPause = {.tv_sec = 0, .tv_nsec = 100'000'000};
constexpr int kAttemptsMax = 6000;  // ten minutes without a daemon
constexpr int kAttemptsBetweenLooks = 10;
constexpr int kStartOfKeeperMs = 10'000;

// Sends one datagram to $NOTIFY_SOCKET, with one descriptor or none.
bool notify_service(std::string_view text, int fd) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::strlen(path);
  if (size >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';

  iovec content{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  const OwnedFd socket(raw::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return raw::sendmsg(socket.get(), &message, MSG_NOSIGNAL) >= 0;
}

enum class Episode : std::uint8_t { kLost, kRetired };

// Holds the parking for the lifetime of one daemon.
Episode keep_for(int socket, const OwnedFd& parking) {
  control::Hello hello;
  hello.role = control::Role::kKeeper;
  hello.program = "rrdmad keeper";
  hello.offers_parking = true;
  const int fds[] = {parking.get()};
  if (control::send_greeting(socket, control::encode(hello, 1), fds) != control::SendOutcome::kSent)
    return Episode::kLost;
  for (;;) {
    pollfd wait{.fd = socket, .events = POLLIN, .revents = 0};
    if (raw::ppoll(&wait, 1, nullptr) < 0 && errno != EINTR) return Episode::kLost;
    control::Received message;
    switch (control::receive_message(socket, message)) {
      case control::ReceiveOutcome::kNothing: continue;
      case control::ReceiveOutcome::kMessage:
        if (message.as<control::Retire>()) return Episode::kRetired;
        if (message.type() == control::MessageType::kRefused) return Episode::kLost;
        continue;
      default: return Episode::kLost;
    }
  }
}

// Whether a program may still use a slot, according to the ledger.
bool is_needed(const OwnedFd& parking) {
  const auto adopted = Parking::adopt(parking.duplicate());
  auto first = adopted ? adopted->peek(0) : std::nullopt;
  KeySource keys(1);  // nothing is allocated here
  auto ledger = first ? SlotLedger::adopt(std::move(first->ledger), keys) : std::nullopt;
  if (!ledger) return false;
  for (unsigned i = 1; i < control::kSlotCount; ++i) {
    const auto slot = static_cast<Slot>(i);
    if (ledger->row(slot).held && ledger->holder_state(slot) != SlotLedger::Holder::kDead) return true;
  }
  return false;
}

void keep(const OwnedFd& parking) {
  for (int attempt = 1; attempt < kAttemptsMax; ++attempt) {
    if (attempt % kAttemptsBetweenLooks == 0 && !is_needed(parking)) return;
    for (const std::string& name : {control::system_path(), std::string(control::kNetworkName)}) {
      const OwnedFd socket = control::connect_to(name);
      if (!socket || !control::is_own_user(control::peer_identity(socket.get()))) continue;
      if (keep_for(socket.get(), parking) == Episode::kRetired) return;
      attempt = 0;  // counts from the loss of this daemon
    }
    (void)raw::ppoll(nullptr, 0, &kReconnectPause);
  }
}

}  // namespace

void announce_ready() { (void)notify_service("READY=1", -1); }

bool store_parking(int parking_end) {
  return notify_service("FDSTORE=1\nFDNAME=" + std::string(kStoreName), parking_end);
}

void drop_stored_parking() { (void)notify_service("FDSTOREREMOVE=1\nFDNAME=" + std::string(kStoreName), -1); }

OwnedFd stored_parking() {
  const char* pid = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  const char* names = std::getenv("LISTEN_FDNAMES");
  if (pid == nullptr || count == nullptr || std::atoi(pid) != raw::getpid()) return {};
  std::string_view rest = names == nullptr ? std::string_view() : std::string_view(names);
  for (int fd = kFirstListenFd; fd < kFirstListenFd + std::atoi(count); ++fd) {
    const auto colon = rest.find(':');
    if (rest.substr(0, colon) == kStoreName) {
      (void)raw::fcntl(fd, F_SETFD, FD_CLOEXEC);
      return OwnedFd(fd);
    }
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  }
  return {};
}

// The keeper must inherit nothing of the daemon, above all not the lock: a daemon that is killed and started
// again before the keeper has closed it would find another one running.
void start_keeper(int parking_end) {
  int ends[2] = {-1, -1};  // the keeper closes the second with all others
  (void)::pipe2(ends, O_CLOEXEC);
  const OwnedFd closed(ends[0]);
  OwnedFd open(ends[1]);
  const pid_t child = ::fork();
  if (child < 0)
    log_line("the keeper of the sockets could not be started: " + std::string(std::strerror(errno)) + ".");
  if (child != 0) {
    open.reset();
    pollfd end{.fd = closed.get(), .events = 0, .revents = 0};
    if (closed) (void)::poll(&end, 1, kStartOfKeeperMs);
    return;
  }
  constexpr int kKept = 3;
  if (parking_end != kKept) (void)raw::dup3(parking_end, kKept, O_CLOEXEC);
  (void)raw::close_range(kKept + 1, ~0u, 0);
  (void)::setsid();
  (void)::prctl(PR_SET_NAME, "rrdmad-keeper");
  keep(OwnedFd(kKept));
  ::_exit(0);
}

}  // namespace rrdma::daemon
