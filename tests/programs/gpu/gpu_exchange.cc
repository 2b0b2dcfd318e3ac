// gpu_exchange: two processes move data between GPU and host memory, and check every byte.
//
//   gpu_exchange [--near=MEMORY] [--far=MEMORY] [--rounds=N]            all operations, in both directions
//   gpu_exchange --die=near|far                                         one process is killed in the middle
//   gpu_exchange --exit=near|far                                        one process exits in the middle
//   gpu_exchange --fork                                                 the processes fork in the middle
//   gpu_exchange --gate=FILE                                            copies that take long (stub_cuda.cc)
//   gpu_exchange --speed [--near=MEMORY] [--far=MEMORY]                 bandwidth and latency
//
// MEMORY is host, heap, device, created, managed or async (talk.h). The first process ("near") starts the
// second ("far").
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "endings.h"
#include "lifetime.h"
#include "talk.h"

extern char** environ;

namespace gpu {
namespace {

constexpr std::size_t kOctets = 6 << 20;
constexpr std::size_t kSpeedOctets = 64 << 20;
constexpr std::size_t kGuard = 64;
constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE;

struct Options {
  Where near = Where::kDevice, far = Where::kDevice;
  int rounds = 1;
  std::string die, exit, gate;
  bool speed = false, fork = false;
  int side = 0;
  int fd = -1;
};

// One process: its buffers of two kinds, their keys, and those of the other process.
struct End {
  End(const Cuda& cuda, const Companion& companion, Where where, std::size_t octets = kOctets)
      : memory(cuda, where, octets),
        host(cuda, Where::kHost, kOctets),
        mr(device.add(memory)),
        host_mr(device.add(host)) {
    theirs = companion.trade(Key{memory.address(), mr->rkey});
  }
  Device device;
  Memory memory, host;
  ibv_mr *mr, *host_mr;
  Key theirs;
  [[nodiscard]] Key at(std::size_t offset) const { return {theirs.address + offset, theirs.rkey}; }
};

void expect(const Memory& memory, std::size_t at, const std::vector<std::uint8_t>& want, const char* what) {
  const auto found = memory.read(at, want.size());
  const auto wrong = std::mismatch(found.begin(), found.end(), want.begin()).first - found.begin();
  if (static_cast<std::size_t>(wrong) != want.size())
    fail(std::string(what) + " of " + std::to_string(want.size()) + " bytes at " + std::to_string(at) +
         ": wrong from byte " + std::to_string(wrong));
}

void check_writes(End& end, Connection& connection, const Companion& companion, bool active,
                  std::uint64_t seed, ibv_wr_opcode opcode) {
  for (const std::size_t octets :
       {1u, 2u, 7u, 8u, 63u, 64u, 65u, 1000u, 4096u, 4097u, 65536u, 262145u, 3000001u}) {
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{4093}}) {
      ++seed;
      if (!active) {
        end.memory.write(at, pattern(1, octets + kGuard));
        if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM) connection.post_receive({});
        companion.meet();
        if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
          require(connection.done().byte_len == octets, "length of a WRITE with immediate");
        companion.meet();
        expect(end.memory, at, pattern(seed, octets), "a WRITE");
        const auto all = pattern(1, octets + kGuard);
        expect(end.memory, at + octets, {all.begin() + static_cast<std::ptrdiff_t>(octets), all.end()},
               "behind a WRITE");
        companion.meet();
        continue;
      }
      end.memory.write(at + 1, pattern(seed, octets));
      companion.meet();
      connection.post(opcode, {element(end.memory, end.mr, at + 1, octets)}, end.at(at));
      connection.done();
      companion.meet();
      companion.meet();
    }
  }
}

void check_reads(End& end, Connection& connection, const Companion& companion, bool active,
                 std::uint64_t seed) {
  for (const std::size_t octets : {1u, 8u, 9u, 1000u, 4097u, 65536u, 300000u, 2000003u}) {
    ++seed;
    if (!active) end.memory.write(3, pattern(seed, octets));
    companion.meet();
    if (active) {
      connection.post(IBV_WR_RDMA_READ, {element(end.memory, end.mr, 5, octets)}, end.at(3));
      connection.done();
      expect(end.memory, 5, pattern(seed, octets), "a READ");
    }
    companion.meet();
  }
}

// Lists that go from one kind of memory to the other and back.
void check_sends(End& end, Connection& connection, const Companion& companion, bool active,
                 std::uint64_t seed) {
  for (const std::size_t octets : {30u, 5000u, 70001u, 900000u}) {
    const std::size_t third = octets / 3;
    const auto data = pattern(++seed, octets);
    const auto part = [&](std::size_t from, std::size_t to) {
      return std::vector<std::uint8_t>(data.begin() + static_cast<std::ptrdiff_t>(from),
                                       data.begin() + static_cast<std::ptrdiff_t>(to));
    };
    if (!active) {
      const std::size_t half = octets / 2;
      connection.post_receive(
          {element(end.host, end.host_mr, 1, half), element(end.memory, end.mr, 11, octets)});
      companion.meet();
      require(connection.done().byte_len == octets, "length of a SEND");
      expect(end.host, 1, part(0, half), "the first half of a SEND");
      expect(end.memory, 11, part(half, octets), "the second half of a SEND");
      companion.meet();
      continue;
    }
    end.memory.write(100, part(0, third));
    end.host.write(7, part(third, 2 * third));
    end.memory.write(4'000'000, part(2 * third, octets));
    companion.meet();
    connection.post(IBV_WR_SEND,
                    {element(end.memory, end.mr, 100, third), element(end.host, end.host_mr, 7, third),
                     element(end.memory, end.mr, 4'000'000, octets - 2 * third)});
    connection.done();
    companion.meet();
  }
}

