// shared_queues: eight threads on each side post sends and receives on shared QPs and poll one shared
// completion queue, all at once. Each message carries its identity. At the end each was received once with
// the right bytes, and each request completed once.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "completions.h"
#include "pattern.h"
#include "side_channel.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr std::uint64_t kReceiveMark = 1ull << 63;
constexpr std::size_t kOctetsMax = 1536;
constexpr double kPatienceSeconds = 60;

struct Shape {
  unsigned threads = 8;
  unsigned qps = 4;
  unsigned window = 8;            // outstanding sends per thread
  unsigned receives = 64;         // per QP
  std::uint64_t messages = 2000;  // per thread
};

struct Head {
  std::uint64_t number;
  std::uint64_t key;
};

struct Stage {
  Shape shape;
  unsigned side;
  ibv_cq* cq;
  std::vector<ibv_qp*> qps;
  ibv_mr* mr;
  std::uint8_t* memory;
  std::unique_ptr<std::atomic<std::uint8_t>[]> sent;          // completions of each message of ours
  std::unique_ptr<std::atomic<std::uint8_t>[]> received;      // arrivals of each message of the peer
  std::unique_ptr<std::atomic<std::uint32_t>[]> outstanding;  // per thread
  std::atomic<std::uint64_t> sent_count{0};
  std::atomic<std::uint64_t> received_count{0};

  [[nodiscard]] std::uint64_t total() const { return shape.messages * shape.threads; }
  [[nodiscard]] std::uint8_t* send_slot(unsigned thread, std::uint64_t sequence) const {
    return memory + (std::size_t{thread} * shape.window + sequence % shape.window) * kOctetsMax;
  }
  [[nodiscard]] std::uint8_t* receive_slot(std::uint64_t slot) const {
    return memory + (std::size_t{shape.threads} * shape.window + slot) * kOctetsMax;
  }
};

std::uint64_t content_key(unsigned side, std::uint64_t number) { return mix(0xc0ffee + side, number); }
std::uint32_t content_octets(std::uint64_t key) {
  return static_cast<std::uint32_t>(sizeof(Head) + mix(key, 9) % (kOctetsMax - sizeof(Head)));
}

void post_receive(Stage& stage, std::uint64_t slot) {
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(stage.receive_slot(slot)),
              .length = kOctetsMax,
              .lkey = stage.mr->lkey};
  ibv_recv_wr request{};
  request.wr_id = kReceiveMark | slot;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(stage.qps[slot / stage.shape.receives], &request, &bad); error != 0)
    fail("ibv_post_recv: " + std::to_string(error));
}

void handle_received(Stage& stage, const ibv_wc& completion) {
  const std::uint64_t slot = completion.wr_id & ~kReceiveMark;
  const std::uint8_t* const octets = stage.receive_slot(slot);
  Head head{};
  std::memcpy(&head, octets, sizeof head);
  if (head.number >= stage.total() || head.key != content_key(1 - stage.side, head.number))
    fail("a message that nobody sent");
  if (completion.byte_len != content_octets(head.key)) fail("a message of a wrong length");
  const std::size_t body = completion.byte_len - sizeof head;
  if (first_wrong(octets + sizeof head, body, head.key) != body) fail("a message with wrong octets");
  if (stage.received[head.number].fetch_add(1) != 0) fail("a message arrived twice");
  post_receive(stage, slot);
  stage.received_count.fetch_add(1);
}

void handle_sent(Stage& stage, const ibv_wc& completion) {
  if (completion.wr_id >= stage.total()) fail("a completion for nobody");
  if (stage.sent[completion.wr_id].fetch_add(1) != 0) fail("a request completed twice");
  stage.outstanding[completion.wr_id / stage.shape.messages].fetch_sub(1);
  stage.sent_count.fetch_add(1);
}

bool poll_some(Stage& stage) {
  ibv_wc batch[8];
  const int count = ibv_poll_cq(stage.cq, 8, batch);
  if (count < 0) fail("ibv_poll_cq");
  for (int i = 0; i < count; ++i) {
    if (batch[i].status != IBV_WC_SUCCESS) fail("completion failed: " + describe(batch[i]));
    if ((batch[i].wr_id & kReceiveMark) != 0) {
      handle_received(stage, batch[i]);
    } else {
      handle_sent(stage, batch[i]);
    }
  }
  return count != 0;
}

