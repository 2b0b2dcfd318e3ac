// The verbs objects that every test program needs, in plain libibverbs: a device, its protection domain,
// memory, and queue pairs with their connection. Every failure ends the program.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "arguments.h"

namespace proof {

// The data that the other end needs to connect a QP.
struct QpAddress {
  std::uint32_t qpn;
  std::uint32_t psn;
  ibv_gid gid;
};

// The data that the other end needs to access memory.
struct RemoteMemory {
  std::uint64_t address;
  std::uint32_t rkey;
};

struct QpSize {
  std::uint32_t sends = 64;
  std::uint32_t receives = 64;
  std::uint32_t inline_octets = 0;
};

// The timeouts and retries of a connection.
struct Patience {
  std::uint8_t timeout = 14;
  std::uint8_t retries = 7;
  std::uint8_t rnr_timer = 1;  // 0.01 ms
};

class Device {
 public:
  // --family=4|6 selects the GID (default 4), --mtu=256..4096 the path MTU (default 1024), --device=PREFIX
  // the first device whose name starts with PREFIX (default rrdma).
  explicit Device(Arguments& arguments);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* pd() const { return pd_; }

  [[nodiscard]] ibv_cq* create_cq(int entries, ibv_comp_channel* channel = nullptr);
  [[nodiscard]] ibv_qp* create_qp(ibv_cq* cq, const QpSize& size);
  // Moves the QP from RESET to INIT with all remote rights.
  [[nodiscard]] QpAddress prepare(ibv_qp* qp, std::uint32_t psn);
  // Moves the QP from INIT to RTS.
  void connect(ibv_qp* qp, const QpAddress& own, const QpAddress& peer, const Patience& patience = {});
  [[nodiscard]] ibv_mr* register_memory(void* memory, std::size_t octets);

 private:
  void linger(long milliseconds);

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mtu mtu_ = IBV_MTU_1024;
  std::uint8_t gid_index_ = 0;
  ibv_gid gid_{};
};

// Returns page-aligned, zeroed memory.
[[nodiscard]] std::uint8_t* map_memory(std::size_t octets);

[[nodiscard]] std::string describe(const ibv_wc& completion);

}  // namespace proof
