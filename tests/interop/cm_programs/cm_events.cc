// A program on the real librdmacm that prints every event of its ids, one line each. It covers cases that
// existing programs do not: interfaces that vanish, daemons that die, calls without an answer. It creates no
// queue pairs.
//
//   cm_events listen ADDRESS PORT      listens and answers no call
//   cm_events refuse ADDRESS PORT      listens and rejects every call
//   cm_events idle ADDRESS PORT        listens and fetches no event until it gets SIGUSR1
//   cm_events hoard ADDRESS PORT       listens, fetches events and acknowledges none
//   cm_events call ADDRESS PORT        calls and prints the events that follow
//
// When its device is removed, the program destroys its ids and exits.
#include <arpa/inet.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kResolveMs = 2000;

[[noreturn]] void complain(const char* what) {
  std::perror(what);
  std::exit(1);
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

addrinfo* address_of(const char* address, const char* port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address, port, &hints, &found) != 0) complain("getaddrinfo");
  return found;
}

rdma_cm_event* next_event(rdma_event_channel* channel) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) complain("rdma_get_cm_event");
  say(std::string(rdma_event_str(event->event)) + " " + std::to_string(event->status));
  return event;
}

// Returns true if the next event is of that kind.
bool expect(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_cm_event* event = next_event(channel);
  const bool right = event->event == wanted;
  rdma_ack_cm_event(event);
  return right;
}

struct Answers {
  bool refuse = false;
  bool acknowledge = true;
};

// Prints events until the device is removed.
void follow(rdma_event_channel* channel, rdma_cm_id* own, const Answers& answers) {
  for (;;) {
    rdma_cm_event* event = next_event(channel);
    const bool removed = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
    const bool is_call = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    rdma_cm_id* const caller = is_call ? event->id : nullptr;
    if (answers.acknowledge) rdma_ack_cm_event(event);
    if (caller != nullptr && answers.refuse) {
      (void)rdma_reject(caller, nullptr, 0);
      (void)rdma_destroy_id(caller);
    }
    if (!removed) continue;
    if (rdma_destroy_id(own) != 0) complain("rdma_destroy_id");
    say("destroyed");
    return;
  }
}

void listen_at(rdma_event_channel* channel, rdma_cm_id* id, addrinfo* at, const std::string& how) {
  if (rdma_bind_addr(id, at->ai_addr) != 0) complain("rdma_bind_addr");
  if (rdma_listen(id, 0) != 0) complain("rdma_listen");
  say("listening");
  if (how == "idle") ::pause();
  follow(channel, id, {.refuse = how == "refuse", .acknowledge = how != "hoard"});
}

int call(rdma_event_channel* channel, rdma_cm_id* id, addrinfo* to) {
  if (rdma_resolve_addr(id, nullptr, to->ai_addr, kResolveMs) != 0) complain("rdma_resolve_addr");
  if (!expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED)) return 1;
  if (rdma_resolve_route(id, kResolveMs) != 0) complain("rdma_resolve_route");
  if (!expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED)) return 1;
  rdma_conn_param parameters{};
  // No queue pair has this number. It differs for each caller, because the peer takes a repeated number for a
  // stale connection.
  parameters.qp_num = static_cast<std::uint32_t>(::getpid()) & 0xffffff;
  if (rdma_connect(id, &parameters) != 0) complain("rdma_connect");
  say("called");
  follow(channel, id, {});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string how = argv[1];
  std::signal(SIGUSR1, [](int) {});  // interrupts pause()
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) complain("rdma_create_event_channel");
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) complain("rdma_create_id");
  addrinfo* address = address_of(argv[2], argv[3]);
  if (how == "call") return call(channel, id, address);
  listen_at(channel, id, address, how);
  return 0;
}
