// `rrdma explain`: what a code means, the usual causes in order and what to check; or, without a code,
// what RRDMA had to say about the last errors of a process, also after it has ended. The texts are in
// explain/, the sentences of processes in the logs that host/explain_log.h describes.
#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "host/explain_log.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/explain/catalogue.h"
#include "tools/terminal.h"
#include "tools/text_layout.h"

namespace rrdma::tools {
namespace {

constexpr const char* kName = "rrdma explain";
constexpr std::size_t kColumnsMax = 100;
constexpr std::size_t kRecentProcesses = 3;

struct ExplainOptions {
  std::vector<std::string> words;
  std::optional<std::uint32_t> pid;
  std::string language;
  bool list = false;
  bool debug = false;
  bool json = false;
};

struct Style {
  Language language;
  wire::Palette palette;
  std::size_t columns;
};

std::string topic_text(const FoundTopic& found, const Style& style) {
  const Topic& topic = *found.topic;
  const wire::Palette& palette = style.palette;
  std::string text = fmt::format("{}{}{} ({} {}", palette.name, topic.name, palette.reset,
                                 kind_name(topic.kind).in(style.language), topic.code);
  if (found.psn) text += fmt::format(", PSN {}", *found.psn);
  text += ")\n";
  text += wrapped(topic.meaning.in(style.language), style.columns, "  ", "  ");
  const auto add_list = [&](const Phrase& heading, const std::array<Phrase, Topic::kLinesMax>& lines,
                            bool numbered) {
    if (lines.front().empty()) return;
    text += fmt::format("  {}{}{}\n", palette.faint, heading.in(style.language), palette.reset);
    for (std::size_t i = 0; i < lines.size() && !lines[i].empty(); ++i) {
      text += wrapped(lines[i].in(style.language), style.columns,
                      numbered ? fmt::format("    {}. ", i + 1) : "    - ", numbered ? "       " : "      ");
    }
  };
  add_list({"Usual causes, most likely first:", "常见原因（按可能性排序）："}, topic.causes, true);
  add_list({"What to check:", "检查要点："}, topic.checks, false);
  return text;
}

nlohmann::ordered_json topic_json(const FoundTopic& found, Language language) {
  const Topic& topic = *found.topic;
  const auto list = [&](const std::array<Phrase, Topic::kLinesMax>& lines) {
    auto array = nlohmann::ordered_json::array();
    for (const Phrase& line : lines) {
      if (!line.empty()) array.push_back(line.in(language));
    }
    return array;
  };
  nlohmann::ordered_json json = {
      {"kind", kind_prefix(topic.kind)}, {"code", topic.code}, {"name", topic.name}};
  if (found.psn) json["psn"] = *found.psn;
  json["meaning"] = topic.meaning.in(language);
  json["causes"] = list(topic.causes);
  json["checks"] = list(topic.checks);
  return json;
}

int finish(Output& output, int status) {
  if (const int error = output.flush(); error != 0)
    return complain(kName, fmt::format("cannot write the output: {}", std::strerror(error)), "");
  return status;
}

int explain_words(const ExplainOptions& options, const Style& style) {
  std::string words;
  for (const std::string& word : options.words) words += (words.empty() ? "" : " ") + word;
  std::vector<FoundTopic> found = find_topics(words);
  // Several codes at once: `rrdma explain EINVAL ENOMEM`.
  if (found.empty() && options.words.size() > 1) {
    for (const std::string& word : options.words) {
      const auto more = find_topics(word);
      if (more.empty())
        return complain(kName, "nothing is known about '" + printable(word) + "'",
                        "'rrdma explain --list' shows every code");
      found.insert(found.end(), more.begin(), more.end());
    }
  }
  if (found.empty())
    return complain(kName, "nothing is known about '" + printable(words) + "'",
                    "'rrdma explain --list' shows every code");
  Output output;
  if (options.json) {
    auto list = nlohmann::ordered_json::array();
    for (const FoundTopic& topic : found) list.push_back(topic_json(topic, style.language));
    output.write(list.dump(2) + "\n");
  } else {
    for (std::size_t i = 0; i < found.size(); ++i)
      output.write((i == 0 ? "" : "\n") + topic_text(found[i], style));
  }
  return finish(output, kExitSuccess);
}

int list_topics(const ExplainOptions& options, const Style& style) {
  Output output;
  auto list = nlohmann::ordered_json::array();
  Table table({{"CODE"}, {"NAME"}, {"MEANING"}});
  for (const Topic* topic : all_topics()) {
    if (options.json) list.push_back(topic_json({topic, std::nullopt}, style.language));
    const std::uint32_t code = topic->kind == TopicKind::kCause ? topic->code << 24 : topic->code;
    const std::string number =
        topic->kind == TopicKind::kCause ? fmt::format("{:#010x}", code) : std::to_string(code);
    table.add({fmt::format("{}:{}", kind_prefix(topic->kind), number), std::string(topic->name),
               std::string(topic->meaning.in(style.language))});
  }
  output.write(options.json ? list.dump(2) + "\n" : table.text(style.palette.name, style.palette.reset));
  return finish(output, kExitSuccess);
}

// Processes that left sentences, the most recent last.
std::vector<std::uint32_t> recorded_processes() {
  std::vector<std::pair<std::int64_t, std::uint32_t>> found;
  const std::string directory = host::explain_directory();
  DIR* folder = directory.empty() ? nullptr : ::opendir(directory.c_str());
  if (folder == nullptr) return {};
  constexpr std::string_view kPrefix = "explain.";
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix)) continue;
    const auto pid =
        static_cast<std::uint32_t>(std::strtoul(name.substr(kPrefix.size()).data(), nullptr, 10));
    const auto sentences = host::read_explained(pid);
    if (!sentences.empty()) found.emplace_back(sentences.back().wall_ns, pid);
  }
  ::closedir(folder);
  std::sort(found.begin(), found.end());
  std::vector<std::uint32_t> pids;
  for (const auto& [when, pid] : found) pids.push_back(pid);
  return pids;
}

