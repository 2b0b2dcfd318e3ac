// ProcessFaults: faults on purpose on their way to what they befall in this process: it keeps the time of rules that begin
// or end by the clock, and turns the rules that are active into what devices and lanes understand.
//
// Threads: handle() from the thread that serves descriptors; the rest from any.
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

// What the rules do to one device: to its port and its table of GIDs.
[[nodiscard]] host::Imposed imposed_on(const host::Device& device, const std::vector<faults::Rule>& active);
// What they do to packets, the stronger first.
[[nodiscard]] std::vector<link::FaultScope> scopes_of(const DeviceList& devices,
                                                      const std::vector<faults::Rule>& active);

class ProcessFaults final : private faults::Actor {
 public:
  // `changed` is called whenever other rules are active, `injected` when one acted, from whatever thread noticed it.
  ProcessFaults(std::function<void()> changed, faults::Table::Witness injected);
  ~ProcessFaults() override;

  [[nodiscard]] int fd() const { return timer_.get(); }
  // A rule's time may have come.
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
