// rrdma::comm: latency, rate, reads, writes and many endpoints. Counts allocations and locks meanwhile.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "bench/comm/bench.h"
#include "rrdma/comm/comm.h"
#include "tests/libraries/comm/counted_allocations.h"

namespace {

std::uint64_t locks = 0;
// The address range of librrdma-comm: only its own locks count, not those of the device.
std::uintptr_t library_begin = 0;
std::uintptr_t library_end = 0;

int find_library(dl_phdr_info* info, std::size_t, void*) {
  if (std::strstr(info->dlpi_name, "librrdma-comm") == nullptr) return 0;
  library_begin = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    library_end =
        std::max(library_end, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
  return 1;
}

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto* const real =
      reinterpret_cast<int (*)(pthread_mutex_t*)>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  const auto caller = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  if (caller >= library_begin && caller < library_end) ++locks;
  return real(mutex);
}

namespace comm_bench {
namespace {

using namespace rrdma::comm;

enum class Work : std::uint32_t { kEcho, kSink, kMemory };
constexpr std::size_t kWindow = 16_MiB;
// Concurrent reads or writes, all of the same remote memory, so that as much memory is touched as by
// perftest.
constexpr std::uint32_t kUnderWay = 2;

Profile profile(std::uint16_t depth) {
  Profile wanted;
  wanted.message_limit = 256;
  wanted.receive_depth = depth;
  wanted.send_depth = depth;
  return wanted;
}

Context open(Wait wait = Wait::poll()) {
  ContextOptions options;
  options.wait = wait;
  ::dl_iterate_phdr(&find_library, nullptr);
  return Context::open(options).value_or_throw();
}

// Counts events between its construction and its report.
class Counted {
 public:
  Counted() : allocations_(allocations), locks_(locks), begin_(Time::now()) {}
  void report(const char* name, double scale) const {
    const double time = nanoseconds_since(begin_);
    std::printf("%s %.3f\nallocations %llu\nlocks %llu\n", name, time * scale,
                static_cast<unsigned long long>(allocations - allocations_),
                static_cast<unsigned long long>(locks - locks_));
    std::fflush(stdout);
  }
  [[nodiscard]] double nanoseconds() const { return nanoseconds_since(begin_); }

 private:
  std::uint64_t allocations_;
  std::uint64_t locks_;
  Time::time_point begin_;
};

Task<> serve_one(Context& context, Endpoint end) {
  auto first = co_await end.receive();
  if (!first) co_return;
  const Work work = first->as<Work>();
  first = Message();
  Buffer window;
  Share<std::byte> opened;
  if (work == Work::kMemory) {
    window = context.pool().take(kWindow).value_or_throw();
    std::memset(window.data(), 1, window.size());
    opened = share(context, window, Access::kRead | Access::kWrite).value_or_throw();
    (co_await end.send(opened.remote())).value_or_throw();
  }
  for (;;) {
    Message message = end.try_receive();
    if (!message) {
      auto received = co_await end.receive();
      if (!received) co_return;
      message = std::move(*received);
    }
    if (work == Work::kEcho || message.immediate() || message.as<std::uint64_t>() == ~std::uint64_t{0}) {
      if (end.try_send(message.as<std::uint64_t>())) continue;
      const auto sent = co_await end.send(message.as<std::uint64_t>());
      if (!sent) co_return;
    }
  }
}

Task<> serve(Context& context, const Arguments& arguments) {
  Listener listener =
      context.listen(arguments.host + ":" + std::to_string(arguments.port), 1024).value_or_throw();
  say_ready(arguments);
  Scope peers;
  for (;;) {
    Incoming incoming = (co_await listener.next()).value_or_throw();
    // The client sends the wanted depth in its hello.
    std::uint16_t depth = 64;
    if (incoming.hello().size() == sizeof(depth)) std::memcpy(&depth, incoming.hello().data(), sizeof(depth));
    auto end = co_await incoming.accept(context, profile(depth));
    if (end) peers.spawn(serve_one(context, std::move(*end)));
  }
}

Task<Endpoint> connect(Context& context, const Arguments& arguments, Work work, std::uint16_t depth) {
  Profile wanted = profile(depth);
  wanted.hello = std::as_bytes(std::span(&depth, 1));
  const std::string address = arguments.host + ":" + std::to_string(arguments.port);
  Endpoint end = (co_await context.connect(address, wanted, std::chrono::seconds(20))).value_or_throw();
  (co_await end.send(work)).value_or_throw();
  co_return end;
}

Task<> echo(Endpoint& end, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!end.try_send(i)) (co_await end.send(i)).value();
    static_cast<void>(*co_await end.receive());
  }
}

Task<> latency(Context& context, const Arguments& arguments) {
  Endpoint end = co_await connect(context, arguments, Work::kEcho, 64);
  co_await echo(end, arguments.count / 10 + 100);
  const Counted counted;
  co_await echo(end, arguments.count);
  counted.report("latency_ns", 1 / static_cast<double>(2 * arguments.count));
}

Task<> pour(Endpoint& end, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!end.try_send(i)) (co_await end.send(i)).value();
  }
  (co_await end.send(~std::uint64_t{0})).value();
  static_cast<void>(*co_await end.receive());
}

