// Conversation: the traffic of one end of a reliable connection in the content-checking tests. Both ends
// derive the other's operations, sizes and bytes from one seed. They check every completion against it:
// order, opcode, length, immediate data, content, values of atomics.
//
// Flow control: every checked message posts its receive again. With at most `window` receives, the bytes of a
// WRITE with immediate are checked before the message 2 * window later may overwrite them.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "device.h"

namespace proof {

enum Operation : unsigned {
  kSend = 1 << 0,
  kSendImmediate = 1 << 1,
  kWriteImmediate = 1 << 2,
  kRead = 1 << 3,
  kFetchAdd = 1 << 4,
  kCompareSwap = 1 << 5,
  kEveryOperation = (1 << 6) - 1,
};

struct TalkSettings {
  std::uint64_t messages = 1000;
  std::uint32_t octets_max = 4096;
  std::uint32_t window = 16;
  std::uint64_t seed = 1;
  unsigned operations = kEveryOperation;
};

struct Hello {
  QpAddress qp;
  RemoteMemory memory;
};

class Conversation {
 public:
  // The size of the memory that each end needs; a multiple of the page size.
  static std::size_t memory_octets(const TalkSettings& settings);

  // `index` identifies this conversation in work request ids: index_of() of a completion. `side` is 0 or 1.
  Conversation(Device& device, ibv_cq* cq, std::uint8_t* memory, const ibv_mr& mr,
               const TalkSettings& settings, std::uint32_t index, std::uint64_t topic, unsigned side);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  [[nodiscard]] const Hello& hello() const { return hello_; }
  void connect(Device& device, const Hello& peer, const Patience& patience);

  [[nodiscard]] static std::uint32_t index_of(const ibv_wc& completion) {
    return static_cast<std::uint32_t>(completion.wr_id >> 32);
  }
  // Posts one more message if one is left and the window has room.
  bool post();
  // Ends the program if anything about the completion is wrong.
  void handle(const ibv_wc& completion);
  [[nodiscard]] bool done() const { return completed_ == settings_.messages && heard_ == settings_.messages; }
  // REQUIRES: both ends are done.
  void check_end() const;

  [[nodiscard]] std::uint64_t octets() const { return octets_; }
  [[nodiscard]] std::string state() const;
  [[nodiscard]] ibv_qp* qp() const { return qp_; }

 private:
  struct Plan {
    Operation operation;
    std::uint32_t octets;
    std::uint32_t offset;  // of a READ
    std::uint64_t key;     // of the content
  };

  [[nodiscard]] Plan plan(unsigned side, std::uint64_t sequence) const;
  [[nodiscard]] std::uint64_t source_key(unsigned side) const;
  [[nodiscard]] std::uint8_t* send_slot(std::uint64_t sequence) const;
  [[nodiscard]] std::uint8_t* receive_slot(std::uint64_t number) const;
  [[nodiscard]] std::size_t write_slot(std::uint64_t number) const;
  [[nodiscard]] std::size_t source_area() const;
  [[nodiscard]] std::size_t counter() const;
  void post_receive(std::uint64_t number);
  void handle_sent(const ibv_wc& completion);
  void handle_received(const ibv_wc& completion);
  void skip_silent();
  void check(const char* what, const std::uint8_t* octets, const Plan& plan, std::uint64_t sequence,
             std::uint64_t key) const;

  TalkSettings settings_;
  std::uint64_t topic_;
  unsigned side_;
  std::uint32_t index_;
  std::uint8_t* memory_;
  std::uint32_t lkey_;
  std::uint32_t stride_;
  ibv_qp* qp_ = nullptr;
  Hello hello_{};
  Hello peer_{};
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t posted_heard_ = 0;  // of the posted messages, those that complete a receive of the peer
  std::uint64_t atomics_posted_ = 0;
  std::uint64_t atomics_ = 0;   // completed
  std::uint64_t heard_ = 0;     // of the peer's messages, those that must have arrived by now
  std::uint64_t received_ = 0;  // receives completed
  std::uint64_t octets_ = 0;
};

}  // namespace proof
