// As many programs as a cluster job puts on one host: each has its slot, each gets its own packets, and all
// of them survive their daemon. RRDMA_PROGRAMS says how many; 1,100 reach into every size of slot.
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>

#include "control/slot.h"
#include "daemon/test_surroundings.h"

namespace rrdma::daemon::many_programs_test {

constexpr std::size_t kProgramsUsually = 150;

std::size_t programs_wanted() {
  const char* text = std::getenv("RRDMA_PROGRAMS");
  return text == nullptr ? kProgramsUsually : std::strtoul(text, nullptr, 10);
}

std::uint64_t resident_kib(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::strtoull(line.c_str() + 6, nullptr, 10);
  }
  return 0;
}

// A baton for so many that its pipe may fill.
std::uint64_t take_patiently(Baton& baton) {
  pollfd wait{.fd = baton.reader(), .events = POLLIN, .revents = 0};
  const timespec patience{.tv_sec = 120, .tv_nsec = 0};
  EXPECT_EQ(raw::ppoll(&wait, 1, &patience), 1);
  return baton.take();
}

TEST(ManyPrograms, EachHasItsSlotAndKeepsItWhenTheDaemonDies) {
  in_own_network([] {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
    const std::size_t count = programs_wanted();
    const auto client = open_client();
    Baton granted, killed, back, check, checked;
    std::vector<std::unique_ptr<Program>> programs;
    for (std::size_t i = 0; i < count; ++i) {
      programs.push_back(std::make_unique<Program>([&] {
        control::DaemonSettings settings;
        settings.patience = seconds(120);
        const auto own = open_client(settings);
        auto slot = own->request_slot();
        ASSERT_TRUE(slot.ok()) << slot.error().sentence;
        granted.pass(slot->slot);
        (void)take_patiently(killed);
        ASSERT_TRUE(own->status().ok());
        back.pass(own->welcome().lost_slots.size());
        (void)take_patiently(check);
        const auto marks = marks_of(slot->sockets.v4);
        checked.pass(marks == std::vector<std::uint8_t>{static_cast<std::uint8_t>(slot->slot)} ? 1 : 0);
      }));
    }
    std::set<control::Slot> slots;
    for (std::size_t i = 0; i < count; ++i) slots.insert(static_cast<control::Slot>(take_patiently(granted)));
    ASSERT_EQ(slots.size(), count);
    const auto first = static_cast<pid_t>(client->welcome().daemon_pid);
    std::cout << count << " programs: daemon " << resident_kib(first) << " KiB, a program "
              << resident_kib(programs[0]->pid()) << " KiB\n";
    ::kill(first, SIGKILL);
    for (std::size_t i = 0; i < count; ++i) killed.pass();
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(take_patiently(back), 0u) << "a slot was lost";
    const auto status = client->status();
    ASSERT_TRUE(status.ok()) << status.error().sentence;
    EXPECT_TRUE(status->took_over);
    EXPECT_EQ(status->slots_held, count);
    for (const control::Slot slot : slots)
      send_to_qpn(AF_INET, control::qpns_of(slot).first + 1, static_cast<std::uint8_t>(slot));
    for (std::size_t i = 0; i < count; ++i) check.pass();
    std::uint64_t right = 0;
    for (std::size_t i = 0; i < count; ++i) right += take_patiently(checked);
    EXPECT_EQ(right, count);
  });
}

}  // namespace rrdma::daemon::many_programs_test
