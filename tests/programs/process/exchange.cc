// exchange: two processes talk over reliable connections in both directions at once, and check every byte
// (conversation.h). Most process tests use it and vary the environment around it.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "completions.h"
#include "conversation.h"
#include "side_channel.h"
#include "verdict.h"

namespace {

using namespace proof;

constexpr int kBatch = 64;
constexpr std::uint64_t kFlowing = 100;  // messages after which the harness learns that traffic flows

struct Manner {
  bool events = false;
  double pace_seconds = 0;       // between two posts; 0: as fast as possible
  double patience_seconds = 60;  // without any completion
  double rest_seconds = 0;       // asleep between connecting and talking
  double rest_share_max = 0.01;  // of a core that the rest may use
};

struct Talk {
  std::deque<Conversation> conversations;
  std::uint64_t busy = 0;  // not yet done
  std::uint64_t completions = 0;
};

void rest(const Manner& manner) {
  // Work that connecting left over does not count as resting.
  ::usleep(300'000);
  const double cpu = cpu_seconds();
  const double begin = monotonic_seconds();
  ::usleep(static_cast<useconds_t>(manner.rest_seconds * 1e6));
  const double share = (cpu_seconds() - cpu) / (monotonic_seconds() - begin);
  say("resting used " + std::to_string(share * 100) + " % of a core");
  if (share > manner.rest_share_max) fail("resting costs too much");
}

void handle(Talk& talk, const ibv_wc& completion, bool post) {
  const std::uint32_t index = Conversation::index_of(completion);
  if (index >= talk.conversations.size()) fail("a completion of no QP: " + describe(completion));
  Conversation& conversation = talk.conversations[index];
  const bool was_done = conversation.done();
  conversation.handle(completion);
  if (!was_done && conversation.done()) --talk.busy;
  if (++talk.completions == kFlowing) say("flowing");
  if (post) conversation.post();
}

[[noreturn]] void give_up(const Talk& talk, const Manner& manner) {
  std::string states;
  int named = 0;
  for (const Conversation& conversation : talk.conversations) {
    if (!conversation.done() && named++ < 4) states += "\n  " + conversation.state();
  }
  fail("nothing completed for " + std::to_string(manner.patience_seconds) + " s; " +
       std::to_string(talk.busy) + " QPs are not done" + states);
}

void talk_paced(Talk& talk, Completions& completions, const Manner& manner) {
  ibv_wc batch[kBatch];
  double next_post = monotonic_seconds();
  double last = next_post;
  std::size_t turn = 0;
  while (talk.busy != 0) {
    const double now = monotonic_seconds();
    if (now >= next_post) {
      talk.conversations[turn++ % talk.conversations.size()].post();
      next_post = now + manner.pace_seconds;
    }
    const int count = completions.wait(batch, kBatch, std::max(0.0, next_post - monotonic_seconds()));
    for (int i = 0; i < count; ++i) handle(talk, batch[i], false);
    if (count != 0) last = monotonic_seconds();
    if (monotonic_seconds() - last > manner.patience_seconds) give_up(talk, manner);
  }
}

void talk_freely(Talk& talk, Completions& completions, const Manner& manner) {
  for (Conversation& conversation : talk.conversations) {
    while (conversation.post()) {
    }
  }
  ibv_wc batch[kBatch];
  while (talk.busy != 0) {
    const int count = completions.wait(batch, kBatch, manner.patience_seconds);
    if (count == 0) give_up(talk, manner);
    for (int i = 0; i < count; ++i) handle(talk, batch[i], true);
  }
}

Patience read_patience(Arguments& arguments) {
  return {.timeout = static_cast<std::uint8_t>(arguments.number("timeout", 14)),
          .retries = static_cast<std::uint8_t>(arguments.number("retries", 7))};
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  TalkSettings settings;
  settings.messages = static_cast<std::uint64_t>(arguments.number("messages", 1000));
  settings.octets_max = static_cast<std::uint32_t>(arguments.number("octets", 4096));
  settings.window = static_cast<std::uint32_t>(arguments.number("window", 16));
  settings.seed = static_cast<std::uint64_t>(arguments.number("seed", 1));
  settings.operations = static_cast<unsigned>(arguments.number("operations", kEveryOperation));
  Manner manner;
  manner.events = arguments.flag("events");
  manner.pace_seconds = static_cast<double>(arguments.number("pace-us", 0)) * 1e-6;
  manner.patience_seconds = static_cast<double>(arguments.number("patience", 60));
  manner.rest_seconds = static_cast<double>(arguments.number("rest", 0));
  const auto count = static_cast<std::uint32_t>(arguments.number("qps", 1));
  if (arguments.flag("undumpable") && ::prctl(PR_SET_DUMPABLE, 0) != 0) fail_errno("prctl");
  const Patience patience = read_patience(arguments);
  SideChannel side = SideChannel::open(arguments);
  const double opening = monotonic_seconds();
  Device device(arguments);
  arguments.check();
  say("opened in " + std::to_string((monotonic_seconds() - opening) * 1000) + " ms");

  {
    Completions completions(device, static_cast<int>(2 * settings.window * count), manner.events);
    const std::size_t each = Conversation::memory_octets(settings);
    std::uint8_t* const memory = map_memory(each * count);
    ibv_mr* const mr = device.register_memory(memory, each * count);
    {
      Talk talk;
      talk.busy = count;
      const double connecting = monotonic_seconds();
      for (std::uint32_t i = 0; i < count; ++i) {
        talk.conversations.emplace_back(device, completions.cq(), memory + i * each, *mr, settings, i, i,
                                        side.side());
      }
      for (Conversation& conversation : talk.conversations)
        conversation.connect(device, side.trade(conversation.hello()), patience);
      side.meet();
      const double begin = monotonic_seconds();
      if (count > 1)
        say("connected " + std::to_string(count) + " QPs in " + std::to_string((begin - connecting) * 1000) +
            " ms");
      say("first QPN " + std::to_string(talk.conversations.front().hello().qp.qpn) + " of pid " +
          std::to_string(::getpid()));
      std::string all = "all QPNs";
      for (const auto& conversation : talk.conversations)
        all += " " + std::to_string(conversation.hello().qp.qpn);
      say(all);
      if (manner.rest_seconds > 0) rest(manner);
      if (manner.pace_seconds > 0) {
        talk_paced(talk, completions, manner);
      } else {
        talk_freely(talk, completions, manner);
      }
      const double seconds = monotonic_seconds() - begin - manner.rest_seconds;
      side.meet();
      std::uint64_t octets = 0;
      for (const Conversation& conversation : talk.conversations) {
        conversation.check_end();
        octets += conversation.octets();
      }
      say("exchanged " + std::to_string(2 * settings.messages * count) + " messages, " +
          std::to_string(octets) + " octets, in " + std::to_string(seconds) + " s");
    }
    if (ibv_dereg_mr(mr) != 0) fail("ibv_dereg_mr");
  }
  return 0;
}
