// The maximum number of queue pairs that a program may want: creates and connects them, sends one message
// each, and destroys them. GUEST_QPS sets the number: 2,000 in the short form, 65,000 in the long one.
#include <sys/mman.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "requests.h"
#include "talk.h"
#include "verdict.h"

namespace guest {
namespace {

constexpr std::uint32_t kOctets = 64;
constexpr double kSecondsAtMost = 60;

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::atol(line.c_str() + 6);
  }
  return 0;
}

void many_queue_pairs() {
  const char* wanted = std::getenv("GUEST_QPS");
  const std::size_t count = wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 2000;
  proof::Device device(no_arguments());
  proof::Completions completions(device, 1024, false);
  std::uint8_t* memory = proof::map_memory(2 * kOctets);
  ibv_mr* region = device.register_memory(memory, 2 * kOctets);
  const long empty_kib = resident_kib();
  double last = proof::monotonic_seconds();
  const auto lap = [&] {
    return proof::monotonic_seconds() - std::exchange(last, proof::monotonic_seconds());
  };

  std::vector<ibv_qp*> qps;
  std::vector<proof::QpAddress> addresses;
  for (std::size_t i = 0; i < count; ++i) {
    qps.push_back(device.create_qp(completions.cq(), {.sends = 1, .receives = 1}));
    addresses.push_back(device.prepare(qps.back(), static_cast<std::uint32_t>(i)));
  }
  for (std::size_t i = 0; i < count; ++i) device.connect(qps[i], addresses[i], addresses[i ^ 1]);
  proof::say("opened " + std::to_string(count) + " QPs in " + std::to_string(lap()) + " s, " +
             std::to_string((resident_kib() - empty_kib) * 1024 / static_cast<long>(count)) + " octets each");
  for (std::size_t i = 0; i < count; ++i) {
    proof::post_receive(qps[i ^ 1], {*region, kOctets, kOctets}, i);
    proof::post_send(qps[i], {*region, 0, kOctets}, i);
    for (int k = 0; k < 2; ++k) {
      const ibv_wc completion = completions.take(kSecondsAtMost);
      if (completion.status != IBV_WC_SUCCESS) proof::fail(proof::describe(completion));
    }
  }
  proof::say("a message each in " + std::to_string(lap()) + " s");
  for (ibv_qp* qp : qps) {
    if (ibv_destroy_qp(qp) != 0) proof::fail("ibv_destroy_qp");
  }
  proof::say("closed in " + std::to_string(lap()) + " s");
  ibv_dereg_mr(region);
}

constexpr Case kCases[] = {{"many_queue_pairs", many_queue_pairs}};

}  // namespace

std::span<const Case> queue_pair_cases() { return kCases; }

}  // namespace guest
