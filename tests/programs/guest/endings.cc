// Endings: however the program exits, it exits as it would without RRDMA, at once and with its own status.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "cases.h"
#include "talk.h"
#include "verdict.h"

namespace guest {
namespace {

int status_of(void (*body)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    body();
    ::_exit(1);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) proof::fail_errno("waitpid");
  return status;
}

void expect_status(const char* what, int wanted, void (*body)()) {
  const int status = status_of(body);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
    proof::fail(std::string(what) + ": status " + std::to_string(status));
}

void endings() {
  expect_status("_exit", 7, [] {
    Talk talk;
    talk.exchange();
    ::_exit(7);
  });
  expect_status("exit", 8, [] {
    Talk talk;
    talk.exchange();
    std::exit(8);
  });
  expect_status("quick_exit", 9, [] {
    Talk talk;
    talk.exchange();
    std::quick_exit(9);
  });
}

std::unique_ptr<Talk> kept;

// Runs after main, when other static objects have been destroyed already.
struct Last {
  ~Last() {
    if (kept == nullptr) return;
    kept->exchange(5);
    kept.reset();
  }
};

void verbs_in_static_destructors() {
  expect_status("static destructors", 0, [] {
    static Last last;
    kept = std::make_unique<Talk>();
    kept->exchange();
    std::exit(0);
  });
}

void verbs_in_exit_handlers() {
  expect_status("exit handlers", 0, [] {
    std::atexit([] {
      kept->exchange(5);
      kept.reset();
    });
    kept = std::make_unique<Talk>();
    kept->exchange();
    std::exit(0);
  });
}

// A program that loads libibverbs with dlopen may unload it again.
void loaded_and_let_go() {
  for (int i = 0; i < 5; ++i) {
    void* library = ::dlopen("libibverbs.so.1", RTLD_NOW);
    if (library == nullptr) proof::fail(::dlerror());
    using List = ibv_device**(int*);
    auto* list = reinterpret_cast<List*>(::dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1"));
    if (list == nullptr) proof::fail(::dlerror());
    int count = 0;
    ibv_device** devices = list(&count);
    if (count == 0) proof::fail("no device");
    ibv_free_device_list(devices);
    ::dlclose(library);
  }
  Talk talk;
  talk.exchange();
}

constexpr Case kCases[] = {
    {"endings", endings},
    {"verbs_in_static_destructors", verbs_in_static_destructors},
    {"verbs_in_exit_handlers", verbs_in_exit_handlers},
    {"loaded_and_let_go", loaded_and_let_go},
};

}  // namespace

std::span<const Case> ending_cases() { return kCases; }

}  // namespace guest
