// `rrdma explain CODE`: explains a code, its usual causes and what to check. Without a code: shows the last
// errors that RRDMA explained to a process, even after the process has ended. The texts are in *_topics.cc;
// the logs of processes are described in host/explain_log.h.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/format.h"
#include "host/explain_log.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/explain/catalogue.h"
#include "tools/explain/explain_json.h"
#include "tools/explain/process_report.h"
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
  bool all = false;
  bool json = false;
};

std::string topic_text(const FoundTopic& found, const Style& style) {
  const Topic& topic = *found.topic;
  const wire::Palette& palette = style.palette;
  std::string text = formatted("{}{}{} ({} {}", palette.name, topic.name, palette.reset,
                               kind_name(topic.kind).in(style.language), topic.code);
  if (found.psn) text += formatted(", PSN {}", *found.psn);
  text += ")\n";
  text += wrapped(topic.meaning.in(style.language), style.columns, "  ", "  ");
  const auto add_list = [&](const Phrase& heading, const std::array<Phrase, Topic::kLinesMax>& lines,
                            bool numbered) {
    if (lines.front().empty()) return;
    text += formatted("  {}{}{}\n", palette.faint, heading.in(style.language), palette.reset);
    for (std::size_t i = 0; i < lines.size() && !lines[i].empty(); ++i) {
      text += wrapped(lines[i].in(style.language), style.columns,
                      numbered ? formatted("    {}. ", i + 1) : "    - ", numbered ? "       " : "      ");
    }
  };
  add_list({"Usual causes, most likely first:", "常见原因（按可能性排序）："}, topic.causes, true);
  add_list({"What to check:", "检查要点："}, topic.checks, false);
  return text;
}

int finish(Output& output, int status) {
  if (const int error = output.flush(); error != 0)
    return complain(kName, formatted("cannot write the output: {}", std::strerror(error)), "");
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
    output.write(topics_json(found, style.language));
  } else {
    for (std::size_t i = 0; i < found.size(); ++i)
      output.write((i == 0 ? "" : "\n") + topic_text(found[i], style));
  }
  return finish(output, kExitSuccess);
}

int list_topics(const ExplainOptions& options, const Style& style) {
  Output output;
  std::vector<FoundTopic> found;
  Table table({{"CODE"}, {"NAME"}, {"MEANING"}});
  for (const Topic* topic : all_topics()) {
    found.push_back({topic, std::nullopt});
    const std::uint32_t code = topic->kind == TopicKind::kCause ? topic->code << 24 : topic->code;
    const std::string number =
        topic->kind == TopicKind::kCause ? formatted("{:#010x}", code) : std::to_string(code);
    table.add({formatted("{}:{}", kind_prefix(topic->kind), number), std::string(topic->name),
               std::string(topic->meaning.in(style.language))});
  }
  output.write(options.json ? topics_json(found, style.language)
                            : table.text(style.palette.name, style.palette.reset));
  return finish(output, kExitSuccess);
}

// The processes to show, and the numbers of those left out.
struct Findings {
  std::vector<host::ExplainedProcess> processes;  // newest first
  std::size_t elsewhere = 0;                      // processes of other network namespaces
  std::size_t debugging = 0;                      // debug sentences
};

std::int64_t latest(const host::ExplainedProcess& process) {
  std::int64_t latest_ns = 0;
  for (const host::Explained& said : process.sentences) latest_ns = std::max(latest_ns, said.last_ns);
  return latest_ns;
}

Findings findings(const ExplainOptions& options) {
  Findings found;
  const std::uint64_t here = host::net_namespace_of_this_process();
  const bool everywhere = options.all || options.pid.has_value();
  for (const std::uint32_t pid :
       options.pid ? std::vector<std::uint32_t>{*options.pid} : host::explained_pids()) {
    host::ExplainedProcess process = host::read_explained(pid);
    const std::size_t debugging =
        options.debug ? 0 : std::erase_if(process.sentences, [](const host::Explained& said) {
          return said.severity == host::Severity::kDebug;
        });
    const bool is_elsewhere = here != 0 && process.net_namespace != here && !everywhere;
    if (!is_elsewhere) found.debugging += debugging;
    if (process.sentences.empty()) continue;
    if (is_elsewhere) {
      ++found.elsewhere;
    } else {
      found.processes.push_back(std::move(process));
    }
  }
  std::sort(found.processes.begin(), found.processes.end(),
            [](const auto& a, const auto& b) { return latest(a) > latest(b); });
  return found;
}

