#include "link/shm/introduction.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace rrdma::link {
namespace {

constexpr std::uint64_t kIntroductionMagic = 0x314f5254'4e495252;
constexpr std::size_t kFdsHeardMax = 4;

struct IntroductionMessage {
  std::uint64_t magic;
  DirectIntroduction introduction;
};
static_assert(sizeof(IntroductionMessage) == 40);

// Takes one descriptor and closes the others: the peer may send any number.
void take_descriptors(const cmsghdr& header, OwnedFd& fd) {
  const std::size_t count = (header.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int given;
    std::memcpy(&given, CMSG_DATA(&header) + i * sizeof given, sizeof given);
    fd = OwnedFd(given);
  }
}

}  // namespace

bool send_introduction(int doorbell, const DirectIntroduction& introduction, int table_fd) {
  IntroductionMessage message{.magic = kIntroductionMagic, .introduction = introduction};
  iovec vector{&message, sizeof message};
  alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
  msghdr packet{};
  packet.msg_iov = &vector;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&packet);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &table_fd, sizeof table_fd);
  header = CMSG_NXTHDR(&packet, header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_CREDENTIALS;
  header->cmsg_len = CMSG_LEN(sizeof(ucred));
  const ucred credentials{.pid = raw::getpid(), .uid = ::getuid(), .gid = ::getgid()};
  std::memcpy(CMSG_DATA(header), &credentials, sizeof credentials);
  return raw::sendmsg(doorbell, &packet, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

Heard hear(int doorbell, HeardIntroduction& heard) {
  IntroductionMessage message{};
  iovec vector{&message, sizeof message};
  alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(kFdsHeardMax * sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
  msghdr packet{};
  packet.msg_iov = &vector;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof control;
  const ssize_t got = raw::recvmsg(doorbell, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Heard::kNothing : Heard::kHangUp;
  OwnedFd table;
  pid_t pid = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&packet); header != nullptr; header = CMSG_NXTHDR(&packet, header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    if (header->cmsg_type == SCM_RIGHTS) take_descriptors(*header, table);
    if (header->cmsg_type != SCM_CREDENTIALS || header->cmsg_len < CMSG_LEN(sizeof(ucred))) continue;
    ucred credentials;
    std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
    pid = credentials.pid;
  }
  if (got == 0) return Heard::kHangUp;
  if (got != static_cast<ssize_t>(sizeof message) || message.magic != kIntroductionMagic || !table)
    return Heard::kKnock;
  heard.introduction = message.introduction;
  heard.table = std::move(table);
  heard.pid = pid;
  return Heard::kIntroduction;
}

}  // namespace rrdma::link
