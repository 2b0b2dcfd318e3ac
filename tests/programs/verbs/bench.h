// Bench: an open device with a domain, a CQ and some memory, and RC connections between two QPs of this
// process.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

namespace letter {

constexpr int kAllRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

ibv_context* open_device();

struct Patience {
  std::uint8_t timeout = 14;
  std::uint8_t retries = 7;
};

class Bench : public ::testing::Test {
 protected:
  static constexpr std::size_t kOctets = 8192;

  void SetUp() override;
  void TearDown() override;

  ibv_qp* create_qp(ibv_pd* in, ibv_srq* srq = nullptr, ibv_qp_type type = IBV_QPT_RC) const;
  // Moves both from RESET to RTS.
  void connect(ibv_qp* one, ibv_qp* other, const Patience& patience = {}) const;
  // Moves the QP from RESET to RTS, connected to a queue pair of this device in any process. RC, UC or UD.
  void connect_to(ibv_qp* qp, std::uint32_t peer, const Patience& patience, std::uint8_t hops = 64) const;
  // Returns the next completion; IBV_WC_RESP_TIMEOUT_ERR after five seconds without one.
  ibv_wc next(ibv_cq* from = nullptr) const;
  // Returns the next completion of that QP; keeps others for later calls.
  ibv_wc next_of(const ibv_qp* qp);
  static int receive(ibv_qp* qp, std::uint64_t id, ibv_sge sge);
  static int send(ibv_qp* qp, ibv_send_wr wr, ibv_sge sge);
  ibv_sge at(std::size_t offset, std::uint32_t length, const ibv_mr* in = nullptr) {
    return {reinterpret_cast<std::uintptr_t>(memory_ + offset), length, (in != nullptr ? in : mr_)->lkey};
  }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(memory_ + offset);
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::vector<ibv_wc> kept_;
  alignas(64) std::uint8_t memory_[kOctets] = {};
};

}  // namespace letter
