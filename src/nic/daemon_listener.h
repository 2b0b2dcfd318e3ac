// What the daemon tells that nic/ knows nothing about, for the subsystem that does (the connection manager's door).
#pragma once

namespace rrdma::control {
struct Received;
}  // namespace rrdma::control

namespace rrdma::nic {

// Called from the thread that serves the process's control, without any lock.
class DaemonListener {
 public:
  virtual ~DaemonListener() = default;
  virtual void on_daemon_message(control::Received& message) = 0;
  // Another daemon serves us now: what the last one knew must be said again.
  virtual void on_daemon_changed() = 0;
};

}  // namespace rrdma::nic