void check_inline(End& end, Connection& connection, const Companion& companion, bool active,
                  std::uint64_t seed) {
  const auto data = pattern(seed, 200);
  if (!active) {
    connection.post_receive({element(end.memory, end.mr, 9, 200)});
    companion.meet();
    connection.done();
    expect(end.memory, 9, data, "an inline SEND");
  } else {
    end.host.write(0, data);
    companion.meet();
    connection.post(IBV_WR_SEND, {element(end.host, end.host_mr, 0, 200)}, {}, IBV_SEND_INLINE);
    connection.done();
  }
  companion.meet();
}

std::uint64_t word_of(const Memory& memory, std::size_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, memory.read(at, 8).data(), 8);
  return word;
}

void check_atomics(End& end, Connection& connection, const Companion& companion, bool active) {
  if (!active) end.memory.write(64, std::vector<std::uint8_t>(8, 0));
  companion.meet();
  if (active) {
    const auto answer = element(end.memory, end.mr, 128, 8);
    for (std::uint64_t i = 0; i < 20; ++i) {
      connection.post(IBV_WR_ATOMIC_FETCH_AND_ADD, {answer}, end.at(64), 0, 3);
      connection.done();
      require(word_of(end.memory, 128) == 3 * i, "the answer to a FETCH AND ADD");
    }
    connection.post(IBV_WR_ATOMIC_CMP_AND_SWP, {answer}, end.at(64), 0, 60, 1000);
    connection.done();
    require(word_of(end.memory, 128) == 60, "the answer to a COMPARE AND SWAP");
  }
  companion.meet();
  if (!active) require(word_of(end.memory, 64) == 1000, "the word of the atomics");
  companion.meet();
}

// Registration: ranges inside an allocation, beyond it, and exported descriptors.
void check_registration(const Cuda& cuda, const Device& device, Where where) {
  if (is_of_cpu(where)) return;
  const Memory memory(cuda, where, 1 << 20);
  auto* const begin = reinterpret_cast<std::uint8_t*>(memory.address());
  ibv_mr* const inside = ibv_reg_mr(device.pd(), begin + 12345, 1000, kWritable);
  require(inside != nullptr && ibv_dereg_mr(inside) == 0, "a range inside an allocation");
  errno = 0;
  require(
      ibv_reg_mr(device.pd(), begin + 1000, std::size_t{1} << 40, kWritable) == nullptr && errno == EFAULT,
      "EFAULT for a range that goes beyond the memory");
  errno = 0;
  require(ibv_reg_dmabuf_mr(device.pd(), 0, 0, 0, -1, 0) == nullptr && errno == EBADF,
          "EBADF for descriptor -1");
  int fd = -1;
  if (cuda.export_range(&fd, memory.address(), memory.octets(), 1, 0) != 0) return;  // not every device can
  ibv_mr* const exported =
      ibv_reg_dmabuf_mr(device.pd(), 0, memory.octets(), memory.address(), fd, IBV_ACCESS_LOCAL_WRITE);
  require(exported != nullptr && ibv_dereg_mr(exported) == 0, "ibv_reg_dmabuf_mr");
  close(fd);
  memory.release();
}

