// DaemonListener: receives daemon messages that nic/ does not handle, for the subsystem that does (the
// connection manager).
#pragma once

namespace rrdma::control {
struct Received;
}  // namespace rrdma::control

namespace rrdma::nic {

// Called from the thread that serves the process's control descriptors, without any lock.
class DaemonListener {
 public:
  virtual ~DaemonListener() = default;
  virtual void on_daemon_message(control::Received& message) = 0;
  // A new daemon serves this process: repeat everything that the previous one knew.
  virtual void on_daemon_changed() = 0;
};

}  // namespace rrdma::nic
