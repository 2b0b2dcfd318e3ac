// Shared by both targets of rrdma::rpc: a service with all shapes of calls, a device without waiting, and a
// peer that makes frames from the input and remembers the frames that it got.
#pragma once

#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "comm_peer.h"
#include "input.h"
#include "lib/rpc/frame.h"
#include "rrdma/rpc/rpc.h"

namespace rrdma::fuzz {

namespace rpc_wire = rrdma::rpc::detail;

constexpr std::size_t kConnectionMemory = 256 << 10;
constexpr std::size_t kLargestValue = 64 << 10;
constexpr std::uint16_t kRpcDepth = 8;

// Every shape, with handlers that answer at once, later or never, and readers that read or do not.
class RpcService {
 public:
  std::uint32_t add(const std::uint32_t& number) { return number + 1; }
  std::string repeat(const std::uint32_t& size) { return std::string(size % kLargestValue, 'r'); }
  comm::Task<rpc::Result<std::string>> echo(rpc::Call&, const std::string& text) { co_return text; }
  comm::Task<rpc::Result<rpc::Empty>> keep(rpc::Call& call, const std::string&) {
    static_cast<void>(co_await call.context().sleep(std::chrono::hours(1), call.stop()));
    co_return rpc::Empty{};
  }
  comm::Task<rpc::Status> count(rpc::Call&, const std::uint32_t& size, rpc::Writer<std::string>& out) {
    const std::string item(size % kLargestValue, 'i');
    for (int i = 0; i < 64; ++i) {
      rpc::Status sent = co_await out.write(item);
      if (!sent.ok()) co_return sent;
    }
    co_return rpc::Status();
  }
  comm::Task<rpc::Result<std::uint64_t>> sum(rpc::Call&, rpc::Reader<std::string>& in) {
    std::uint64_t octets = 0;
    for (;;) {
      auto item = co_await in.read();
      if (!item) break;
      octets += item->size();
    }
    if (!in.status().ok()) co_return in.status();
    co_return octets;
  }
  comm::Task<rpc::Status> talk(rpc::Call&, rpc::Reader<std::string>& in, rpc::Writer<std::string>& out) {
    for (;;) {
      auto item = co_await in.read();
      if (!item) co_return in.status();
      rpc::Status sent = co_await out.write(*item);
      if (!sent.ok()) co_return sent;
    }
  }
  comm::Task<rpc::Result<rpc::Empty>> deaf(rpc::Call& call, rpc::Reader<std::string>&) {
    static_cast<void>(co_await call.context().sleep(std::chrono::hours(1), call.stop()));
    co_return rpc::Empty{};
  }

  void add_to(rpc::Server& server) {
    server.add<&RpcService::add>(*this);
    server.add<&RpcService::repeat>(*this);
    server.add<&RpcService::echo>(*this);
    server.add<&RpcService::keep>(*this);
    server.add<&RpcService::count>(*this);
    server.add<&RpcService::sum>(*this);
    server.add<&RpcService::talk>(*this);
    server.add<&RpcService::deaf>(*this);
  }
  static const rpc::Method& method(std::size_t number) {
    static const std::array<rpc::Method, 8> all = {
        rpc::MethodOf<&RpcService::add>::method(),   rpc::MethodOf<&RpcService::repeat>::method(),
        rpc::MethodOf<&RpcService::echo>::method(),  rpc::MethodOf<&RpcService::keep>::method(),
        rpc::MethodOf<&RpcService::count>::method(), rpc::MethodOf<&RpcService::sum>::method(),
        rpc::MethodOf<&RpcService::talk>::method(),  rpc::MethodOf<&RpcService::deaf>::method()};
    return all[number % all.size()];
  }
};

inline comm::ContextOptions scripted_context() {
  comm::ContextOptions options;
  options.software_device = false;
  options.wait = comm::Wait::poll();
  options.linger = std::chrono::milliseconds(1);
  options.pool.slab = 64 << 10;
  return options;
}

template <typename T>
std::string text_of(const T& octets) {
  return {reinterpret_cast<const char*>(octets.data()), octets.size()};
}

// The peer's side of the protocol. Which frames make sense is up to the input.
class RpcPeer {
 public:
  RpcPeer(Input& input, ScriptedPair& pair, std::uint16_t depth)
      : input_(&input), peer_(pair, kRpcDepth, depth) {
    peer_.heard = [this](ScriptedBytes octets) { hear(octets); };
  }
  CommPeer& comm() { return peer_; }

  std::size_t limit = rpc_wire::kFrameLimit;  // bytes of a frame

  // Calls that the program has begun, oldest first, and memory that it has offered.
  std::deque<std::uint32_t> calls;
  std::deque<std::uint64_t> offered;

