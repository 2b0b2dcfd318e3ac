#include "lab/link_traffic.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/format.h"
#include "base/owned_fd.h"

namespace rrdma::tools {
namespace {

struct QueueCounts {
  std::uint64_t octets = 0;
  std::uint64_t dropped = 0;
};
using NodeCounts = std::map<std::string, QueueCounts>;  // by interface

// The output of `tc -s -j qdisc show` in a node's network; empty if it fails.
std::string queues_of(pid_t node) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const OwnedFd reading(ends[0]);
  OwnedFd writing(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return "";
  if (child == 0) {
    const OwnedFd space(::open(formatted("/proc/{}/ns/net", node).c_str(), O_RDONLY | O_CLOEXEC));
    if (!space || ::setns(space.get(), CLONE_NEWNET) != 0) ::_exit(126);
    ::dup2(writing.get(), STDOUT_FILENO);
    ::execlp("tc", "tc", "-s", "-j", "qdisc", "show", nullptr);
    ::_exit(127);
  }
  writing.reset();
  std::string text;
  char octets[4096];
  for (ssize_t got; (got = ::read(reading.get(), octets, sizeof octets)) > 0;)
    text.append(octets, static_cast<std::size_t>(got));
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

// A root queue counts what its children count, too.
NodeCounts counts_of(pid_t node) {
  NodeCounts counts;
  const auto queues = nlohmann::json::parse(queues_of(node), nullptr, false);
  if (!queues.is_array()) return counts;
  for (const auto& queue : queues) {
    if (!queue.value("root", false)) continue;
    counts[queue.value("dev", "")] = {queue.value("bytes", std::uint64_t{0}),
                                      queue.value("drops", std::uint64_t{0})};
  }
  return counts;
}

}  // namespace

std::vector<LinkTraffic> measure_links(const Topology& topology, const NodeHolders& holders,
                                       std::chrono::milliseconds time) {
  using Clock = std::chrono::steady_clock;
  std::vector<NodeCounts> before, after;
  std::vector<Clock::time_point> since;
  std::vector<double> seconds;
  for (const pid_t holder : holders) {
    before.push_back(counts_of(holder));
    since.push_back(Clock::now());
    if (before.back().empty()) return {};
  }
  std::this_thread::sleep_for(time);
  for (std::size_t node = 0; node < holders.size(); ++node) {
    after.push_back(counts_of(holders[node]));
    seconds.push_back(std::chrono::duration<double>(Clock::now() - since[node]).count());
  }
  const auto direction = [&](std::size_t link, std::size_t node) {
    const std::string interface = topology.interface_of(link, node);
    const std::uint64_t moved = after[node][interface].octets - before[node][interface].octets;
    return DirectionTraffic{static_cast<std::uint64_t>(static_cast<double>(moved) * 8 / seconds[node]),
                            after[node][interface].dropped};
  };
  std::vector<LinkTraffic> all;
  for (std::size_t i = 0; i < topology.links.size(); ++i)
    all.push_back({direction(i, topology.links[i].a), direction(i, topology.links[i].b)});
  return all;
}

}  // namespace rrdma::tools
