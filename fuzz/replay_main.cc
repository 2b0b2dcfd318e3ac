// Runs a fuzz target over its corpus without libFuzzer, and over corrupted copies of the handwritten files:
// every prefix of short ones, and some flipped bits, always the same. Files that libFuzzer found are named by
// a hash and are not corrupted further. Each input lies in memory of exactly its size, so that a sanitizer
// detects a read of the first byte beyond it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kPrefixOctetsMax = 512;
constexpr int kFlips = 256;

void run(const std::uint8_t* data, std::size_t size) {
  const auto exact = std::make_unique<std::uint8_t[]>(size);
  std::copy_n(data, size, exact.get());
  LLVMFuzzerTestOneInput(exact.get(), size);
}

void run_mangled(const Bytes& input, std::uint64_t seed) {
  for (std::size_t size = 0; size < std::min(input.size(), kPrefixOctetsMax); ++size) run(input.data(), size);
  if (input.empty()) return;
  rrdma::Prng prng(seed);
  for (int flip = 0; flip < kFlips; ++flip) {
    Bytes mangled = input;
    for (std::uint64_t bits = prng.between(1, 3); bits > 0; --bits) {
      mangled[prng.below(mangled.size())] ^= static_cast<std::uint8_t>(1 << prng.below(8));
    }
    run(mangled.data(), mangled.size());
  }
}

bool was_found(const std::filesystem::path& path) {
  constexpr std::size_t kHashDigits = 40;
  const std::string name = path.filename();
  return name.size() == kHashDigits && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

int main(int argument_count, char** arguments) {
  int inputs = 0;
  for (int at = 1; at < argument_count; ++at) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(arguments[at]))
      paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      std::ifstream stream(path, std::ios::binary);
      const Bytes input((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
      run(input.data(), input.size());
      if (!was_found(path)) run_mangled(input, static_cast<std::uint64_t>(inputs));
      ++inputs;
    }
  }
  std::printf("%d inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
