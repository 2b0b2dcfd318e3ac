// Writes of a program to the connection manager's file: commands of any number, length and content, on
// channels that come and go. There is no daemon, so only the code before it is tested. Answers go to a
// buffer, to unmapped memory, or nowhere.
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "cost.h"
#include "input.h"
#include "preload/rdma_cm/station.h"

namespace rrdma::rdma_cm_fuzz {

using rdma_cm::Station;

constexpr std::size_t kGuard = 64;
constexpr std::uint32_t kChannels = 3;
constexpr std::uint8_t kUntouched = 0xa5;

struct Answer {
  std::array<std::uint8_t, kGuard> before;
  std::array<std::uint8_t, 1024> room;
  std::array<std::uint8_t, kGuard> after;
};

class World {
 public:
  World() {
    ::setenv("RRDMA_DAEMON", "/nonexistent", 1);
    ::setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
    missing_ = reinterpret_cast<std::uintptr_t>(
        ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }

  void run(fuzz::Input input) {
    for (int& channel : channels_) channel = Station::instance().open(O_NONBLOCK | O_CLOEXEC);
    for (int i = 0; i < 100 && !input.empty(); ++i) {
      const fuzz::Cost cost({.ms = 200, .octets = 1 << 20});
      command(input);
    }
    for (const int channel : channels_) end(channel);
  }

 private:
  static void end(int channel) {
    Station::instance().close(channel);
    ::close(channel);
  }

  void command(fuzz::Input& input) {
    int& channel = channels_[input.below(kChannels)];
    rdma_ucm_cmd_hdr header{};
    header.cmd = input.below(RDMA_USER_CM_CMD_JOIN_MCAST + 2);
    if (header.cmd > RDMA_USER_CM_CMD_JOIN_MCAST) {
      end(channel);
      channel = Station::instance().open(O_NONBLOCK | O_CLOEXEC);
      return;
    }
    const std::uint8_t choice = input.octet();
    const Octets body = input.take(input.octet() + (choice & 1) * 256u);
    header.in = static_cast<std::uint16_t>(body.size() + ((choice & 2) != 0 ? input.octet() : 0));
    header.out = static_cast<std::uint16_t>(std::min<std::uint32_t>(input.word(), sizeof answer_.room));
    std::vector<std::uint8_t> octets(sizeof header + body.size());
    std::memcpy(octets.data(), &header, sizeof header);
    std::copy(body.begin(), body.end(), octets.begin() + sizeof header);
    place_address(header.cmd, choice, octets);
    std::memset(&answer_, kUntouched, sizeof answer_);
    const ssize_t written = Station::instance().write(channel, octets.data(), octets.size());
    RRDMA_ASSERT(written == -1 || written == static_cast<ssize_t>(octets.size()));
    for (const auto* edge : {&answer_.before, &answer_.after}) {
      for (const std::uint8_t octet : *edge) RRDMA_ASSERT(octet == kUntouched);
    }
  }

  // The offset of the address of the answer (or option) within a command, if it has one.
  static int place_of_address(std::uint32_t command) {
    switch (command) {
      case RDMA_USER_CM_CMD_CREATE_ID: return offsetof(rdma_ucm_create_id, response);
      case RDMA_USER_CM_CMD_DESTROY_ID:
      case RDMA_USER_CM_CMD_QUERY_ROUTE:
      case RDMA_USER_CM_CMD_QUERY:
      case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      case RDMA_USER_CM_CMD_GET_EVENT:
      case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
      case RDMA_USER_CM_CMD_JOIN_MCAST:
      case RDMA_USER_CM_CMD_LEAVE_MCAST:
      case RDMA_USER_CM_CMD_MIGRATE_ID:
      case RDMA_USER_CM_CMD_BIND_IP:
      case RDMA_USER_CM_CMD_SET_OPTION: return 0;
      default: return -1;
    }
  }
  void place_address(std::uint32_t command, std::uint8_t choice, std::vector<std::uint8_t>& octets) const {
    std::uint64_t address = reinterpret_cast<std::uintptr_t>(answer_.room.data());
    if ((choice & 12) == 4) address = missing_;
    if ((choice & 12) == 8) address = 0;
    const int at = place_of_address(command);
    if (at < 0) return;
    octets.resize(
        std::max(octets.size(), sizeof(rdma_ucm_cmd_hdr) + static_cast<std::size_t>(at) + sizeof address));
    std::memcpy(octets.data() + sizeof(rdma_ucm_cmd_hdr) + at, &address, sizeof address);
  }

  std::array<int, kChannels> channels_{};
  std::uintptr_t missing_ = 0;
  Answer answer_{};
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto* const world = new World;
  world->run(fuzz::Input({data, size}));
  return 0;
}

}  // namespace rrdma::rdma_cm_fuzz
