// Script: one engine, one QP, and a peer that consists of lines of text. Each line is one action, in order of
// time:
//
//   > PACKET     the peer sends it               < PACKET     the engine must send it next
//   = TEXT       a completion must be there      ! TEXT       an asynchronous event must be there
//   recv ID N    post a receive of N bytes       post OP ID … post a request      @ TIME   time passes
//   # …          the clause, the reason
//
// A packet that leaves the engine without a `<` line before the next action is a failure: silence is checked
// as well. Packets are written as: OPCODE psn N [a] [s] [+N] [ack|nak(C)|rnr(T) msn N] [va N key K dma N] …
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "objects/completion_queue.h"
#include "objects/memory.h"
#include "transport/engine.h"

namespace rrdma::conformance {

struct ScriptOptions {
  transport::QpType type = transport::QpType::kRc;
  std::uint8_t mtu_code = 1;  // 256
  std::uint8_t timeout = 14;  // 67 ms
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;
  std::uint8_t max_reads = 4;
  std::uint8_t max_destination_reads = 4;
  std::uint32_t receive_psn = 0;
  std::uint32_t send_psn = 1000;
  std::uint32_t access =
      objects::kLocalWrite | objects::kRemoteWrite | objects::kRemoteRead | objects::kRemoteAtomic;
  std::uint8_t peer_features = 0;  // objects::kFeatureArrivals: the peer is RRDMA
  transport::EngineConfig engine;
};

class Script final : private transport::EventSink, private objects::FrameSink {
 public:
  static constexpr std::uint32_t kOwnQpn = 0x11;
  static constexpr std::uint32_t kPeerQpn = 0x22;
  static constexpr std::uint64_t kAddress = 0x10000;  // of the region "good": 64 KiB, all rights
  static constexpr std::uint32_t kMemoryOctets = 64 * 1024;

  explicit Script(const ScriptOptions& options = {});
  ~Script() override;

  // Plays the lines. Every line that does not hold is a test failure that names it.
  void play(std::string_view lines);

  [[nodiscard]] std::uint8_t* at(std::uint64_t address) { return memory_.data() + (address - kAddress); }
  // Revokes all remote rights of the region "good".
  void close_memory() { good_->access = objects::kLocalWrite; }
  transport::Engine& engine() { return *engine_; }
  transport::QueuePair& qp() { return *qp_; }
  const transport::Counters& counters() const { return engine_->counters(); }
  Instant now;
  bool link_has_room = true;

 private:
  using Words = std::vector<std::string>;
  void act(std::string_view line);
  void expect(std::deque<std::string>& from, const std::string& wanted, const char* what);
  void packet_in(const Words& words);
  void post(const Words& words);
  void receive(const Words& words);
  void go_on();
  void expect_silence();
  [[nodiscard]] std::uint32_t key_of(const std::string& name) const;

  void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) override;
  objects::Frame* reserve(const objects::Path& path) override;
  void commit(objects::Frame& frame) override;

  ScriptOptions options_;
  std::vector<std::uint8_t> memory_;
  objects::MemoryTable table_;
  objects::ProtectionDomain pd_, other_pd_;
  objects::MemoryRegion* good_ = nullptr;
  objects::MemoryRegion* read_only_ = nullptr;
  objects::MemoryRegion* foreign_ = nullptr;
  objects::CompletionQueue queue_;
  std::unique_ptr<transport::Engine> engine_;
  transport::QueuePair* qp_ = nullptr;
  objects::AddressHandle handle_;
  objects::Frame frame_;
  std::deque<std::string> sent_, completions_, events_;
  std::string line_;
};

}  // namespace rrdma::conformance
