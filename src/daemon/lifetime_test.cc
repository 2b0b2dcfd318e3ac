// The lifetime of the daemon. Only the first program starts it, without noticing; it exits after the last
// one. If it is killed during traffic, its successor loses nothing.
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/raw_syscall.h"
#include "control/names.h"
#include "daemon/slots/slot_socket.h"
#include "daemon/test_surroundings.h"
#include "host/clock.h"

namespace rrdma::daemon::lifetime_test {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string target_of(const std::string& path) {
  char target[4096] = {};
  return ::readlink(path.c_str(), target, sizeof target - 1) > 0 ? target : "";
}

pid_t daemon_of(control::DaemonClient& client) { return static_cast<pid_t>(client.welcome().daemon_pid); }

TEST(Start, SixtyFourProgramsStartOneDaemon) {
  in_own_network([] {
    constexpr int kPrograms = 64;
    Baton daemons, slots, finish;
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < kPrograms; ++i) {
      programs.push_back(std::make_unique<Program>([&] {
        const auto client = open_client();
        const auto slot = client->request_slot();
        ASSERT_TRUE(slot.ok()) << slot.error().sentence;
        daemons.pass(static_cast<std::uint64_t>(daemon_of(*client)));
        slots.pass(slot->slot);
        finish.take();
      }));
    }
    std::set<std::uint64_t> daemon_pids, slot_numbers;
    for (int i = 0; i < kPrograms; ++i) {
      daemon_pids.insert(daemons.take());
      slot_numbers.insert(slots.take());
    }
    EXPECT_EQ(daemon_pids.size(), 1u);
    EXPECT_EQ(slot_numbers.size(), static_cast<std::size_t>(kPrograms));
    // Daemons that lose the race to start exit by themselves.
    EXPECT_TRUE(eventually([] { return daemons_here().size() == 1; }));
    for (int i = 0; i < kPrograms; ++i) finish.pass();
    for (auto& program : programs) EXPECT_TRUE(program->succeeded());
  });
}

TEST(Start, IsQuick) {
  in_own_network([] {
    const Instant before = host::now();
    const auto client = open_client();
    // About 10 ms on an idle machine; the bound only excludes a wait for some timeout.
    EXPECT_LT((host::now() - before).ns, seconds(10).ns);
  });
}

std::atomic<int> children_heard_of{0};

TEST(Start, LeavesNoTraceInTheProgram) {
  in_own_network([] {
    ::signal(SIGCHLD, [](int) { ++children_heard_of; });
    ::signal(SIGUSR1, SIG_IGN);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
    ::setenv("NOTIFY_SOCKET", "/nowhere", 1);
    ::setenv("LD_PRELOAD", "", 1);
    int open_pipe[2];
    ASSERT_EQ(::pipe(open_pipe), 0);
    const auto client = open_client();
    const std::string proc = "/proc/" + std::to_string(daemon_of(*client));

    EXPECT_EQ(children_heard_of.load(), 0);
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(target_of(proc + "/cwd"), "/");
    EXPECT_EQ(target_of(proc + "/fd/0"), "/dev/null");
    EXPECT_EQ(target_of(proc + "/fd/1"), "/dev/null");
    EXPECT_EQ(target_of(proc + "/fd/2"), "/dev/null");
    const std::string environment = text_of(proc + "/environ");
    EXPECT_EQ(environment.find("LD_PRELOAD"), std::string::npos);
    EXPECT_EQ(environment.find("NOTIFY_SOCKET"), std::string::npos);
    EXPECT_NE(::getsid(daemon_of(*client)), ::getsid(0));
    const std::string status = text_of(proc + "/status");
    const auto ignored = std::strtoull(status.c_str() + status.find("SigIgn:") + 7, nullptr, 16);
    EXPECT_EQ(ignored & (1ull << (SIGUSR1 - 1)), 0u);
    const auto masked = std::strtoull(status.c_str() + status.find("SigBlk:") + 7, nullptr, 16);
    EXPECT_EQ(masked & (1ull << (SIGUSR2 - 1)), 0u);
    sigset_t now_blocked;
    ::sigprocmask(SIG_BLOCK, nullptr, &now_blocked);
    EXPECT_EQ(sigismember(&now_blocked, SIGUSR2), 1);
    EXPECT_EQ(sigismember(&now_blocked, SIGTERM), 0);
  });
}

