#include "daemon/captures.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "control/identity.h"

namespace rrdma::daemon {
namespace {

constexpr std::size_t kCapturesMax = 1024;  // one descriptor each

}  // namespace

Captures::Captures(Server& server) : server_(server), shares_(kCapturesMax, ::geteuid()) {}

Subsystem::Verdict Captures::handle_message(Client& client, control::Received& message) {
  if (message.type() == control::MessageType::kStartCapture) {
    const auto wanted = message.as<control::StartCapture>();
    if (!wanted || message.fds.size() != control::kCaptureFds) return Verdict::kMalformed;
    start(client, message, *wanted);
    return Verdict::kHandled;
  }
  if (message.type() == control::MessageType::kStopCapture) {
    if (!message.as<control::StopCapture>()) return Verdict::kMalformed;
    stop(client);
    (void)client.reply(message, control::Done{});
    return Verdict::kHandled;
  }
  if (message.type() == control::MessageType::kWatchMads) {
    if (!message.as<control::WatchMads>()) return Verdict::kMalformed;
    own_files_.insert(&client);
    (void)client.reply(message, control::Done{});
    return Verdict::kHandled;
  }
  // A program that starts during a capture; another subsystem handles the request itself.
  const bool starts = message.type() == control::MessageType::kRequestSlot;
  if (starts && capture_of(client) != nullptr) (void)order(client);
  return Verdict::kOthers;
}

bool Captures::may_watch(const Running& capture, const Client& program) {
  return program.hello.role == control::Role::kProgram &&
         (capture.is_root || control::is_one_user(capture.user, program.identity));
}

const Captures::Running* Captures::capture_of(const Client& program) const {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const Running& one) { return may_watch(one, program); });
  return found == running_.end() ? nullptr : &*found;
}

void Captures::start(Client& client, control::Received& request, const control::StartCapture& wanted) {
  const bool is_root = acts_as_root(client);
  if (client.hello.role != control::Role::kTool)
    return client.fail(request, EPERM, "only a tool may capture packets.");
  // A tool may have changed its user since its last request.
  const auto known = std::find_if(running_.begin(), running_.end(), [&](const Running& one) {
    if (one.tool == &client) return true;
    return one.is_root == is_root && (is_root || control::is_one_user(one.user, client.acting));
  });
  if (known != running_.end())
    return client.fail(request, EBUSY,
                       "another capture is running (process " + std::to_string(known->tool->identity.pid) +
                           "); end that one first.");
  if (!shares_.take(client.account))
    return client.fail(request, EDQUOT,
                       "this user's tools run " + std::to_string(shares_.of(client.account)) +
                           " captures, and others need some: end some of them.");
  Running begun{&client, client.acting, is_root, wanted.pid, wanted.snap_octets, std::move(request.fds[0])};
  running_.insert(is_root ? running_.begin() : running_.end(), std::move(begun));
  std::uint32_t recorded = 0;
  server_.for_each_client([&](Client& program) {
    if (const Running* capture = capture_of(program); capture != nullptr && capture->tool == &client)
      recorded += order(program, &client) ? 1 : 0;
  });
  if (wanted.pid != 0 && recorded == 0) {
    stop(client);
    return client.fail(
        request, ESRCH,
        "process " + std::to_string(wanted.pid) + " uses no RRDMA device, or is another user's.");
  }
  (void)client.reply(request, control::CaptureStarted{.programs = recorded});
}

bool Captures::order(Client& program, const Client* tool) {
  const Running* capture = capture_of(program);
  if (capture == nullptr) {
    (void)program.notify(control::CaptureOrder{});
    return false;
  }
  const bool record = capture->pid == 0 || capture->pid == static_cast<std::uint32_t>(program.identity.pid);
  const int fds[control::kCaptureFds] = {capture->socket.get()};
  const control::CaptureOrder order{
      .packets_only = true, .record = record, .snap_octets = capture->snap_octets};
  return program.notify(order, std::span(fds).first(record ? control::kCaptureFds : 0)) && record &&
         capture->tool == tool;
}

// Its programs continue with the capture of their own user, if there is one.
void Captures::stop(const Client& tool) {
  const auto found =
      std::find_if(running_.begin(), running_.end(), [&](const Running& one) { return one.tool == &tool; });
  if (found == running_.end()) return;
  std::vector<Client*> programs;
  server_.for_each_client([&](Client& program) {
    if (capture_of(program) == &*found) programs.push_back(&program);
  });
  std::vector<OwnedFd> socket;
  socket.push_back(std::move(found->socket));
  server_.disposal().take(tool.account, std::move(socket));
  shares_.give_back(tool.account);
  running_.erase(found);
  for (Client* program : programs) (void)order(*program);
}

void Captures::handle_client_gone(Client& client) {
  own_files_.erase(&client);
  stop(client);
}

bool Captures::is_recording(const Client& program) const {
  if (own_files_.contains(&program)) return true;
  const Running* capture = capture_of(program);
  return capture != nullptr &&
         (capture->pid == 0 || capture->pid == static_cast<std::uint32_t>(program.identity.pid));
}

}  // namespace rrdma::daemon
