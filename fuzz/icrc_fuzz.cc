// The ICRC of received bytes, with flow and identification chosen by the input. Any bytes get a verdict, and
// the solver finds the identification that was used.
#include <cstdint>
#include <vector>

#include "base/assert.h"
#include "cost.h"
#include "wire/identification_solver.h"

namespace rrdma::icrc_fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
  using namespace rrdma::wire;
  constexpr std::size_t kFlowOctets = 6;
  if (size < kFlowOctets || size > 9000) return 0;
  static IdentificationSolver solver;
  const std::uint16_t identification = load_be16(data);
  const IcrcSeed seed = IcrcSeed::ipv4({{10, 0, 0, data[2]}}, {{10, 0, 0, data[3]}}, load_be16(data + 4));
  const Octets received(data + kFlowOctets, size - kFlowOctets);

  const SolvedIcrc any = solver.check(seed, received);
  RRDMA_ASSERT(any.verdict == IcrcVerdict::kWrong || icrc_matches(seed, received, any.identification));
  if (received.size() < kBthOctets) return 0;
  std::vector<std::uint8_t> right(received.begin(), received.end());
  right.resize(right.size() + kIcrcOctets);
  store_icrc(right.data() + received.size(), seed.icrc(received, identification));
  const SolvedIcrc solved = solver.check(seed, right, identification);
  RRDMA_ASSERT(solved.verdict == IcrcVerdict::kRight && solved.identification == identification);
  return 0;
}

}  // namespace rrdma::icrc_fuzz
