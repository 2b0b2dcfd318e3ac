// scribbler: a victim talks with an honest process, while a hostile process of the same user is also
// connected to it. The hostile process writes random bytes into every shared mapping that the library gave
// it: rings, tables, pages. The victim's conversation with the honest process must continue with every byte
// correct, and only the hostile process may crash. The victim prints its longest wait.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <string>
#include <vector>

#include "completions.h"
#include "conversation.h"
#include "family.h"
#include "pattern.h"
#include "verdict.h"

namespace {

using namespace proof;

enum Member : unsigned { kVictim, kHonest, kHostile, kMembers };
enum Flag : unsigned { kFinished, kScribbling };

constexpr std::uint32_t kHostileIndex = 1;
constexpr std::uint32_t kHostileWindow = 8;
constexpr std::size_t kHostileOctets = 512;

struct Settings {
  TalkSettings talk;
  double wait_max = 5;
  bool churn = false;  // the victim registers and deregisters memory all the time
};

struct Mapping {
  std::uint8_t* begin;
  std::size_t octets;
};

std::vector<Mapping> shared_mappings() {
  std::vector<Mapping> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" rw-s ") == std::string::npos || line.find("memfd:rrdma") == std::string::npos) continue;
    char* rest = nullptr;
    const std::uintptr_t begin = std::strtoul(line.c_str(), &rest, 16);
    const std::uintptr_t end = std::strtoul(rest + 1, nullptr, 16);
    found.push_back({reinterpret_cast<std::uint8_t*>(begin), end - begin});
  }
  return found;
}

// Writes bursts at the starts of mappings, which hold control words, and anywhere else. The values resemble
// lengths and indices.
void scribble(const std::vector<Mapping>& mappings, std::uint64_t& random) {
  random = mix(random);
  const Mapping& mapping = mappings[random % mappings.size()];
  const std::size_t within = random % 4 == 0 ? mapping.octets : std::min<std::size_t>(mapping.octets, 4096);
  const std::size_t at = mix(random, 1) % within;
  const std::size_t octets = std::min<std::size_t>(1 + mix(random, 2) % 64, mapping.octets - at);
  switch (mix(random, 3) % 3) {
    case 0: fill(mapping.begin + at, octets, random); break;
    case 1: std::memset(mapping.begin + at, 0xff, octets); break;
    case 2: mapping.begin[at] = static_cast<std::uint8_t>(mapping.begin[at] + 1); break;
  }
}

class HostileLink {
 public:
  HostileLink(Device& device, ibv_cq* cq, std::uint32_t index) : index_(index) {
    const std::size_t octets = 2 * kHostileWindow * kHostileOctets;
    memory_ = map_memory(octets);
    mr_ = device.register_memory(memory_, octets);
    qp_ = device.create_qp(cq, {.sends = kHostileWindow, .receives = kHostileWindow});
    hello_.qp = device.prepare(qp_, 5);
    hello_.memory = {reinterpret_cast<std::uintptr_t>(memory_), mr_->rkey};
    for (std::uint32_t i = 0; i < kHostileWindow; ++i) post_receive(i);
  }
  ~HostileLink() {
    ibv_destroy_qp(qp_);
    ibv_dereg_mr(mr_);
  }
  HostileLink(const HostileLink&) = delete;
  HostileLink& operator=(const HostileLink&) = delete;

  [[nodiscard]] const Hello& hello() const { return hello_; }
  void connect(Device& device, const Hello& peer) {
    peer_ = peer;
    device.connect(qp_, hello_.qp, peer.qp);
  }
  // Posts one more request of any kind, until the QP refuses.
  void post(std::uint64_t random) {
    if (outstanding_ == kHostileWindow || failed_) return;
    ibv_sge sge{
        .addr = reinterpret_cast<std::uintptr_t>(memory_), .length = kHostileOctets, .lkey = mr_->lkey};
    ibv_send_wr request{};
    request.wr_id = std::uint64_t{index_} << 32;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    request.opcode = random % 3 == 0 ? IBV_WR_SEND : random % 3 == 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    request.wr.rdma = {.remote_addr = peer_.memory.address, .rkey = peer_.memory.rkey};
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_, &request, &bad) == 0) ++outstanding_;
  }
  void handle(const ibv_wc& completion) {
    if (completion.status != IBV_WC_SUCCESS) {
      if (!failed_) status_ = completion.status;
      failed_ = true;
      return;
    }
    if ((completion.wr_id & 1) != 0) {
      post_receive(0);
    } else {
      --outstanding_;
      ++good_;
    }
  }
  [[nodiscard]] std::string verdict() const {
    return std::to_string(good_) + " requests to the hostile one went well, then: " +
           (failed_ ? ibv_wc_status_str(status_) : "nothing");
  }

 private:
  void post_receive(std::uint32_t slot) {
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(memory_) + (kHostileWindow + slot) * kHostileOctets,
                .length = kHostileOctets,
                .lkey = mr_->lkey};
    ibv_recv_wr request{};
    request.wr_id = std::uint64_t{index_} << 32 | 1;
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    (void)ibv_post_recv(qp_, &request, &bad);
  }

  std::uint32_t index_;
  std::uint8_t* memory_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  Hello hello_{};
  Hello peer_{};
  std::uint32_t outstanding_ = 0;
  std::uint64_t good_ = 0;
  bool failed_ = false;
  ibv_wc_status status_ = IBV_WC_SUCCESS;
};

