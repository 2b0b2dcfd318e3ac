// The state that a daemon takes over from an earlier one: a parking and a ledger that another process may
// have written. The input adds and removes valid and invalid parcels, with sockets of the port and with
// anything else, and overwrites the ledger. The daemon's calls respect their bounds in every case.
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "cost.h"
#include "daemon/slots/parking.h"
#include "daemon/slots/slot_ledger.h"
#include "input.h"

namespace rrdma::parking_fuzz {

using namespace rrdma::daemon;
using fuzz::Input;

constexpr int kStepsMax = 64;
constexpr std::size_t kSocketsMax = 64;
constexpr std::size_t kHeaderOctets = 16;
constexpr std::size_t kLedgerHead = 65536;  // region of the rows that are overwritten

// Sockets of port 4791 in a private network namespace, if it can be created.
std::vector<OwnedFd> slot_sockets() {
  std::vector<OwnedFd> sockets;
  if (::unshare(CLONE_NEWNET) != 0) return sockets;
  while (sockets.size() < kSocketsMax) {
    auto socket = bind_slot_socket(AF_INET, sockets.empty());
    if (!socket) break;
    sockets.push_back(std::move(*socket));
  }
  return sockets;
}

class World {
 public:
  World(Input input, const std::vector<OwnedFd>& sockets) : input_(input), sockets_(sockets) {
    int ends[2];
    RRDMA_ASSERT(raw::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    end_ = OwnedFd(ends[0]);
    feed_ = OwnedFd(ends[1]);
  }

  void run() {
    lay(0, 16, control::kFamilyV4, 2 + 16);
    for (int step = 0; step < kStepsMax && !input_.empty(); ++step) {
      const fuzz::Cost cost({.ms = 200, .octets = 1 << 20});
      one_step();
    }
  }

 private:
  void one_step() {
    switch (input_.below(6)) {
      case 0: lay_any(); break;
      case 1: take_away(); break;
      case 2: scribble(); break;
      case 3: use_parking(); break;
      default: use_ledger(); break;
    }
  }

  // ---- the attacker ----

  void lay_any() {
    const std::size_t index = input_.below(16);
    const bool right = input_.below(4) != 0;
    const std::uint16_t count = right ? parcel_slots(index) : static_cast<std::uint16_t>(input_.word());
    const auto first = right ? first_slot_of_parcel(index) : static_cast<std::uint16_t>(input_.word());
    const std::size_t descriptors = right ? count + (index == 0 ? 2u : 0u) : input_.below(140);
    lay(first, count, input_.below(4), descriptors);
  }
  void lay(std::uint16_t first, std::uint16_t count, std::uint8_t families, std::size_t descriptors) {
    std::array<std::uint8_t, kHeaderOctets> header{};
    const std::uint32_t magic = 0x52525053;
    const std::uint16_t version = 2;
    std::memcpy(header.data(), &magic, 4);
    std::memcpy(header.data() + 4, &version, 2);
    std::memcpy(header.data() + 6, &first, 2);
    std::memcpy(header.data() + 8, &count, 2);
    header[10] = families;
    for (unsigned i = input_.below(3); i > 0; --i) header[input_.below(kHeaderOctets)] = input_.octet();
    send(Octets(header).first(input_.below(32) == 1 ? 7 : kHeaderOctets), passed(descriptors, first == 0));
  }
  std::vector<int> passed(std::size_t count, bool is_first) {
    std::vector<int> fds;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_first && i < 2)
        fds.push_back(i == 0 ? feed_.get() : ledger_.fd());
      else
        fds.push_back(sockets_.empty() || (i == 5 && input_.below(8) == 1)
                          ? end_.get()
                          : sockets_[i % sockets_.size()].get());
    }
    return fds;
  }
  void send(Octets header, const std::vector<int>& fds) {
    iovec content{const_cast<std::uint8_t*>(header.data()), header.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(160 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
    }
    (void)raw::sendmsg(feed_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  void take_away() {
    std::uint8_t octets[kHeaderOctets];
    (void)::recv(end_.get(), octets, sizeof octets, MSG_DONTWAIT);
  }
  void scribble() {
    const off_t at = input_.word() * 4 % kLedgerHead;
    const Octets octets = input_.take(input_.octet());
    (void)!::pwrite(ledger_.fd(), octets.data(), octets.size(), at);
  }

  // ---- the daemon ----

  void use_parking() {
    auto parking = Parking::adopt(end_.duplicate());
    if (!parking) return;
    RRDMA_ASSERT(parking->slots_parked() > 0 && parking->slots_parked() <= control::kSlotCount);
    const auto slot = static_cast<Slot>(input_.word() % parking->slots_parked());
    if (input_.below(2) == 0) take_away();
    (void)parking->sockets_of(slot);
    (void)parking->peek(input_.below(kParcels));
  }
  void use_ledger() {
    auto adopted = SlotLedger::adopt(OwnedFd(raw::fcntl(ledger_.fd(), F_DUPFD_CLOEXEC, 3)), keys_);
    if (!adopted) return;
    for (unsigned slot = 0; slot < control::kSlotCount; ++slot) {
      const LedgerRow& row = adopted->row(static_cast<Slot>(slot));
      RRDMA_ASSERT(row.groups.size() <= kGroupsPerSlotMax);
      RRDMA_ASSERT(row.next_index < control::qpns_of(static_cast<Slot>(slot)).count);
    }
    const auto slot = static_cast<Slot>(input_.word() % control::kSlotCount);
    const GroupRow group{.group = wire::gid_of_ipv4({239, 1, 1, input_.octet()}), .interface_index = 1};
    const control::PeerIdentity somebody{.pid = ::getpid(), .uid = input_.octet()};
    (void)adopted->holder_state(slot);
    (void)adopted->may_be_holder(slot, somebody);
    for (unsigned i = input_.below(64); i > 0; --i) (void)adopted->join(slot, group);
    if (input_.below(2) == 0) adopted->leave(slot, group);
    if (input_.below(2) == 0) adopted->hold(slot, somebody, static_cast<std::uint16_t>(input_.word()));
    if (input_.below(2) == 0) adopted->free(slot, static_cast<std::uint16_t>(input_.word()));
  }

  Input input_;
  const std::vector<OwnedFd>& sockets_;
  KeySource keys_{1};
  SlotLedger ledger_ = SlotLedger::create(keys_).value();
  OwnedFd end_, feed_;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto* const sockets = new std::vector<OwnedFd>(slot_sockets());
  World(Input(Octets(data, size)), *sockets).run();
  return 0;
}

}  // namespace rrdma::parking_fuzz