  // A frame of this kind: its members come from the input.
  std::vector<std::byte> frame_of(rpc_wire::Kind kind, std::uint32_t call) {
    rpc_wire::Frame frame;
    frame.kind = kind;
    frame.call = call;
    const std::uint8_t what = input_->octet();
    const auto with = [&](std::uint8_t bit, std::uint8_t flag) {
      if ((what & bit) != 0) frame.flags |= flag;
    };
    switch (kind) {
      case rpc_wire::Kind::kCall:
        frame.method = RpcService::method(what >> 4).id;
        frame.window = (what & 1) != 0 ? 1 << 16 : input_->word() << 12;
        if ((what & 8) != 0) frame.timeout = std::uint64_t{input_->word()} << 16;
        with(2, rpc_wire::flag::kOffered);
        with(4, rpc_wire::flag::kLent);
        break;
      case rpc_wire::Kind::kReply:
        frame.status = (what & 0x10) != 0 ? input_->below(17) : 0;
        with(1, rpc_wire::flag::kOffered);
        with(2, rpc_wire::flag::kWritten);
        with(4, rpc_wire::flag::kRefused);
        frame.written = frame.has(rpc_wire::flag::kWritten) ? input_->word() : 0;
        break;
      case rpc_wire::Kind::kItem:
        with(1, rpc_wire::flag::kOffered);
        if ((what & 1) == 0) with(2, rpc_wire::flag::kMore);
        if ((what & 0x0c) == 0x0c) frame.flags = rpc_wire::flag::kLast | rpc_wire::flag::kEmpty;
        break;
      case rpc_wire::Kind::kWindow: frame.window = input_->word() << (what & 15); break;
      case rpc_wire::Kind::kTaken:
        frame.address = what;
        if (!offered.empty() && (what & 0x80) == 0) {
          frame.address = offered.front();
          offered.pop_front();
        }
        break;
      default: break;
    }
    const rpc_wire::Region region{4096 + 4096ULL * what, 7, 1 + (input_->word() << (what & 1))};
    if (frame.has(rpc_wire::flag::kOffered)) frame.offered = region;
    if (frame.has(rpc_wire::flag::kLent)) frame.lent = region;
    std::string metadata;
    if ((what & 0x40) != 0 && (kind == rpc_wire::Kind::kCall || kind == rpc_wire::Kind::kReply ||
                               kind == rpc_wire::Kind::kHeaders)) {
      rpc::Metadata pairs;
      for (std::uint32_t i = input_->below(200); i > 0; --i) pairs.add("n", "");
      metadata.resize(rpc_wire::emitted_size(pairs));
      rpc_wire::emit_metadata(pairs, reinterpret_cast<std::byte*>(metadata.data()));
      frame.metadata = octets_of(metadata);
    }
    const bool bodied = !frame.has(rpc_wire::flag::kOffered | rpc_wire::flag::kEmpty) &&
                        (kind == rpc_wire::Kind::kCall || kind == rpc_wire::Kind::kReply ||
                         kind == rpc_wire::Kind::kItem || kind == rpc_wire::Kind::kPart);
    const std::size_t head = rpc_wire::head_size(frame);
    const std::size_t size = bodied ? input_->word() % (limit - head + 1) : 0;
    std::vector<std::byte> octets(head + size, std::byte{'b'});
    rpc_wire::emit_head(frame, octets.data());
    // Numbers as arguments.
    for (std::size_t i = head; i < std::min(octets.size(), head + 4); ++i)
      octets[i] = std::byte{input_->octet()};
    if (kind == rpc_wire::Kind::kCall && (what >> 4) % 8 < 5 && (what >> 4) % 4 < 2 && size > 4)
      octets.resize(head + 4);
    return octets;
  }
  static std::vector<std::byte> pack_of(const std::vector<std::vector<std::byte>>& frames) {
    rpc_wire::Frame pack;
    pack.kind = rpc_wire::Kind::kPack;
    std::vector<std::byte> octets(rpc_wire::head_size(pack));
    rpc_wire::emit_head(pack, octets.data());
    for (const auto& one : frames) {
      const std::size_t at = octets.size();
      octets.resize(at + rpc_wire::kPackedHead);
      rpc_wire::emit_packed_head(one.size(), octets.data() + at);
      octets.insert(octets.end(), one.begin(), one.end());
    }
    return octets;
  }