// `$(program)` reads until the last writer of the pipe is gone; the daemon must not be one.
TEST(Start, CommandSubstitutionDoesNotHang) {
  in_own_network([] {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);  // inheritable
    Program program([&] {
      ::dup2(ends[1], STDOUT_FILENO);
      (void)open_client();
    });
    ::close(ends[1]);
    pollfd wait{.fd = ends[0], .events = POLLIN, .revents = 0};
    const timespec patience{.tv_sec = 3, .tv_nsec = 0};
    char octet;
    ASSERT_EQ(raw::ppoll(&wait, 1, &patience), 1);
    while (raw::read(ends[0], &octet, 1) > 0) {
    }
    EXPECT_EQ(daemons_here().size(), 1u) << "the daemon must still be there for this to prove anything";
    EXPECT_TRUE(program.succeeded());
  });
}

TEST(Start, WorksWithStandardDescriptorsClosed) {
  in_own_network([] {
    Baton done;
    Program program([&] {
      ::close(0);
      ::close(1);
      const auto client = open_client();
      const auto slot = client->request_slot();
      done.pass(slot.ok() && slot->sockets.v4.get() > 2 && slot->sockets.v6.get() > 2 &&
                        client->event_fd() > 2
                    ? 1
                    : 0);
    });
    EXPECT_EQ(done.take(), 1u);
  });
}

TEST(Start, AMissingDaemonIsSaid) {
  in_own_network([] {
    ::setenv("RRDMA_DAEMON", "/nowhere/rrdmad", 1);
    const auto client = control::DaemonClient::connect_or_start({});
    ASSERT_FALSE(client.ok());
    EXPECT_NE(client.error().sentence.find("/nowhere/rrdmad"), std::string::npos) << client.error().sentence;
  });
}

TEST(Start, ADaemonThatCannotRunIsSaid) {
  in_own_network([] {
    ::setenv("RRDMA_DAEMON", "/bin/true", 1);
    const auto client = control::DaemonClient::connect_or_start({.patience = milliseconds(300)});
    ASSERT_FALSE(client.ok());
    EXPECT_EQ(client.error().error, ETIMEDOUT);
    ::setenv("RRDMA_DAEMON", "/usr", 1);
    const auto directory = control::DaemonClient::connect_or_start({});
    ASSERT_FALSE(directory.ok());
    EXPECT_NE(directory.error().sentence.find("cannot start /usr"), std::string::npos)
        << directory.error().sentence;
  });
}

// Stands for the daemon's executable: counts its starts, then does something.
class CountedDaemon {
 public:
  explicit CountedDaemon(const std::string& then) {
    std::string folder = "/tmp/rrdma-starts.XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr) << folder;
    folder_ = folder;
    const std::string script = folder_ + "/daemon";
    std::ofstream(script) << "#!/bin/sh\necho start >> " << folder_ << "/starts\n" << then << "\n";
    EXPECT_EQ(::chmod(script.c_str(), 0700), 0);
    ::setenv("RRDMA_DAEMON", script.c_str(), 1);
  }
  ~CountedDaemon() { std::filesystem::remove_all(folder_); }
  CountedDaemon(const CountedDaemon&) = delete;
  CountedDaemon& operator=(const CountedDaemon&) = delete;

  [[nodiscard]] std::ptrdiff_t starts() const {
    const std::string lines = text_of(folder_ + "/starts");
    return std::count(lines.begin(), lines.end(), '\n');
  }

 private:
  std::string folder_;
};

std::string running_daemon() { return "exec " + std::string(std::getenv("RRDMA_DAEMON")) + " \"$@\""; }

TEST(Start, ASlowDaemonIsStartedOnce) {
  in_own_network([] {
    const CountedDaemon daemon("sleep 3\n" + running_daemon());
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < 8; ++i) programs.push_back(std::make_unique<Program>([] { (void)open_client(); }));
    for (auto& program : programs) EXPECT_TRUE(program->succeeded());
    EXPECT_EQ(daemon.starts(), 1);
  });
}

