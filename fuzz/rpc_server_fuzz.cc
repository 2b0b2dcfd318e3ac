// A server of rrdma::rpc and a client that the input plays, on a ScriptedDevice: calls of all shapes, items,
// offers, windows, cancellations and packs, valid or not, in any protocol version. Requests of the device
// complete late or fail. Oracle: whatever the client sends or does not take, the server holds no more than
// its options allow; each message has a bounded cost; all handlers end with their connection.
#include <cstdint>
#include <string>

#include "cost.h"
#include "rpc_peer.h"

namespace rrdma::rpc_server_fuzz {

using namespace rrdma::fuzz;

constexpr std::uint16_t kCalls = 8;

class Machine : RpcMachine {
 public:
  explicit Machine(Input& input) : RpcMachine(input), server_(context_, options()) {
    service_.add_to(server_);
    require(server_.listen("10.0.0.1:7000").ok(), "the server listens");
  }

  void run() {
    const std::uint8_t first = input_.octet();
    announce(first);
    open();
    if (!alive()) return;
    ScriptedDevice::the().automatic = (first & 8) != 0;
    begin_measuring();
    while (!input_.empty() && alive()) {
      const Cost cost({.ms = 200, .octets = 512 << 10});
      step();
      // Late handlers may each have a result.
      measure((2 * kCalls + 16) * kLargestValue);
    }
    end();
    require(server_.calls() == 0, "a handler outlives its connection");
    require(server_.connections() == 0, "a connection outlives its end");
  }

 private:
  static rpc::ServerOptions options() {
    rpc::ServerOptions options;
    options.connection_memory = kConnectionMemory;
    options.max_argument = kLargestValue;
    options.max_calls = kCalls;
    options.window = 16 << 10;
    options.depth = kRpcDepth;
    options.keep_alive = {};
    return options;
  }

  void open() {
    rpc_wire::ClientHello hello;
    hello.highest = version_;
    hello.max_result = kLargestValue;
    const std::string told = text_of(rpc_wire::emit(hello));
    const std::string octets = comm_wire::emit_hello({depth_, limit_, told});
    id_ = ScriptedDevice::the().ask(octets_of(octets));
    for (int i = 0; i < 8 && id_ != nullptr && server_.connections() == 0; ++i) turn();
    meet();
  }

  std::vector<std::byte> any_frame() {
    const std::uint8_t what = input_.octet();
    // Slots within the limit, and one beyond it; few generations, so that calls meet their own past.
    const std::uint32_t call = (what >> 4) % (kCalls + 1) | (input_.octet() & 3U) << 16;
    using rpc_wire::Kind;
    constexpr std::array<Kind, 16> kKinds = {Kind::kCall,  Kind::kCall,   Kind::kCall,   Kind::kItem,
                                             Kind::kItem,  Kind::kItem,   Kind::kItem,   Kind::kTaken,
                                             Kind::kTaken, Kind::kWindow, Kind::kWindow, Kind::kCancel,
                                             Kind::kCall,  Kind::kItem,   Kind::kProof,  Kind::kPart};
    return peer_->frame_of(kKinds[what & 15], call);
  }

  void step() {
    const std::uint8_t what = input_.octet();
    const bool grants = (what & 0x40) == 0;
    switch (what % 8) {
      case 0:
      case 1:
      case 2:
      case 3: static_cast<void>(peer_->comm().send(any_frame(), grants)); break;
      case 4: {
        std::vector<std::vector<std::byte>> frames;
        std::size_t size = rpc_wire::kPackHead;
        for (int i = 0; i < 8; ++i) {
          auto one = any_frame();
          size += one.size() + rpc_wire::kPackedHead;
          if (size > peer_->limit) break;
          frames.push_back(std::move(one));
        }
        if (!frames.empty()) static_cast<void>(peer_->comm().send(RpcPeer::pack_of(frames), grants));
        break;
      }
      case 5: complete(what); break;
      case 6: static_cast<void>(peer_->comm().send({}, true, comm_wire::MessageKind::kCredit)); break;
      default:
        if ((what & 0x30) == 0x30)
          static_cast<void>(peer_->comm().send(std::as_bytes(input_.take(input_.octet())), grants));
    }
    if ((what & 0x80) == 0) turn();
  }

  RpcService service_;
  rpc::Server server_;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return play_on_device<Machine>(data, size);
}

}  // namespace rrdma::rpc_server_fuzz
