// Runtime: the NIC of this process. Lists devices without side effects; opening the first one connects
// to the daemon (starting it if need be), takes a slot, makes the lane and its background thread;
// closing the last one gives all of it back. After a fork the child's runtime is dead until it opens a
// device anew.
//
// Threads: all calls from any thread unless said otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"
#include "base/result.h"
#include "host/clock.h"
#include "host/device.h"
#include "nic/lane_lock.h"
#include "nic/settings.h"
#include "objects/memory.h"
#include "transport/engine.h"

namespace rrdma::control {
class DaemonClient;
struct Received;
}  // namespace rrdma::control

namespace rrdma::nic {

// What nic/ needs to know to resolve an address vector.
struct PathRequest {
  wire::Gid remote;
  std::uint32_t local_gid_index = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  wire::Qpn local_qpn;
  wire::Qpn remote_qpn;   // connected QPs; decides whether the peer is a process of this host
  bool datagram = false;  // an address handle: remote_qpn is not known yet
};

// Events of QPs, in the order in which they happen. Called with the lane's lock held: only queue them.
class QpListener {
 public:
  virtual ~QpListener() = default;
  virtual void on_qp_event(transport::QueuePair& qp, transport::QpEvent event) = 0;
};

// What the daemon tells that nic/ knows nothing about. Called from the background thread, without any lock.
class DaemonListener {
 public:
  virtual ~DaemonListener() = default;
  virtual void on_daemon_message(control::Received& message) = 0;
  // Another daemon serves us now: what the last one knew must be said again.
  virtual void on_daemon_changed() = 0;
};

// The engine of this process with its lock and its links. Everything that touches the engine, the memory
// table or a QP happens under the lock, with the exceptions that engine.h names.
class Lane {
 public:
  virtual ~Lane() = default;
  [[nodiscard]] LaneLock& mutex() { return mutex_; }

  // REQUIRES: the lock.
  // The time for the calls below, up to a microsecond late.
  [[nodiscard]] Instant now() { return clock_.now(); }
  [[nodiscard]] virtual transport::Engine& engine() = 0;
  [[nodiscard]] virtual objects::MemoryTable& memory() = 0;
  // A QPN that no QP has; fails when 65,535 in all slots are taken and no further slot is to be had.
  virtual Result<wire::Qpn, Problem> allocate_qpn() = 0;
  virtual void set_qp_listener(QpListener* listener) = 0;
  // Sends what the engine has to send. Call after posting.
  virtual void transmit(Instant now) = 0;
  // Receives, handles timers, sends.
  virtual void progress() = 0;
  // Sends what waits for the program's reply: before a change after which it could not be sent any more.
  virtual void send_held() = 0;

  // May block (asks the daemon, makes a shared-memory channel). REQUIRES: not the lock.
  virtual Result<objects::Path, Problem> resolve(const host::Device& device, const PathRequest& request) = 0;
  // Makes one round of progress if nobody else is doing so: for pollers. REQUIRES: not the lock.
  void poll() {
    if (!mutex_.try_lock()) return;
    progress();
    mutex_.unlock();
  }
  // For whoever goes to sleep until an event: the background thread takes over.
  virtual void rely_on_background() = 0;

  // For subsystems that speak with the daemon themselves (the connection manager). Requests block: not
  // under the lock.
  [[nodiscard]] virtual control::DaemonClient& daemon() = 0;
  virtual void set_daemon_listener(DaemonListener* listener) = 0;

 private:
  LaneLock mutex_;
  host::RecentClock clock_;
};

class Runtime {
 public:
  static Runtime& instance();

  [[nodiscard]] const Settings& settings() const;
  // What programs see; does not start anything.
  std::vector<host::DeviceIdentity> devices();
  // Counted: each open is closed once.
  Result<std::shared_ptr<host::Device>, Problem> open(std::string_view name);
  void close(const std::shared_ptr<host::Device>& device);
  // The device if this process has it open; not counted.
  [[nodiscard]] std::shared_ptr<host::Device> find_open(std::string_view name);
  // REQUIRES: a device is open.
  Lane& lane();
  // True in a child of the process that opened the devices: its objects are dead.
  [[nodiscard]] bool forked() const;

 private:
  Runtime();
  void say_goodbye();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rrdma::nic
