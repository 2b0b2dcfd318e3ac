// Each case runs in its own child: the tests check how a program ends or continues.
#include "host/signals/fault_handler.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/guarded_copy.h"

namespace rrdma::host::fault_handler_test {

constexpr unsigned kSecondsAtMost = 10;

// The status of a child that runs `body` and exits with its result.
template <typename Body>
int status_of(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kSecondsAtMost);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

bool ended_by(int status, int signal) { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
bool succeeded(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

char* missing_page() {
  void* page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<char*>(page);
}
void touch(char* page) { *const_cast<volatile char*>(page) = 1; }

volatile sig_atomic_t seen = 0;
void note(int signal) { seen = signal; }
void leave(int) { ::_exit(0); }

struct sigaction plain(void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  return action;
}

TEST(FaultHandler, WhatWasSentEndsTheProgramTheFirstTime) {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    EXPECT_TRUE(ended_by(status_of([signal] {
                           install_fault_handler();
                           ::kill(::getpid(), signal);
                           return 0;
                         }),
                         signal));
  }
}

TEST(FaultHandler, AFaultEndsTheProgramAsUsual) {
  EXPECT_TRUE(ended_by(status_of([] {
                         install_fault_handler();
                         touch(missing_page());
                         return 0;
                       }),
                       SIGSEGV));
}

TEST(FaultHandler, IgnoringIsForWhatWasSentAndNotForFaults) {
  const auto ignoring = [](bool fault) {
    return status_of([fault] {
      ::signal(SIGSEGV, SIG_IGN);
      install_fault_handler();
      ::kill(::getpid(), SIGSEGV);
      if (fault) touch(missing_page());
      return 0;
    });
  };
  EXPECT_TRUE(succeeded(ignoring(false)));
  EXPECT_TRUE(ended_by(ignoring(true), SIGSEGV));
}

TEST(FaultHandler, WhatWasSentIsNoFaultOfAGuardedCopy) {
  EXPECT_TRUE(succeeded(status_of([] {
    struct sigaction action = plain(note);
    ::sigaction(SIGSEGV, &action, nullptr);
    install_fault_handler();
    const bool copied = guarded_call([](void*) { ::raise(SIGSEGV); }, nullptr);
    return copied && seen == SIGSEGV ? 0 : 1;
  })));
}

TEST(FaultHandler, AnActionSetLaterCountsAndTheGuardGoesOn) {
  EXPECT_TRUE(succeeded(status_of([] {
    install_fault_handler();
    struct sigaction action = plain(leave), old{};
    if (!keeps_action(SIGSEGV) || keeps_action(SIGINT)) return 1;
    exchange_action(SIGSEGV, &action, &old);
    if (old.sa_handler != SIG_DFL) return 2;
    exchange_action(SIGSEGV, nullptr, &old);
    if (old.sa_handler != leave) return 3;
    char octet = 0;
    if (guarded_copy(&octet, missing_page(), 1)) return 4;
    touch(missing_page());  // calls leave(), which exits
    return 5;
  })));
}

TEST(FaultHandler, AHandlerMeantForOnceIsCalledOnce) {
  EXPECT_TRUE(ended_by(status_of([] {
                         struct sigaction action = plain(note, SA_RESETHAND);
                         ::sigaction(SIGSEGV, &action, nullptr);
                         install_fault_handler();
                         ::kill(::getpid(), SIGSEGV);
                         if (seen != SIGSEGV) return 1;
                         ::kill(::getpid(), SIGSEGV);
                         return 2;
                       }),
                       SIGSEGV));
}

sigset_t inside;
void note_mask(int) { ::pthread_sigmask(SIG_SETMASK, nullptr, &inside); }

TEST(FaultHandler, TheMaskOfTheActionHoldsWhileItRuns) {
  EXPECT_TRUE(succeeded(status_of([] {
    struct sigaction action = plain(note_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    ::sigaction(SIGSEGV, &action, nullptr);
    install_fault_handler();
    ::kill(::getpid(), SIGSEGV);
    sigset_t after;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
    if (!sigismember(&inside, SIGUSR1) || !sigismember(&inside, SIGSEGV)) return 1;
    return sigismember(&after, SIGUSR1) || sigismember(&after, SIGSEGV) ? 2 : 0;
  })));
}

TEST(FaultHandler, AGuardedFaultLeavesTheMaskAsItWas) {
  EXPECT_TRUE(succeeded(status_of([] {
    install_fault_handler();
    sigset_t blocked, after;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGBUS);
    sigaddset(&blocked, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
    char octet = 0;
    for (int i = 0; i < 3; ++i) {
      if (guarded_copy(&octet, missing_page(), 1)) return 1;
    }
    ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
    return sigismember(&after, SIGBUS) && sigismember(&after, SIGUSR1) && !sigismember(&after, SIGSEGV) ? 0
                                                                                                        : 2;
  })));
}

char alternate[65536];
bool on_alternate = false;
void note_stack(int) {
  const char here = 0;
  on_alternate = &here >= alternate && &here < alternate + sizeof alternate;
}

TEST(FaultHandler, AnAlternateStackIsUsed) {
  EXPECT_TRUE(succeeded(status_of([] {
    const stack_t stack{.ss_sp = alternate, .ss_flags = 0, .ss_size = sizeof alternate};
    ::sigaltstack(&stack, nullptr);
    struct sigaction action = plain(note_stack, SA_ONSTACK);
    ::sigaction(SIGSEGV, &action, nullptr);
    install_fault_handler();
    ::kill(::getpid(), SIGSEGV);
    return on_alternate ? 0 : 1;
  })));
}

TEST(FaultHandler, AChildKeepsItsParentsActionsAndGuards) {
  EXPECT_TRUE(succeeded(status_of([] {
    install_fault_handler();
    return succeeded(status_of([] {
      char octet = 0;
      return keeps_action(SIGSEGV) && !guarded_copy(&octet, missing_page(), 1) ? 0 : 1;
    }))
               ? 0
               : 1;
  })));
}

}  // namespace rrdma::host::fault_handler_test