void check_all(const Cuda& cuda, const Options& options, const Companion& companion) {
  const Where where = companion.side() == 0 ? options.near : options.far;
  End end(cuda, companion, where);
  Connection connection(end.device, companion);
  check_registration(cuda, end.device, where);
  companion.meet();
  for (int round = 0; round < 2 * options.rounds; ++round) {
    const bool active = companion.side() == round % 2;
    const std::uint64_t seed = 1000 + static_cast<std::uint64_t>(round) * 1000;
    check_writes(end, connection, companion, active, seed, IBV_WR_RDMA_WRITE);
    check_writes(end, connection, companion, active, seed + 100, IBV_WR_RDMA_WRITE_WITH_IMM);
    check_reads(end, connection, companion, active, seed + 200);
    check_sends(end, connection, companion, active, seed + 300);
    check_inline(end, connection, companion, active, seed + 400);
    check_atomics(end, connection, companion, active);
  }
  usleep(300'000);  // the counters are published
  ibv_wc none;
  (void)connection.poll(none);
  for (const char* counter : {"cuda_reads", "cuda_writes", "cuda_read_octets", "cuda_written_octets"})
    require(is_of_cpu(where) || published_counter(counter) != 0, std::string("the counter ") + counter);
  const auto copies = published_counter("shm_direct_far");
  const auto all_copies = copies + companion.trade(copies);
  if (options.near == options.far) {
    check_released(cuda, end.device, companion, where);
    if (where == Where::kDevice) check_reused(cuda, end.device, companion);
  }
  if (!is_of_cpu(options.near) && !is_of_cpu(options.far)) {
    check_own_context(cuda, end.device, companion);
    check_reset(cuda, end.device, companion);
  }
  if (companion.side() == 0)
    std::printf("every byte right, %llu copies by the initiator\n",
                static_cast<unsigned long long>(all_copies));
}

// ---- speed ----

void report_speed(const char* what, ibv_wr_opcode opcode, End& end, Connection& connection) {
  for (const std::size_t octets : {std::size_t{8}, std::size_t{4096}, std::size_t{65536},
                                   std::size_t{1} << 20, std::size_t{8} << 20, kSpeedOctets}) {
    const int window = octets <= 8 ? 1 : 4;
    const int warm = octets <= 1 << 20 ? 20 : 2;
    double begin = 0;
    int posted = 0, done = 0;
    while (done < warm + 4 || seconds_now() - begin < 0.2) {
      while (posted - done < window) {
        connection.post(opcode, {element(end.memory, end.mr, 0, octets)}, end.at(0));
        ++posted;
      }
      connection.done();
      if (++done == warm) begin = seconds_now();
    }
    for (; done < posted; ++done) connection.done();
    const double spent = seconds_now() - begin;
    const int counted = done - warm;
    std::printf("%-6s %9zu bytes: %9.2f us  %9.2f GB/s\n", what, octets, spent / counted * 1e6,
                static_cast<double>(octets) * counted / spent * 1e-9);
  }
}

void measure(const Cuda& cuda, const Options& options, const Companion& companion) {
  End end(cuda, companion, companion.side() == 0 ? options.near : options.far, kSpeedOctets);
  Connection connection(end.device, companion);
  if (companion.side() == 0) {
    report_speed("WRITE", IBV_WR_RDMA_WRITE, end, connection);
    report_speed("READ", IBV_WR_RDMA_READ, end, connection);
  }
  companion.meet();
}

std::optional<std::string> value_of(const char* argument, const char* name) {
  const std::size_t length = std::strlen(name);
  if (std::strncmp(argument, name, length) != 0) return {};
  return std::string(argument + length);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (const auto near = value_of(argv[i], "--near="))
      options.near = where_of(*near);
    else if (const auto far = value_of(argv[i], "--far="))
      options.far = where_of(*far);
    else if (const auto rounds = value_of(argv[i], "--rounds="))
      options.rounds = std::atoi(rounds->c_str());
    else if (const auto die = value_of(argv[i], "--die="))
      options.die = *die;
    else if (const auto exit = value_of(argv[i], "--exit="))
      options.exit = *exit;
    else if (const auto gate = value_of(argv[i], "--gate="))
      options.gate = *gate;
    else if (const auto fd = value_of(argv[i], "--fd="))
      options.fd = std::atoi(fd->c_str()), options.side = 1;
    else if (std::strcmp(argv[i], "--speed") == 0)
      options.speed = true;
    else if (std::strcmp(argv[i], "--fork") == 0)
      options.fork = true;
    else
      fail(std::string("unknown option: ") + argv[i]);
  }
  return options;
}

pid_t start_far(int argc, char** argv, int fd) {
  std::string last = "--fd=" + std::to_string(fd);
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(last.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  require(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) == 0,
          "posix_spawn");
  return pid;
}

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  signal(SIGPIPE, SIG_IGN);
  const Options options = parse(argc, argv);
  int ends[2] = {options.fd, -1};
  pid_t far = 0;
  if (options.side == 0) {
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    far = start_far(argc, argv, ends[1]);
    close(ends[1]);
  }
  const Companion companion(ends[0], options.side);
  // A registration before libcuda is loaded does not keep RRDMA from finding it later.
  const Device early;
  char octet = 0;
  ibv_mr* const mr = ibv_reg_mr(early.pd(), &octet, 1, 0);
  require(mr != nullptr && ibv_dereg_mr(mr) == 0 && early.close(), "a registration without libcuda");
  const Cuda* const cuda = Cuda::open();
  if (cuda == nullptr) fail("no libcuda.so.1, or no device");
  if (options.speed)
    measure(*cuda, options, companion);
  else if (!options.gate.empty())
    check_gate(*cuda, options.gate, companion);
  else if (options.fork)
    check_fork(*cuda, companion);
  else if (!options.die.empty() || !options.exit.empty())
    check_end(*cuda, companion, options.die.empty() ? Ending::kExits : Ending::kKilled,
              (options.die.empty() ? options.exit : options.die) == "near" ? 0 : 1,
              options.side == 0 ? far : getppid());
  else
    check_all(*cuda, options, companion);
  int status = 0;
  if (far != 0) require(waitpid(far, &status, 0) == far, "waitpid");
  return status == 0 || options.die == "far" ? 0 : 1;
}

}  // namespace
}  // namespace gpu

int main(int argc, char** argv) { return gpu::run(argc, argv); }
