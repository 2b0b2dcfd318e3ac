#include "endings.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace gpu {
namespace {

constexpr std::size_t kEndsOctets = 4 << 20;
constexpr std::uint32_t kLong = 500000;

// One process: memory on the device, its key, and that of the other process.
struct Ends {
  Ends(const Cuda& cuda, const Device& device, const Companion& companion)
      : memory(cuda, Where::kDevice, kEndsOctets),
        mr(device.add(memory)),
        theirs(companion.trade(Key{memory.address(), mr->rkey})) {}
  Memory memory;
  ibv_mr* mr;
  Key theirs;

  void post_write(Connection& connection, std::uint32_t octets) const {
    connection.post(IBV_WR_RDMA_WRITE, {element(memory, mr, 0, octets)}, theirs);
  }
  ibv_wc_status write(Connection& connection, std::uint32_t octets) const {
    post_write(connection, octets);
    return connection.next().status;
  }
};

// Direct access ends when the other process has noticed.
void expect_remote_error(const Ends& ends, Connection& connection, const char* what) {
  auto status = IBV_WC_SUCCESS;
  for (const double until = seconds_now() + 2; status == IBV_WC_SUCCESS && seconds_now() < until;)
    status = ends.write(connection, 1000);
  require(is_remote_error(status), std::string(what) + ": a remote error, not: " + ibv_wc_status_str(status));
}

void expect_local_error(const Ends& ends, Connection& connection, const char* what) {
  const auto status = ends.write(connection, 1000);
  require(status == IBV_WC_LOC_PROT_ERR,
          std::string(what) + ": a local protection error, not: " + ibv_wc_status_str(status));
}

void expect_success(Connection& connection, const char* what) {
  const auto status = connection.next().status;
  require(status == IBV_WC_SUCCESS, std::string(what) + ", not: " + ibv_wc_status_str(status));
}

void check_own_context(const Cuda& cuda, const Device& device, const Companion& companion, int destroyer) {
  Context primary = nullptr, own = nullptr;
  require(cuda.current(&primary) == 0 && cuda.create_context(&own, 0, 0) == 0, "cuCtxCreate");
  const Ends ends(cuda, device, companion);
  Connection connection(device, companion);
  const auto data = pattern(40, 1000);
  if (companion.side() == 0) {
    ends.memory.write(0, data);
    require(cuda.synchronize() == 0, "cuCtxSynchronize");
    require(ends.write(connection, 1000) == IBV_WC_SUCCESS, "a WRITE from memory of another context");
  }
  companion.meet();
  if (companion.side() == 1)
    require(ends.memory.read(0, 1000) == data, "the bytes of a WRITE to memory of another context");
  companion.meet();
  if (companion.side() == destroyer) require(cuda.destroy_context(own) == 0, "cuCtxDestroy");
  companion.meet();
  if (companion.side() == 0 && destroyer == 0)
    expect_local_error(ends, connection, "a destroyed context");
  else if (companion.side() == 0)
    expect_remote_error(ends, connection, "a destroyed context of the target");
  companion.meet();
  require(ibv_dereg_mr(ends.mr) == 0, "ibv_dereg_mr of memory of another context");
  if (companion.side() != destroyer) require(cuda.destroy_context(own) == 0, "cuCtxDestroy");
  require(cuda.set_current(primary) == 0, "cuCtxSetCurrent");
}

// The child of a fork. CUDA does not work there, and the objects of verbs belong to the parent.
[[noreturn]] void live_as_child(const Ends& ends, Connection& connection) {
  ibv_sge list = element(ends.memory, ends.mr, 0, 8);
  ibv_send_wr request{};
  request.sg_list = &list;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(connection.qp(), &request, &bad) == 0) _exit(2);
  std::exit(0);  // what runs at exit runs here, too
}

}  // namespace

void check_own_context(const Cuda& cuda, const Device& device, const Companion& companion) {
  for (const int destroyer : {0, 1}) check_own_context(cuda, device, companion, destroyer);
}

