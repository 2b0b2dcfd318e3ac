// Talk: what a program does with a NIC while the suite does things to the program: two RC queue pairs of one
// process, connected with each other, and messages between them.
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

  // With `events` it sleeps in a completion channel instead of polling.
  explicit Talk(bool events = false);
  ~Talk();
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  // A message each way, checked octet by octet; ends the program when it does not come.
  void exchange(int rounds = 1);
  [[nodiscard]] proof::Device& device() { return device_; }
  [[nodiscard]] ibv_qp* qp() const { return qps_[0]; }
  // The status of a WRITE from memory that may not be there.
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

// What the command line of a Device would be if it had none.
proof::Arguments& no_arguments();

}  // namespace guest
