// mesh: many processes on one host. Each pair of neighbors (each pair at all with --all) exchanges messages
// over its own connection and checks every byte. They share few cores, so they wait for events. With --memory
// it prints the memory that each takes while all are connected.
#include <deque>
#include <fstream>
#include <string>
#include <vector>

#include "completions.h"
#include "conversation.h"
#include "family.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr int kBatch = 64;

struct Plan {
  unsigned members = 64;
  bool all = false;
  bool polling = false;
  bool memory = false;
  double patience = 90;
  TalkSettings talk;
};

std::vector<unsigned> peers_of(const Plan& plan, unsigned member) {
  if (!plan.all) return {member ^ 1u};
  std::vector<unsigned> peers;
  for (unsigned peer = 0; peer < plan.members; ++peer) {
    if (peer != member) peers.push_back(peer);
  }
  return peers;
}

// KiB of lines of /proc/self/smaps_rollup, all from one read.
struct Taken {
  std::uint32_t resident = 0;
  std::uint32_t share = 0;  // proportional share of shared memory
};
Taken memory_taken() {
  Taken taken;
  std::ifstream lines("/proc/self/smaps_rollup");
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("Rss:", 0) == 0) taken.resident = static_cast<std::uint32_t>(std::atol(line.c_str() + 4));
    if (line.rfind("Pss:", 0) == 0) taken.share = static_cast<std::uint32_t>(std::atol(line.c_str() + 4));
  }
  return taken;
}

// Every member adds its figures, then one prints them.
void tell_memory(Family& family, const Plan& plan, unsigned member) {
  enum Sum : unsigned { kShare, kShareMost, kResident };
  const Taken taken = memory_taken();
  family.flag(kShare) += taken.share;
  family.flag(kResident) += taken.resident;
  for (std::uint32_t most = family.flag(kShareMost);
       most < taken.share && !family.flag(kShareMost).compare_exchange_weak(most, taken.share);) {
  }
  family.meet();
  if (member != 0) return;
  say("memory of each: " + std::to_string(family.flag(kShare) / plan.members) + " KiB, at most " +
      std::to_string(family.flag(kShareMost)) +
      " (resident, with what they share: " + std::to_string(family.flag(kResident) / plan.members) + ")");
}

void live(Arguments& arguments, Family& family, const Plan& plan, unsigned member) {
  const std::vector<unsigned> peers = peers_of(plan, member);
  Device device(arguments);
  {
    Completions completions(device, static_cast<int>(2 * plan.talk.window * peers.size()), !plan.polling);
    const std::size_t each = Conversation::memory_octets(plan.talk);
    std::uint8_t* const memory = map_memory(each * peers.size());
    ibv_mr* const mr = device.register_memory(memory, each * peers.size());
    {
      std::deque<Conversation> conversations;
      for (std::uint32_t i = 0; i < peers.size(); ++i) {
        const std::uint64_t topic =
            std::uint64_t{std::min(member, peers[i])} << 16 | std::max(member, peers[i]);
        conversations.emplace_back(device, completions.cq(), memory + i * each, *mr, plan.talk, i, topic,
                                   member < peers[i] ? 0 : 1);
        family.hello(member, peers[i]) = conversations.back().hello();
      }
      family.meet();
      for (std::uint32_t i = 0; i < peers.size(); ++i)
        conversations[i].connect(device, family.hello(peers[i], member), {.timeout = 18});
      family.meet();
      for (Conversation& conversation : conversations) {
        while (conversation.post()) {
        }
      }
      ibv_wc batch[kBatch];
      for (std::size_t busy = peers.size(); busy != 0;) {
        const int count = completions.wait(batch, kBatch, plan.patience);
        if (count == 0)
          fail("member " + std::to_string(member) + ": nothing completed; " + conversations.front().state());
        for (int i = 0; i < count; ++i) {
          Conversation& conversation = conversations[Conversation::index_of(batch[i])];
          const bool was_done = conversation.done();
          conversation.handle(batch[i]);
          if (!was_done && conversation.done()) --busy;
          conversation.post();
        }
      }
      family.meet();
      if (plan.memory) tell_memory(family, plan, member);
      for (const Conversation& conversation : conversations) conversation.check_end();
    }
    if (ibv_dereg_mr(mr) != 0) fail("ibv_dereg_mr");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  Plan plan;
  plan.members = static_cast<unsigned>(arguments.number("members", 64));
  plan.all = arguments.flag("all");
  plan.polling = arguments.flag("polling");
  plan.memory = arguments.flag("memory");
  plan.talk.messages = static_cast<std::uint64_t>(arguments.number("messages", 1000));
  plan.talk.octets_max = static_cast<std::uint32_t>(arguments.number("octets", 2048));
  plan.talk.window = static_cast<std::uint32_t>(arguments.number("window", 16));
  plan.talk.seed = static_cast<std::uint64_t>(arguments.number("seed", 1));
  const auto seconds = static_cast<double>(arguments.number("seconds", 120));
  Family family(plan.members);
  const double begin = monotonic_seconds();
  family.start([&](unsigned member) { live(arguments, family, plan, member); });
  const unsigned bad = family.wait(seconds);
  if (bad != 0) fail(std::to_string(bad) + " of " + std::to_string(plan.members) + " processes failed");
  const std::uint64_t pairs =
      plan.all ? std::uint64_t{plan.members} * (plan.members - 1) / 2 : plan.members / 2;
  say(std::to_string(plan.members) + " processes, " + std::to_string(pairs) + " pairs, " +
      std::to_string(2 * pairs * plan.talk.messages) + " messages in " +
      std::to_string(monotonic_seconds() - begin) + " s");
  return 0;
}
