#include "inspect/orders/capture_desk.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "inspect/analysis.h"
#include "inspect/export.h"
#include "tools/file_octets.h"
#include "tools/own_command.h"

namespace rrdma::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kReportPacketsMax = 50'000;

std::string answer(bool done, std::string_view text) {
  const Json json = {{"done", done}, {"text", text}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string new_folder() {
  const char* place = std::getenv("TMPDIR");
  std::string folder =
      std::string(place == nullptr || *place == '\0' ? "/tmp" : place) + "/rrdma-inspect.XXXXXX";
  return ::mkdtemp(folder.data()) == nullptr ? std::string() : folder;
}

}  // namespace

CaptureDesk::~CaptureDesk() {
  for (const Ordered& one : ordered_) {
    if (one.state == State::kRunning) {
      ::kill(one.child, SIGTERM);
      while (::waitpid(one.child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    ::unlink(one.file.c_str());
  }
  if (!folder_.empty()) ::rmdir(folder_.c_str());
}

std::string CaptureDesk::order(std::string_view pid) {
  look();
  pid_t number = 0;
  const auto [end, error] = std::from_chars(pid.data(), pid.data() + pid.size(), number);
  if (error != std::errc() || end != pid.data() + pid.size() || number <= 0)
    return answer(false, "that is no process");
  for (const Ordered& one : ordered_)
    if (one.state == State::kRunning) return answer(false, "another capture is running");
  if (ordered_.size() == kCapturesMax) return answer(false, "this page has captured often enough");
  if (folder_.empty()) folder_ = new_folder();
  if (folder_.empty()) return answer(false, "there is no place for the file");
  Ordered added{.pid = number};
  added.file = folder_ + "/" + std::to_string(ordered_.size() + 1) + ".pcapng";
  added.child =
      start_own_command({"capture", "--pid", std::to_string(number), "--seconds", std::to_string(kSeconds),
                         "--packets", std::to_string(kReportPacketsMax), added.file});
  if (added.child < 0) return answer(false, "rrdma capture cannot be started");
  ordered_.push_back(std::move(added));
  return answer(true, "");
}

void CaptureDesk::look() {
  for (Ordered& one : ordered_) {
    int status = 0;
    if (one.state != State::kRunning || ::waitpid(one.child, &status, WNOHANG) != one.child) continue;
    const auto file = FileOctets::read(one.file);
    const bool some = WIFEXITED(status) && WEXITSTATUS(status) == 0 && file && !file->octets().empty();
    one.state = some ? State::kReady : State::kFailed;
  }
}

std::string CaptureDesk::list() {
  look();
  constexpr std::string_view kNames[] = {"running", "ready", "failed"};
  Json list = Json::array();
  for (std::size_t i = 0; i < ordered_.size(); ++i)
    list.push_back({{"number", i + 1},
                    {"pid", ordered_[i].pid},
                    {"state", kNames[static_cast<std::size_t>(ordered_[i].state)]}});
  return list.dump();
}

std::string CaptureDesk::page(std::uint32_t number) {
  look();
  if (number == 0 || number > ordered_.size() || ordered_[number - 1].state != State::kReady) return {};
  const auto file = FileOctets::read(ordered_[number - 1].file);
  if (!file) return {};
  const CaptureInput input{"process " + std::to_string(ordered_[number - 1].pid), file->octets()};
  Analysis analysis = analyse({&input, 1}, kReportPacketsMax);
  find_rpc_calls(analysis, {});
  return exported_page(analysis);
}

}  // namespace rrdma::tools
