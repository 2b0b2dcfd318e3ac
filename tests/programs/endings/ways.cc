#include "ways.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace endings {
namespace {

extern "C" void exit_in_handler(int) { std::exit(0); }
extern "C" void end_in_handler(int) { ::_exit(0); }

void handle_term(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(SIGTERM, &action, nullptr);
}

// A child ends as programs do, with the exit handlers that it inherited; the parent goes on.
void end_a_child() {
  const pid_t child = ::fork();
  if (child == 0) std::exit(0);
  int status = 0;
  (void)::waitpid(child, &status, 0);
}

// A child that lives on has copies of all descriptors.
void leave_a_child_behind() {
  if (::fork() == 0) {
    ::usleep(300'000);
    ::_exit(0);
  }
  (void)::raise(SIGKILL);
}

void close_library() {
  for (const char* name : {"libibverbs.so.1", "librdmacm.so.1"}) {
    if (void* library = ::dlopen(name, RTLD_NOW)) ::dlclose(library);
  }
}

}  // namespace

const std::vector<std::string>& ways() {
  static const std::vector<std::string> all = {
      "exit", "_exit",  "quick_exit", "raw_exit",     "kill",    "term", "term_polling",
      "fork", "orphan", "exec",       "pthread_exit", "dlclose", "segv", "abort"};
  return all;
}

void prepare_to_leave(std::string_view way) {
  const rlimit none{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &none);
  if (way == "term") handle_term(exit_in_handler);
  if (way == "term_polling") handle_term(end_in_handler);
}

void leave(std::string_view way) {
  if (way == "exit") std::exit(0);
  if (way == "_exit") ::_exit(0);
  if (way == "quick_exit") std::quick_exit(0);
  if (way == "raw_exit") ::syscall(SYS_exit_group, 0);
  if (way == "kill") (void)::raise(SIGKILL);
  if (way == "term" || way == "term_polling") (void)::kill(::getpid(), SIGTERM);
  if (way == "fork") end_a_child();
  if (way == "orphan") leave_a_child_behind();
  if (way == "exec") ::execl("/bin/true", "true", nullptr);
  if (way == "pthread_exit") ::pthread_exit(nullptr);
  if (way == "dlclose") close_library();
  if (way == "segv") *static_cast<volatile int*>(nullptr) = 0;
  if (way == "abort") std::abort();
}

}  // namespace endings
