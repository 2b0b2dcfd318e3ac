// A channel of rrdma::rpc and a server that the input plays, on a ScriptedDevice: the program calls methods
// of all shapes, reads or does not read, and gives calls up; the server replies, sends parts, items, headers
// and offers, valid or not, in any protocol version. Requests of the device complete late or fail. Oracle:
// the program holds no more than its options and its own calls allow, each message has a bounded cost, and
// all calls end with their connection.
#include <coroutine>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "cost.h"
#include "rpc_peer.h"

namespace rrdma::rpc_client_fuzz {

using namespace rrdma::fuzz;

constexpr std::uint16_t kCalls = 8;
constexpr std::size_t kMostTasks = 12;

class Machine : RpcMachine {
 public:
  explicit Machine(Input& input) : RpcMachine(input) {}
  ~Machine() {
    tasks_.clear();
    channel_ = {};
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void run() {
    const std::uint8_t first = input_.octet();
    announce(first);
    if (!open() || !alive()) return;
    ScriptedDevice::the().automatic = (first & 8) != 0;
    begin_measuring();
    while (!input_.empty() && alive()) {
      const Cost cost({.ms = 200, .octets = 512 << 10});
      step();
      // A result and an item of its own for each call; a string may have twice the memory.
      measure((kMostTasks + kCalls) * 4 * kLargestValue);
    }
    end();
    for (const auto& task : tasks_) require(task->done(), "a call outlives its connection");
  }

 private:
  static rpc::ChannelOptions options() {
    rpc::ChannelOptions options;
    options.connection_memory = kConnectionMemory;
    options.max_result = kLargestValue;
    options.window = 16 << 10;
    options.depth = kRpcDepth;
    options.keep_alive = {};
    return options;
  }

  bool open() {
    ScriptedDevice& device = ScriptedDevice::the();
    auto connecting = rpc::connect(context_, "10.0.0.2:7000", options());
    connecting.start(std::noop_coroutine());
    for (int i = 0; i < 8 && id_ == nullptr; ++i) {
      turn();
      id_ = device.find(ScriptedId::State::kConnecting);
    }
    require(id_ != nullptr, "the program connects");
    rpc_wire::ServerHello hello;
    hello.version = version_;
    hello.max_calls = kCalls;
    hello.max_argument = kLargestValue;
    hello.window = 1 << 16;
    const std::string told = text_of(rpc_wire::emit(hello)).substr(0, rpc_wire::kServerHelloSize);
    const std::string octets = comm_wire::emit_hello({depth_, limit_, told});
    device.establish(*id_, octets_of(octets));
    for (int i = 0; i < 8 && !connecting.done(); ++i) turn();
    require(connecting.done(), "connecting ends");
    meet();
    auto opened = connecting.take();
    if (!opened.ok()) return false;
    channel_ = std::move(*opened);
    return true;
  }

  static comm::Task<> echo(rpc::Channel on, std::string text) {
    static_cast<void>(co_await on.call<&RpcService::echo>(text));
  }
  static comm::Task<> count(rpc::Channel on, bool reads) {
    auto opened = co_await on.call<&RpcService::count>(7U);
    if (!opened.ok()) co_return;
    auto stream = std::move(*opened);
    while (reads) {
      auto item = co_await stream.read();
      if (!item) break;
    }
    static_cast<void>(co_await stream.finish());
  }
  static comm::Task<> sum(rpc::Channel on, std::string text) {
    auto opened = co_await on.call<&RpcService::sum>();
    if (!opened.ok()) co_return;
    auto stream = std::move(*opened);
    for (int i = 0; i < 8; ++i) {
      rpc::Status sent = co_await stream.write(text);
      if (!sent.ok()) break;
    }
    static_cast<void>(co_await stream.finish());
  }
  static comm::Task<> talk(rpc::Channel on, std::string text) {
    auto opened = co_await on.call<&RpcService::talk>();
    if (!opened.ok()) co_return;
    auto stream = std::move(*opened);
    for (int i = 0; i < 8; ++i) {
      rpc::Status sent = co_await stream.write(text);
      auto item = co_await stream.read();
      if (!sent.ok() || !item) break;
    }
  }

  void call(std::uint8_t what) {
    if (tasks_.size() >= kMostTasks) tasks_.pop_front();
    const std::string text(input_.word() % kLargestValue, 'a');
    switch (what >> 5) {
      case 0:
      case 1: tasks_.push_back(std::make_unique<comm::Task<>>(echo(channel_, text))); break;
      case 2:
      case 3: tasks_.push_back(std::make_unique<comm::Task<>>(count(channel_, (what & 0x20) != 0))); break;
      case 4: tasks_.push_back(std::make_unique<comm::Task<>>(sum(channel_, text))); break;
      case 5: tasks_.push_back(std::make_unique<comm::Task<>>(talk(channel_, text))); break;
      default:
        if (!tasks_.empty()) tasks_.erase(tasks_.begin() + static_cast<std::ptrdiff_t>(what % tasks_.size()));
        return;
    }
    tasks_.back()->start(std::noop_coroutine());
  }

  std::vector<std::byte> any_frame() {
    const std::uint8_t what = input_.octet();
    std::uint32_t of = (what >> 4) | 0x10000;
    if (!peer_->calls.empty() && (what & 0xf0) != 0xf0) of = peer_->calls[(what >> 4) % peer_->calls.size()];
    using rpc_wire::Kind;
    constexpr std::array<Kind, 16> kKinds = {Kind::kReply, Kind::kReply,   Kind::kReply, Kind::kItem,
                                             Kind::kItem,  Kind::kItem,    Kind::kItem,  Kind::kPart,
                                             Kind::kPart,  Kind::kHeaders, Kind::kTaken, Kind::kWindow,
                                             Kind::kPart,  Kind::kItem,    Kind::kReply, Kind::kGoAway};
    return peer_->frame_of(kKinds[what & 15], of);
  }

  void step() {
    const std::uint8_t what = input_.octet();
    const bool grants = (what & 0x40) == 0;
    switch (what % 8) {
      case 0:
      case 1: call(input_.octet()); break;
      case 2:
      case 3:
      case 4: static_cast<void>(peer_->comm().send(any_frame(), grants)); break;
      case 5: complete(what); break;
      case 6: static_cast<void>(peer_->comm().send({}, true, comm_wire::MessageKind::kCredit)); break;
      default:
        if ((what & 0x30) == 0x30)
          static_cast<void>(peer_->comm().send(std::as_bytes(input_.take(input_.octet())), grants));
    }
    if ((what & 0x80) == 0) turn();
  }

  rpc::Channel channel_;
  std::deque<std::unique_ptr<comm::Task<>>> tasks_;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return play_on_device<Machine>(data, size);
}

}  // namespace rrdma::rpc_client_fuzz