std::string_view severity_name(host::Severity severity) {
  return severity == host::Severity::kError ? "error" : severity == host::Severity::kInfo ? "info" : "debug";
}

std::string time_text(std::int64_t wall_ns) {
  const std::time_t seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm here{};
  ::localtime_r(&seconds, &here);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", here.tm_hour, here.tm_min, here.tm_sec,
                     wall_ns / 1'000'000 % 1000);
}

std::string text_of_process(std::uint32_t pid, const std::vector<host::Explained>& sentences,
                            const Style& style) {
  const bool alive = ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
  const Phrase state = alive ? Phrase{"running", "运行中"} : Phrase{"ended", "已结束"};
  std::string text = fmt::format("{}{} {}{} ({})\n", style.palette.name,
                                 style.language == Language::kChinese ? "进程" : "Process", pid,
                                 style.palette.reset, state.in(style.language));
  for (const host::Explained& sentence : sentences) {
    const std::string_view colour =
        sentence.severity == host::Severity::kError ? style.palette.bad : std::string_view();
    text +=
        wrapped(fmt::format("{}: {}", printable(sentence.call), printable(sentence.sentence)), style.columns,
                fmt::format("  {} {}{:5}{} ", time_text(sentence.wall_ns), colour,
                            severity_name(sentence.severity), style.palette.reset),
                "    ");
  }
  return text;
}

nlohmann::ordered_json json_of_process(std::uint32_t pid, const std::vector<host::Explained>& sentences) {
  auto list = nlohmann::ordered_json::array();
  for (const host::Explained& sentence : sentences) {
    list.push_back({{"time_ns", sentence.wall_ns},
                    {"severity", severity_name(sentence.severity)},
                    {"call", printable(sentence.call)},
                    {"sentence", printable(sentence.sentence)}});
  }
  return {{"pid", pid}, {"sentences", list}};
}

int explain_processes(const ExplainOptions& options, const Style& style) {
  std::vector<std::uint32_t> pids =
      options.pid ? std::vector<std::uint32_t>{*options.pid} : recorded_processes();
  auto list = nlohmann::ordered_json::array();
  std::vector<std::string> texts;
  for (const std::uint32_t pid : pids) {
    auto sentences = host::read_explained(pid);
    std::erase_if(sentences, [&](const host::Explained& s) {
      return s.severity == host::Severity::kDebug && !options.debug;
    });
    if (sentences.empty()) continue;
    list.push_back(json_of_process(pid, sentences));
    texts.push_back(text_of_process(pid, sentences, style));
  }
  Output output;
  if (options.json) {
    output.write(list.dump(2) + "\n");
    return finish(output, kExitSuccess);
  }
  if (texts.empty()) {
    const Phrase nothing = {"RRDMA has nothing to say: no call was refused and no work request failed.",
                            "RRDMA 没有要说明的：没有调用被拒绝，也没有工作请求失败。"};
    const Phrase usage = {
        "`rrdma explain CODE` explains a status, an errno or a reason; `rrdma explain --list` shows every "
        "code.",
        "`rrdma explain CODE` 解释状态、errno 或原因；`rrdma explain --list` 列出所有代码。"};
    output.write(wrapped(nothing.in(style.language), style.columns, "", "") +
                 wrapped(usage.in(style.language), style.columns, "", ""));
    return finish(output, kExitSuccess);
  }
  const std::size_t first =
      options.pid || texts.size() <= kRecentProcesses ? 0 : texts.size() - kRecentProcesses;
  for (std::size_t i = first; i < texts.size(); ++i) output.write((i == first ? "" : "\n") + texts[i]);
  return finish(output, kExitSuccess);
}

int run_explain(const ExplainOptions& options) {
  const Style style{.language = choose_language(options.language),
                    .palette = palette_for(STDOUT_FILENO, ColourChoice::kAuto),
                    .columns = std::min(kColumnsMax, terminal_columns(STDOUT_FILENO))};
  if (options.list) return list_topics(options, style);
  return options.words.empty() ? explain_processes(options, style) : explain_words(options, style);
}

}  // namespace

void add_explain_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* explain =
      app.add_subcommand("explain", "Explain the last errors of a process, or what a code means");
  auto* words = explain->add_option("CODE", options->words,
                                    "A name (IBV_WC_RETRY_EXC_ERR, EINVAL), the phrase a program printed, a "
                                    "number, or wc:N, vendor_err:N, errno:N, reject:N, sidr:N, event:N");
  explain->add_option("-p,--pid", options->pid, "What RRDMA said in this process, also after it has ended")
      ->option_text("PID")
      ->excludes(words);
  explain->add_flag("--debug", options->debug,
                    "With sentences that only matter to who looks for a fault in RRDMA");
  explain->add_flag("-l,--list", options->list, "Every code with its meaning")->excludes(words);
  explain->add_option("--lang", options->language, "en or zh (default: by LC_ALL, LC_MESSAGES or LANG)")
      ->option_text("LANGUAGE")
      ->check(CLI::IsMember({"en", "zh"}));
  explain->add_flag("-j,--json", options->json, "As JSON");
  explain->footer(
      "Without CODE and --pid: the last three processes that had errors.\n"
      "Exit status: 0; 2 when nothing is known about the code.");
  explain->callback([&chosen, options] { chosen = [options] { return run_explain(*options); }; });
}

}  // namespace rrdma::tools
