// ReceiveHalf: the receives of a connection, the messages that wait for a reader, and the readers that wait
// for a message.
//
// A receive is posted, in use, or released. Released receives are posted again at the end of a turn and then
// owed to the peer (credits.h).
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>

#include "lib/comm/pool_state.h"
#include "lib/comm/reactor.h"
#include "rrdma/comm/endpoint.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

// Precedes each message; little-endian.
struct MessageHeader {
  std::uint8_t kind;
  std::uint8_t reserved;
  std::uint16_t credits;
  std::uint32_t length;
};
static_assert(sizeof(MessageHeader) == 8);
enum class MessageKind : std::uint8_t { kData = 1, kCredit = 2, kClose = 3 };

struct ReceiveSlot : Completion, Link {
  EndpointState* endpoint = nullptr;
  std::byte* data = nullptr;
  std::uint64_t sequence = 0;
  std::uint32_t length = 0;
  std::uint32_t immediate = 0;
  std::uint32_t loans = 0;
  bool has_immediate = false;
  bool counts = false;  // held an application message
};

// Receives to post with one call.
struct ReceiveChain {
  static constexpr std::uint32_t kMost = 16;
  std::array<ibv_recv_wr, kMost> requests;
  std::array<ibv_sge, kMost> parts;
  std::uint32_t count = 0;
  std::uint32_t counting = 0;  // of them held application messages
};

class ReceiveHalf {
 public:
  // Makes `depth` receives of `message_limit` bytes and a header, all released. `memory`: stride_of()
  // registered bytes for each.
  void open(std::uint32_t depth, std::uint32_t message_limit, std::byte* memory, std::uint32_t lkey,
            EndpointState* endpoint, void (*arrive)(Completion*, const ibv_wc&)) {
    octets_ = message_limit + static_cast<std::uint32_t>(sizeof(MessageHeader));
    lkey_ = lkey;
    slots_ = std::make_unique<ReceiveSlot[]>(depth);
    for (std::uint32_t i = 0; i < depth; ++i) {
      slots_[i].arrive = arrive;
      slots_[i].endpoint = endpoint;
      slots_[i].data = memory + i * stride_of(message_limit) + kHeadroom;
      released_.push_back(&slots_[i]);
    }
  }
  [[nodiscard]] static std::size_t stride_of(std::size_t message_limit) {
    return kHeadroom + (message_limit + 63) / 64 * 64;
  }

  // ---- receives ----
  [[nodiscard]] bool has_released() const { return !released_.empty(); }
  void release(ReceiveSlot* slot) { released_.push_back(slot); }
  // Takes as many released receives as a chain holds.
  void fill(ReceiveChain& chain) {
    chain.count = chain.counting = 0;
    while (chain.count < ReceiveChain::kMost && has_released()) {
      ReceiveSlot* slot = released_.pop_front();
      const std::uint32_t i = chain.count++;
      chain.parts[i] = {reinterpret_cast<std::uintptr_t>(slot->data) - sizeof(MessageHeader), octets_, lkey_};
      chain.requests[i] = {reinterpret_cast<std::uintptr_t>(static_cast<Completion*>(slot)), nullptr,
                           &chain.parts[i], 1};
      if (i > 0) chain.requests[i - 1].next = &chain.requests[i];
      if (slot->counts) ++chain.counting;
    }
  }
  void count_posted(std::uint32_t receives) { posted_ += receives; }
  void count_completed() { --posted_; }
  // Whether the queue pair has given back all receives.
  [[nodiscard]] bool drained() const { return posted_ == 0; }

  // ---- messages ----
  // Numbers a message that has arrived.
  void number(ReceiveSlot* slot) { slot->sequence = next_sequence_++; }
  // Keeps the newest message for a later reader.
  void keep(ReceiveSlot* slot) { inbound_.push_back(slot); }
  // Keeps a message whose reader was destroyed before seeing it, in the original order.
  void put_back(ReceiveSlot* slot) {
    ReceiveSlot* position = inbound_.front();
    while (position != nullptr && position->sequence < slot->sequence) position = inbound_.after(position);
    inbound_.insert_before(slot, position);
  }
  [[nodiscard]] bool has_message() const { return !inbound_.empty(); }
  // The oldest kept message, or null.
  [[nodiscard]] ReceiveSlot* take_message() { return inbound_.pop_front(); }

  // ---- readers ----
  [[nodiscard]] List<Receiving>& readers() { return readers_; }

 private:
  std::unique_ptr<ReceiveSlot[]> slots_;
  List<ReceiveSlot> inbound_;
  List<ReceiveSlot> released_;
  List<Receiving> readers_;
  std::uint64_t next_sequence_ = 0;
  std::uint32_t posted_ = 0;
  std::uint32_t octets_ = 0;
  std::uint32_t lkey_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
