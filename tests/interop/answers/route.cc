// Questions about addresses: how rdma_resolve_addr answers, by its return value or by an event, and after how
// long.
#include <arpa/inet.h>
#include <net/if.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "probe.h"

namespace answers {
namespace {

constexpr int kEventPatienceMs = 10'000;

bool parse(const char* text, sockaddr_storage& to) {
  std::memset(&to, 0, sizeof to);
  std::string address(text);
  auto* v4 = reinterpret_cast<sockaddr_in*>(&to);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&to);
  if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(7471);
    return true;
  }
  std::uint32_t scope = 0;
  if (const auto percent = address.find('%'); percent != std::string::npos) {
    scope = if_nametoindex(address.c_str() + percent + 1);
    address.resize(percent);
  }
  if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(7471);
  v6->sin6_scope_id = scope;
  return true;
}

double seconds_since(const timespec& start) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec - start.tv_sec) +
         static_cast<double>(now.tv_nsec - start.tv_nsec) / 1e9;
}

// "at once", "after 1 s": coarse, so that two devices answer alike.
std::string when(double seconds, int timeout_ms) {
  if (seconds * 1000 < timeout_ms * 0.5) return "at once";
  return seconds * 1000 < timeout_ms * 3.0 ? "after the timeout" : "much later";
}

std::string wait_for_event(rdma_event_channel* channel, const timespec& start, int timeout_ms) {
  pollfd events{.fd = channel->fd, .events = POLLIN, .revents = 0};
  if (poll(&events, 1, kEventPatienceMs) != 1) return "no event";
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) return "rdma_get_cm_event: " + name_of_error(errno);
  std::string answer = rdma_event_str(event->event);
  if (event->status != 0)
    answer += " " + outcome(event->status) + ", " + when(seconds_since(start), timeout_ms);
  rdma_ack_cm_event(event);
  return answer;
}

}  // namespace

int ask_for_route(const char* name, const char* source, const char* destination, int timeout_ms) {
  sockaddr_storage from{}, to{};
  const bool has_source = std::strcmp(source, "-") != 0;
  if (!parse(destination, to) || (has_source && !parse(source, from))) {
    std::fprintf(stderr, "probe: no address: %s, %s\n", source, destination);
    return 2;
  }
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  if (channel == nullptr || rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) {
    std::perror("probe: rdma_create_id");
    return 1;
  }
  if (has_source && from.ss_family == AF_INET) reinterpret_cast<sockaddr_in*>(&from)->sin_port = 0;
  if (has_source && from.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&from)->sin6_port = 0;
  timespec start{};
  clock_gettime(CLOCK_MONOTONIC, &start);
  const int called = rdma_resolve_addr(id, has_source ? reinterpret_cast<sockaddr*>(&from) : nullptr,
                                       reinterpret_cast<sockaddr*>(&to), timeout_ms);
  const std::string answer =
      called != 0 ? "call fails with " + name_of_error(errno) : wait_for_event(channel, start, timeout_ms);
  tell(std::string("route.") + name, answer);
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
  return 0;
}

}  // namespace answers
