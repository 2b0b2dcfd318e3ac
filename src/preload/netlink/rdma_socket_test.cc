// Questions by netlink: what the kernel answers, and processes that fork meanwhile. NETLINK_ROUTE stands for
// NETLINK_RDMA, which few kernels have.
#include "preload/netlink/rdma_socket.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/owned_fd.h"
#include "preload/netlink/forwarding.h"

namespace rrdma::netlink::rdma_socket_test {

constexpr int kCannotRun = 77;

// Runs `body` in a child with a network namespace of its own. Its status 0 is success.
void in_own_network(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int user = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
    ::_exit(::unshare(CLONE_NEWNET | user) != 0 ? kCannotRun : body());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kCannotRun) GTEST_SKIP() << "network namespaces are not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

bool give_addresses(int count) {
  const OwnedFd socket(raw::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (int i = 1; i <= count; ++i) {
    ifreq request{};
    std::strcpy(request.ifr_name, ("lo:" + std::to_string(i)).c_str());
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<std::uint32_t>(i));
    std::memcpy(&request.ifr_addr, &address, sizeof address);
    if (::ioctl(socket.get(), SIOCSIFADDR, &request) != 0) return false;
  }
  return true;
}

std::vector<std::uint8_t> question(std::uint16_t type, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  const nlmsghdr header{.nlmsg_len = static_cast<std::uint32_t>(size),
                        .nlmsg_type = type,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                        .nlmsg_seq = 7,
                        .nlmsg_pid = 0};
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

const std::vector<std::uint8_t> kAddresses = question(RTM_GETADDR, NLMSG_SPACE(sizeof(ifaddrmsg)));

OwnedFd kernel_socket() { return OwnedFd(raw::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)); }

TEST(Forwarding, EveryDatagramFitsTheRoomOfTheProgram) {
  in_own_network([] {
    constexpr std::size_t kCount = 250;
    if (!give_addresses(kCount)) return 1;
    std::size_t most = 0, messages = 0;
    const int error = forward(kernel_socket().get(), kAddresses, [&](MutableOctets datagram) {
      most = std::max(most, datagram.size());
      for (std::size_t at = 0; at < datagram.size(); ++messages)
        at += NLMSG_ALIGN(load_native<std::uint32_t>(datagram.data() + at));
    });
    if (error != 0) return 2;
    if (messages != kCount + 1) return 3;
    return most <= datagram_max() ? 0 : 4;
  });
}

TEST(Forwarding, AnswersOfOthersAreNone) {
  in_own_network([] {
    const OwnedFd kernel = kernel_socket(), other = kernel_socket();
    sockaddr_nl address{};
    socklen_t size = sizeof address;
    address.nl_family = AF_NETLINK;
    if (raw::bind(kernel.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 1;
    (void)raw::getsockname(kernel.get(), reinterpret_cast<sockaddr*>(&address), &size);
    const auto forged = question(NLMSG_DONE, NLMSG_SPACE(sizeof(int)));
    if (raw::sendto(other.get(), forged.data(), forged.size(), 0, reinterpret_cast<sockaddr*>(&address),
                    sizeof address) < 0)
      return kCannotRun;  // the right to do so belongs to the first user namespace
    std::size_t datagrams = 0, bytes = 0;
    const int error = forward(kernel.get(), kAddresses, [&](MutableOctets datagram) {
      ++datagrams;
      bytes += datagram.size();
    });
    // lo is down and has no address: the kernel answers only that the list ends.
    return error == 0 && datagrams == 1 && bytes == forged.size() ? 0 : 2;
  });
}

TEST(Forwarding, TellsWhyItFailed) {
  const auto nothing = [](MutableOctets) { ADD_FAILURE() << "nobody can have answered"; };
  EXPECT_EQ(forward(-1, kAddresses, nothing), EBADF);
  const OwnedFd kernel(raw::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK));
  EXPECT_EQ(forward(kernel.get(), kAddresses, nothing), ECONNREFUSED);
}

// Asks for the devices as a program does, and reads the answer to its end.
bool ask_for_devices() {
  const OwnedFd socket(open_socket(SOCK_RAW | SOCK_CLOEXEC));
  const auto devices = question(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), NLMSG_HDRLEN);
  if (ask(socket.get(), devices) != static_cast<ssize_t>(devices.size())) return false;
  std::uint8_t answer[8192];
  return raw::recvfrom(socket.get(), answer, sizeof answer, MSG_DONTWAIT, nullptr, nullptr) > 0;
}

TEST(RdmaSocket, AChildMayAskWhileItsParentWasAskingAtTheFork) {
  in_own_network([] {
    (void)ask_for_devices();  // the first use of the library is not meant
    std::atomic<bool> ends{false};
    std::thread asker([&] {
      while (!ends) (void)ask_for_devices();
    });
    int failed = 0;
    for (int i = 0; i < 50 && failed == 0; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(20);
        ::_exit(ask_for_devices() ? 0 : 1);
      }
      int status = 0;
      if (::waitpid(child, &status, 0) != child) return 3;
      if (status != 0) failed = WIFEXITED(status) ? 1 : 2;
    }
    ends = true;
    asker.join();
    return failed;
  });
}

}  // namespace rrdma::netlink::rdma_socket_test
