// The relay of a system daemon, on real sockets of the loopback interface, between an honest program and
// a hostile user that holds two slots. The input sends datagrams of any content, merged ones too, and
// makes the hostile user misuse its ends: shut them down, disconnect, shrink, filter, never read, send
// back, pass descriptors, close. Oracle: each datagram of the honest program arrives, in order and whole,
// and nothing else does; closing a slot ends.
#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

#include "cost.h"
#include "daemon/slots/relay.h"
#include "daemon/slots/slot_socket.h"
#include "input.h"

namespace rrdma::relay_fuzz {

using rrdma::fuzz::Cost;
using rrdma::fuzz::Input;

constexpr control::Slot kHonest = 5, kHostile = 6, kOther = 70;
constexpr uid_t kHonestUser = 1001, kHostileUser = 1002;
constexpr std::size_t kMostUnread = 8;
constexpr int kPatienceMs = 15'000;  // the relay's thread may wait long for a core of a busy machine
constexpr std::size_t kQpnOffset = 5;

void require(bool condition) {
  if (!condition) std::abort();
}

// The program's end of a slot, and the socket that the daemon keeps.
struct Line {
  control::Slot slot = 0;
  uid_t user = 0;
  sockaddr_in address{};
  OwnedFd end;
};

// Control data of one message: a single value.
template <typename Value>
struct Note {
  void attach(msghdr& message, int level, int type, Value value) {
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = level;
    head->cmsg_type = type;
    head->cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(CMSG_DATA(head), &value, sizeof value);
  }
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(Value))> room{};
};

void open(daemon::Relay& relay, Line& line) {
  OwnedFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  require(::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0);
  socklen_t size = sizeof line.address;
  require(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&line.address), &size) == 0);
  daemon::prepare_slot_socket(socket.get(), AF_INET, daemon::kRelayedReceiveBuffer);
  auto end = relay.open(line.slot, line.user, {std::move(socket), {}});
  require(end.ok());
  line.end = std::move(*end);
}

