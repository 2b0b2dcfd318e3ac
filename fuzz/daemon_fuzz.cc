// A daemon's dispatch and clients of two users, all driven by the input: connections that come and go,
// greetings, and messages of every kind in any order (also of the connection manager, of captures, of fault
// rules and of recognition), valid or corrupted, with or without descriptors and pages. The parts of the
// daemon are assembled as in main.cc, without the network. Nothing ends the daemon, one message costs little,
// the shares add up, and nothing is held after all clients have gone.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "control/capture_messages.h"
#include "control/cm_messages.h"
#include "control/fault_messages.h"
#include "control/process_page.h"
#include "control/recognition_messages.h"
#include "control/verbatim_mads.h"
#include "cost.h"
#include "daemon/captures.h"
#include "daemon/fault_rules.h"
#include "daemon/last_answers.h"
#include "daemon/peers.h"
#include "daemon/qp1/captured_mads.h"
#include "daemon/qp1/cm_service.h"
#include "daemon/qp1/injected_mads.h"
#include "daemon/qp1/kernel_mads.h"
#include "daemon/qp1/recognition.h"
#include "daemon/registry/device_totals.h"
#include "daemon/registry/registry.h"
#include "daemon/server.h"
#include "daemon/slots/multicast.h"
#include "daemon/slots/slots.h"
#include "input.h"

namespace rrdma::daemon_fuzz {

using namespace rrdma::control;
using namespace rrdma::daemon;
using fuzz::Input;

constexpr std::size_t kClients = 6;
constexpr std::size_t kStepsMax = 256;
constexpr int kTurnsToEmpty = 1000;
const wire::Gid kHere = wire::gid_of_ipv4({127, 0, 0, 1});

class World {
 public:
  explicit World(Input input) : input_(input) {
    network_.stay_down();
    for (Subsystem* subsystem : subsystems()) server_.add(*subsystem);
  }
  ~World() {
    for (auto& end : ends_) end.reset();
    // A client with many messages is read in several turns.
    for (int i = 0; i < kTurnsToEmpty && server_.client_count() != 0; ++i) turn();
    RRDMA_ASSERT(server_.client_count() == 0);
    RRDMA_ASSERT(slots_.held_count() == 0);
  }

  void run() {
    for (std::size_t step = 0; step < kStepsMax && !input_.empty(); ++step) {
      const fuzz::Cost cost;
      one_step(input_.octet());
      turn();
      RRDMA_ASSERT(server_.client_count() <= kClients);
      RRDMA_ASSERT(slots_.held_count() <= kClients * kSlotsOfProgramMax);
    }
  }

 private:
  std::array<Subsystem*, 12> subsystems() {
    return {&last_answers_,  &captures_,  &fault_rules_, &slots_,       &peers_,       &registry_,
            &device_totals_, &multicast_, &connections_, &recognition_, &kernel_mads_, &qp1_};
  }

  void one_step(std::uint8_t piece) {
    OwnedFd& end = ends_[piece % kClients];
    switch (piece / kClients % 8) {
      case 0: connect(end, piece % 2); break;
      case 1: end.reset(); break;
      case 2: greet(end); break;
      default: send(end, mangled(any_message()), input_.below(4)); break;
    }
  }