TEST(Start, ADaemonThatEndsAtOnceIsStartedSeldom) {
  in_own_network([] {
    const CountedDaemon daemon("exit 0");
    const auto client = control::DaemonClient::connect_or_start({.patience = seconds(4)});
    ASSERT_FALSE(client.ok());
    const std::string& sentence = client.error().sentence;
    // The last one may have to wait for a processor before it counts itself.
    const auto says_it = [&] {
      return sentence.find("starts: " + std::to_string(daemon.starts()) + ")") != std::string::npos;
    };
    EXPECT_TRUE(eventually(says_it)) << sentence << " It counted " << daemon.starts();
    EXPECT_GT(daemon.starts(), 1) << "another one may run";
    EXPECT_LE(daemon.starts(), 6);
  });
}

// A daemon takes its lock before it listens, and gives it back after it has ended to listen.
TEST(Start, NobodyStartsADaemonWhileOneHoldsTheLock) {
  in_own_network([] {
    const CountedDaemon daemon(running_daemon());
    Baton locked;
    Program program([&] {
      locked.take();
      const auto impatient = control::DaemonClient::connect_or_start({.patience = milliseconds(300)});
      ASSERT_FALSE(impatient.ok());
      EXPECT_NE(impatient.error().sentence.find(".lock"), std::string::npos) << impatient.error().sentence;
      const auto tool = control::DaemonClient::connect_or_start(
          {.role = control::Role::kTool, .may_start = false, .patience = milliseconds(300)});
      ASSERT_FALSE(tool.ok());
      EXPECT_EQ(tool.error().error, ETIMEDOUT) << tool.error().sentence;
      (void)open_client();
    });
    EXPECT_EQ(control::lock_of_user_daemon(), "");
    auto held = control::hold_user_paths();
    ASSERT_TRUE(held);
    EXPECT_NE(control::lock_of_user_daemon(), "");
    for (const std::string& path : held->paths) ::unlink(path.c_str());
    held->listeners.clear();
    locked.pass();
    EXPECT_FALSE(eventually([&] { return daemon.starts() != 0; }, 1500));
    held.reset();
    EXPECT_EQ(control::lock_of_user_daemon(), "");
    EXPECT_TRUE(program.succeeded());
    EXPECT_EQ(daemon.starts(), 1);
  });
}

TEST(Start, AToolStartsNothing) {
  in_own_network([] {
    const auto tool =
        control::DaemonClient::connect_or_start({.role = control::Role::kTool, .may_start = false});
    ASSERT_FALSE(tool.ok());
    EXPECT_NE(tool.error().sentence.find("no RRDMA daemon is running"), std::string::npos);
    EXPECT_TRUE(daemons_here().empty());
  });
}

TEST(End, LeavesAfterTheLastProgram) {
  in_own_network([] {
    ::setenv("RRDMA_DAEMON_LINGER", "0.3", 1);
    auto client = open_client();
    const pid_t daemon = daemon_of(*client);
    ASSERT_FALSE(eventually([&] { return !is_running(daemon); }, 700)) << "it left while a program was there";
    client.reset();
    EXPECT_FALSE(eventually([&] { return !is_running(daemon); }, 100)) << "it did not linger";
    EXPECT_TRUE(
        eventually([&] { return !is_running(daemon); }, 15000));  // a leak check at its exit may take seconds
    // It also releases the port.
    EXPECT_TRUE(bind_slot_socket(AF_INET, true).ok());
    // The next program starts the next daemon.
    client = open_client();
    EXPECT_NE(daemon_of(*client), daemon);
  });
}

TEST(End, StaysWhenToldTo) {
  in_own_network([] {
    const pid_t daemon = start_daemon({"--stay", "--linger", "0"});
    open_client().reset();
    EXPECT_FALSE(eventually([&] { return !is_running(daemon); }, 600));
    ::kill(daemon, SIGTERM);
    int status = -1;
    ::waitpid(daemon, &status, 0);
    EXPECT_EQ(status, 0);
  });
}

// A child that inherited the connection must not keep a dead program's slot.
TEST(End, ADeadProgramIsNoticedAlthoughItsChildLives) {
  in_own_network([] {
    const auto client = open_client();
    Baton granted;
    std::unique_ptr<Program> parent = std::make_unique<Program>([&] {
      const auto own = open_client();
      auto slot = own->request_slot();
      ASSERT_TRUE(slot.ok());
      const pid_t child = ::fork();
      if (child == 0) {
        EXPECT_EQ(own->request_slot().error().error, EOWNERDEAD);
        ::sleep(5);
        ::_exit(0);
      }
      granted.pass(static_cast<std::uint64_t>(child));
      ::pause();
    });
    const auto child = static_cast<pid_t>(granted.take());
    EXPECT_EQ(client->status()->slots_held, 1);
    parent->kill();
    EXPECT_TRUE(eventually([&] { return client->status()->slots_held == 0; }));
    EXPECT_TRUE(is_running(child));
    ::kill(child, SIGKILL);
  });
}

