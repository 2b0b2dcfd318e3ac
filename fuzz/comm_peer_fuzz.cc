// An Endpoint of rrdma::comm and a peer that the input plays, on a ScriptedDevice: as client or server.
// The program sends, writes, reads, receives, keeps and returns messages, closes and aborts; the peer
// sends messages, credits and closes, valid or not, and requests complete late or fail. Oracle: the
// program keeps to its credits, messages arrive in order and whole, each operation ends when the
// connection has ended, memory and time are bounded, and nothing is left.
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "comm_peer.h"
#include "cost.h"
#include "input.h"
#include "rrdma/comm/comm.h"
#include "scripted_device.h"

namespace rrdma::comm_peer_fuzz {

using namespace rrdma::fuzz;
using namespace rrdma::comm;

constexpr std::size_t kMessageLimit = 512;
constexpr std::size_t kMostOperations = 64;

// An operation and a way to ask whether it has ended.
struct Pending {
  virtual ~Pending() = default;
  [[nodiscard]] virtual bool done() const = 0;
};
template <typename T>
struct PendingOf final : Pending {
  explicit PendingOf(T made) : operation(std::move(made)) { operation.start(); }
  [[nodiscard]] bool done() const override { return operation.done(); }
  T operation;
};

class Machine {
 public:
  explicit Machine(Input& input) : input_(input), context_(Context::open(options()).value_or_throw()) {
    profile_.message_limit = kMessageLimit;
    profile_.keep_alive = {};
    profile_.receive_depth = static_cast<std::uint16_t>(4 + input_.below(13));
    profile_.send_depth = static_cast<std::uint16_t>(4 + input_.below(13));
    ScriptedDevice& device = ScriptedDevice::the();
    device.leaving = [this](ScriptedId& id) {
      if (&id == id_) id_ = nullptr;
    };
    device.posted = [this](ScriptedPair& pair, const ScriptedRequest& request) {
      if (id_ == nullptr || id_->pair() != &pair) return;
      if (!peer_) peer_.emplace(pair, profile_.receive_depth, depth_);
      peer_->hear(request);
    };
  }
  ~Machine() {
    operations_.clear();
    kept_.clear();
    endpoint_ = Endpoint();
    ScriptedDevice::the().automatic = true;
    ScriptedDevice::the().posted = nullptr;
    ScriptedDevice::the().leaving = nullptr;
  }

  void run() {
    const std::uint8_t first = input_.octet();
    depth_ = static_cast<std::uint16_t>(first >> 2 & 0xf);
    open((first & 1) != 0);
    if (!endpoint_) return;
    ScriptedDevice::the().automatic = (first & 2) != 0;
    const std::int64_t before = taken_octets();
    while (!input_.empty() && id_ != nullptr && id_->pair() != nullptr) {
      const Cost cost({.ms = 200, .octets = 256 << 10});
      step();
      require(taken_octets() <= before + (1 << 20), "the peer makes the program hold too much");
    }
    if (endpoint_) endpoint_.abort();
    ScriptedDevice& device = ScriptedDevice::the();
    device.automatic = true;
    // Without a handle, the connection ends by itself, but not before its peer.
    for (ScriptedId* id : device.ids()) {
      if (id->state == ScriptedId::State::kOpen) device.raise(*id, RDMA_CM_EVENT_DISCONNECTED);
    }
    for (int i = 0; i < 8; ++i) turn();
    for (const auto& operation : operations_)
      require(operation->done(), "an operation outlives its connection");
  }

 private:
  static ContextOptions options() {
    ContextOptions options;
    options.software_device = false;
    options.wait = Wait::poll();
    options.linger = std::chrono::milliseconds(1);
    options.pool.slab = 64 << 10;
    return options;
  }
  void turn() {
    for (int i = 0; i < 2; ++i) {
      static_cast<void>(context_.arm());
      context_.poll();
    }
  }

  // Connects or accepts; the peer's hello may be anything.
  void open(bool connects) {
    ScriptedDevice& device = ScriptedDevice::the();
    std::string hello = comm_wire::emit_hello({depth_, kMessageLimit, "fuzz"});
    if (const std::uint8_t at = input_.octet(); (at & 0x80) != 0)
      hello[(at & 0x7f) % hello.size()] = static_cast<char>(input_.octet());
    if (comm_wire::Hello told; comm_wire::parse_hello(octets_of(hello), told) == comm_wire::HelloFault::kNone)
      depth_ = told.receive_depth;
    if (connects) {
      auto connecting = context_.connect("10.0.0.2:7000", profile_);
      connecting.start();
      for (int i = 0; i < 8 && id_ == nullptr; ++i) {
        turn();
        id_ = device.find(ScriptedId::State::kConnecting);
      }
      require(id_ != nullptr, "the program connects");
      device.establish(*id_, octets_of(hello));
      for (int i = 0; i < 8 && !connecting.done(); ++i) turn();
      require(connecting.done(), "connecting ends");
      if (auto opened = connecting.await_resume()) endpoint_ = std::move(*opened);
    } else {
      auto listener = context_.listen("10.0.0.1:7000", 4).value_or_throw();
      auto accepting = listener.accept(profile_);
      accepting.start();
      id_ = device.ask(octets_of(hello));
      for (int i = 0; i < 8 && !accepting.done(); ++i) turn();
      if (!accepting.done()) return;  // refused: the listener waits for the next one
      if (auto opened = accepting.await_resume()) endpoint_ = std::move(*opened);
    }
    if (endpoint_ && id_ != nullptr && id_->pair() != nullptr && !peer_)
      peer_.emplace(*id_->pair(), profile_.receive_depth, depth_);
    if (!peer_) endpoint_ = Endpoint();
  }

