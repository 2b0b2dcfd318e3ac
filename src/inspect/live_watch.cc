#include "inspect/live_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/explain_log.h"
#include "inspect/orders/capture_desk.h"
#include "inspect/orders/fault_desk.h"
#include "tools/explain/explain_json.h"
#include "tools/stat/observation.h"
#include "tools/stat/stat_report.h"

namespace rrdma::tools {
namespace {

using namespace std::chrono_literals;

// Reading the explain logs of all processes costs more than reading their counters.
constexpr auto kExplainInterval = 400ms;

// Replaces line breaks, which JSON allows only between tokens, because an event is one line.
std::string in_one_line(std::string json) {
  std::replace(json.begin(), json.end(), '\n', ' ');
  return json;
}

}  // namespace

void LiveWatch::read_explained_processes() {
  const auto now = std::chrono::steady_clock::now();
  if (now - explained_at_ < kExplainInterval) return;
  explained_at_ = now;
  const std::uint64_t here = host::net_namespace_of_this_process();
  std::vector<host::ExplainedProcess> processes;
  for (const std::uint32_t pid : host::explained_pids()) {
    host::ExplainedProcess process = host::read_explained(pid);
    if (!process.sentences.empty() && process.net_namespace == here) processes.push_back(std::move(process));
  }
  explained_ = "{\"en\":" + in_one_line(processes_json(processes, processes, Language::kEnglish)) +
               ",\"zh\":" + in_one_line(processes_json(processes, processes, Language::kChinese)) + "}";
}

std::string LiveWatch::look() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string time = std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  auto seen = observe();
  if (!seen) {
    // The last program has ended; its log still says what went wrong.
    read_explained_processes();
    const nlohmann::ordered_json sentence = seen.error().sentence;
    return "{\"time_ns\":\"" + time + "\",\"problem\":" +
           sentence.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
           ",\"stat\":{\"processes\":[]},\"explained\":" + explained_ + "}";
  }
  read_explained_processes();
  return "{\"time_ns\":\"" + time + "\",\"stat\":" + in_one_line(stat_json(*seen, {}, true)) +
         ",\"explained\":" + explained_ +
         (faults_ == nullptr ? std::string() : ",\"faults\":" + in_one_line(faults_->list())) +
         (captures_ == nullptr ? std::string() : ",\"captures\":" + captures_->list()) + "}";
}

}  // namespace rrdma::tools
