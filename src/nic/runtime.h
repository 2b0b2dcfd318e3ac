// Runtime: the NIC of this process: its devices, its ProcessControl and its lanes (lane/lane.h says what belongs to which).
// Lists devices without side effects; opening the first one connects to the daemon (starting it if need be) and makes
// a lane with its thread; closing the last one gives all of it back. After a fork the child's runtime is dead
// until it opens a device anew.
//
// Threads: all calls from any thread unless said otherwise.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/problem.h"
#include "base/result.h"
#include "host/device.h"
#include "nic/daemon_listener.h"
#include "nic/lane/lanes.h"
#include "nic/settings.h"

namespace rrdma::control {
class DaemonClient;
}  // namespace rrdma::control

namespace rrdma::nic {

class Runtime {
 public:
  static Runtime& instance();

  [[nodiscard]] const Settings& settings() const;
  // What programs see; does not start anything. Where the reason why there is none is not an error of ours, it is said
  // here; else by the caller.
  [[nodiscard]] Result<std::vector<host::DeviceIdentity>, Problem> devices();
  // Counted: each open is closed once.
  Result<std::shared_ptr<host::Device>, Problem> open(std::string_view name);
  void close(const std::shared_ptr<host::Device>& device);
  // The device if this process has it open; not counted.
  [[nodiscard]] std::shared_ptr<host::Device> find_open(std::string_view name);
  // REQUIRES: it is open. For the counters of its QPs (transport::QpInit).
  [[nodiscard]] std::uint16_t device_number(const host::Device& device);
  // REQUIRES: a device is open, for all of these. The daemon's client is for subsystems that speak with the daemon
  // themselves (the connection manager); its requests block: not under a lane's lock.
  Lanes& lanes();
  [[nodiscard]] control::DaemonClient& daemon() const;
  void set_daemon_listener(DaemonListener* listener);
  // The process ends now, perhaps without exit handlers: what is held back for its sake goes out, captures are
  // written. Never waits, and does nothing in a child.
  static void end_process();
  // What was counted can be seen by everybody now. Never waits.
  static void publish_counters();
  // True in a child of the process that opened the devices: its objects are dead.
  [[nodiscard]] bool forked() const;

 private:
  Runtime();
  void say_goodbye();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rrdma::nic
