// A shared-memory link and a hostile peer. The input writes into the rings and their control words, sends
// valid frames in between, introduces itself with forged tables, passes unsolicited descriptors, and
// disconnects. Invariants: nothing crashes or blocks, deliveries respect their bounds, and a direct operation
// leaves memory unchanged that its target did not publish.
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/assert.h"
#include "base/guarded_copy.h"
#include "cost.h"
#include "input.h"
#include "link/shm/introduction.h"
#include "link/shm/shm_link.h"
#include "wire/transport_packet.h"

namespace rrdma::shm_peer_fuzz {

using namespace rrdma::link;

constexpr int kStepsMax = 200;

class Listener final : public Receiver {
 public:
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override {
    RRDMA_ASSERT(packet.payload.size() <= kShmTrainOctetsMax && origin.party == kParty);
    for (const std::uint8_t octet : packet.payload) sum = sum + octet;
    if (origin.grh != nullptr) sum = sum + origin.grh[39];
  }
  static constexpr std::uint32_t kParty = 9;
  volatile std::uint32_t sum = 0;
};

class World {
 public:
  explicit World(fuzz::Input input) : input_(input), link_(ShmLink::create().value()) {
    RRDMA_ASSERT(link_->enable_direct().ok());
    std::fill_n(memory_, sizeof memory_, kUntouched);
    RRDMA_ASSERT(link_->publish(DirectKey{.rkey = {0x77}, .length = 64, .host = memory_, .access = 0xff}));
    auto pair = ShmChannel::create(kRingOctetsMin).value();
    // The attacker's own mapping of the channel.
    size_ = channel_octets(kRingOctetsMin);
    base_ = static_cast<std::uint8_t*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, pair.peer_memory.get(), 0));
    bell_ = pair.peer_doorbell.duplicate();
    peer_ = link_->add_channel(std::move(pair.own), Listener::kParty).value();
    auto end = ShmChannel::open(std::move(pair.peer_memory), std::move(pair.peer_doorbell));
    RRDMA_ASSERT(end.ok());
    end_.emplace(std::move(*end));
    writer_.emplace(*end_);
  }
  ~World() { ::munmap(base_, size_); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void run() {
    for (int i = 0; i < kStepsMax && !input_.empty(); ++i) {
      const fuzz::Cost cost({.ms = 200, .octets = 1 << 20});
      step();
      link_->handle_doorbells();
      link_->poll(listener_, Instant{}, 16);
      while (const auto lost = link_->poll_lost()) link_->remove_channel(*lost);
    }
    link_->remove_channel(peer_);
    RRDMA_ASSERT(
        std::all_of(memory_, memory_ + sizeof memory_, [](std::uint8_t o) { return o == kUntouched; }));
  }

 private:
  static constexpr std::uint8_t kUntouched = 0xa5;

  void step() {
    switch (input_.below(9)) {
      case 0: scribble(controls_offset(), 2 * sizeof(DirectionControl)); break;
      case 1: scribble(ring_offset(end_->own_direction(), kRingOctetsMin), 4096); break;
      case 2: scribble(0, kChannelPage); break;
      case 3: honest_frame(); break;
      case 4: near_frame(); break;
      case 5: message(); break;
      case 6: introduce(); break;
      case 7: use(); break;
      default:
        if (link_->arm()) link_->disarm();
        break;
    }
  }

  void scribble(std::size_t from, std::size_t room) {
    const std::size_t at = from + std::size_t{input_.word()} % room;
    const Octets octets = input_.take(input_.below(64));
    std::copy_n(octets.begin(), std::min(octets.size(), size_ - at), base_ + at);
  }

  objects::Frame frame_with(std::uint32_t payload) {
    objects::Frame frame;
    wire::TransportHeaders headers;
    headers.bth.opcode = wire::Opcode(input_.octet());
    if (!wire::shape_of(headers.bth.opcode).known())
      headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, wire::Step::kSendOnly);
    headers.bth.pad = wire::pad_for(payload);
    frame.header_octets =
        static_cast<std::uint8_t>(wire::emit_transport_headers(headers, frame.header.data()));
    frame.pad = headers.bth.pad;
    frame.path = &path_;
    if (payload != 0) frame.add_span(source_, payload);
    return frame;
  }
  void honest_frame() {
    const std::uint32_t payload = input_.word() % sizeof source_;
    if (!writer_->has_room(payload)) return;
    const objects::Frame frame = frame_with(payload);
    (void)writer_->write(frame);
  }
  // A record whose header was changed after it was written.
  void near_frame() {
    const std::size_t offset = static_cast<std::size_t>(writer_->position()) & (kRingOctetsMin - 1);
    honest_frame();
    std::uint8_t* head = base_ + ring_offset(end_->own_direction(), kRingOctetsMin) + offset;
    head[input_.below(64)] = input_.octet();
  }

  void message() {
    const Octets octets = input_.take(input_.below(64));
    iovec vector{const_cast<std::uint8_t*>(octets.data()), octets.size()};
    alignas(cmsghdr) std::uint8_t control[CMSG_SPACE(8 * sizeof(int))] = {};
    msghdr packet{};
    packet.msg_iov = &vector;
    packet.msg_iovlen = 1;
    if (const int count = input_.below(9); count != 0) {
      packet.msg_control = control;
      packet.msg_controllen = CMSG_SPACE(static_cast<std::size_t>(count) * sizeof(int));
      cmsghdr* header = CMSG_FIRSTHDR(&packet);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(static_cast<std::size_t>(count) * sizeof(int));
      for (int i = 0; i < count; ++i) {
        const int fd = i % 2 == 0 ? 0 : bell_.get();
        std::memcpy(CMSG_DATA(header) + static_cast<std::size_t>(i) * sizeof fd, &fd, sizeof fd);
      }
    }
    (void)raw::sendmsg(bell_.get(), &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  // A table with rows chosen by the input, and perhaps the right nonce: that of this process.
  void introduce() {
    const OwnedFd table(raw::memfd_create("rrdma-direct", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const std::uint8_t choice = input_.octet();
    const std::int64_t octets = (choice & 1) != 0 ? 4096 : std::int64_t{kDirectTableOctets};
    RRDMA_ASSERT(raw::ftruncate(table.get(), octets) == 0);
    const TableHeader header{.magic = kDirectMagic, .version = kDirectVersion, .rows = kDirectRows};
    if ((choice & 2) == 0) (void)!::pwrite(table.get(), &header, sizeof header, 0);
    for (int i = 0; i < 4; ++i) {
      const Octets row = input_.take(64);
      (void)!::pwrite(table.get(), row.data(), row.size(), 4096 + 64 * (input_.word() % (2 * kDirectRows)));
    }
    if ((choice & 4) == 0) (void)raw::fcntl(table.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    DirectIntroduction introduction{.nonce_address = reinterpret_cast<std::uintptr_t>(nonce_),
                                    .peer = Listener::kParty};
    if ((choice & 8) != 0) introduction.nonce_address = input_.word();
    std::copy_n(nonce_, sizeof nonce_, introduction.nonce.begin());
    (void)send_introduction(bell_.get(), introduction, table.get());
  }
  void use() {
    objects::Path path;
    path.peer = peer_;
    std::uint8_t octets[64] = {};
    const objects::DirectTarget target{.local = wire::Qpn(1),
                                       .remote = wire::Qpn(input_.octet()),
                                       .rkey = {input_.octet()},
                                       .address = input_.word()};
    const objects::PayloadSpan from{octets, 1u + input_.below(64)};
    // Only reads are tried: a write that the hostile table permits would overwrite this process.
    const objects::MutableSpan to{octets, from.length};
    (void)link_->direct_read(path, target, {&to, 1});
  }

  fuzz::Input input_;
  std::unique_ptr<ShmLink> link_;
  Listener listener_;
  objects::Path path_;
  std::uint8_t* base_ = nullptr;
  std::size_t size_ = 0;
  OwnedFd bell_;
  std::uint32_t peer_ = 0;
  std::optional<ShmChannel> end_;
  std::optional<RingWriter> writer_;
  std::uint8_t memory_[64];
  std::uint8_t source_[5000] = {};
  std::uint8_t nonce_[DirectIntroduction::kNonceOctets] = {1, 2, 3};
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World(fuzz::Input({data, size})).run();
  return 0;
}

}  // namespace rrdma::shm_peer_fuzz
