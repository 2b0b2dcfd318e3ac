// Measures the effect of a misbehaving client on the others. `crowd LEAST [SLICES]`: a server and good
// clients in one thread, a bad client in another. Counts the calls in alternating slices of time with and
// without the bad client, for each second of CPU time of the server's thread, so that other load does not
// count. Exits with 0 if each kind of bad client leaves the others at least LEAST of their rate.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "lib/rpc/frame.h"
#include "rrdma/rpc/rpc.h"

using namespace rrdma;
using namespace std::chrono_literals;
namespace wire = rrdma::rpc::detail;

namespace {

constexpr auto kPatience = 30s;
constexpr auto kSlice = 40ms;
constexpr unsigned kClients = 4;
constexpr unsigned kInFlight = 4;

struct Desk {
  std::uint64_t next(const std::uint64_t& number) { return number + 1; }
  comm::Task<rpc::Status> talk(rpc::Call&, rpc::Reader<std::string>& in, rpc::Writer<std::string>& out) {
    for (;;) {
      auto item = co_await in.read();
      if (!item) co_return in.status();
      rpc::Status sent = co_await out.write(*item);
      if (!sent.ok()) co_return sent;
    }
  }
};

// ---- the bad clients ----

std::vector<std::byte> octets_of(const wire::Frame& frame, std::size_t body) {
  std::vector<std::byte> octets(wire::head_size(frame) + body);
  wire::emit_head(frame, octets.data());
  return octets;
}
wire::Frame call_of(const rpc::Method& method, std::uint32_t id) {
  wire::Frame frame;
  frame.kind = wire::Kind::kCall;
  frame.call = id;
  frame.method = method.id;
  frame.schema = method.schema;
  return frame;
}

class Villain {
 public:
  enum class Kind { kNoise, kMute, kWide, kRegions };

  Villain(std::string address, Kind kind)
      : address_(std::move(address)), kind_(kind), thread_([this] { run(); }) {}
  ~Villain() {
    over_ = true;
    thread_.join();
  }
  void act(bool whether) { acts_ = whether; }
  void stop() { over_ = true; }
  [[nodiscard]] bool gone() const { return gone_; }
  [[nodiscard]] std::uint64_t deeds() const { return deeds_; }

 private:
  void run() {
    comm::Context context = comm::Context::open().value_or_throw();
    while (!over_) {
      if (acts_) {
        context.run(intrude(context));
      } else {
        std::this_thread::sleep_for(1ms);
      }
    }
    gone_ = true;
  }
  // Connects, and continues until it is disconnected or its slice ends.
  comm::Task<> intrude(comm::Context& context) {
    wire::ClientHello hello;
    hello.max_result = 1 << 20;
    const auto octets = wire::emit(hello);
    comm::Profile profile;
    profile.hello = octets;
    profile.receive_depth = 8;
    auto connected = co_await context.connect(address_, profile, comm::Limit(kPatience));
    if (!connected) co_return;
    comm::Endpoint end = std::move(*connected);
    for (std::uint32_t number = 0; acts_ && !over_ && end.open(); ++number) {
      const auto frame = next(number);
      auto sent = co_await end.send(std::span<const std::byte>(frame), comm::Limit(20ms));
      if (sent) ++deeds_;
    }
    end.abort();
  }
  std::vector<std::byte> next(std::uint32_t number) const {
    switch (kind_) {
      case Kind::kNoise: return std::vector<std::byte>(1000, std::byte{0xff});
      case Kind::kMute: return octets_of(call_of(rpc::MethodOf<&Desk::next>::method(), number % 1000), 8);
      case Kind::kWide: {
        if (number == 0) return octets_of(call_of(rpc::MethodOf<&Desk::talk>::method(), 1), 0);
        wire::Frame window;
        window.kind = wire::Kind::kWindow;
        window.call = 1;
        window.window = 0x3fffffff;
        return octets_of(window, 0);
      }
      case Kind::kRegions: break;
    }
    wire::Frame offering = call_of(rpc::MethodOf<&Desk::next>::method(), number % 1000);
    offering.flags = wire::flag::kOffered;
    offering.offered = {0x10000, 0x1234, 1 << 20};
    return octets_of(offering, 0);
  }