// Runs the victim and the honest process: both have the same conversation, and the victim has a second
// connection.
void talk(Arguments& arguments, Family& family, const Settings& settings, bool victim) {
  Device device(arguments);
  {
    Completions completions(device, 256, false);
    const std::size_t each = Conversation::memory_octets(settings.talk);
    std::uint8_t* const memory = map_memory(each);
    ibv_mr* const mr = device.register_memory(memory, each);
    {
      std::deque<HostileLink> hostile;
      Conversation honest(device, completions.cq(), memory, *mr, settings.talk, 0, 7, victim ? 0 : 1);
      family.hello(victim ? kVictim : kHonest, victim ? kHonest : kVictim) = honest.hello();
      if (victim) {
        hostile.emplace_back(device, completions.cq(), kHostileIndex);
        family.hello(kVictim, kHostile) = hostile.front().hello();
      }
      family.meet();
      honest.connect(device, family.hello(victim ? kHonest : kVictim, victim ? kVictim : kHonest), {});
      if (victim) hostile.front().connect(device, family.hello(kHostile, kVictim));
      family.meet();
      std::uint8_t* const churned = map_memory(4096);
      std::uint64_t random = settings.talk.seed;
      double wait_longest = 0;
      bool talking = false;
      double last = 0;
      while (!honest.done()) {
        // The other end may start to talk first, so handle its messages in any case.
        if (!talking && family.flag(kScribbling).load() != 0) {
          talking = true;
          last = monotonic_seconds();
          while (honest.post()) {
          }
        }
        ibv_wc completion;
        if (completions.wait(&completion, 1, talking ? 30 : 0.005) == 0) {
          if (talking) fail("the conversation with the honest one stalls: " + honest.state());
          continue;
        }
        if (Conversation::index_of(completion) == kHostileIndex) {
          hostile.front().handle(completion);
        } else {
          honest.handle(completion);
          if (talking) {
            honest.post();
            wait_longest = std::max(wait_longest, monotonic_seconds() - last);
            last = monotonic_seconds();
          }
        }
        if (!victim) continue;
        random = mix(random);
        hostile.front().post(random);
        if (settings.churn && random % 64 == 0 && ibv_dereg_mr(device.register_memory(churned, 4096)) != 0)
          fail("ibv_dereg_mr");
      }
      if (victim) {
        say("victim: longest wait " + std::to_string(wait_longest * 1000) + " ms; " +
            hostile.front().verdict());
        if (wait_longest > settings.wait_max) fail("the hostile one made the others wait");
      }
      family.flag(kFinished).fetch_add(1);
      while (family.flag(kFinished).load() < 2) ::usleep(1000);
    }
    if (ibv_dereg_mr(mr) != 0) fail("ibv_dereg_mr");
  }
}

void be_hostile(Arguments& arguments, Family& family, const Settings& settings) {
  Device device(arguments);
  Completions completions(device, 256, false);
  HostileLink link(device, completions.cq(), kHostileIndex);
  family.hello(kHostile, kVictim) = link.hello();
  family.meet();
  link.connect(device, family.hello(kVictim, kHostile));
  family.meet();
  std::uint64_t random = settings.talk.seed;
  for (int i = 0; i < 50; ++i) {
    link.post(++random);
    ibv_wc completion;
    if (completions.wait(&completion, 1, 0.05) == 1) link.handle(completion);
  }
  const std::vector<Mapping> mappings = shared_mappings();
  if (mappings.empty()) fail("the hostile process was given no shared mapping");
  std::size_t octets = 0;
  for (const Mapping& mapping : mappings) octets += mapping.octets;
  say("hostile: scribbles in " + std::to_string(mappings.size()) + " mappings of " + std::to_string(octets) +
      " octets");
  family.flag(kScribbling).store(1);
  // Slowly at first, so that some memory stays plausible. The process's own library reads the same memory and
  // may crash.
  for (std::uint64_t i = 0; family.flag(kFinished).load() < 2; ++i) {
    scribble(mappings, random);
    if (i < 2000 || i % 1000 == 0) ::usleep(200);
  }
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argc, argv);
  Settings settings;
  settings.talk.messages = static_cast<std::uint64_t>(arguments.number("messages", 20'000));
  settings.talk.seed = static_cast<std::uint64_t>(arguments.number("seed", 1));
  settings.wait_max = static_cast<double>(arguments.number("wait-max", 5));
  settings.churn = arguments.flag("churn");
  Family family(kMembers);
  family.start([&](unsigned member) {
    if (member == kHostile) {
      be_hostile(arguments, family, settings);
    } else {
      talk(arguments, family, settings, member == kVictim);
    }
  });
  const auto may_fail = [&](unsigned member) {
    return member == kHostile && family.flag(kScribbling).load() != 0;
  };
  if (family.wait(120, may_fail) != 0)
    fail("the victim, the honest one, or the start of the hostile one failed");
  return 0;
}
