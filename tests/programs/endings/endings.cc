// endings: servers that end, one after the other, right after the last message of a client that lives on. The
// client must get an ACK for every message that a server's program has seen, and for no message that was not
// delivered. The supervisor (this process) never opens a device, so its children start without RRDMA state.
//
//   endings [--ways=NAME,...] [--rounds=N,...] [--events] [--connections=N] [--runs=N] [--random]
//   [--capture=FOLDER]
//
// --random: the server ends by SIGKILL at any moment of the run instead.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "arguments.h"
#include "talk.h"
#include "verdict.h"
#include "ways.h"

namespace {

using namespace endings;

struct Settings {
  std::vector<std::string> ways;
  std::vector<int> rounds;
  std::string capture;
  long runs = 1;
  bool random = false;
  bool events = false;
  int connections = 1;
};

// One server.
struct Run {
  Plan plan;
  std::string way;
  std::string capture;
};

// The run, as the client needs it.
struct Call {
  std::uint16_t port = 0;
  Plan plan;
};

struct Pipe {
  int ends[2];
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) proof::fail_errno("pipe2");
  }
  template <typename T>
  void put(const T& value) const {
    if (::write(ends[1], &value, sizeof value) != sizeof value) proof::fail_errno("write");
  }
  // False: nothing came within so many seconds.
  template <typename T>
  [[nodiscard]] bool take(T& value, int seconds) const {
    pollfd ready{.fd = ends[0], .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, seconds * 1000) <= 0) return false;
    return ::read(ends[0], &value, sizeof value) == sizeof value;
  }
};

void await(const std::atomic<std::uint32_t>& flag, int milliseconds) {
  for (int i = 0; flag.load() == 0 && i < 10 * milliseconds; ++i) ::usleep(100);
}

void capture_to(const std::string& path) {
  if (!path.empty()) ::setenv("RRDMA_PCAP", path.c_str(), 1);
}

// The signal meets a thread that polls.
[[noreturn]] void leave_amid_polling(Talk& talk, Evidence& evidence) {
  const pthread_t poller = ::pthread_self();
  std::thread([&evidence, poller] {
    while (evidence.served.load() == 0) continue;
    ::pthread_kill(poller, SIGTERM);
  }).detach();
  talk.serve(evidence);
  for (;;) talk.poll_all();
}

void run_server(const Run& run, Evidence& evidence, const Pipe& calls) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  capture_to(run.capture);
  prepare_to_leave(run.way);
  auto* talk = new Talk(run.plan);  // nothing is given back
  calls.put(Call{talk->listen(), run.plan});
  talk->accept(evidence);
  if (run.way == "term_polling") leave_amid_polling(*talk, evidence);
  talk->serve(evidence);
  leave(run.way);
  // The program is still alive. It calls no verb until the client has its completions.
  await(evidence.over, 10'000);
  ::_exit(0);
}

[[noreturn]] void run_client(Evidence& evidence, const Pipe& calls, const Pipe& outcomes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (Call call; calls.take(call, 60);) {
    Talk talk(call.plan);
    talk.connect(call.port);
    const Talk::Outcome outcome = talk.send_all();
    evidence.over.store(1);
    outcomes.put(outcome);
  }
  ::_exit(0);
}

// The broken promise of the run; empty: none.
std::string judge(const Plan& plan, bool random, const Evidence& evidence, const Talk::Outcome& outcome) {
  for (int i = 0; i < plan.connections; ++i) {
    const Evidence::Connection& one = evidence.connections[static_cast<std::size_t>(i)];
    const std::uint32_t acknowledged = outcome.acknowledged[static_cast<std::size_t>(i)];
    std::uint32_t placed = 0;
    while (placed < plan.messages() && one.received[placed] == placed + 1) ++placed;
    if (acknowledged < one.seen.load())
      return "delivered and not acknowledged: status " + std::to_string(outcome.status);
    if (acknowledged > placed) return "acknowledged and not delivered";
    // Receive requests that are left are flushed when the server is gone.
    if (!random && acknowledged < plan.messages()) return "status " + std::to_string(outcome.status);
  }
  return "";
}

// False: it does not end by itself.
bool await_end(pid_t server, int milliseconds) {
  for (int i = 0; i < milliseconds; ++i) {
    int status = 0;
    if (::waitpid(server, &status, WNOHANG) == server) return true;
    ::usleep(i < 100 ? 200 : 1000);
  }
  (void)::kill(server, SIGKILL);
  (void)::waitpid(server, nullptr, 0);
  return false;
}

