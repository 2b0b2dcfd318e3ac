#include "daemon/captures.h"

#include <cerrno>
#include <string>

#include "control/identity.h"

namespace rrdma::daemon {

Subsystem::Verdict Captures::handle_message(Client& client, control::Received& message) {
  if (message.type() == control::kStartCapture) {
    const auto wanted = message.as<control::StartCapture>();
    if (!wanted || message.fds.size() != control::kCaptureFds) return Verdict::kMalformed;
    start(client, message, *wanted);
    return Verdict::kHandled;
  }
  if (message.type() == control::kStopCapture) {
    if (!message.as<control::StopCapture>()) return Verdict::kMalformed;
    if (running_ && running_->tool == &client) stop();
    (void)client.reply(message, control::Done{});
    return Verdict::kHandled;
  }
  // A program that starts while a capture runs; the request itself is for others.
  const bool starts = message.type() == control::MessageType::kRequestSlot;
  if (starts && running_ && may_watch(*running_->tool, client)) (void)order(client);
  return Verdict::kOthers;
}

bool Captures::may_watch(const Client& tool, const Client& program) {
  return program.hello.role == control::Role::kProgram &&
         (control::is_root_here(tool.identity) || control::is_one_user(tool.identity, program.identity));
}

void Captures::start(Client& client, control::Received& request, const control::StartCapture& wanted) {
  const std::uint32_t pid = wanted.pid;
  if (running_) {
    client.fail(request, EBUSY,
                "another capture is running (process " + std::to_string(running_->tool->identity.pid) +
                    "); end that one first.");
    return;
  }
  running_ = Running{&client, pid, wanted.snap_octets, std::move(request.fds[0])};
  std::uint32_t recorded = 0;
  server_.for_each_client([&](Client& program) {
    if (may_watch(client, program) && order(program)) ++recorded;
  });
  if (pid != 0 && recorded == 0) {
    stop();
    client.fail(request, ESRCH,
                "process " + std::to_string(pid) + " uses no RRDMA device, or is another user's.");
    return;
  }
  (void)client.reply(request, control::CaptureStarted{.programs = recorded});
}

bool Captures::order(Client& program) {
  const bool record = running_->pid == 0 || running_->pid == static_cast<std::uint32_t>(program.identity.pid);
  const int fds[control::kCaptureFds] = {running_->socket.get()};
  const control::CaptureOrder order{
      .packets_only = true, .record = record, .snap_octets = running_->snap_octets};
  return program.notify(order, std::span(fds).first(record ? control::kCaptureFds : 0)) && record;
}

void Captures::stop() {
  server_.for_each_client([&](Client& program) {
    if (may_watch(*running_->tool, program)) (void)program.notify(control::CaptureOrder{});
  });
  running_.reset();
}

void Captures::handle_client_gone(Client& client) {
  if (running_ && running_->tool == &client) stop();
}

}  // namespace rrdma::daemon