class Machine {
 public:
  explicit Machine(Input& input)
      : input_(input), sender_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    honest_ = {kHonest, kHonestUser, {}, {}};
    hostile_[0] = {kHostile, kHostileUser, {}, {}};
    hostile_[1] = {kOther, kHostileUser, {}, {}};
    open(relay_, honest_);
    for (Line& line : hostile_) open(relay_, line);
  }
  void run() {
    while (!input_.empty()) {
      const Cost cost({.ms = 200, .octets = 1 << 20});
      step();
    }
    while (!expected_.empty()) receive();
    std::uint8_t more = 0;
    require(::recv(honest_.end.get(), &more, 1, MSG_DONTWAIT) < 0);
    relay_.close(kHonest);
    for (const Line& line : hostile_) relay_.close(line.slot);
  }

 private:
  void send(const Line& to, Octets datagram, std::uint16_t segment = 0) {
    msghdr message{};
    iovec piece{const_cast<std::uint8_t*>(datagram.data()), datagram.size()};
    message.msg_name = const_cast<sockaddr_in*>(&to.address);
    message.msg_namelen = sizeof to.address;
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    Note<std::uint16_t> note;
    if (segment != 0) note.attach(message, IPPROTO_UDP, UDP_SEGMENT, segment);
    (void)::sendmsg(sender_.get(), &message, MSG_DONTWAIT);
  }
  static void address_to(std::span<std::uint8_t> packet, control::Slot slot) {
    store_be24(packet.data() + kQpnOffset, control::qpns_of(slot).first);
  }

  // A datagram of the honest program, numbered.
  void send_honest() {
    while (expected_.size() >= kMostUnread) receive();
    std::vector<std::uint8_t> packet(16 + input_.word() % 2000, 0);
    address_to(packet, kHonest);
    store_be32(packet.data() + 8, ++number_);
    expected_.push_back(packet);
    send(honest_, packet);
  }
  void receive() {
    pollfd waiting{honest_.end.get(), POLLIN, 0};
    require(::poll(&waiting, 1, kPatienceMs) == 1);
    std::array<std::uint8_t, 4096> datagram;
    const auto size = ::recv(honest_.end.get(), datagram.data(), datagram.size(), MSG_DONTWAIT);
    const std::vector<std::uint8_t>& wanted = expected_.front();
    require(size == static_cast<ssize_t>(sizeof(link::RelayHeader) + wanted.size()));
    require(std::memcmp(datagram.data() + sizeof(link::RelayHeader), wanted.data(), wanted.size()) == 0);
    expected_.pop_front();
  }

  void misuse(Line& line) {
    const int end = line.end.get();
    const std::uint8_t what = input_.octet();
    if (end < 0) {
      relay_.close(line.slot);
      open(relay_, line);
      return;
    }
    switch (what % 10) {
      case 0: (void)::shutdown(end, what >> 4 & 3); break;
      case 1: {
        sockaddr nobody{};
        nobody.sa_family = AF_UNSPEC;
        (void)::connect(end, &nobody, sizeof nobody);
        break;
      }
      case 2: {
        const int small = input_.word();
        (void)::setsockopt(end, SOL_SOCKET, (what & 0x80) != 0 ? SO_RCVBUF : SO_SNDBUF, &small, sizeof small);
        break;
      }
      case 3: {
        sock_filter none[] = {BPF_STMT(BPF_RET | BPF_K, (what & 0x80u) != 0 ? 1u : 0u)};
        const sock_fprog program{1, none};
        (void)::setsockopt(end, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
        break;
      }
      case 4: {
        const Octets back = input_.take(input_.octet());
        (void)::send(end, back.data(), back.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
      }
      case 5: {
        std::uint8_t one = 1;
        iovec piece{&one, 1};
        msghdr message{};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        Note<int> note;
        note.attach(message, SOL_SOCKET, SCM_RIGHTS, end);
        (void)::sendmsg(end, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        break;
      }
      case 6: line.end.reset(); break;
      case 7: {
        std::array<std::uint8_t, 4096> into;
        (void)::recv(end, into.data(), into.size(), MSG_DONTWAIT | ((what & 0x80) != 0 ? MSG_PEEK : 0));
        break;
      }
      case 8: {  // fills what the kernel keeps for it
        std::vector<std::uint8_t> packet(1400, 0);
        address_to(packet, line.slot);
        for (int i = 0; i < 32; ++i) send(line, packet);
        break;
      }
      default: relay_.close(line.slot); open(relay_, line);
    }
  }

  void step() {
    const std::uint8_t what = input_.octet();
    Line& line = hostile_[what >> 7];
    switch (what % 6) {
      case 0: send_honest(); break;
      case 1: {  // any bytes; not to the honest program, which counts its own
        const Octets bytes = input_.take(input_.octet());
        std::vector<std::uint8_t> packet(bytes.begin(), bytes.end());
        if (packet.size() >= kQpnOffset + 3 &&
            control::slot_of_qpn(load_be24(packet.data() + kQpnOffset)) == kHonest)
          address_to(packet, kOther);
        send(line, packet);
        break;
      }
      case 2: {  // a train for several slots
        const std::uint16_t segment = static_cast<std::uint16_t>(16 + input_.octet());
        std::vector<std::uint8_t> train(segment * (std::size_t{1} + input_.below(16)) - (what >> 6), 0);
        for (std::size_t at = 0; at + 16 <= train.size(); at += segment)
          address_to(std::span(train).subspan(at), (input_.octet() & 1) != 0 ? kHostile : kOther);
        send(line, train, segment);
        break;
      }
      case 3:
      case 4: misuse(line); break;
      default:
        if (!expected_.empty()) receive();
    }
  }

  Input& input_;
  OwnedFd sender_;
  daemon::Relay relay_;
  Line honest_;
  std::array<Line, 2> hostile_;
  std::deque<std::vector<std::uint8_t>> expected_;
  std::uint32_t number_ = 0;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(Octets(data, size));
  Machine machine(input);
  machine.run();
  return 0;
}

}  // namespace rrdma::relay_fuzz