// Receives on its slot as fast as it can, and handles events, until `finish` is passed. Then passes the
// number of datagrams.
void receive_until(Baton& finish, Baton& ready, Baton& counted) {
  const auto client = open_client();
  auto slot = client->request_slot();
  ASSERT_TRUE(slot.ok()) << slot.error().sentence;
  ready.pass(slot->slot);
  std::uint64_t received = 0;
  RecordedEvents events;
  std::atomic<bool> finished{false};
  while (!finished) {
    pollfd wait[] = {{.fd = slot->sockets.v4.get(), .events = POLLIN, .revents = 0},
                     {.fd = client->event_fd(), .events = POLLIN, .revents = 0},
                     {.fd = finish.reader(), .events = POLLIN, .revents = 0}};
    (void)raw::ppoll(wait, 3, nullptr);
    received += marks_of(slot->sockets.v4).size();
    if (wait[1].revents != 0) client->handle_events(events);
    finished = wait[2].revents != 0;
  }
  received += marks_of(slot->sockets.v4).size();
  counted.pass(received);
  EXPECT_TRUE(events.lost.empty());
}

void expect_takeover(bool kills_starter_too) {
  in_own_network([&] {
    Baton starter_ready, unused, finish, ready, counted;
    Program starter([&] { receive_until(unused, starter_ready, unused); });
    starter_ready.take();
    Program program([&] { receive_until(finish, ready, counted); });
    const auto slot = static_cast<control::Slot>(ready.take());
    const auto first = daemons_here();
    ASSERT_EQ(first.size(), 1u);

    std::uint64_t sent = 0;
    const auto send_some = [&] {
      for (int i = 0; i < 200; ++i) {
        send_to_qpn(AF_INET, control::qpns_of(slot).first + 5);
        ++sent;
      }
    };
    send_some();
    if (kills_starter_too) starter.kill();
    ::kill(first[0], SIGKILL);
    send_some();
    // A new program opens without waiting for any timeout, and the slots are steered as before.
    const Instant before = host::now();
    const auto client = open_client();
    auto own = client->request_slot();
    ASSERT_TRUE(own.ok()) << own.error().sentence;
    EXPECT_LT((host::now() - before).ns, seconds(10).ns);
    EXPECT_EQ(client->network().families, 3) << client->network().reason;
    EXPECT_NE(own->slot, slot);
    ASSERT_TRUE(own->sockets.v4.valid());
    send_some();
    send_to_qpn(AF_INET, control::qpns_of(own->slot).first, 9);
    EXPECT_EQ(marks_of(own->sockets.v4), std::vector<std::uint8_t>{9});

    const auto status = client->status();
    ASSERT_TRUE(status.ok());
    EXPECT_TRUE(status->took_over);
    EXPECT_EQ(daemons_here().size(), 1u);
    const unsigned expected = kills_starter_too ? 2 : 3;
    EXPECT_TRUE(eventually([&] {
      const auto later = client->status();
      return later->slots_held == expected && later->slots_orphaned == 0;
    })) << client->status()->slots_held
        << " held, " << client->status()->slots_orphaned << " orphaned";
    finish.pass();
    EXPECT_EQ(counted.take(), sent);
    EXPECT_TRUE(program.succeeded());
  });
}

TEST(Death, OfTheDaemonLosesNothing) { expect_takeover(false); }
TEST(Death, OfTheDaemonAndItsStarterLosesNothing) { expect_takeover(true); }

TEST(Death, ManyTimes) {
  in_own_network([] {
    const auto client = open_client();
    auto slot = client->request_slot();
    ASSERT_TRUE(slot.ok());
    std::vector<control::GrantedSlot> more;
    for (int i = 0; i < 15; ++i) {
      ::kill(daemon_of(*client), SIGKILL);
      // Requests find the next daemon by themselves.
      auto another = client->request_slot();
      ASSERT_TRUE(another.ok()) << i << ": " << another.error().sentence;
      more.push_back(std::move(*another));
      send_to_qpn(AF_INET, control::qpns_of(slot->slot).first, 1);
      send_to_qpn(AF_INET6, control::qpns_of(more.back().slot).first, 2);
      EXPECT_EQ(marks_of(slot->sockets.v4), std::vector<std::uint8_t>{1});
      EXPECT_EQ(marks_of(more.back().sockets.v6), std::vector<std::uint8_t>{2});
    }
    EXPECT_EQ(client->status()->slots_held, 16);
    RecordedEvents events;
    client->handle_events(events);
    EXPECT_EQ(events.daemons, 1) << "one report for all";
    EXPECT_TRUE(events.lost.empty());
  });
}