void post_one(Stage& stage, unsigned thread, std::uint64_t sequence) {
  const std::uint64_t number = thread * stage.shape.messages + sequence;
  const Head head{number, content_key(stage.side, number)};
  const std::uint32_t octets = content_octets(head.key);
  std::uint8_t* const slot = stage.send_slot(thread, sequence);
  std::memcpy(slot, &head, sizeof head);
  fill(slot + sizeof head, octets - sizeof head, head.key);
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(slot), .length = octets, .lkey = stage.mr->lkey};
  ibv_send_wr request{};
  request.wr_id = number;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  stage.outstanding[thread].fetch_add(1);
  // All threads on all QPs.
  if (const int error = ibv_post_send(stage.qps[mix(head.key, 5) % stage.qps.size()], &request, &bad);
      error != 0)
    fail("ibv_post_send: " + std::to_string(error));
}

void work(Stage& stage, unsigned thread) {
  std::uint64_t posted = 0;
  double last = monotonic_seconds();
  while (stage.sent_count.load() < stage.total() || stage.received_count.load() < stage.total()) {
    bool active = false;
    // In groups: requests on different QPs complete in any order, and a slot is free when its group is done.
    if (posted < stage.shape.messages &&
        (posted % stage.shape.window != 0 || stage.outstanding[thread].load() == 0)) {
      post_one(stage, thread, posted++);
      active = true;
    }
    active |= poll_some(stage);
    if (active) {
      last = monotonic_seconds();
    } else {
      std::this_thread::yield();
      if (monotonic_seconds() - last > kPatienceSeconds) {
        fail("stalled: sent " + std::to_string(stage.sent_count.load()) + ", received " +
             std::to_string(stage.received_count.load()) + " of " + std::to_string(stage.total()));
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  Shape shape;
  shape.threads = static_cast<unsigned>(arguments.number("threads", 8));
  shape.qps = static_cast<unsigned>(arguments.number("qps", 4));
  shape.messages = static_cast<std::uint64_t>(arguments.number("messages", 2000));
  SideChannel side = SideChannel::open(arguments);
  Device device(arguments);
  arguments.check();
  {
    const unsigned receives = shape.receives * shape.qps;
    Completions completions(device, static_cast<int>(receives + shape.threads * shape.window), false);
    Stage stage{.shape = shape, .side = side.side(), .cq = completions.cq()};
    const std::size_t octets = (std::size_t{shape.threads} * shape.window + receives) * kOctetsMax;
    stage.memory = map_memory(octets);
    stage.mr = device.register_memory(stage.memory, octets);
    stage.sent = std::make_unique<std::atomic<std::uint8_t>[]>(stage.total());
    stage.received = std::make_unique<std::atomic<std::uint8_t>[]>(stage.total());
    stage.outstanding = std::make_unique<std::atomic<std::uint32_t>[]>(shape.threads);
    for (unsigned i = 0; i < shape.qps; ++i) {
      ibv_qp* qp = device.create_qp(completions.cq(),
                                    {.sends = shape.threads * shape.window, .receives = shape.receives});
      stage.qps.push_back(qp);
      const QpAddress own = device.prepare(qp, i);
      for (unsigned slot = 0; slot < shape.receives; ++slot) post_receive(stage, i * shape.receives + slot);
      device.connect(qp, own, side.trade(own));
    }
    side.meet();
    const double begin = monotonic_seconds();
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < shape.threads; ++i) threads.emplace_back([&stage, i] { work(stage, i); });
    for (std::thread& thread : threads) thread.join();
    const double seconds = monotonic_seconds() - begin;
    side.meet();
    say(std::to_string(shape.threads) + " threads, " + std::to_string(shape.qps) +
        " QPs: " + std::to_string(2 * stage.total()) + " messages in " + std::to_string(seconds) + " s");
    for (ibv_qp* qp : stage.qps) ibv_destroy_qp(qp);
    ibv_dereg_mr(stage.mr);
  }
  return 0;
}