  std::string address_;
  Kind kind_;
  std::atomic<bool> acts_ = false;
  std::atomic<bool> over_ = false;
  std::atomic<bool> gone_ = false;
  std::atomic<std::uint64_t> deeds_ = 0;
  std::thread thread_;
};

// ---- the good clients ----

double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

comm::Task<> ask(rpc::Channel& on, std::uint64_t& answered, std::uint64_t& failed) {
  for (std::uint64_t i = 0;; ++i) {
    auto next = co_await on.call<&Desk::next>(i, kPatience);
    ++(next.ok() && *next == i + 1 ? answered : failed);
  }
}

class Crowd {
 public:
  Crowd() : context_(comm::Context::open().value_or_throw()), server_(context_) {
    server_.add<&Desk::next>(desk_);
    server_.add<&Desk::talk>(desk_);
    const rpc::Status listening = server_.listen("10.9.0.1:0");
    if (!listening.ok()) throw rpc::Failure(listening);
    for (unsigned i = 0; i < kClients; ++i) {
      auto connected = context_.run(rpc::connect(context_, server_.address(), {}, kPatience));
      channels_.push_back(std::move(connected).value_or_throw());
    }
    for (rpc::Channel& channel : channels_) {
      for (unsigned i = 0; i < kInFlight; ++i) asking_.spawn(ask(channel, answered_, failed_));
    }
  }
  // The fraction of their rate that the good clients keep.
  double remains_with(const char* name, Villain::Kind kind, unsigned slices) {
    Villain villain(std::string(server_.address()), kind);
    std::vector<double> without, with;
    rate();
    for (unsigned i = 0; i < slices; ++i) {
      villain.act(false);
      without.push_back(rate());
      villain.act(true);
      with.push_back(rate());
    }
    // It may be about to connect, so keep the server running.
    villain.stop();
    static_cast<void>(context_.run_until([&] { return villain.gone(); }, comm::Clock::now() + kPatience));
    const double ratio = median(with) / median(without);
    std::printf(
        "%-8s %9.0f calls per second without it, %9.0f with it: %.3f; %llu bad frames, %llu connections "
        "ended\n",
        name, median(without), median(with), ratio, static_cast<unsigned long long>(villain.deeds()),
        static_cast<unsigned long long>(server_.counters().broken));
    return ratio;
  }
  [[nodiscard]] std::uint64_t failed() const { return failed_; }

 private:
  double rate() {
    const std::uint64_t before = answered_;
    const double begin = thread_seconds();
    static_cast<void>(context_.run_until([] { return false; }, comm::Clock::now() + kSlice));
    return static_cast<double>(answered_ - before) / (thread_seconds() - begin);
  }
  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  comm::Context context_;
  Desk desk_;
  rpc::Server server_;
  std::vector<rpc::Channel> channels_;
  std::uint64_t answered_ = 0;
  std::uint64_t failed_ = 0;
  comm::Scope asking_;
};

}  // namespace

int main(int count, char** words) try {
  if (count < 2) return std::fprintf(stderr, "usage: crowd LEAST [SLICES]\n"), 2;
  const double least = std::strtod(words[1], nullptr);
  const unsigned slices = count > 2 ? static_cast<unsigned>(std::strtoul(words[2], nullptr, 10)) : 9;
  Crowd crowd;
  bool good = true;
  good &= crowd.remains_with("noise", Villain::Kind::kNoise, slices) >= least;
  good &= crowd.remains_with("mute", Villain::Kind::kMute, slices) >= least;
  good &= crowd.remains_with("windows", Villain::Kind::kWide, slices) >= least;
  good &= crowd.remains_with("regions", Villain::Kind::kRegions, slices) >= least;
  if (crowd.failed() != 0)
    std::printf("%llu calls failed\n", static_cast<unsigned long long>(crowd.failed()));
  return good && crowd.failed() == 0 ? 0 : 1;
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