void check_reset(const Cuda& cuda, const Device& device, const Companion& companion) {
  const bool target = companion.side() == 1;
  const auto renew_context = [&] {
    Context primary = nullptr;
    require(cuda.retain(&primary, 0) == 0 && cuda.set_current(primary) == 0, "the context after a reset");
  };
  const auto data = pattern(60, kLong);
  const Memory heap(cuda, Where::kHeap, kLong);
  ibv_mr* const heap_mr = device.add(heap);
  heap.write(0, data);
  const auto expect_data = [&](const Ends& ends, std::size_t at, const char* what) {
    companion.meet();
    if (target) require(ends.memory.read(at, kLong) == data, what);
    companion.meet();
  };
  {
    const Ends ends(cuda, device, companion);
    Connection connection(device, companion);
    if (!target) require(ends.write(connection, 1000) == IBV_WC_SUCCESS, "a WRITE before a reset");
    companion.meet();
    if (target) require(cuda.reset(0) == 0, "cuDevicePrimaryCtxReset of the target");
    companion.meet();
    if (!target) expect_remote_error(ends, connection, "a reset of the target");
    companion.meet();
  }
  if (target) renew_context();
  const Ends ends(cuda, device, companion);
  Connection connection(device, companion);
  if (!target) {
    connection.post(IBV_WR_RDMA_WRITE, {element(heap, heap_mr, 0, kLong)}, ends.theirs);
    expect_success(connection, "a WRITE after a reset of the target");
  }
  expect_data(ends, 0, "the bytes of a WRITE after a reset of the target");
  if (!target) {
    require(cuda.reset(0) == 0, "cuDevicePrimaryCtxReset");
    expect_local_error(ends, connection, "a reset");
    renew_context();
  }
  companion.meet();
  Connection last(device, companion);
  if (!target) {
    const Memory memory(cuda, Where::kDevice, kEndsOctets);
    ibv_mr* const mr = device.add(memory);
    memory.write(0, data);
    last.post(IBV_WR_RDMA_WRITE, {element(memory, mr, 0, kLong)},
              {ends.theirs.address + 1'000'000, ends.theirs.rkey});
    expect_success(last, "a WRITE after a reset");
    last.post(IBV_WR_RDMA_WRITE, {element(heap, heap_mr, 0, kLong)},
              {ends.theirs.address + 2'000'000, ends.theirs.rkey});
    expect_success(last, "a WRITE from the heap after a reset");
    last.post(IBV_WR_ATOMIC_FETCH_AND_ADD, {element(memory, mr, kLong, 8)},
              {ends.theirs.address + 1'000'000, ends.theirs.rkey}, 0, 0);
    expect_success(last, "an atomic after a reset");
    require(memory.read(kLong, 8) == std::vector<std::uint8_t>(data.begin(), data.begin() + 8),
            "the answer to an atomic after a reset");
  }
  expect_data(ends, 1'000'000, "the bytes of a WRITE after a reset");
  expect_data(ends, 2'000'000, "the bytes of a WRITE from the heap after a reset");
}

void check_fork(const Cuda& cuda, const Companion& companion) {
  constexpr int kForks = 5;
  const Device device;
  const Ends ends(cuda, device, companion);
  Connection connection(device, companion);
  for (int i = 0; i < kForks; ++i) {
    const auto data = pattern(50 + static_cast<std::uint64_t>(i), kLong);
    const bool active = companion.side() == i % 2;
    if (active) ends.memory.write(0, data);
    companion.meet();
    pid_t child = 0;
    if (active) {
      for (int posted = 0; posted < 8; ++posted) ends.post_write(connection, kLong);
      child = fork();
      require(child >= 0, "fork");
      if (child == 0) live_as_child(ends, connection);
      for (int done = 0; done < 8; ++done) connection.done();
    }
    companion.meet();
    if (!active) require(ends.memory.read(0, kLong) == data, "the bytes of a WRITE beside a fork");
    int status = 0;
    if (active) require(waitpid(child, &status, 0) == child, "waitpid");
    require(status == 0, "exit status of a child: " + std::to_string(status));
    companion.meet();
  }
  if (companion.side() == 0) std::printf("forks did no harm\n");
  companion.meet();
}

void check_end(const Cuda& cuda, const Companion& companion, Ending ending, int ending_side, pid_t other) {
  const Device device;
  const Ends ends(cuda, device, companion);
  Connection connection(device, companion);
  const bool survives = companion.side() != ending_side;
  int posted = 0, done = 0;
  const double begin = seconds_now() + 0.3;
  bool killed = ending == Ending::kExits;
  for (;;) {
    while (posted - done < 8) {
      connection.post(posted % 2 == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
                      {element(ends.memory, ends.mr, 0, kLong)},
                      {ends.theirs.address + 1'000'000, ends.theirs.rkey});
      ++posted;
    }
    if (!survives && ending == Ending::kExits && seconds_now() > begin) std::exit(0);
    const ibv_wc completion = connection.next();
    ++done;
    if (completion.status != IBV_WC_SUCCESS) {
      require(survives && killed,
              std::string("no failure before the end: ") + ibv_wc_status_str(completion.status));
      std::printf("survived after %d requests: %s\n", done, ibv_wc_status_str(completion.status));
      return;
    }
    if (survives && !killed && seconds_now() > begin) {
      kill(other, SIGKILL);
      killed = true;
    }
  }
}

}  // namespace gpu