 private:
  void hear(ScriptedBytes octets) {
    const auto frame = rpc_wire::parse_frame(octets);
    require(frame.has_value(), "the program sends frames");
    if (frame->kind != rpc_wire::Kind::kPack) return hear(*frame);
    for (auto rest = frame->body; !rest.empty();) {
      const auto packed = rpc_wire::parse_frame(rpc_wire::next_packed(rest));
      require(packed.has_value(), "the program packs frames");
      hear(*packed);
    }
  }
  void hear(const rpc_wire::Frame& frame) {
    if (frame.kind == rpc_wire::Kind::kCall) calls.push_back(frame.call);
    if (frame.has(rpc_wire::flag::kOffered) && frame.kind != rpc_wire::Kind::kCall)
      offered.push_back(frame.offered.address);
    while (calls.size() > 16) calls.pop_front();
    while (offered.size() > 256) offered.pop_front();
  }

  Input* input_;
  CommPeer peer_;
};

// A context on the scripted device, one connection of it, and the bounds that both targets have.
class RpcMachine {
 public:
  explicit RpcMachine(Input& input)
      : input_(input), context_(comm::Context::open(scripted_context()).value_or_throw()) {
    ScriptedDevice& device = ScriptedDevice::the();
    device.leaving = [this](ScriptedId& id) {
      if (&id == id_) id_ = nullptr;
    };
    device.posted = [this](ScriptedPair& pair, const ScriptedRequest& request) {
      if (id_ == nullptr || id_->pair() != &pair) return;
      meet();
      peer_->comm().hear(request);
    };
  }
  ~RpcMachine() {
    ScriptedDevice::the().automatic = true;
    ScriptedDevice::the().posted = nullptr;
    ScriptedDevice::the().leaving = nullptr;
  }
  RpcMachine(const RpcMachine&) = delete;
  RpcMachine& operator=(const RpcMachine&) = delete;

 protected:
  [[nodiscard]] bool alive() const { return id_ != nullptr && id_->pair() != nullptr && peer_; }
  // The first byte chooses what the peer announces. Version 5 comes with large frames.
  void announce(std::uint8_t first) {
    depth_ = static_cast<std::uint16_t>(4 + (first >> 4));
    const bool large = (first & 4) != 0;
    version_ = static_cast<std::uint8_t>(large ? 5 : 1 + (first & 3));
    limit_ = static_cast<std::uint32_t>(large ? rpc_wire::kLargeFrameLimit : rpc_wire::kFrameLimit);
  }
  void meet() {
    if (peer_ || id_ == nullptr || id_->pair() == nullptr) return;
    peer_.emplace(input_, *id_->pair(), depth_).limit = limit_;
  }
  void turn() {
    for (int i = 0; i < 2; ++i) {
      static_cast<void>(context_.arm());
      context_.poll();
    }
  }
  void begin_measuring() {
    heap_before_ = taken_octets();
    pool_before_ = context_.pool().in_use();
    registered_before_ = ScriptedDevice::the().registered();
  }
  // `values`: of the application, at most.
  void measure(std::size_t values) {
    const std::size_t allowed = 2 * kConnectionMemory + values + (512 << 10);
    require(context_.pool().in_use() <= pool_before_ + allowed, "the peer makes the pool lend too much");
    // Slabs are larger than the pieces in them.
    require(ScriptedDevice::the().registered() <= registered_before_ + allowed + (2 << 20),
            "the peer makes the program register too much");
    require(taken_octets() <= heap_before_ + static_cast<std::int64_t>(allowed + (1 << 20)),
            "the peer makes the program hold too much");
  }
  void complete(std::uint8_t what) {
    if (!alive()) return;
    if ((what & 0xf0) == 0xf0) {
      ScriptedDevice::the().complete(*id_->pair(), 1,
                                     static_cast<ibv_wc_status>(input_.below(IBV_WC_GENERAL_ERR + 1)));
    } else {
      ScriptedDevice::the().complete(*id_->pair(), 1 + input_.below(16));
    }
  }
  void end() {
    ScriptedDevice& device = ScriptedDevice::the();
    device.automatic = true;
    for (ScriptedId* id : device.ids()) {
      if (id->state == ScriptedId::State::kOpen) device.raise(*id, RDMA_CM_EVENT_DISCONNECTED);
    }
    for (int i = 0; i < 16; ++i) turn();
  }

  Input& input_;
  comm::Context context_;
  std::uint16_t depth_ = kRpcDepth;
  std::uint32_t limit_ = rpc_wire::kFrameLimit;
  std::uint8_t version_ = 1;
  ScriptedId* id_ = nullptr;
  std::optional<RpcPeer> peer_;

 private:
  std::int64_t heap_before_ = 0;
  std::size_t pool_before_ = 0;
  std::size_t registered_before_ = 0;
};

}  // namespace rrdma::fuzz
