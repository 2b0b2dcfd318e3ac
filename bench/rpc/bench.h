// Shared by the programs of bench/rpc: their arguments, and the collection and output of times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace rpc_bench {

using Time = std::chrono::steady_clock;

inline constexpr std::size_t kUnderWay = 32;  // concurrent calls in a rate measurement

// PROGRAM ADDRESS [COUNT [SIZE]]
struct Arguments {
  std::string_view program;
  std::string address;
  std::uint64_t count = 0;
  std::size_t size = 0;

  Arguments(int words, char** word) {
    if (words < 3) {
      std::fprintf(stderr, "usage: %s PROGRAM ADDRESS [COUNT [SIZE]]\n", word[0]);
      std::exit(2);
    }
    program = word[1];
    address = word[2];
    if (words > 3) count = std::strtoull(word[3], nullptr, 10);
    if (words > 4) size = std::strtoull(word[4], nullptr, 10);
  }
};

inline double nanoseconds(Time::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

inline void print(const char* name, double value) {
  std::printf("%s %.2f\n", name, value);
  std::fflush(stdout);
}

// Single round trips.
class Trips {
 public:
  explicit Trips(std::uint64_t count) { times_.reserve(count); }
  void add(Time::duration duration) { times_.push_back(nanoseconds(duration)); }
  void report() {
    std::sort(times_.begin(), times_.end());
    print("p50_ns", at(0.5));
    print("p99_ns", at(0.99));
    print("p999_ns", at(0.999));
  }

 private:
  [[nodiscard]] double at(double share) const {
    if (times_.empty()) return 0;
    return times_[std::min(times_.size() - 1,
                           static_cast<std::size_t>(share * static_cast<double>(times_.size())))];
  }
  std::vector<double> times_;
};

// Few measurements, of large sizes, need few trips to warm up.
inline std::uint64_t warm_up(std::uint64_t count) { return std::min(count, count / 10 + 100); }

}  // namespace rpc_bench
