// The account that a system daemon charges: one for a user and its namespaces, one for each container,
// whatever uids it takes and whatever it hides.
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "attacker.h"
#include "control/identity.h"

namespace rrdma::daemon::accounts_test {

uid_t account_of(pid_t pid, uid_t uid) {
  return control::account_of({.pid = pid, .uid = uid, .namespaces = control::namespaces_of(pid)});
}

TEST(Accounts, AUidOfANamespaceIsChargedToItsOwner) {
  in_own_network(
      [] {
        const ManyUids mallory(100, [](const Beside::Stay& stay) {
          ASSERT_EQ(::setresuid(5, 5, 5), 0);
          stay(0);
        });
        EXPECT_EQ(account_of(mallory.pid(), ManyUids::kFirst + 4), kMallory);
      },
      Privilege::kRoot);
}

// Puts a text in the place of a file, for this process and its children.
class Replaced {
 public:
  Replaced(const char* path, const std::string& text) : path_(path) {
    char name[] = "/tmp/rrdma-replaced.XXXXXX";
    const OwnedFd file(::mkstemp(name));
    EXPECT_TRUE(file.valid());
    write(name, text);
    const bool is_bound = ::unshare(CLONE_NEWNS) == 0 &&
                          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                          ::mount(name, path, nullptr, MS_BIND, nullptr) == 0;
    (void)::unlink(name);
    if (!is_bound) skip_here(std::string("there is no ") + path);
  }
  void write(const std::string& text) const { write(path_, text); }