Task<> rate(Context& context, const Arguments& arguments) {
  Endpoint end = co_await connect(context, arguments, Work::kSink, 512);
  co_await pour(end, arguments.count / 10 + 100);
  const Counted counted;
  co_await pour(end, arguments.count);
  counted.report("message_ns", 1 / static_cast<double>(arguments.count));
}

Task<> move(Endpoint& end, RemoteSpan<std::byte> remote, Buffer buffer, bool reads, std::uint64_t& left) {
  while (left > 0) {
    --left;
    if (reads) {
      auto moved = co_await end.read(remote, std::move(buffer));
      buffer = std::move(*moved);
    } else {
      auto moved = co_await end.write(std::move(buffer), remote);
      buffer = std::move(*moved);
    }
  }
}

Task<> bulk(Context& context, const Arguments& arguments, bool reads) {
  Endpoint end = co_await connect(context, arguments, Work::kMemory, 64);
  Message offer = (co_await end.receive()).value_or_throw();
  const auto remote = offer.as<RemoteSpan<std::byte>>();
  for (const bool warm : {true, false}) {
    std::uint64_t left = warm ? arguments.count / 10 + 10 : arguments.count;
    std::vector<Buffer> buffers;
    for (std::uint32_t i = 0; i < kUnderWay; ++i) {
      buffers.push_back(context.pool().take(arguments.size).value_or_throw());
      std::memset(buffers.back().data(), 1, arguments.size);
    }
    Scope scope;
    const Counted counted;
    for (std::uint32_t i = 0; i < kUnderWay; ++i)
      scope.spawn(move(end, remote.first(arguments.size), std::move(buffers[i]), reads, left));
    co_await scope.join();
    if (!warm) {
      const double gigabytes = static_cast<double>(arguments.count * arguments.size) / counted.nanoseconds();
      std::printf("bandwidth_gbs %.4f\n", gigabytes);
      counted.report("operation_ns", 1 / static_cast<double>(arguments.count));
    }
  }
}

double resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  return 0;
}

Task<> endpoints(Context& context, const Arguments& arguments) {
  constexpr std::uint16_t kShallow = 16;
  std::vector<Endpoint> ends;
  ends.reserve(arguments.size);
  ends.push_back(co_await connect(context, arguments, Work::kSink, kShallow));
  co_await pour(ends[0], 10000);
  const Counted alone;
  co_await pour(ends[0], arguments.count);
  const double one = alone.nanoseconds() / static_cast<double>(arguments.count);
  const double before = resident_mib();
  const double buffers = static_cast<double>(context.pool().registered()) / (1 << 20);
  while (ends.size() < arguments.size)
    ends.push_back(co_await connect(context, arguments, Work::kSink, kShallow));
  const double grown = resident_mib() - before;
  const double registered = static_cast<double>(context.pool().registered()) / (1 << 20) - buffers;
  const std::uint64_t each = std::max<std::uint64_t>(arguments.count / arguments.size, 1);
  for (const bool warm : {true, false}) {
    Scope scope;
    const Counted counted;
    for (Endpoint& end : ends) scope.spawn(pour(end, each));
    co_await scope.join();
    if (warm) continue;
    std::printf("one_ns %.2f\nmany_ns %.2f\nresident_mib %.2f\nbuffers_mib %.2f\n", one,
                counted.nanoseconds() / static_cast<double>(each * arguments.size), grown, registered);
  }
  std::fflush(stdout);
}

}  // namespace

int library_serve(const Arguments& arguments) {
  Context context = open();
  context.run(serve(context, arguments));
  return 0;
}
int library_lie_still(const Arguments& arguments) {
  Context context = open(Wait::event());
  context.run(serve(context, arguments));
  return 0;
}
int library_latency(const Arguments& arguments) {
  Context context = open();
  context.run(latency(context, arguments));
  return 0;
}
int library_rate(const Arguments& arguments) {
  Context context = open();
  context.run(rate(context, arguments));
  return 0;
}
int library_read(const Arguments& arguments) {
  Context context = open();
  context.run(bulk(context, arguments, true));
  return 0;
}
int library_write(const Arguments& arguments) {
  Context context = open();
  context.run(bulk(context, arguments, false));
  return 0;
}
int library_endpoints(const Arguments& arguments) {
  Context context = open();
  context.run(endpoints(context, arguments));
  return 0;
}

}  // namespace comm_bench
