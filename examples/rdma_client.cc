// A client on plain libibverbs: connects to rdma_server over TCP, exchanges queue pair numbers, and then
// sends, writes, reads or counts in the server's memory. It prints every step from the device list to the
// last completion.
//   rdma_client [SERVER-IP] [DEVICE] [TCP-PORT] [GID-INDEX]
#include "examples/verbs/adapter.h"
#include "examples/verbs/queue_pair.h"
#include "examples/verbs/side_channel.h"
#include "examples/verbs/workload.h"

namespace examples {
namespace {

int run(const Options& options) {
  Narrator narrator;
  const Plan plan{options.mode, options.rounds, options.size};
  const Adapter adapter = open_adapter(options.device, options.gid_index, narrator);
  Channel channel(adapter.domain.get(), plan.size, options.events, narrator);
  const QueuePair queue_pair = create_queue_pair(adapter, channel, narrator);
  const Endpoint own = describe(queue_pair.get(), adapter, channel);

  const Socket server = Socket::connect(options.server, options.port);
  server.write_line(line_of(plan));
  server.write_line(line_of(own));
  const Endpoint peer = endpoint_of(server.read_line());
  narrator.step("TCP to %s port %u: sent QP 0x%06x, received QP 0x%06x at %s", options.server.c_str(),
                options.port, own.queue_pair, peer.queue_pair, text_of(peer.gid).c_str());
  narrator.detail("the peer's memory: address 0x%016llx, rkey 0x%08x",
                  static_cast<unsigned long long>(peer.memory.address), peer.memory.key);

  connect(queue_pair.get(), adapter, own, peer, narrator);
  call(channel, plan, peer.memory, narrator);
  server.write_line("done");
  narrator.step("Done: destroying queue pair, memory region, completion queue and device");
  return 0;
}

}  // namespace
}  // namespace examples

int main(int count, char** words) {
  return examples::run(examples::parse_options(count, words, false, true));
}
