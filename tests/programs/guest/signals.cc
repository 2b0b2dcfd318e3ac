// Signals: the program's handlers, masks and stacks stay in effect, and our SIGSEGV guard works beside them.
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <cstring>

#include "cases.h"
#include "talk.h"
#include "verdict.h"

namespace guest {
namespace {

volatile sig_atomic_t handled = 0;
sigjmp_buf out;

void note_and_jump(int, siginfo_t*, void*) {
  handled = handled + 1;
  siglongjmp(out, 1);
}

void install() {
  struct sigaction action {};
  action.sa_sigaction = note_and_jump;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  if (::sigaction(SIGSEGV, &action, nullptr) != 0) proof::fail_errno("sigaction");
}

void fault_of_the_program() {
  auto* page =
      static_cast<volatile char*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (sigsetjmp(out, 1) == 0) *page = 1;
}

// Access to registered but unmapped memory fails the request, whichever handler SIGSEGV has.
void expect_guarded(Talk& talk) {
  std::uint8_t* memory = proof::map_memory(4096);
  ibv_mr* region = talk.device().register_memory(memory, 4096);
  ::munmap(memory, 4096);
  const ibv_wc_status status = talk.write_from(*region, 4096);
  if (status != IBV_WC_LOC_PROT_ERR) proof::fail(std::string("not guarded: ") + ibv_wc_status_str(status));
  ibv_dereg_mr(region);
}

void handler_before() {
  install();
  Talk talk;
  talk.exchange();
  fault_of_the_program();
  expect_guarded(talk);
  fault_of_the_program();
  if (handled != 2) proof::fail("the handler was called " + std::to_string(handled) + " times");
}

void handler_after() {
  Talk talk;
  talk.exchange();
  install();
  struct sigaction now {};
  ::sigaction(SIGSEGV, nullptr, &now);
  if (now.sa_sigaction != note_and_jump) proof::fail("sigaction() tells of another handler");
  fault_of_the_program();
  expect_guarded(talk);
  fault_of_the_program();
  if (handled != 2) proof::fail("the handler was called " + std::to_string(handled) + " times");
  void* const returned = reinterpret_cast<void*>(::signal(SIGSEGV, SIG_DFL));
  if (returned != reinterpret_cast<void*>(note_and_jump)) proof::fail("signal() returns another handler");
}

int status_of(void (*body)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    body();
    ::_exit(0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) proof::fail_errno("waitpid");
  return status;
}

void expect_end(int signal, const char* what, void (*body)()) {
  const int status = status_of(body);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != signal)
    proof::fail(std::string(what) + ": status " + std::to_string(status));
}

void sent_signals_end_the_program() {
  expect_end(SIGSEGV, "kill -SEGV", [] {
    Talk talk;
    ::kill(::getpid(), SIGSEGV);
  });
  expect_end(SIGBUS, "kill -BUS", [] {
    Talk talk;
    ::kill(::getpid(), SIGBUS);
  });
}

void ignored_faults_end_the_program() {
  expect_end(SIGSEGV, "a fault while SIGSEGV is ignored", [] {
    Talk talk;
    ::signal(SIGSEGV, SIG_IGN);
    ::kill(::getpid(), SIGSEGV);
    talk.exchange();
    *static_cast<volatile char*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) = 1;
  });
}

void all_signals_blocked() {
  sigset_t all, now;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  Talk talk(true);
  talk.exchange(20);
  ::sigprocmask(SIG_SETMASK, nullptr, &now);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE, SIGIO}) {
    if (!sigismember(&now, signal)) proof::fail("a blocked signal is no longer blocked");
  }
}

char alternate[1 << 16];

void alternate_stack() {
  const stack_t stack{.ss_sp = alternate, .ss_flags = 0, .ss_size = sizeof alternate};
  ::sigaltstack(&stack, nullptr);
  install();
  Talk talk;
  talk.exchange();
  expect_guarded(talk);
  stack_t now{};
  ::sigaltstack(nullptr, &now);
  if (now.ss_sp != alternate) proof::fail("the alternate stack is another");
  fault_of_the_program();
  if (handled != 1) proof::fail("the handler was not called");
}

volatile sig_atomic_t ticks = 0;

// System calls that are constantly interrupted continue.
void interrupted_all_the_time() {
  struct sigaction action {};
  action.sa_handler = [](int) { ticks = ticks + 1; };
  ::sigaction(SIGALRM, &action, nullptr);  // without SA_RESTART
  Talk talk(true);
  const itimerval often{.it_interval = {0, 500}, .it_value = {0, 500}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  Talk another;
  another.exchange(50);
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  if (ticks == 0) proof::fail("no signal came");
  talk.exchange();
}

constexpr Case kCases[] = {
    {"handler_before", handler_before},
    {"handler_after", handler_after},
    {"sent_signals_end_the_program", sent_signals_end_the_program},
    {"ignored_faults_end_the_program", ignored_faults_end_the_program},
    {"all_signals_blocked", all_signals_blocked},
    {"alternate_stack", alternate_stack},
    {"interrupted_all_the_time", interrupted_all_the_time},
};

}  // namespace

std::span<const Case> signal_cases() { return kCases; }

}  // namespace guest
