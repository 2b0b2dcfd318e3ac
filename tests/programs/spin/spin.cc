// spin: random verbs calls from several threads, legal and illegal; each result is checked against the
// manual. It uses plain libibverbs: run it under `rrdma run`. The same seed makes the same calls in each
// thread.
//
//   spin [--seed=N] [--calls=N] [--threads=N]
#include <fcntl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "world.h"

namespace {

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t calls = 50'000;
  unsigned threads = 4;
};

bool read_option(const char* text, const char* name, std::uint64_t& value) {
  const std::size_t n = std::strlen(name);
  if (std::strncmp(text, name, n) != 0) return false;
  value = std::strtoull(text + n, nullptr, 0);
  return true;
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::uint64_t threads = options.threads;
    const bool known = read_option(argv[i], "--seed=", options.seed) ||
                       read_option(argv[i], "--calls=", options.calls) ||
                       read_option(argv[i], "--threads=", threads);
    if (!known) {
      std::fprintf(stderr, "usage: spin [--seed=N] [--calls=N] [--threads=N]\n");
      std::exit(2);
    }
    options.threads = static_cast<unsigned>(threads);
  }
  return options;
}

void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "spin: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

spin::Shared open_shared() {
  spin::Shared shared;
  ibv_device** list = ibv_get_device_list(nullptr);
  check(list != nullptr && list[0] != nullptr, "no device");
  shared.context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  check(shared.context != nullptr, "ibv_open_device");
  check(::fcntl(shared.context->async_fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
  shared.pd = ibv_alloc_pd(shared.context);
  shared.cq = ibv_create_cq(shared.context, 50'000, nullptr, nullptr, 0);
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 1000, .max_sge = 3, .srq_limit = 0};
  shared.srq = ibv_create_srq(shared.pd, &attr);
  check(shared.pd != nullptr && shared.cq != nullptr && shared.srq != nullptr, "shared objects");
  // The last IPv4 address of the table, if there is one.
  ibv_gid_entry table[128];
  const ssize_t count = ibv_query_gid_table(shared.context, table, 128, 0);
  check(count > 0, "no GID");
  for (ssize_t i = 0; i < count; ++i) {
    if (i != 0 && table[i].gid.raw[10] != 0xff) continue;
    shared.gid = table[i].gid;
    shared.gid_index = static_cast<std::uint8_t>(table[i].gid_index);
  }
  return shared;
}

void close_shared(spin::Shared& shared) {
  // Events of existing objects must be acknowledged before the objects can be destroyed.
  ibv_async_event event;
  while (ibv_get_async_event(shared.context, &event) == 0) ibv_ack_async_event(&event);
  check(ibv_destroy_srq(shared.srq) == 0, "ibv_destroy_srq");
  check(ibv_destroy_cq(shared.cq) == 0, "ibv_destroy_cq");
  check(ibv_dealloc_pd(shared.pd) == 0, "ibv_dealloc_pd");
  check(ibv_close_device(shared.context) == 0, "ibv_close_device");
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  spin::Shared shared = open_shared();
  std::vector<std::uint64_t> calls(options.threads), refusals(options.threads);
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < options.threads; ++i) {
      threads.emplace_back([&, i] {
        spin::World world(shared, options.seed, i);
        while (world.verdicts().calls() < options.calls / options.threads) world.step();
        world.clear();
        calls[i] = world.verdicts().calls();
        refusals[i] = world.verdicts().refusals();
      });
    }
  }
  close_shared(shared);
  std::uint64_t total = 0, refused = 0;
  for (unsigned i = 0; i < options.threads; ++i) total += calls[i], refused += refusals[i];
  std::printf("%llu calls in %u threads, %llu of them refused, seed %llu\n",
              static_cast<unsigned long long>(total), options.threads,
              static_cast<unsigned long long>(refused), static_cast<unsigned long long>(options.seed));
  return total >= options.calls && refused != 0 ? 0 : 1;
}