class Supervisor {
 public:
  explicit Supervisor(const Settings& settings) : settings_(settings), chance_(std::random_device{}()) {
    void* memory =
        ::mmap(nullptr, sizeof(Evidence), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) proof::fail_errno("mmap");
    evidence_ = new (memory) Evidence;
    client_ = ::fork();
    if (client_ == 0) run_client(*evidence_, calls_, outcomes_);
  }

  int run() {
    long bad = 0;
    for (const std::string& way : settings_.ways) {
      for (const int rounds : settings_.rounds) bad += run_cell(way, rounds);
    }
    (void)::kill(client_, SIGKILL);
    (void)::waitpid(client_, nullptr, 0);
    return bad == 0 ? 0 : 1;
  }

 private:
  long run_cell(const std::string& way, int rounds) {
    std::map<std::string, long> reasons;
    slowest_ = 0;
    Run run{.plan = {.events = settings_.events, .rounds = rounds, .connections = settings_.connections},
            .way = way};
    for (long i = 0; i < settings_.runs; ++i) {
      if (!settings_.capture.empty())
        run.capture = settings_.capture + "/" + way + "-" + std::to_string(rounds) + "-" + std::to_string(i) +
                      ".pcapng";
      if (const std::string verdict = run_once(run); !verdict.empty()) ++reasons[verdict];
    }
    long bad = 0;
    std::string why;
    for (const auto& [reason, number] : reasons) {
      why += "; " + std::to_string(number) + " times " + reason;
      bad += number;
    }
    proof::say(way + " " + std::to_string(rounds) + ": failed " + std::to_string(bad) + " of " +
               std::to_string(settings_.runs) + ", slowest acknowledgement " +
               std::to_string(static_cast<long>(slowest_ * 1e6)) + " us" + why);
    return bad;
  }

  std::string run_once(const Run& run) {
    new (evidence_) Evidence{};
    const pid_t server = ::fork();
    if (server == 0) run_server(run, *evidence_, calls_);
    if (settings_.random) {
      await_first_message();
      ::usleep(static_cast<useconds_t>(chance_() % 1000));
      (void)::kill(server, SIGKILL);
    }
    Talk::Outcome outcome;
    if (!outcomes_.take(outcome, 60)) proof::fail("the client did not end");
    slowest_ = std::max(slowest_, outcome.last_seconds);
    const std::string verdict = judge(run.plan, settings_.random, *evidence_, outcome);
    if (!await_end(server, 5000) && verdict.empty()) return "the server did not end";
    return verdict;
  }

  // A server that is killed before it accepts the connection makes the daemon reject it.
  void await_first_message() const {
    await(evidence_->connections[0].seen, 30'000);
    if (evidence_->connections[0].seen.load() == 0) proof::fail("the server got no message");
  }

  const Settings& settings_;
  Evidence* evidence_ = nullptr;
  Pipe calls_, outcomes_;
  pid_t client_ = 0;
  std::mt19937 chance_;
  double slowest_ = 0;
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

Settings settings_from(proof::Arguments& arguments) {
  Settings settings;
  settings.ways = words_of(arguments.text("ways"));
  if (settings.ways.empty()) settings.ways = ways();
  for (const std::string& way : settings.ways) {
    if (std::find(ways().begin(), ways().end(), way) == ways().end())
      proof::fail("no such way to end: " + way);
  }
  for (const std::string& number : words_of(arguments.text("rounds", "0"))) {
    settings.rounds.push_back(std::atoi(number.c_str()));
    if (settings.rounds.back() < 0 || settings.rounds.back() >= kMessagesMax)
      proof::fail("--rounds is out of bounds");
  }
  settings.events = arguments.flag("events");
  settings.connections = static_cast<int>(arguments.number("connections", 1));
  settings.runs = arguments.number("runs", 1);
  settings.random = arguments.flag("random");
  settings.capture = arguments.text("capture");
  arguments.check();
  if (settings.connections < 1 || settings.connections > kConnectionsMax)
    proof::fail("--connections is out of bounds");
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  proof::Arguments arguments(argc, argv);
  const Settings settings = settings_from(arguments);
  return Supervisor(settings).run();
}
