// The client over rdma_cm: it needs only an address and a port. The connection manager finds the device, the
// route and the server's queue pair, and moves ours through its states.
//   rdma_cm_client [SERVER-IP] [PORT]
#include <netdb.h>

#include <cerrno>
#include <memory>

#include "examples/rdma_cm/greeting.h"
#include "examples/verbs/adapter.h"

namespace examples {
namespace {

constexpr int kPatienceMs = 5000;

struct DestroyEvents {
  void operator()(rdma_event_channel* events) const { rdma_destroy_event_channel(events); }
};
struct DestroyId {
  void operator()(rdma_cm_id* id) const { rdma_destroy_id(id); }
};

class Connection {
 public:
  explicit Connection(Narrator& narrator) : narrator_(narrator), events_(rdma_create_event_channel()) {
    if (events_ == nullptr) fail("rdma_create_event_channel", errno);
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(events_.get(), &made, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id", errno);
    id_.reset(made);
    narrator_.step("Event channel and id, the counterparts of epoll and a socket");
  }
  [[nodiscard]] rdma_cm_id* id() const { return id_.get(); }

  void resolve(const std::string& server, std::uint16_t port) {
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(server.c_str(), std::to_string(port).c_str(), nullptr, &found);
        error != 0)
      fail(server + ": " + gai_strerror(error));
    if (rdma_resolve_addr(id_.get(), nullptr, found->ai_addr, kPatienceMs) != 0)
      fail("rdma_resolve_addr", errno);
    freeaddrinfo(found);
    (void)expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    narrator_.detail("device %s, port %u", ibv_get_device_name(id_->verbs->device), id_->port_num);
    if (rdma_resolve_route(id_.get(), kPatienceMs) != 0) fail("rdma_resolve_route", errno);
    (void)expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  }

  RemoteMemory connect(const Plan& plan) {
    const PlanWords words = words_of(plan);
    rdma_conn_param parameters = parameters_with(words);
    if (rdma_connect(id_.get(), &parameters) != 0) fail("rdma_connect", errno);
    return expect(RDMA_CM_EVENT_ESTABLISHED);
  }

  void disconnect() {
    if (rdma_disconnect(id_.get()) != 0) fail("rdma_disconnect", errno);
    (void)expect(RDMA_CM_EVENT_DISCONNECTED);
  }

 private:
  // Waits for this event and ends the program on any other. Returns the private data of ESTABLISHED.
  RemoteMemory expect(rdma_cm_event_type wanted) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(events_.get(), &event) != 0) fail("rdma_get_cm_event", errno);
    narrator_.step("%s", rdma_event_str(event->event));
    if (event->event != wanted) {
      fail(std::string("instead of ") + rdma_event_str(wanted) + ": " + rdma_event_str(event->event) +
           ", status " + std::to_string(event->status));
    }
    RemoteMemory memory;
    if (wanted == RDMA_CM_EVENT_ESTABLISHED && !read_memory(event->param.conn, memory))
      fail("the server said nothing about its memory");
    rdma_ack_cm_event(event);
    return memory;
  }

  Narrator& narrator_;
  std::unique_ptr<rdma_event_channel, DestroyEvents> events_;
  std::unique_ptr<rdma_cm_id, DestroyId> id_;
};

int run(const Options& options) {
  Narrator narrator;
  const Plan plan{options.mode, options.rounds, options.size};
  Connection connection(narrator);
  connection.resolve(options.server, options.port);
  const std::unique_ptr<ibv_pd, DeallocDomain> domain(ibv_alloc_pd(connection.id()->verbs));
  if (domain == nullptr) fail("ibv_alloc_pd", errno);
  Channel channel(domain.get(), plan.size, options.events, narrator);
  ibv_qp_init_attr wish = channel.queue_pair_wish();
  if (rdma_create_qp(connection.id(), domain.get(), &wish) != 0) fail("rdma_create_qp", errno);
  channel.attach(connection.id()->qp);
  narrator.step("Queue pair 0x%06x; posted %u receives", connection.id()->qp->qp_num, Channel::kDepth);
  const RemoteMemory remote = connection.connect(plan);
  call(channel, plan, remote, narrator);
  connection.disconnect();
  rdma_destroy_qp(connection.id());
  narrator.step("Done");
  return 0;
}

}  // namespace
}  // namespace examples

int main(int count, char** words) {
  return examples::run(examples::parse_options(count, words, false, false));
}
