// Runtime: the NIC of this process: its devices, its ProcessControl and its lanes (lane/lane.h says what
// belongs to which). Listing devices has no side effects. Opening the first device connects to the daemon
// (and starts it if necessary) and creates a lane with its thread. Closing the last one releases everything.
// After a fork the child's runtime is unusable until it opens a device again.
//
// Threads: all calls from any thread unless stated otherwise.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "host/device.h"
#include "nic/process/daemon_listener.h"
#include "nic/process/lanes.h"
#include "nic/settings.h"

namespace rrdma::control {
class DaemonClient;
}  // namespace rrdma::control

namespace rrdma::nic {

class Runtime {
 public:
  static Runtime& instance();

  [[nodiscard]] const Settings& settings() const;
  // The devices that programs see; starts nothing. If there are none for a reason that is not our error, it
  // is reported here; otherwise the caller reports it.
  [[nodiscard]] Result<std::vector<host::DeviceIdentity>, Problem> devices();
  // Counted: each open needs one close.
  Result<std::shared_ptr<host::Device>, Problem> open(std::string_view name);
  void close(const std::shared_ptr<host::Device>& device);
  // The device if this process has it open; not counted.
  [[nodiscard]] std::shared_ptr<host::Device> find_open(std::string_view name);
  // For the counters of its QPs (transport::QpInit). REQUIRES: the device is open.
  [[nodiscard]] std::uint16_t device_number(const host::Device& device);
  // REQUIRES: a device is open, for the next three calls. The daemon client is for subsystems that talk to
  // the daemon themselves (the connection manager). Its requests block: do not call it under a lane's lock.
  Lanes& lanes();
  [[nodiscard]] control::DaemonClient& daemon() const;
  void set_daemon_listener(DaemonListener* listener);
  // The process ends now, perhaps without exit handlers: every lane ends (Lane::end). Waits for locks, half a
  // second for each at most, and for none that the calling thread holds. Does nothing in a child.
  static void end_process();
  // Makes all counters visible to other processes. Never waits.
  static void publish_counters();
  // True in a child of the process that opened the devices: its objects are unusable.
  [[nodiscard]] bool forked() const;

 private:
  Runtime();
  void end_lanes();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rrdma::nic