std::string nothing_text(const Style& style) {
  const Phrase nothing = {"RRDMA has nothing to say: no call was refused and no work request failed.",
                          "RRDMA 没有要说明的：没有调用被拒绝，也没有工作请求失败。"};
  const Phrase usage = {
      "`rrdma explain CODE` explains a status, an errno or a reason; `rrdma explain --list` shows every "
      "code.",
      "`rrdma explain CODE` 解释状态、errno 或原因；`rrdma explain --list` 列出所有代码。"};
  return wrapped(nothing.in(style.language), style.columns, "", "") +
         wrapped(usage.in(style.language), style.columns, "", "");
}

// Reports what was left out, so that the user does not search for it.
std::string rest_text(const Findings& found, std::size_t shown, const Style& style) {
  const bool chinese = style.language == Language::kChinese;
  std::string text;
  const auto add = [&](std::string english, std::string translated) {
    text += wrapped(chinese ? translated : english, style.columns, "", "");
  };
  if (found.processes.size() > shown) {
    add(formatted("{} earlier processes: `rrdma explain --all`.", found.processes.size() - shown),
        formatted("更早的进程 {} 个：`rrdma explain --all`。", found.processes.size() - shown));
  }
  if (found.elsewhere != 0) {
    add(formatted("{} processes of other network namespaces: `rrdma explain --all`.", found.elsewhere),
        formatted("其他网络命名空间的进程 {} 个：`rrdma explain --all`。", found.elsewhere));
  }
  if (found.debugging != 0) {
    add(formatted("{} notes for debuggers: `rrdma explain --debug`.", found.debugging),
        formatted("供调试的记录 {} 条：`rrdma explain --debug`。", found.debugging));
  }
  return text.empty() ? text : "\n" + text;
}

int explain_processes(const ExplainOptions& options, const Style& style) {
  const Findings found = findings(options);
  std::vector<host::ExplainedProcess> everybody;
  for (const std::uint32_t pid : host::explained_pids()) everybody.push_back(host::read_explained(pid));
  Output output;
  if (options.json) {
    output.write(processes_json(found.processes, everybody, style.language));
    return finish(output, kExitSuccess);
  }
  const bool every = options.pid || options.all;
  const std::size_t shown =
      every ? found.processes.size() : std::min(found.processes.size(), kRecentProcesses);
  if (shown == 0) output.write(nothing_text(style));
  for (std::size_t i = 0; i < shown; ++i)
    output.write((i == 0 ? "" : "\n") + text_of_process(found.processes[i], everybody, style));
  output.write(rest_text(found, shown, style));
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
      add_command(app, "explain", kLooking, "Explain the last errors of a process, or an error code",
                  "rrdma explain\nrrdma explain --pid 4711 --lang zh\nrrdma explain "
                  "IBV_WC_RETRY_EXC_ERR\nrrdma explain 12");
  auto* words =
      explain->add_option("CODE", options->words,
                          "A name (IBV_WC_RETRY_EXC_ERR, EINVAL), the text that a program printed, a "
                          "number, or wc:N, vendor_err:N, errno:N, reject:N, sidr:N, event:N");
  explain->add_option("-p,--pid", options->pid, "Show the messages of this process, which may have exited")
      ->option_text("PID")
      ->excludes(words);
  explain->add_flag("--debug", options->debug, "Also show messages that only help to debug RRDMA");
  explain->add_flag("-a,--all", options->all,
                    "Show all processes with messages, including those of other network namespaces");
  explain->add_flag("-l,--list", options->list, "List every code with its meaning")->excludes(words);
  explain->add_option("--lang", options->language, "en or zh (default: from LC_ALL, LC_MESSAGES or LANG)")
      ->option_text("LANGUAGE")
      ->check(CLI::IsMember({"en", "zh"}));
  explain->add_flag("-j,--json", options->json, "Print JSON");
  explain->footer(
      "Without CODE and --pid: the last three processes of this network namespace that had errors. Errors "
      "come\n"
      "first, the newest on top.\n"
      "Exit status: 0, or 2 if the code is unknown.");
  explain->callback([&chosen, options] { chosen = [options] { return run_explain(*options); }; });
}

}  // namespace rrdma::tools
