// A server on plain libibverbs: exchanges queue pair numbers with each client over TCP, serves it in the mode
// that the client chooses, and prints every step.
//   rdma_server [SERVER-IP] [DEVICE] [TCP-PORT] [GID-INDEX]
#include <list>
#include <thread>

#include "examples/verbs/adapter.h"
#include "examples/verbs/queue_pair.h"
#include "examples/verbs/side_channel.h"
#include "examples/verbs/workload.h"

namespace examples {
namespace {

void serve_client(const Adapter& adapter, const Socket& client, bool events, Narrator narrator) {
  const Plan plan = plan_of(client.read_line());
  const Endpoint peer = endpoint_of(client.read_line());
  narrator.step("Client: mode %s, QP 0x%06x at %s", name_of(plan.mode), peer.queue_pair,
                text_of(peer.gid).c_str());
  Channel channel(adapter.domain.get(), plan.size, events, narrator);
  prepare_target(channel, plan);
  const QueuePair queue_pair = create_queue_pair(adapter, channel, narrator);
  const Endpoint own = describe(queue_pair.get(), adapter, channel);
  connect(queue_pair.get(), adapter, own, peer, narrator);
  // Not earlier: the client may send as soon as it has this line.
  client.write_line(line_of(own));
  serve(channel, plan, narrator);
  // The client reports when it no longer needs this end.
  (void)client.read_line();
  narrator.step("Done: destroying queue pair, memory region and completion queue");
}

int run(const Options& options) {
  Narrator narrator;
  const Adapter adapter = open_adapter(options.device, options.gid_index, narrator);
  const Socket listener = Socket::listen(options.server, options.port);
  narrator.step("Waiting for %u %s on TCP port %u", options.clients,
                options.clients == 1 ? "client" : "clients", options.port);
  std::list<std::thread> threads;
  for (unsigned i = 1; i <= options.clients; ++i) {
    Narrator own(options.clients == 1 ? "" : "[client " + std::to_string(i) + "] ", narrator.steps());
    threads.emplace_back([&adapter, &options, own, client = listener.accept()] {
      serve_client(adapter, client, options.events, own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  narrator.detail("Served every client");
  return 0;
}

}  // namespace
}  // namespace examples

int main(int count, char** words) { return examples::run(examples::parse_options(count, words, true, true)); }
