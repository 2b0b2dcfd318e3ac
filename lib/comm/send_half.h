// SendHalf: the send queue of a connection, and the transfers that wait for it.
//
// A Posting is a request in the queue: it owns the buffer until the completion and refers to the waiter.
// Inline sends are complete when posted. Only some of them request a completion, which frees the entries of
// all requests before it. Control messages have a few entries of their own, and so has the marker of the end.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "lib/comm/reactor.h"
#include "rrdma/comm/endpoint.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

struct Posting : Completion {
  EndpointState* endpoint = nullptr;
  Transfer* waiter = nullptr;
  Buffer buffer;
  Ref<Counted> kept;
  std::byte* scratch =
      nullptr;  // kScratch registered bytes: result of an atomic, or header of a control message
  Posting* next_free = nullptr;
  std::uint32_t covers = 0;  // requests that this completion frees
  enum class Kind : std::uint8_t {
    kTransfer,
    kSilent,
    kCredit,
    kClose,
    kProbe,
    kMarker
  } kind = Kind::kTransfer;
};

class SendHalf {
 public:
  static constexpr std::size_t kScratch = 16;
  static constexpr std::uint32_t kControlRoom = 3;               // for credit, close and probe messages
  static constexpr std::uint32_t kExtraRoom = kControlRoom + 1;  // ... and the marker
  static constexpr std::uint32_t kMostUnsignalled = 16;          // sends in a row without a completion

  // Makes the postings. `room`: the application's requests; the queue has kExtraRoom entries more. `scratch`:
  // kScratch registered bytes for each entry.
  void open(std::uint32_t room, std::byte* scratch, EndpointState* endpoint,
            void (*arrive)(Completion*, const ibv_wc&)) {
    room_ = room;
    count_ = room + kExtraRoom;
    postings_ = std::make_unique<Posting[]>(count_);
    for (std::uint32_t i = 0; i < count_; ++i) {
      postings_[i].arrive = arrive;
      postings_[i].endpoint = endpoint;
      postings_[i].scratch = scratch + i * kScratch;
      give_back(&postings_[i]);
    }
  }

  // ---- entries ----
  [[nodiscard]] bool has_room() const { return in_queue_ < room_; }
  [[nodiscard]] bool has_control_room() const { return has_posting() && in_queue_ < room_ + kControlRoom; }
  [[nodiscard]] bool has_posting() const { return free_ != nullptr; }
  // A request takes an entry.
  void occupy() { ++in_queue_; }
  // A send without a waiter takes an entry. Returns the posting of its completion, or null if it needs none.
  [[nodiscard]] Posting* occupy_silently() {
    occupy();
    if (unsignalled_ + 1 >= std::min(kMostUnsignalled, room_ / 4)) return take(Posting::Kind::kSilent);
    ++unsignalled_;
    return nullptr;
  }
  // REQUIRES: has_posting().
  Posting* take(Posting::Kind kind) {
    Posting* posting = std::exchange(free_, free_->next_free);
    posting->kind = kind;
    posting->covers = std::exchange(unsignalled_, 0) + 1;
    return posting;
  }
  // The completion of the posting has arrived: its entry and those before it are free. The posting itself
  // stays taken.
  void vacate(const Posting& posting) { in_queue_ -= std::min(in_queue_, posting.covers); }
  void give_back(Posting* posting) {
    posting->waiter = nullptr;
    posting->next_free = std::exchange(free_, posting);
  }

  // ---- transfers ----
  [[nodiscard]] List<Transfer>& queued() { return queued_; }
  // Bytes of the largest request that has no completion yet.
  [[nodiscard]] std::size_t largest() const {
    std::size_t octets = 0;
    for (std::uint32_t i = 0; i < count_; ++i) octets = std::max(octets, postings_[i].buffer.size());
    return octets;
  }
  // Takes the waiters of all postings away.
  template <typename Each>
  void take_waiters(Each each) {
    for (std::uint32_t i = 0; i < count_; ++i)
      if (Transfer* waiter = std::exchange(postings_[i].waiter, nullptr); waiter != nullptr) each(waiter);
  }

 private:
  List<Transfer> queued_;
  std::unique_ptr<Posting[]> postings_;
  std::uint32_t count_ = 0;
  Posting* free_ = nullptr;
  std::uint32_t room_ = 0;
  std::uint32_t in_queue_ = 0;
  std::uint32_t unsignalled_ = 0;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
