// ProcessFaults: applies fault rules in this process. It keeps the timer of rules that begin or end by the
// clock, and translates active rules into settings of devices and lanes.
//
// Threads: handle() from the thread that serves descriptors; everything else from any thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/owned_fd.h"
#include "control/fault_messages.h"
#include "faults/table.h"
#include "host/netlink_device.h"
#include "link/fault_gate.h"

namespace rrdma::nic {

using DeviceList = std::vector<std::shared_ptr<host::NetlinkDevice>>;

// The effect of the rules on one device: on its port and its GID table.
[[nodiscard]] host::Imposed imposed_on(const host::Device& device, const std::vector<faults::Rule>& active);
// The effect of the rules on packets, stronger ones first.
[[nodiscard]] std::vector<link::FaultScope> scopes_of(const DeviceList& devices,
                                                      const std::vector<faults::Rule>& active);

class ProcessFaults final : private faults::Actor {
 public:
  // Calls `changed` when the set of active rules changes and `injected` when a rule has injected a fault,
  // from any thread.
  ProcessFaults(std::function<void()> changed, faults::Table::Witness injected);
  ~ProcessFaults() override;

  [[nodiscard]] int fd() const { return timer_.get(); }
  // Handles rules whose time has come.
  void handle();
  void follow(const control::FaultOrder& order);

 private:
  void handle_rules(const std::vector<faults::Rule>& active) override;
  void act(const faults::Rule& rule) override;
  void set_timer();

  const std::function<void()> changed_;
  OwnedFd timer_;
};

}  // namespace rrdma::nic