  // Half of the clients belong to another user.
  void connect(OwnedFd& end, unsigned user) {
    int pair[2];
    RRDMA_ASSERT(raw::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    end = OwnedFd(pair[0]);
    PeerIdentity identity = peer_identity(pair[1]);
    identity.uid += user;
    server_.admit(OwnedFd(pair[1]), identity);
  }

  void send(const OwnedFd& end, const std::vector<std::uint8_t>& datagram, unsigned fds) {
    if (!end) return;
    Received answer;
    while (input_.below(2) == 0 && receive_message(end.get(), answer) == ReceiveOutcome::kMessage) {
    }
    // Never pass its own end: a client that does this and does not read its answers stays until its process
    // ends.
    const std::array<int, 4> passed = {memory_.get(), bystander_.get(), memory_.get(), bystander_.get()};
    (void)send_datagram(end.get(), datagram, std::span(passed).first(fds));
  }

  // A hello with an odd token brings a page, on which the program says what it likes.
  void greet(const OwnedFd& end) {
    Hello greeting = hello();
    if (!end || greeting.token % 2 == 0) return send(end, encode(greeting, 1), 0);
    auto page = ProcessPage::create();
    RRDMA_ASSERT(page.ok());
    greeting.has_page = true;
    const std::array<int, 1> passed = {page->fd()};
    write_answers(*page);
    (void)send_datagram(end.get(), encode(greeting, 1), passed);
  }
  void write_answers(ProcessPage& page) {
    for (unsigned rows = input_.below(8); rows > 0; --rows) {
      QpRow* const row = page.create_qp();
      QpFields fields{
          .qpn = 5, .peer_qpn = qpns_of(slot()).first + input_.octet(), .type = 2, .link = kLinkUdp};
      fields.local_gid = fields.peer_gid = kHere;
      fields.source_port = 0xc000;
      const Octets lies = input_.take(input_.below(sizeof fields));
      std::memcpy(static_cast<void*>(&fields), lies.data(), lies.size());
      ProcessPage::update_qp(*row, fields);
      wire::LastAnswer::write(row->last_answer, wire::Psn(input_.word()), input_.word(), EventLoop::now());
    }
  }

  Hello hello() {
    Hello hello;
    hello.role = static_cast<Role>(input_.below(3));
    hello.token = input_.octet();
    for (unsigned i = input_.below(3); i > 0; --i) hello.claims.push_back({.slot = slot(), .next_index = 7});
    return hello;
  }
  Slot slot() { return static_cast<Slot>(input_.word() % kSlotCount); }
  // Small numbers, so that they collide.
  std::uint32_t number() { return input_.below(4); }
  cm::ConnectionId connection() {
    return {known_.empty() ? number() : known_[input_.below(64) % known_.size()]};
  }

  std::vector<std::uint8_t> any_message() {
    switch (input_.below(26)) {
      case 0: return encode(RequestSlot{}, 2);
      case 1: return encode(ReleaseSlot{.slot = slot(), .next_index = 3}, 2);
      case 2: return encode(UpdateProcess{.links = input_.octet(), .devices = "d"}, 2);
      case 3: return encode(LookUpSlot{.slot = slot()}, 2);
      case 4: return encode(OfferChannel{.from_slot = slot(), .to_slot = slot()}, 2);
      case 5: return encode(ForwardFrame{.content = {.frame = std::vector<std::uint8_t>(input_.octet())}}, 0);
      case 6: return encode(ListProcesses{}, 2);
      case 7: return encode(QueryStatus{}, 2);
      case 8: return encode(JoinGroup{.slot = slot(), .group = wire::gid_of_ipv4({239, 1, 1, 1})}, 2);
      case 9: return encode(LeaveGroup{.slot = slot(), .group = wire::gid_of_ipv4({239, 1, 1, 1})}, 2);
      case 10: return encode(StartCapture{.pid = number()}, 2);
      case 11: return encode(StopCapture{}, 2);
      case 12:
        return encode(CmBind{.number = number(), .reuse = input_.below(2) == 0, .port = input_.below(3)}, 2);
      case 13: return encode(CmRelease{.number = number()}, 2);
      case 14: return encode(CmListen{.number = number(), .backlog = number()}, 2);
      case 15: return encode(CmConnect{.number = number(), .parameters = call()}, 2);
      case 16:
        return encode(CmLookUp{.number = number(), .parameters = {.route = route(), .service_id = service()}},
                      2);
      case 17: return encode(CmAccept{.connection = connection()}, 2);
      case 18: return encode(CmReject{.connection = connection()}, 2);
      case 19: return encode(CmReplyLookUp{.connection = connection()}, 2);
      case 20: return encode(CmReady{.connection = connection()}, 2);
      case 21: return encode(CmNotify{.connection = connection()}, 2);
      case 22: return encode(CmDisconnect{.connection = connection()}, 2);
      case 23: return encode(CmDestroy{.connection = connection()}, 2);
      case 24: {
        cm::EstablishedConnection standing{.id = {number()}, .remote_id = {number()}};
        standing.route = route();
        known_.push_back(standing.id.value);
        return encode(CmRestore{.number = number(), .connection = standing}, 2);
      }
      default: return later_message();
    }
  }
  // The kinds that came later. They have one number in any_message(), so that older inputs keep their
  // meaning.
  std::vector<std::uint8_t> later_message() {
    static constexpr std::array kRules = {"net=drop=5%,burst=4 peer=127.0.0.1 direction=out seed=9",
                                          "cm=drop:REQ every=2 count=7",
                                          "cm=reject:28 peer=127.0.0.1",
                                          "cm=timewait:1s",
                                          "cm=address",
                                          "verb=ibv_reg_mr:ENOMEM:3 device=rrdma0",
                                          "status=RETRY_EXC_ERR nth=10 qp=0x10001 after=1s for=2s"};
    switch (input_.below(8)) {
      case 0: return encode(Retire{}, 2);
      case 1:
      case 2: return encode(SetFault{.rule = kRules[input_.below(kRules.size())]}, 2);
      case 3: {
        const Octets text = input_.take(input_.octet());
        std::string rule(text.begin(), text.end());
        std::erase(rule, '\0');
        return encode(SetFault{.rule = rule}, 2);
      }
      case 4: return encode(ListFaults{}, 2);
      case 5: return encode(ClearFault{.number = number()}, 2);
      case 6: return kernel_message();
      default: {
        RecognisePeer question{.local = kHere, .remote = kHere, .interface_index = number()};
        question.remote.octets[14] = input_.octet();
        question.remote.octets[15] = input_.octet();
        return encode(question, 2);
      }
    }
  }
  // Of the server of the kernel's device, and of programs that capture their own messages.
  std::vector<std::uint8_t> kernel_message() {
    switch (input_.below(3)) {
      case 0: return encode(ClaimMads{}, 2);
      case 1: return encode(WatchMads{}, 2);
      default: {
        SendMad mad{.local = kHere, .remote = kHere};
        const Octets content = input_.take(input_.octet());
        std::copy(content.begin(), content.end(), mad.octets.begin());
        return encode(mad, 2);
      }
    }
  }
  cm::Route route() const { return {.local = kHere, .remote = kHere}; }
  std::uint64_t service() {
    return wire::service_id_of({.port_space = wire::PortSpace::kTcp, .port = input_.below(3)});
  }
  cm::ConnectParameters call() {
    return {.route = route(),
            .service_id = service(),
            .ip = wire::IpCmHeader{.version = wire::IpVersion::kIpv4, .source = kHere, .destination = kHere},
            .qpn = wire::Qpn(number()),
            .path_mtu = input_.below(7)};
  }

  std::vector<std::uint8_t> mangled(std::vector<std::uint8_t> datagram) {
    for (unsigned i = input_.below(4); i > 0; --i) datagram[input_.word() % datagram.size()] = input_.octet();
    if (input_.below(16) == 0) datagram.resize(input_.word() % datagram.size());
    return datagram;
  }

  // One turn of main's loop, without waiting.
  void turn() { server_.run_once(EventLoop::now()); }

  Input input_;
  KeySource keys_{1};
  Counters counters_;
  EventLoop loop_;
  Network network_{counters_, keys_};
  Server server_{
      {.is_system = true, .stays = true, .effort_of_user = seconds(3600)}, loop_, network_, counters_, keys_};
  Captures captures_{server_};
  FaultRules fault_rules_{server_};
  Slots slots_{server_, network_, counters_, keys_};
  Peers peers_{slots_, counters_};
  Registry registry_{server_, slots_, network_, counters_};
  DeviceTotals device_totals_{server_};
  Multicast multicast_{slots_, network_, counters_};
  MadPort qp1_{loop_, network_, counters_, 2};
  ConnectionService connections_{qp1_, slots_, counters_, KeySource(3)};
  const InjectedMads injected_mads_{qp1_, connections_, fault_rules_};
  KernelMads kernel_mads_{qp1_, connections_, counters_};
  const CapturedMads captured_mads_{qp1_, connections_, captures_};
  Recognition recognition_{qp1_, counters_, false, KeySource(4)};
  LastAnswers last_answers_{slots_, network_, counters_};
  OwnedFd memory_{raw::memfd_create("fuzz", 1)};
  OwnedFd bystander_{raw::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  std::array<OwnedFd, kClients> ends_;
  std::vector<std::uint32_t> known_;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World world(Input(Octets(data, size)));
  world.run();
  return 0;
}

}  // namespace rrdma::daemon_fuzz