 private:
  static void write(const char* name, const std::string& text) { std::ofstream(name) << text; }
  const char* const path_;
};

// A program that is set-uid to a subordinate uid runs outside of the namespace in which it was made.
TEST(Accounts, ASubordinateUidIsChargedToItsOwnerEverywhere) {
  in_own_network(
      [] {
        const Replaced ranges("/etc/subuid", std::to_string(kMallory) + ":700000:100\n");
        const auto rests = [](const Beside::Stay& stay) { stay(0); };
        for (const uid_t uid : {ManyUids::kFirst, ManyUids::kFirst + 99}) {
          const Beside mallory(uid, rests);
          EXPECT_EQ(account_of(mallory.pid(), uid), kMallory);
        }
        const Beside alice(kAlice, rests), other(ManyUids::kFirst + 100, rests);
        EXPECT_EQ(account_of(alice.pid(), kAlice), kAlice);
        EXPECT_EQ(account_of(other.pid(), ManyUids::kFirst + 100), ManyUids::kFirst + 100);
        ranges.write(std::to_string(kMallory) + ":700000:101\n");
        EXPECT_EQ(account_of(other.pid(), ManyUids::kFirst + 100), kMallory) << "the file has changed";
        const Beside below(ManyUids::kFirst, [](const Beside::Stay& stay) {
          ASSERT_EQ(::unshare(CLONE_NEWUSER), 0);
          stay(0);
        });
        EXPECT_EQ(account_of(below.pid(), ManyUids::kFirst), kMallory) << "in a namespace that it made";
      },
      Privilege::kRoot);
}

// Names are not asked of servers, for which all users would wait.
TEST(Accounts, SubordinateUidsOfAnOwnerWithoutANumberAreOneUser) {
  in_own_network(
      [] {
        const Replaced users("/etc/passwd", "root:x:0:0::/:/bin/sh\nmallory:x:" + std::to_string(kMallory) +
                                                ":100::/:/bin/sh\n");
        const Replaced ranges("/etc/subuid", "root:900000:100\nmallory:700000:100\nremote:800000:100\n");
        const auto account_of_free = [](uid_t uid) {
          const Beside program(uid, [](const Beside::Stay& stay) { stay(0); });
          return account_of(program.pid(), uid);
        };
        EXPECT_EQ(account_of_free(700'001), kMallory);
        for (const uid_t first : {800'000u, 900'000u}) {
          const uid_t account = account_of_free(first);
          EXPECT_GE(account, control::kContainerAccounts) << first;
          EXPECT_EQ(account_of_free(first + 99), account);
          EXPECT_NE(account_of_free(first + 100), account);
        }
        EXPECT_NE(account_of_free(800'000), account_of_free(900'000));
      },
      Privilege::kRoot);
}

// The unit runs the daemon as root without the right to trace, so that processes hide their namespaces.
void become_unprivileged_root() {
  __user_cap_header_struct version{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  ASSERT_EQ(::syscall(SYS_capset, &version, none), 0);
}

TEST(Accounts, AHiddenUserNamespaceIsChargedToItsUser) {
  in_own_network(
      [] {
        const ManyUids mallory(100, [](const Beside::Stay& stay) { stay(0); });
        const ManyUids others(100, [](const Beside::Stay& stay) {
          ASSERT_EQ(::setresuid(5, 5, 5), 0);
          stay(0);
        });
        become_unprivileged_root();
        EXPECT_EQ(account_of(mallory.pid(), kMallory), kMallory);
        EXPECT_EQ(account_of(others.pid(), ManyUids::kFirst + 4), control::kUnknownAccount);
      },
      Privilege::kRoot);
}

pid_t only_child_of(pid_t pid) {
  const std::string number = std::to_string(pid);
  pid_t child = 0;
  EXPECT_TRUE(std::ifstream("/proc/" + number + "/task/" + number + "/children") >> child);
  return child;
}

// The root of a container starts a process without capabilities, which does not hide its namespaces, and that
// one starts a process in a PID namespace below. Their numbers are those of the host.
class Container {
 public:
  Container()
      : outside_(0, [](const Beside::Stay& stay) {
          ASSERT_EQ(::unshare(CLONE_NEWPID), 0);
          Baton started;
          const Program root([&] {
            const Program bare([&] {
              ASSERT_EQ(::unshare(CLONE_NEWPID), 0);
              become_unprivileged_root();
              const Program below([&] {
                started.pass();
                (void)::pause();
              });
              (void)::pause();
            });
            (void)::pause();
          });
          started.take();
          stay(static_cast<std::uint64_t>(root.pid()));
        }) {}
  [[nodiscard]] pid_t root() const { return static_cast<pid_t>(outside_.value()); }
  [[nodiscard]] pid_t bare() const { return only_child_of(root()); }
  [[nodiscard]] pid_t below() const { return only_child_of(bare()); }

 private:
  Beside outside_;
};

TEST(Accounts, AHiddenContainerIsOneUser) {
  in_own_network(
      [] {
        const Container one, other;
        become_unprivileged_root();
        const uid_t account = account_of(one.root(), 0);
        EXPECT_GE(account, control::kContainerAccounts);
        EXPECT_NE(account, control::kUnknownAccount);
        EXPECT_EQ(account_of(one.root(), kMallory), account) << "its root has every uid";
        EXPECT_EQ(account_of(one.bare(), 0), account);
        EXPECT_EQ(account_of(one.below(), 0), account);
        EXPECT_NE(account_of(other.root(), 0), account);
        EXPECT_NE(account_of(other.root(), 0), control::kContainerAccounts);
      },
      Privilege::kRoot);
}

// A process that root puts into a container, as `docker exec` does, and its sibling: their parent is outside.
class Entered {
 public:
  explicit Entered(const Container& container)
      : outside_(0, [&container](const Beside::Stay& stay) {
          const std::string name = "/proc/" + std::to_string(container.root()) + "/ns/pid";
          const OwnedFd inside(raw::open(name.c_str(), O_RDONLY | O_CLOEXEC));
          ASSERT_EQ(::setns(inside.get(), CLONE_NEWPID), 0);
          Baton started;
          const Program entered([&] {
            if (::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) > 0) started.pass();
            (void)::pause();
          });
          started.take();
          stay(static_cast<std::uint64_t>(entered.pid()));
        }) {}
  // In the order of their start.
  [[nodiscard]] std::array<pid_t, 2> pids() const {
    const std::string number = std::to_string(outside_.pid());
    std::ifstream children("/proc/" + number + "/task/" + number + "/children");
    std::array<pid_t, 2> found{};
    for (pid_t& pid : found) children >> pid;
    return found;
  }

 private:
  Beside outside_;
};

TEST(Accounts, SiblingsOfAProcessThatEnteredAContainerAreOneUser) {
  in_own_network(
      [] {
        const Container container;
        const Entered one(container), other(container);
        become_unprivileged_root();
        const auto [entered, sibling] = one.pids();
        const uid_t account = account_of(entered, 0);
        EXPECT_GE(account, control::kContainerAccounts);
        EXPECT_NE(account, control::kUnknownAccount);
        EXPECT_EQ(account_of(sibling, 0), account);
        EXPECT_NE(account_of(other.pids()[0], 0), account);
        EXPECT_NE(account_of(container.root(), 0), account);
      },
      Privilege::kRoot);
}

// Root made it, and may look at it without capabilities.
TEST(Accounts, AUserNamespaceOfRootIsOneUser) {
  in_own_network(
      [] {
        const auto act_as_other = [](const Beside::Stay& stay) {
          ASSERT_EQ(::setresuid(5, 5, 5), 0);
          ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 1), 0);  // as after an exec
          stay(0);
        };
        const ManyUids one(100, act_as_other, 0), other(100, act_as_other, 0);
        become_unprivileged_root();
        const uid_t account = account_of(one.pid(), ManyUids::kFirst + 4);
        EXPECT_GE(account, control::kContainerAccounts);
        EXPECT_NE(account, control::kUnknownAccount);
        EXPECT_NE(account_of(other.pid(), ManyUids::kFirst + 4), account);
      },
      Privilege::kRoot);
}

// It may have been in a container whose root took the uid of another user.
TEST(Accounts, TheUserOfAProgramThatHasEndedIsUnknown) {
  in_own_network(
      [] {
        become_unprivileged_root();
        Program ended([] {});
        const pid_t pid = ended.pid();
        EXPECT_TRUE(ended.succeeded());
        EXPECT_EQ(account_of(pid, kAlice), control::kUnknownAccount);
      },
      Privilege::kRoot);
}

}  // namespace rrdma::daemon::accounts_test
