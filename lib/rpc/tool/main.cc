// rrdma-rpc, the program behind `rrdma rpc`: lists the methods of a server, calls them with JSON, and
// measures them.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "lib/rpc/tool/json_messages.h"
#include "lib/rpc/tool/measure.h"
#include "lib/rpc/tool/printable.h"

namespace rrdma::rpc::tool {

constexpr int kFailed = 2;  // the same for all rrdma commands

// Services that every server has (docs/rpc-protocol.md).
struct Reflection {
  static constexpr std::string_view kService = "rrdma.Reflection";
  rpc::Result<std::string> list();
  rpc::Result<std::string> describe(const std::string& service);
};
struct Health {
  static constexpr std::string_view kService = "rrdma.Health";
  rpc::Result<std::uint32_t> check(const std::string& service);
};
struct Metrics {
  static constexpr std::string_view kService = "rrdma.Metrics";
  rpc::Result<std::string> text();
};

namespace {

struct Options {
  std::string address;
  std::string path;
  std::vector<std::string> json;
  std::string secret_file;
  double seconds = 5;
  Load load;

  [[nodiscard]] comm::Limit limit() const { return comm::Limit(std::chrono::duration<double>(seconds)); }
};

// Every user can read the arguments of a program (/proc/PID/cmdline). Read the secret from a file or the
// environment.
std::string secret_of(const Options& options) {
  if (options.secret_file.empty()) {
    const char* given = std::getenv("RRDMA_RPC_SECRET");
    return given == nullptr ? "" : given;
  }
  std::ifstream file(options.secret_file);
  std::string secret;
  if (!std::getline(file, secret) || secret.empty())
    throw std::runtime_error("there is no secret in the first line of " + options.secret_file);
  return secret;
}

// Print texts of a server to standard output.
void print(const std::string& said) { std::fputs(printable(said, Lines::kKept).c_str(), stdout); }
void print_line(const std::string& said) { std::puts(printable(said, Lines::kEscaped).c_str()); }

comm::Task<rpc::Channel> connect(comm::Context& context, const Options& options) {
  rpc::ChannelOptions channel;
  channel.secret = secret_of(options);
  auto connected = co_await rpc::connect(context, options.address, channel, options.limit());
  co_return std::move(connected).value_or_throw();
}

comm::Task<> list(comm::Context& context, const Options& options) {
  rpc::Channel channel = co_await connect(context, options);
  auto listed = co_await channel.call<&Reflection::list>(options.limit());
  print(std::move(listed).value_or_throw());
}

comm::Task<> metrics(comm::Context& context, const Options& options) {
  rpc::Channel channel = co_await connect(context, options);
  auto text = co_await channel.call<&Metrics::text>(options.limit());
  print(std::move(text).value_or_throw());
}

comm::Task<> health(comm::Context& context, const Options& options) {
  rpc::Channel channel = co_await connect(context, options);
  auto checked = co_await channel.call<&Health::check>(options.path, options.limit());
  if (std::move(checked).value_or_throw() != 1) throw std::runtime_error("it is not well");
  std::puts("it is well");
}

comm::Task<JsonMessages> messages(rpc::Channel& channel, const Options& options) {
  const std::size_t slash = options.path.find('/');
  if (slash == std::string::npos) throw std::runtime_error("a method is written SERVICE/METHOD");
  const std::string service = options.path.substr(0, slash);
  auto described = co_await channel.call<&Reflection::describe>(service, options.limit());
  co_return JsonMessages(std::move(described).value_or_throw(), service, options.path.substr(slash + 1));
}

// The argument of a method that takes one.
std::string argument_of(const JsonMessages& json, const Options& options) {
  if (options.json.size() > 1) throw std::runtime_error(options.path + " takes one argument");
  return json.argument(options.json.empty() ? "{}" : options.json.front());
}

// The items of a stream of arguments; "-" reads lines from standard input.
std::vector<std::string> items_of(const JsonMessages& json, const Options& options) {
  std::vector<std::string> items;
  for (const std::string& text : options.json) {
    if (text != "-") {
      items.push_back(json.argument(text));
      continue;
    }
    for (std::string line; std::getline(std::cin, line);) {
      if (line.find_first_not_of(" \t\r") != line.npos) items.push_back(json.argument(line));
    }
  }
  return items;
}

comm::Task<> print_all(const JsonMessages& json, rpc::Reader<std::string>& results) {
  for (;;) {
    auto item = co_await results.read();
    if (!item) break;
    print_line(json.text_of_result(*item));
  }
  if (!results.status().ok()) throw rpc::Failure(results.status());
}

// Stops when the server ends the call early; finish() then returns the reason.
comm::Task<> write_all(const std::vector<std::string>& items, rpc::Writer<std::string>& arguments) {
  for (const std::string& item : items) {
    const rpc::Status sent = co_await arguments.write(item);
    if (!sent.ok()) co_return;
  }
}

comm::Task<> converse(const JsonMessages& json, const std::vector<std::string>& items,
                      rpc::Conversation<std::string, std::string>& talk) {
  const auto write = [](const std::vector<std::string>& all,
                        rpc::Conversation<std::string, std::string>& into) -> comm::Task<> {
    co_await write_all(all, into);
    static_cast<void>(into.writes_done());
  };
  co_await comm::when_all(write(items, talk), print_all(json, talk));
}

comm::Task<> call(comm::Context& context, const Options& options) {
  rpc::Channel channel = co_await connect(context, options);
  const JsonMessages json = co_await messages(channel, options);
  const rpc::Method method = json.method();
  switch (method.shape) {
    case rpc::Shape::kUnary: {
      auto result = co_await channel.unary<std::string>(method, argument_of(json, options), options.limit());
      print_line(json.text_of_result(std::move(result).value_or_throw()));
      break;
    }
    case rpc::Shape::kServerStream: {
      auto opened =
          co_await channel.results<std::string>(method, argument_of(json, options), options.limit());
      auto results = std::move(opened).value_or_throw();
      co_await print_all(json, results);
      break;
    }
    case rpc::Shape::kClientStream: {
      const auto items = items_of(json, options);
      auto opened =
          co_await channel.stream<rpc::ArgumentStream<std::string, std::string>>(method, options.limit());
      auto arguments = std::move(opened).value_or_throw();
      co_await write_all(items, arguments);
      auto result = co_await arguments.finish();
      print_line(json.text_of_result(std::move(result).value_or_throw()));
      break;
    }
    case rpc::Shape::kBidirectional: {
      const auto items = items_of(json, options);
      auto opened =
          co_await channel.stream<rpc::Conversation<std::string, std::string>>(method, options.limit());
      auto talk = std::move(opened).value_or_throw();
      co_await converse(json, items, talk);
      break;
    }
  }
}

comm::Task<> bench(comm::Context& context, const Options& options) {
  rpc::Channel channel = co_await connect(context, options);
  const JsonMessages json = co_await messages(channel, options);
  if (json.method().shape != rpc::Shape::kUnary) throw std::runtime_error("only unary methods are measured");
  const std::string argument = argument_of(json, options);
  rpc::Latencies latencies;
  const auto begin = comm::Clock::now();
  co_await measure(channel, json.method(), argument, options.load, latencies);
  std::fputs(report(latencies, comm::Clock::now() - begin).c_str(), stdout);
}

using Command = comm::Task<> (*)(comm::Context&, const Options&);

CLI::App* add(CLI::App& app, const char* name, const char* what, Options& options, Command command,
              Command& chosen) {
  CLI::App* made = app.add_subcommand(name, what);
  made->add_option("ADDRESS", options.address, "The server, HOST:PORT")->required();
  made->add_option("--secret-file", options.secret_file,
                   "A file whose first line is the shared secret, if the server requires one (the default is "
                   "the environment variable RRDMA_RPC_SECRET)");
  made->add_option("--timeout,--seconds", options.seconds,
                   "Timeout of the connection and of a call, in seconds (5)")
      ->check(CLI::PositiveNumber);
  made->callback([&chosen, command] { chosen = command; });
  return made;
}

int run(int count, char** words) {
  CLI::App app("Call, list and benchmark services of rrdma::rpc", "rrdma rpc");
  app.require_subcommand(1);
  app.footer("Exit status: 0, or 2 on failure. A machine without an RDMA device needs no `rrdma run`.");
  Options options;
  Command chosen = nullptr;
  add(app, "list", "List the methods of a server", options, &list, chosen);
  add(app, "metrics", "Print the statistics of a server in the text format of Prometheus", options, &metrics,
      chosen);
  add(app, "health", "Print whether a server, or one of its services, is healthy", options, &health, chosen)
      ->add_option("SERVICE", options.path, "The name of the service");
  for (CLI::App* with :
       {add(app, "call", "Call a method and print the result as JSON", options, &call, chosen),
        add(app, "bench", "Call a method repeatedly and print a latency histogram", options, &bench,
            chosen)}) {
    with->add_option("METHOD", options.path, "SERVICE/METHOD, as `list` prints it")->required();
    with->add_option(
        "JSON", options.json,
        "The argument (default: {}), or the items of a stream of arguments; - reads items from standard "
        "input, one per line");
    if (with->get_name() != "bench") continue;
    with->add_option("-n,--calls", options.load.calls, "Number of calls")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    with->add_option("-c,--concurrency", options.load.under_way, "Number of calls in flight")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
  }
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& mistake) {
    if (mistake.get_exit_code() == 0) return app.exit(mistake);  // --help
    std::fprintf(stderr, "rrdma rpc: %s\nrrdma rpc: 'rrdma rpc --help' shows the usage\n", mistake.what());
    return kFailed;
  }
  auto context = comm::Context::open();
  if (!context) {
    std::fprintf(stderr, "rrdma rpc: %s\nrrdma rpc: without RDMA hardware: rrdma run -- rrdma-rpc ...\n",
                 context.error().what().c_str());
    return kFailed;
  }
  context->run(chosen(*context, options));
  return 0;
}

}  // namespace
}  // namespace rrdma::rpc::tool

int main(int count, char** words) {
  try {
    return rrdma::rpc::tool::run(count, words);
  } catch (const std::exception& failure) {
    using namespace rrdma::rpc::tool;
    std::fprintf(stderr, "rrdma rpc: %s\n", printable(failure.what(), Lines::kEscaped).c_str());
    return rrdma::rpc::tool::kFailed;
  }
}
