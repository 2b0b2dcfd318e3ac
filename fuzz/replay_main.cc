// replay TARGET FOLDER...: runs a fuzz target over its corpus without libFuzzer, and over corrupted copies of
// the handwritten files: every prefix of short ones, and some flipped bits, always the same. Files that
// libFuzzer found are named by a hash and are not corrupted further. Each input lies in memory of exactly its
// size, so that a sanitizer detects a read of the first byte beyond it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "replay.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kPrefixOctetsMax = 512;
constexpr int kFlips = 256;

const rrdma::fuzz::Target* target_of(std::string_view name) {
  const rrdma::fuzz::Target* target = rrdma::fuzz::kTargets;
  while (target->name != nullptr && target->name != name) ++target;
  return target->name == nullptr ? nullptr : target;
}

void run(const rrdma::fuzz::Target& target, const std::uint8_t* data, std::size_t size) {
  const auto exact = std::make_unique<std::uint8_t[]>(size);
  std::copy_n(data, size, exact.get());
  target.run(exact.get(), size);
}

void run_mangled(const rrdma::fuzz::Target& target, const Bytes& input, std::uint64_t seed) {
  for (std::size_t size = 0; size < std::min(input.size(), kPrefixOctetsMax); ++size)
    run(target, input.data(), size);
  if (input.empty()) return;
  rrdma::Prng prng(seed);
  for (int flip = 0; flip < kFlips; ++flip) {
    Bytes mangled = input;
    for (std::uint64_t bits = prng.between(1, 3); bits > 0; --bits) {
      mangled[prng.below(mangled.size())] ^= static_cast<std::uint8_t>(1 << prng.below(8));
    }
    run(target, mangled.data(), mangled.size());
  }
}

bool was_found(const std::filesystem::path& path) {
  constexpr std::size_t kHashDigits = 40;
  const std::string name = path.filename();
  return name.size() == kHashDigits && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const rrdma::fuzz::Target* target = argument_count > 1 ? target_of(arguments[1]) : nullptr;
  if (target == nullptr) {
    std::fprintf(stderr, "usage: replay TARGET FOLDER...\n");
    return 2;
  }
  int inputs = 0;
  for (int at = 2; at < argument_count; ++at) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(arguments[at]))
      paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      std::ifstream stream(path, std::ios::binary);
      const Bytes input((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
      run(*target, input.data(), input.size());
      if (!was_found(path)) run_mangled(*target, input, static_cast<std::uint64_t>(inputs));
      ++inputs;
    }
  }
  std::printf("%d inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
