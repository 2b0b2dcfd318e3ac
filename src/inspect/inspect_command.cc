// `rrdma inspect`: shows captures or running programs in a browser, or exports captures as a page that needs
// no server. analysis.h analyses the packets; inspector/ contains the page.
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iostream>
#include <list>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "inspect/analysis.h"
#include "inspect/browser.h"
#include "inspect/capture_image.h"
#include "inspect/export.h"
#include "inspect/live_watch.h"
#include "inspect/orders/capture_desk.h"
#include "inspect/orders/fault_desk.h"
#include "inspect/perfetto.h"
#include "inspect/server.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/file_octets.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace rrdma::tools {
namespace {

constexpr std::string_view kName = "rrdma inspect";

struct InspectOptions {
  std::vector<std::string> files;
  std::string export_to;
  std::string perfetto_to;
  int port = 0;
  std::vector<std::string> methods;
  bool no_browser = false;
  bool allow_faults = false;
  std::uint64_t packets_max = 5'000'000;

  [[nodiscard]] bool writes_files() const { return !export_to.empty() || !perfetto_to.empty(); }
};

// Reports files without usable packets. Returns false if there is nothing to show.
bool judge_files(const Analysis& analysis) {
  bool any = false;
  for (const CaptureFileNote& file : analysis.files) {
    if (file.packets != 0) any = true;
    if (!file.fault.empty())
      complain(kName, formatted("{}: {}, after {} packets", printable(file.name), file.fault, file.packets),
               file.packets == 0 ? "give files that rrdma capture, tcpdump, dumpcap or Wireshark wrote" : "");
  }
  if (analysis.truncated)
    complain(kName, formatted("only the first {} RoCE packets are shown", analysis.columns.size()),
             "--packets allows more; each costs about 200 bytes of memory");
  return any;
}

int write_file(const std::string& name, const Analysis& analysis, const std::string& octets) {
  std::ofstream file(name, std::ios::binary | std::ios::trunc);
  file << octets;
  file.close();
  if (!file)
    return complain(kName, formatted("{}: cannot write it: {}", printable(name), std::strerror(errno)), "");
  std::cerr << formatted("{}: {} packets of {} connections, {} bytes written\n", name,
                         analysis.columns.size(), analysis.connections.size(), octets.size());
  return kExitSuccess;
}

// Writes the requested files instead of showing the page.
int write_files(const InspectOptions& options, const Analysis& analysis) {
  if (!options.export_to.empty()) {
    if (const int status = write_file(options.export_to, analysis, exported_page(analysis)); status != 0)
      return status;
  }
  return options.perfetto_to.empty() ? kExitSuccess
                                     : write_file(options.perfetto_to, analysis, perfetto_trace(analysis));
}

std::string details_text(const Analysis& analysis, std::uint32_t index) {
  StringTable strings;
  std::string json = packet_details(analysis, index, strings);
  json.back() = ',';  // in place of the closing brace
  return json += "\"strings\":" + nlohmann::json(strings.list()).dump() + '}';
}

ServerContent content_of(const Analysis& analysis) {
  ServerContent content;
  content.image = capture_image(analysis);
  content.packets = static_cast<std::uint32_t>(analysis.columns.size());
  content.details = [&analysis](std::uint32_t index) { return details_text(analysis, index); };
  return content;
}

int serve_page(const InspectOptions& options, ServerContent content) {
  InspectServer server(std::move(content));
  const auto address = server.start(options.port);
  if (!address)
    return complain(kName, address.error(), "--port chooses another; without it any free one is taken");
  std::cout << *address << std::endl;
  std::cerr << "Only this address works, and only on this host; whoever has it can read the page. Ctrl-C "
               "ends it.\n";
  std::unique_ptr<BrowserVisit> visit;
  if (!options.no_browser && is_terminal(STDOUT_FILENO)) visit = std::make_unique<BrowserVisit>(*address);
  server.serve([] { return interrupted(); });
  return kExitSuccess;
}

int run_inspect(const InspectOptions& options) {
  watch_interrupts();
  if (options.files.empty()) {
    if (options.writes_files()) return complain(kName, "there is nothing to export", "name the captures");
    FaultDesk faults;
    CaptureDesk captures;
    LiveWatch watch(options.allow_faults ? &faults : nullptr, options.allow_faults ? &captures : nullptr);
    ServerContent content;
    if (options.allow_faults) {
      content.order = [&](std::string_view words) {
        constexpr std::string_view kCapture = "capture ";
        return words.starts_with(kCapture) ? captures.order(words.substr(kCapture.size()))
                                           : faults.order(words);
      };
      content.captured = [&captures](std::uint32_t number) { return captures.page(number); };
    }
    content.live = [&watch] { return watch.look(); };
    return serve_page(options, std::move(content));
  }
  if (options.allow_faults)
    return complain(kName, "faults are set in programs that run, not in captures", "leave the files out");
  std::list<FileOctets> files;
  std::vector<CaptureInput> inputs;
  for (const std::string& name : options.files) {
    auto file = FileOctets::read(name);
    if (!file) return complain(kName, formatted("{}: {}", name, file.error()), "");
    files.push_back(std::move(*file));
    inputs.push_back({name, files.back().octets()});
  }
  Analysis analysis = analyse(inputs, options.packets_max);
  find_rpc_calls(analysis, options.methods);
  if (interrupted()) return kExitFailure;
  if (!judge_files(analysis)) return kExitFailure;
  return options.writes_files() ? write_files(options, analysis) : serve_page(options, content_of(analysis));
}

}  // namespace

void add_inspect_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* inspect = add_command(app, "inspect", kPackets, "Show captures or running programs in a browser",
                                  "rrdma inspect now.pcapng\nrrdma inspect a.pcapng b.pcapng\nrrdma inspect");
  inspect->add_option("FILE", options->files,
                      "Captures (pcap or pcapng); - for standard input. Without a file: running programs");
  inspect->add_option("-o,--export", options->export_to, "Write one HTML file that needs no server, and exit")
      ->type_name("HTML");
  inspect->add_option("--perfetto", options->perfetto_to, "Write a trace for ui.perfetto.dev, and exit")
      ->type_name("TRACE");
  inspect->add_option("--port", options->port, "The port on 127.0.0.1 (default: any free port)")
      ->type_name("N")
      ->check(CLI::Range(1, 65535));
  inspect->add_option("--packets", options->packets_max, "Read at most N RoCE packets")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}))
      ->capture_default_str();
  inspect
      ->add_option("--method", options->methods,
                   "The path of an rpc method, such as store.Store/Get, to show in place of its number")
      ->type_name("PATH");
  inspect->add_flag(
      "--allow-faults", options->allow_faults,
      "Let the page inject faults into running programs and capture their packets, as `rrdma fault` and "
      "`rrdma capture` do");
  inspect->add_flag("--no-browser", options->no_browser, "Print the address only");
  inspect->footer("Exit status: 0, or 2 if a file cannot be read or the page cannot be served.");
  inspect->callback([&chosen, options] { chosen = [options] { return run_inspect(*options); }; });
}

}  // namespace rrdma::tools
