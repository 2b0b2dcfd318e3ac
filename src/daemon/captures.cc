#include "daemon/captures.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

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

bool Captures::may_watch(const control::PeerIdentity& user, bool is_root, const Client& program) {
  return program.hello.role == control::Role::kProgram &&
         (is_root || control::is_one_user(user, program.identity));
}

const Captures::Running* Captures::capture_of(const Client& program) const {
  const auto found = std::find_if(running_.begin(), running_.end(), [&](const Running& one) {
    return may_watch(one.user, one.is_root, program);
  });
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
  if (!server_.rounds().has_room(client.account))
    return client.fail(request, EBUSY,
                       "this user's programs are still being told of other captures; try again.");
  if (!shares_.take(client.payer()))
    return client.fail(request, EDQUOT,
                       "this user's tools run " + std::to_string(shares_.of(client.account)) +
                           " captures, and others need some: end some of them.");
  Running begun{++last_number_,           &client, client.acting, is_root, wanted.pid, wanted.snap_octets,
                std::move(request.fds[0])};
  running_.insert(is_root ? running_.begin() : running_.end(), std::move(begun));
  const auto started = std::make_shared<Started>(
      Started{.number = last_number_, .serial = request.header.serial, .pid = wanted.pid, .recorded = 0});
  server_.rounds().begin(
      client.account, &client,
      [this, started](Client& program) -> std::size_t {
        const Running* capture = capture_of(program);
        if (capture == nullptr || capture->number != started->number) return 0;
        started->recorded += order(program, started->number) ? 1 : 0;
        return 1;
      },
      [this, started](Client* tool) { answer_start(tool, *started); });
}

void Captures::answer_start(Client* tool, const Started& started) {
  if (tool == nullptr) return;
  if (started.pid == 0 || started.recorded != 0)
    return (void)tool->answer(started.serial, control::CaptureStarted{.programs = started.recorded});
  const auto futile = std::find_if(running_.begin(), running_.end(),
                                   [&](const Running& one) { return one.number == started.number; });
  if (futile != running_.end()) stop(futile);
  (void)tool->answer(started.serial,
                     control::Failed{.error = ESRCH,
                                     .sentence = "process " + std::to_string(started.pid) +
                                                 " uses no RRDMA device, or is another user's."});
}

bool Captures::order(Client& program, std::uint64_t number) {
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
         capture->number == number;
}

void Captures::stop(const Client& tool) {
  const auto found =
      std::find_if(running_.begin(), running_.end(), [&](const Running& one) { return one.tool == &tool; });
  if (found != running_.end()) stop(found);
}

// Its programs continue with the capture of their own user, if there is one.
void Captures::stop(std::vector<Running>::iterator one) {
  Running ended = std::move(*one);
  running_.erase(one);
  const uid_t account = ended.tool->account;
  std::vector<OwnedFd> socket;
  socket.push_back(std::move(ended.socket));
  server_.disposal().take(account, std::move(socket));
  shares_.give_back(account);
  server_.rounds().begin(
      account, nullptr,
      [this, user = ended.user, is_root = ended.is_root](Client& program) -> std::size_t {
        if (!may_watch(user, is_root, program)) return 0;
        const Running* next = capture_of(program);
        if (next != nullptr && next->is_root && !is_root) return 0;  // it was recorded for root all the time
        (void)order(program);
        return 1;
      },
      [](Client*) {});
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