// A program is killed while there is no daemon: the next daemon finds its slot in the ledger and reaps it.
TEST(Death, OfAProgramBetweenTwoDaemons) {
  in_own_network([] {
    const auto client = open_client();
    Baton ready;
    Program program([&] {
      ::signal(SIGTERM, SIG_IGN);
      const auto own = open_client();
      auto slot = own->request_slot();
      ASSERT_TRUE(slot.ok());
      ready.pass(slot->slot);
      ::pause();
    });
    const auto slot = static_cast<control::Slot>(ready.take());
    ::kill(program.pid(), SIGSTOP);  // so that it cannot reconnect
    ::kill(daemon_of(*client), SIGKILL);
    ASSERT_TRUE(client->status().ok());
    EXPECT_EQ(client->status()->slots_orphaned, 1);
    std::vector<control::GrantedSlot> slots;
    for (std::size_t i = 0; i < control::kSlotsOfProgramMax; ++i) {
      auto other = client->request_slot();
      ASSERT_TRUE(other.ok());
      EXPECT_NE(other->slot, slot) << "a stopped program keeps its slot";
      slots.push_back(std::move(*other));
    }
    program.kill();
    EXPECT_TRUE(eventually([&] { return client->status()->slots_orphaned == 0; }));
  });
}

TEST(Death, AStoppedDaemonIsSaid) {
  in_own_network([] {
    const auto client = open_client({.patience = seconds(5)});
    ::kill(daemon_of(*client), SIGSTOP);
    const auto slot = client->request_slot();
    ASSERT_FALSE(slot.ok());
    EXPECT_EQ(slot.error().error, ETIMEDOUT);
    EXPECT_NE(slot.error().sentence.find("does not answer"), std::string::npos);
    ::kill(daemon_of(*client), SIGCONT);
    EXPECT_TRUE(client->request_slot().ok()) << "a late reply must not be taken for the next one";
  });
}

TEST(Death, AStoppedDaemonIsSaidToNewcomers) {
  in_own_network([] {
    const auto client = open_client();
    const pid_t daemon = daemon_of(*client);
    ::kill(daemon, SIGSTOP);
    const auto newcomer = control::DaemonClient::connect_or_start({.patience = milliseconds(300)});
    ASSERT_FALSE(newcomer.ok());
    EXPECT_NE(newcomer.error().sentence.find("pid " + std::to_string(daemon)), std::string::npos)
        << newcomer.error().sentence;
    EXPECT_EQ(daemons_here().size(), 1u);
    ::kill(daemon, SIGCONT);
    (void)open_client();
  });
}

TEST(Limits, A1024DescriptorsAreEnough) {
  in_own_network([] {
    const rlimit limit{.rlim_cur = 1024, .rlim_max = 1024};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    std::vector<std::unique_ptr<control::DaemonClient>> clients;
    std::vector<control::GrantedSlot> slots;
    for (int i = 0; i < 255; ++i) {
      if (i % control::kSlotsOfProgramMax == 0) clients.push_back(open_client());
      auto slot = clients.back()->request_slot();
      ASSERT_TRUE(slot.ok()) << i << ": " << slot.error().sentence;
      slots.push_back(std::move(*slot));
    }
    ::kill(daemon_of(*clients[0]), SIGKILL);
    for (const auto& client : clients) ASSERT_TRUE(client->status().ok());
    EXPECT_TRUE(clients[0]->status()->took_over);
    for (const auto& slot : slots) {
      const auto mark = static_cast<std::uint8_t>(slot.slot);
      send_to_qpn(AF_INET, control::qpns_of(slot.slot).first, mark);
      EXPECT_EQ(marks_of(slot.sockets.v4), std::vector<std::uint8_t>{mark}) << slot.slot;
    }
  });
}

}  // namespace rrdma::daemon::lifetime_test
