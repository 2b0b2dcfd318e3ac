// The server over rdma_cm: the connection manager replaces the TCP connection and moves the queue pair
// through its states. One event channel serves all clients; each client has a thread.
//   rdma_cm_server [SERVER-IP] [PORT]
#include <netdb.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "examples/rdma_cm/greeting.h"
#include "examples/verbs/adapter.h"

namespace examples {
namespace {

constexpr int kPatienceMs = 2000;

struct Client {
  explicit Client(const Narrator& speaker) : narrator(speaker) {}
  ~Client() {
    if (thread.joinable()) thread.join();
    if (id->qp != nullptr) rdma_destroy_qp(id);
    channel.reset();
    domain.reset();
    rdma_destroy_id(id);
  }
  Narrator narrator;
  rdma_cm_id* id = nullptr;
  std::unique_ptr<ibv_pd, DeallocDomain> domain;
  std::unique_ptr<Channel> channel;
  Plan plan;
  std::thread thread;
  std::atomic<bool> served{false};
};

// Wait until the client is served: rdma_disconnect flushes the queue pair, and received messages must be
// handled first.
void await_end(const Client& client) {
  for (int i = 0; i < kPatienceMs && !client.served; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class Server {
 public:
  explicit Server(const Options& options) : options_(options) {}

  void listen() {
    events_ = rdma_create_event_channel();
    if (events_ == nullptr) fail("rdma_create_event_channel", errno);
    narrator_.step("Event channel: the connection manager reports events here");
    if (rdma_create_id(events_, &listener_, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id", errno);
    addrinfo hints{};
    hints.ai_flags = AI_PASSIVE;
    addrinfo* found = nullptr;
    const char* address = options_.server.empty() ? nullptr : options_.server.c_str();
    if (const int error = getaddrinfo(address, std::to_string(options_.port).c_str(), &hints, &found);
        error != 0)
      fail(gai_strerror(error));
    if (rdma_bind_addr(listener_, found->ai_addr) != 0) fail("rdma_bind_addr", errno);
    freeaddrinfo(found);
    if (rdma_listen(listener_, 16) != 0) fail("rdma_listen", errno);
    narrator_.step("Listening on port %u of rdma_cm (not of TCP)", ntohs(rdma_get_src_port(listener_)));
  }

  void serve_all() {
    while (served_ < options_.clients) {
      rdma_cm_event* event = nullptr;
      if (rdma_get_cm_event(events_, &event) != 0) fail("rdma_get_cm_event", errno);
      handle(*event);
    }
    rdma_destroy_id(listener_);
    rdma_destroy_event_channel(events_);
    narrator_.detail("Served every client");
  }

 private:
  // Handles the event and acknowledges it.
  void handle(rdma_cm_event& event) {
    rdma_cm_id* id = event.id;
    const rdma_cm_event_type type = event.event;
    Plan plan;
    const bool sensible = type == RDMA_CM_EVENT_CONNECT_REQUEST && read_plan(event.param.conn, plan);
    rdma_ack_cm_event(&event);
    const auto known = clients_.find(id);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      if (sensible) {
        accept(id, plan);
      } else {
        narrator_.step("%s without a plan; rejected", rdma_event_str(type));
        rdma_reject(id, nullptr, 0);
        rdma_destroy_id(id);
      }
    } else if (known == clients_.end()) {
      narrator_.step("%s", rdma_event_str(type));
    } else {
      Client& client = *known->second;
      client.narrator.step("%s", rdma_event_str(type));
      if (type == RDMA_CM_EVENT_ESTABLISHED) {
        client.thread = std::thread([&client] {
          serve(*client.channel, client.plan, client.narrator);
          client.served = true;
        });
      } else {
        // The client disconnected, or the connection was never established.
        await_end(client);
        if (type == RDMA_CM_EVENT_DISCONNECTED) rdma_disconnect(id);
        clients_.erase(known);
        ++served_;
      }
    }
  }

  void accept(rdma_cm_id* id, const Plan& plan) {
    auto client = std::make_unique<Client>(Narrator(
        options_.clients == 1 ? "" : "[client " + std::to_string(++accepted_) + "] ", narrator_.steps()));
    client->id = id;
    client->plan = plan;
    client->narrator.step("%s: mode %s, on device %s", rdma_event_str(RDMA_CM_EVENT_CONNECT_REQUEST),
                          name_of(plan.mode), ibv_get_device_name(id->verbs->device));
    client->domain.reset(ibv_alloc_pd(id->verbs));
    if (client->domain == nullptr) fail("ibv_alloc_pd", errno);
    client->channel =
        std::make_unique<Channel>(client->domain.get(), plan.size, options_.events, client->narrator);
    prepare_target(*client->channel, plan);
    ibv_qp_init_attr wish = client->channel->queue_pair_wish();
    if (rdma_create_qp(id, client->domain.get(), &wish) != 0) fail("rdma_create_qp", errno);
    client->channel->attach(id->qp);
    client->narrator.step("Queue pair 0x%06x; posted %u receives", id->qp->qp_num, Channel::kDepth);
    const MemoryWords words = words_of(client->channel->exposed());
    rdma_conn_param parameters = parameters_with(words);
    if (rdma_accept(id, &parameters) != 0) fail("rdma_accept", errno);
    client->narrator.step("Accepted; the private data carry our address and rkey");
    clients_.emplace(id, std::move(client));
  }

  const Options options_;
  Narrator narrator_;
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  std::map<rdma_cm_id*, std::unique_ptr<Client>> clients_;
  unsigned accepted_ = 0;
  unsigned served_ = 0;
};

int run(const Options& options) {
  Server server(options);
  server.listen();
  server.serve_all();
  return 0;
}

}  // namespace
}  // namespace examples

int main(int count, char** words) {
  return examples::run(examples::parse_options(count, words, true, false));
}
