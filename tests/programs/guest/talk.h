// Talk: the traffic of a program while the suite acts on the program. Two RC queue pairs of one process are
// connected to each other and exchange messages.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "completions.h"
#include "device.h"

namespace guest {

class Talk {
 public:
  static constexpr std::uint32_t kOctets = 4096;

  // If `events`, sleeps in a completion channel instead of polling.
  explicit Talk(bool events = false);
  ~Talk();
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  // Sends a message each way and checks every byte. Ends the program if a message does not arrive.
  void exchange(int rounds = 1);
  [[nodiscard]] proof::Device& device() { return device_; }
  [[nodiscard]] ibv_qp* qp() const { return qps_[0]; }
  // Returns the status of a WRITE from memory that may not be mapped.
  [[nodiscard]] ibv_wc_status write_from(const ibv_mr& region, std::uint32_t octets);

 private:
  void send(ibv_qp* from, ibv_qp* to);

  proof::Device device_;
  std::optional<proof::Completions> completions_;
  std::uint8_t* memory_;
  ibv_mr* region_;
  ibv_qp* qps_[2] = {};
  std::uint8_t mark_ = 0;
};

// Stands in for the command line of a Device.
proof::Arguments& no_arguments();

}  // namespace guest
