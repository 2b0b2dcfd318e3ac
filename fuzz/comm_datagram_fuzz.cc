// A Datagram of rrdma::comm and a network that the input plays, on a ScriptedDevice. Packets of any size
// arrive from any queue pair, with or without a routing header, also after the end; peers are looked up
// and answer or do not; sends complete late or fail. Oracle: packets arrive in order and whole, each
// operation ends with the Datagram, memory and time are bounded, and nothing is left.
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "cost.h"
#include "input.h"
#include "rrdma/comm/comm.h"
#include "scripted_device.h"

namespace rrdma::comm_datagram_fuzz {

using namespace rrdma::fuzz;
using namespace rrdma::comm;

constexpr std::size_t kMostOperations = 32;

class Machine {
 public:
  explicit Machine(Input& input) : input_(input), context_(Context::open(options()).value_or_throw()) {
    DatagramProfile profile;
    profile.receive_depth = static_cast<std::uint16_t>(1 + input_.below(8));
    profile.send_depth = static_cast<std::uint16_t>(1 + input_.below(8));
    ScriptedDevice::the().automatic = (input_.octet() & 1) != 0;
    datagram_.emplace(Datagram::open(context_, "10.0.0.1:7000", profile).value_or_throw());
    for (ScriptedId* id : ScriptedDevice::the().ids()) {
      if (id->pair() != nullptr) id_ = id;
    }
    ScriptedDevice::the().leaving = [this](ScriptedId& id) {
      if (&id == id_) id_ = nullptr;
    };
  }
  ~Machine() {
    sendings_.clear();
    receivings_.clear();
    resolvings_.clear();
    joinings_.clear();
    memberships_.clear();
    packets_.clear();
    peers_.clear();
    datagram_.reset();
    ScriptedDevice::the().automatic = true;
    ScriptedDevice::the().leaving = nullptr;
  }

  void run() {
    const std::int64_t before = taken_octets();
    while (!input_.empty()) {
      const Cost cost({.ms = 200, .octets = 256 << 10});
      step();
      require(taken_octets() <= before + (1 << 20), "packets make the program hold too much");
    }
    datagram_.reset();
    for (int i = 0; i < 4; ++i) turn();
    for (const auto& one : sendings_) require(one->done(), "a send outlives its Datagram");
    for (const auto& one : receivings_) require(one->done(), "a receive outlives its Datagram");
    for (const auto& one : resolvings_) require(one->done(), "a look-up outlives its Datagram");
  }

 private:
  static ContextOptions options() {
    ContextOptions options;
    options.software_device = false;
    options.wait = Wait::poll();
    options.linger = {};
    options.pool.slab = 64 << 10;
    return options;
  }
  void turn() {
    for (int i = 0; i < 2; ++i) {
      static_cast<void>(context_.arm());
      context_.poll();
    }
    while (!receivings_.empty() && receivings_.front()->done()) {
      auto packet = receivings_.front()->await_resume();
      receivings_.pop_front();
      if (packet) seen(std::move(*packet));
    }
    while (!resolvings_.empty() && resolvings_.front()->done()) {
      auto peer = resolvings_.front()->await_resume();
      resolvings_.pop_front();
      if (peer) peers_.push_back(std::move(*peer));
    }
    while (!joinings_.empty() && joinings_.front()->done()) {
      auto membership = joinings_.front()->await_resume();
      joinings_.pop_front();
      if (membership) {
        peers_.push_back(membership->group());
        memberships_.push_back(std::move(*membership));
      }
    }
    while (peers_.size() > 8) peers_.pop_front();
    while (memberships_.size() > 4) memberships_.pop_front();
  }
  void seen(Packet packet) {
    require(!expected_.empty() && packet.size() == expected_.front(), "a packet out of order");
    expected_.pop_front();
    if (auto sender = packet.sender()) peers_.push_back(std::move(*sender));
    if (packets_.size() < 4) packets_.push_back(std::move(packet));
  }

  void step() {
    const std::uint8_t what = input_.octet();
    ScriptedDevice& device = ScriptedDevice::the();
    switch (what % 12) {
      case 0:
      case 1:
      case 2: {
        const std::size_t size = input_.word() % 4200;
        if (id_ != nullptr &&
            device.deliver(*id_->pair(), std::as_bytes(std::span(text_.data(), size)), input_.word()))
          expected_.push_back(size);
        break;
      }
      case 3:
      case 4:
        if (datagram_ && receivings_.size() < kMostOperations) {
          receivings_.push_back(std::make_unique<PacketReceiving>(datagram_->receive()));
          receivings_.back()->start();
        }
        break;
      case 5:
        if (datagram_ && sendings_.size() < kMostOperations) {
          auto memory = context_.pool().take(input_.word() % 4200);
          if (!memory) break;
          const Peer peer = peers_.empty() ? Peer() : peers_[what % peers_.size()];
          sendings_.push_back(std::make_unique<PacketSending>(datagram_->send(peer, std::move(*memory))));
          sendings_.back()->start();
        }
        break;
      case 6:
        if (id_ != nullptr) device.complete(*id_->pair(), 1 + input_.below(8));
        break;
      case 7:
        if (!packets_.empty()) packets_.pop_front();
        break;
      case 8:
        if (datagram_ && resolvings_.size() < kMostOperations) {
          resolvings_.push_back(std::make_unique<Resolving>(datagram_->resolve("10.0.0.2:7000")));
          resolvings_.back()->start();
        }
        break;
      case 9: answer(); break;
      case 10:
        if (!datagram_) break;
        if ((what & 0x80) != 0) {
          device.ask({});
        } else if (joinings_.size() < 4) {
          joinings_.push_back(std::make_unique<Joining>(datagram_->join("239.1.2.3")));
          joinings_.back()->start();
        }
        break;
      default:
        if ((what & 0xc0) == 0xc0) datagram_.reset();
        if ((what & 0xc0) == 0x80 && !sendings_.empty()) sendings_.pop_front();
        if ((what & 0xc0) == 0x40 && !resolvings_.empty()) resolvings_.pop_front();
    }
    if ((what & 0x40) == 0) turn();
  }
  // The peer that is asked for its queue pair accepts, refuses or is not there.
  void answer() {
    ScriptedDevice& device = ScriptedDevice::the();
    ScriptedId* asked = device.find(ScriptedId::State::kConnecting);
    if (asked == nullptr) return;
    asked->state = ScriptedId::State::kOver;
    switch (input_.below(3)) {
      case 0: return device.raise(*asked, RDMA_CM_EVENT_ESTABLISHED);
      case 1: return device.raise(*asked, RDMA_CM_EVENT_REJECTED);
      default: return device.raise(*asked, RDMA_CM_EVENT_UNREACHABLE, -110);
    }
  }

  Input& input_;
  const std::string text_ = std::string(4200, 'd');
  Context context_;
  std::optional<Datagram> datagram_;
  std::deque<std::unique_ptr<PacketSending>> sendings_;
  std::deque<std::unique_ptr<PacketReceiving>> receivings_;
  std::deque<std::unique_ptr<Resolving>> resolvings_;
  std::deque<std::unique_ptr<Joining>> joinings_;
  std::deque<Membership> memberships_;
  std::deque<Packet> packets_;
  std::deque<Peer> peers_;
  std::deque<std::size_t> expected_;  // sizes of packets that the program has not seen
  ScriptedId* id_ = nullptr;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return play_on_device<Machine>(data, size);
}

}  // namespace rrdma::comm_datagram_fuzz