  template <typename T>
  void begin(T operation) {
    if (operations_.size() >= kMostOperations) operations_.pop_front();
    operations_.push_back(std::make_unique<PendingOf<T>>(std::move(operation)));
  }

  void act() {
    if (!endpoint_) return;
    const std::uint8_t what = input_.octet();
    const std::size_t size = input_.octet() * 3U;
    switch (what % 10) {
      case 0: return begin(endpoint_.send(std::string_view(text_).substr(0, size)));
      case 1:
        if (auto memory = context_.pool().take(size)) begin(endpoint_.send(std::move(*memory)));
        return;
      case 2: static_cast<void>(endpoint_.try_send(octets_of(text_).first(size))); return;
      case 3:
        if (auto memory = context_.pool().take(size))
          begin(endpoint_.write(std::move(*memory), RemoteSpan<std::byte>(4096, 1, 1 << 16)));
        return;
      case 4:
        if (auto memory = context_.pool().take(size))
          begin(endpoint_.write(std::move(*memory), RemoteSpan<std::byte>(4096, 1, 1 << 16), 7));
        return;
      case 5:
        if (auto memory = context_.pool().take(size))
          begin(endpoint_.read(RemoteSpan<const std::byte>(4096, 1, static_cast<std::uint32_t>(size)),
                               std::move(*memory)));
        return;
      case 6: return begin(endpoint_.fetch_add(RemoteRef<std::uint64_t>(4096, 1), 1));
      case 7: return begin(endpoint_.flush());
      case 8:
        if ((what & 0x80) != 0) begin(endpoint_.close());
        return;
      default:
        if ((what & 0x80) != 0 && (size & 7) == 0) endpoint_.abort();
        if ((what & 0x80) != 0 && (size & 7) == 1) endpoint_ = Endpoint();
        if (!operations_.empty()) operations_.pop_front();
    }
  }

  // Takes the next message, which is the oldest that the peer has sent and the program has not seen.
  void receive(bool keeps) {
    if (!endpoint_) return;
    Message message = endpoint_.try_receive();
    if (!message) return;
    require(!expected_.empty(), "a message that nobody sent");
    if (message.immediate()) {
      require(expected_.front() == -static_cast<int>(*message.immediate()),
              "an immediate value out of order");
    } else {
      require(message.size() == static_cast<std::size_t>(expected_.front()), "a message out of order");
    }
    expected_.pop_front();
    if (keeps && kept_.size() < 8) kept_.push_back(std::move(message));
  }

  void step() {
    const std::uint8_t what = input_.octet();
    ScriptedDevice& device = ScriptedDevice::the();
    const bool grants = (what & 0x40) == 0;
    switch (what % 12) {
      case 0:
      case 1: {
        const std::size_t size = input_.word() % (kMessageLimit + 1);
        if (!closed_ && peer_->send(octets_of(text_).first(size), grants))
          expected_.push_back(static_cast<int>(size));
        break;
      }
      case 2:
        if (!closed_ && peer_->send_immediate(1 + sent_immediates_))
          expected_.push_back(-static_cast<int>(++sent_immediates_));
        break;
      case 3: static_cast<void>(peer_->send({}, true, comm_wire::MessageKind::kCredit)); break;
      case 4: device.complete(*id_->pair(), 1 + input_.below(16)); break;
      case 5:
      case 6:
      case 7: act(); break;
      case 8: receive((what & 0x80) != 0); break;
      case 9:
        if (!kept_.empty()) kept_.pop_front();
        break;
      case 10:
        if ((what & 0x20) != 0) {
          closed_ |= peer_->send({}, grants, comm_wire::MessageKind::kClose);
        } else if (input_.octet() == 0xff) {
          device.raise(*id_, RDMA_CM_EVENT_DISCONNECTED);
        }
        break;
      default:  // breaks the protocol or the connection: what follows is not expected to arrive
        if ((what & 0x30) == 0x30) {
          device.complete(*id_->pair(), 1, static_cast<ibv_wc_status>(input_.below(IBV_WC_GENERAL_ERR + 1)));
        } else if ((what & 0x30) == 0x20) {
          const comm_wire::MessageHeader header{input_.octet(), input_.octet(),
                                                static_cast<std::uint16_t>(input_.word()), input_.word()};
          const auto body = input_.take(input_.octet());
          static_cast<void>(peer_->send_raw(header, std::as_bytes(body)));
          turn();
          if (endpoint_) endpoint_.abort();
          expected_.clear();
          id_ = nullptr;
          return;
        }
    }
    if ((what & 0x80) == 0) turn();
  }

  Input& input_;
  const std::string text_ = std::string(1024, 'm');
  Context context_;
  Profile profile_;
  Endpoint endpoint_;
  std::deque<std::unique_ptr<Pending>> operations_;
  std::deque<Message> kept_;
  // The messages of the peer: their sizes, or negative immediate values.
  std::deque<int> expected_;
  std::uint32_t sent_immediates_ = 0;
  bool closed_ = false;
  std::uint16_t depth_ = 0;
  ScriptedId* id_ = nullptr;
  std::optional<CommPeer> peer_;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return play_on_device<Machine>(data, size);
}

}  // namespace rrdma::comm_peer_fuzz
