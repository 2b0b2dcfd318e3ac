#include "lab/lab_network.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/format.h"
#include "base/owned_fd.h"
#include "link/fault_spec.h"

namespace rrdma::tools {
namespace {

constexpr std::size_t kComplaintMax = 400;

std::uint32_t mtu_of(const LinkShape& shape) { return shape.mtu != 0 ? shape.mtu : Topology::kUsualMtu; }

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string read_all(int fd) {
  std::string text;
  char octets[512];
  for (ssize_t got; (got = ::read(fd, octets, sizeof octets)) > 0;) {
    if (text.size() < kComplaintMax) text.append(octets, static_cast<std::size_t>(got));
  }
  return text;
}

// Runs `ip -batch -` or `tc -batch -` in a node's network, or in this one if `node` is 0. The error is its
// error output.
Result<void, std::string> run_batch(const char* program, pid_t node, const std::string& lines,
                                    bool ipv6 = false) {
  int input[2], errors[2];
  if (::pipe2(input, O_CLOEXEC) != 0) return Failure{std::string(std::strerror(errno))};
  const OwnedFd input_read(input[0]);
  OwnedFd input_write(input[1]);
  if (::pipe2(errors, O_CLOEXEC) != 0) return Failure{std::string(std::strerror(errno))};
  const OwnedFd errors_read(errors[0]);
  OwnedFd errors_write(errors[1]);
  const pid_t child = ::fork();
  if (child < 0) return Failure{std::string(std::strerror(errno))};
  if (child == 0) {
    if (node != 0) {
      const OwnedFd space(::open(formatted("/proc/{}/ns/net", node).c_str(), O_RDONLY | O_CLOEXEC));
      if (!space || ::setns(space.get(), CLONE_NEWNET) != 0) ::_exit(126);
    }
    ::dup2(input_read.get(), STDIN_FILENO);
    ::dup2(errors_write.get(), STDERR_FILENO);
    if (ipv6) ::execlp(program, program, "-6", "-batch", "-", nullptr);
    ::execlp(program, program, "-batch", "-", nullptr);
    ::dprintf(STDERR_FILENO, "%s: %s", program, std::strerror(errno));
    ::_exit(127);
  }
  errors_write.reset();
  (void)write_all(input_write.get(), lines);
  input_write.reset();
  const std::string complaint = read_all(errors_read.get());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Failure{formatted("{} failed: {}", program, complaint.empty() ? "no word why" : complaint)};
}

// Uses tbf for rate and queue unless netem is needed: every kernel with traffic control has tbf.
std::string shape_lines(const LinkShape& shape, const std::string& interface) {
  constexpr std::uint64_t kBurstMax = 131'072;
  if (shape.needs_netem()) {
    std::string line = formatted("qdisc replace dev {} root netem", interface);
    if (shape.delay.ns != 0) line += formatted(" delay {}ns", shape.delay.ns);
    if (shape.loss_ppm != 0)
      line += formatted(" loss {}{}", link::emit_chance(shape.loss_ppm), shape.ecn ? " ecn" : "");
    if (shape.rate_kbps != 0) line += formatted(" rate {}kbit", shape.rate_kbps);
    return line + formatted(" limit {}\n", shape.queue != 0 ? shape.queue : 10000);
  }
  if (shape.rate_kbps != 0) {
    const std::uint64_t frame = mtu_of(shape) + 18;
    // The burst: ten milliseconds of traffic, but at least one frame.
    const std::uint64_t burst = std::max(frame, std::min(kBurstMax, shape.rate_kbps * 10 / 8));
    const std::uint64_t queue = std::min<std::uint64_t>((shape.queue != 0 ? shape.queue : 1000) * frame,
                                                        std::numeric_limits<std::uint32_t>::max());
    return formatted("qdisc replace dev {} root tbf rate {}kbit burst {} limit {}\n", interface,
                     shape.rate_kbps, burst, queue);
  }
  return shape.queue != 0 ? formatted("qdisc replace dev {} root pfifo limit {}\n", interface, shape.queue)
                          : "";
}

// Marks our routes among those of the kernel.
constexpr int kProtocol = 90;

// "nexthop via 10.90.0.3 dev eth0" for each of these links of the node.
std::string hops_text(const Topology& topology, const std::vector<std::size_t>& hops, std::size_t node,
                      bool ipv6) {
  std::string text;
  for (const std::size_t hop : hops) {
    const bool other_is_second = topology.links[hop].a == node;
    text += formatted(" nexthop via {} dev {}", address_of(hop, other_is_second, ipv6),
                      topology.interface_of(hop, node));
  }
  return text;
}

// All routes of a node for one address family. A host also gets a default route: programs and RRDMA use its
// interface as the one that leads to the others.
std::string route_lines(const Topology& topology, const std::set<std::size_t>& cut, std::size_t node,
                        bool ipv6) {
  std::string lines = formatted("route flush proto {}\n", kProtocol);
  std::vector<std::size_t> own;
  for (std::size_t target = 0; target < topology.links.size(); ++target) {
    const LabLink& link = topology.links[target];
    if (!cut.contains(target) && (link.a == node || link.b == node)) own.push_back(target);
    if (!topology.nodes[link.a].is_host && !topology.nodes[link.b].is_host) continue;
    const std::vector<std::size_t> hops = next_hops(topology, cut, node, target);
    if (hops.empty()) continue;
    lines += formatted("route replace {}{} proto {}{}\n", address_of(target, false, ipv6),
                       ipv6 ? "/127" : "/31", kProtocol, hops_text(topology, hops, node, ipv6));
  }
  if (topology.nodes[node].is_host && !own.empty())
    lines += formatted("route replace default proto {}{}\n", kProtocol, hops_text(topology, own, node, ipv6));
  return lines;
}

}  // namespace

bool has_netem() {
  return run_batch("tc", 0, "qdisc replace dev lo root netem limit 1000\nqdisc del dev lo root\n").ok();
}

Result<void, std::string> build_network(const Topology& topology, const NodeHolders& holders) {
  std::string cables;
  std::vector<std::string> ip(topology.nodes.size(), "link set lo up\n"), tc(topology.nodes.size());
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    const LabLink& link = topology.links[i];
    const std::uint32_t mtu = mtu_of(link.shape);
    cables += formatted(
        "link add l{0}a mtu {3} type veth peer name l{0}b mtu {3}\nlink set l{0}a netns {1}\nlink set l{0}b "
        "netns {2}\n",
        i, holders[link.a], holders[link.b], mtu);
    for (const bool second : {false, true}) {
      const std::size_t node = second ? link.b : link.a;
      const std::string interface = topology.interface_of(i, node);
      ip[node] += formatted(
          "link set l{0}{1} name {2}\naddr add {3}/31 dev {2}\naddr add {4}/127 dev {2} nodad\nlink set {2} "
          "up\n",
          i, second ? "b" : "a", interface, address_of(i, second, false), address_of(i, second, true));
      tc[node] += shape_lines(link.shape, interface);
    }
  }
  if (auto made = run_batch("ip", 0, cables); !made) return made;
  for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
    if (auto set = run_batch("ip", holders[node], ip[node]); !set) return set;
    if (tc[node].empty()) continue;
    if (auto set = run_batch("tc", holders[node], tc[node]); !set) return set;
  }
  return set_routes(topology, holders, {});
}

Result<void, std::string> set_routes(const Topology& topology, const NodeHolders& holders,
                                     const std::set<std::size_t>& cut) {
  for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
    for (const bool ipv6 : {false, true}) {
      if (auto set = run_batch("ip", holders[node], route_lines(topology, cut, node, ipv6), ipv6); !set)
        return set;
    }
  }
  return {};
}

Result<void, std::string> set_link(const Topology& topology, const NodeHolders& holders, std::size_t link,
                                   bool up) {
  for (const std::size_t node : {topology.links[link].a, topology.links[link].b}) {
    const bool second = node == topology.links[link].b;
    const std::string interface = topology.interface_of(link, node);
    std::string lines = formatted("link set {} {}\n", interface, up ? "up" : "down");
    // The kernel removes IPv6 addresses when a link goes down.
    if (up)
      lines += formatted("addr replace {}/127 dev {} nodad\n", address_of(link, second, true), interface);
    if (auto set = run_batch("ip", holders[node], lines); !set) return set;
  }
  return {};
}

}  // namespace rrdma::tools
