#include "lifetime.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace gpu {
namespace {

constexpr std::uint32_t kWritten = 100000;
// Smaller allocations share a page of the device with others, and packets carry what peers do there.
constexpr std::size_t kShared = 1 << 20, kOwn = 4 << 20;

// Direct access ends when the other process has noticed.
void expect_remote_error(Connection& connection, const Memory& memory, const ibv_mr* mr, Key theirs) {
  auto status = IBV_WC_SUCCESS;
  for (const double until = seconds_now() + 2; status == IBV_WC_SUCCESS && seconds_now() < until;) {
    connection.post(IBV_WR_RDMA_WRITE, {element(memory, mr, 0, kWritten)}, theirs);
    status = connection.next().status;
  }
  require(is_remote_error(status), std::string("a remote error, not: ") + ibv_wc_status_str(status));
}

void expect_local_error(Connection& connection, const Memory& memory, const ibv_mr* mr, Key theirs) {
  connection.post(IBV_WR_RDMA_WRITE, {element(memory, mr, 0, kWritten)}, theirs);
  const auto status = connection.next().status;
  require(status == IBV_WC_LOC_PROT_ERR,
          std::string("a local protection error, not: ") + ibv_wc_status_str(status));
}

void write_once(Connection& connection, const Memory& memory, const ibv_mr* mr, Key theirs) {
  connection.post(IBV_WR_RDMA_WRITE, {element(memory, mr, 0, kWritten)}, theirs);
  connection.done();
}

void check_released(const Cuda& cuda, const Device& device, const Companion& companion, Where where,
                    std::size_t octets) {
  const int side = companion.side();
  {
    Connection connection(device, companion);
    const Memory memory(cuda, where, octets);
    ibv_mr* const mr = device.add(memory);
    const Key theirs = companion.trade(Key{memory.address(), mr->rkey});
    if (side == 1) memory.release();
    companion.meet();
    if (side == 0) {
      expect_remote_error(connection, memory, mr, theirs);
      memory.release();
    }
    companion.meet();
    require(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr of released memory");
  }
  Connection connection(device, companion);
  const Memory memory(cuda, where, octets);
  ibv_mr* const mr = device.add(memory);
  const Key theirs = companion.trade(Key{memory.address(), mr->rkey});
  if (side == 0) {
    // Once before: the memory of the other process must not be opened at the address that becomes free.
    write_once(connection, memory, mr, theirs);
    memory.release();
    expect_local_error(connection, memory, mr, theirs);
  }
  companion.meet();
  require(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
  if (side == 1) memory.release();
}

// `again`: the other memory is registered, too.
void check_reused(const Cuda& cuda, const Device& device, const Companion& companion, std::size_t octets,
                  bool again) {
  Connection connection(device, companion);
  const bool target = companion.side() == 1;
  const Memory memory(cuda, Where::kDevice, octets);
  ibv_mr* const mr = device.add(memory);
  const Key theirs = companion.trade(Key{memory.address(), mr->rkey});
  if (!target) write_once(connection, memory, mr, theirs);
  companion.meet();
  const auto replace = [&] {
    memory.release();
    const Memory other(cuda, Where::kDevice, octets);
    other.write(0, pattern(5, octets));
    ibv_mr* const other_mr = again ? device.add(other) : nullptr;
    if (other.address() != memory.address()) std::printf("the address was not used again\n");
    return std::pair(other, other_mr);
  };
  const auto leave = [&](const std::pair<Memory, ibv_mr*>& other) {
    require(other.first.read(0, octets) == pattern(5, octets), "memory at a freed address is as it was");
    require(other.second == nullptr || ibv_dereg_mr(other.second) == 0, "ibv_dereg_mr");
    other.first.release();
  };
  if (target) {
    const auto other = replace();
    companion.meet();
    companion.meet();
    leave(other);
  } else {
    companion.meet();
    expect_remote_error(connection, memory, mr, theirs);
    companion.meet();
  }
  Connection back(device, companion);
  if (!target) {
    const auto other = replace();
    const Memory mine(cuda, Where::kDevice, octets);
    expect_local_error(back, memory, mr, theirs);
    leave(other);
    mine.release();
  }
  companion.meet();
  require(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr of a freed address");
}

}  // namespace

void check_released(const Cuda& cuda, const Device& device, const Companion& companion, Where where) {
  if (is_of_cpu(where)) return;
  for (const std::size_t octets : {kShared, kOwn}) check_released(cuda, device, companion, where, octets);
}

void check_reused(const Cuda& cuda, const Device& device, const Companion& companion) {
  for (const std::size_t octets : {kShared, kOwn}) {
    for (const bool again : {false, true}) check_reused(cuda, device, companion, octets, again);
  }
}

void check_gate(const Cuda& cuda, const std::string& gate, const Companion& companion) {
  constexpr int kMessages = 100;
  {
    const Device one;
    const Memory memory(cuda, Where::kDevice, kOwn);
    require(ibv_dereg_mr(one.add(memory)) == 0 && one.close(), "to close a device beside a kernel");
  }
  const Device device;
  const Memory memory(cuda, Where::kDevice, kOwn), host(cuda, Where::kHost, 4096);
  const Memory heap(cuda, Where::kHeap, 1 << 20);
  ibv_mr* const mr = device.add(memory);
  ibv_mr* const host_mr = device.add(host);
  ibv_mr* const heap_mr = device.add(heap);
  const Key theirs = companion.trade(Key{memory.address(), mr->rkey});
  Connection slow(device, companion), quick(device, companion);
  if (companion.side() == 1) {
    for (int i = 0; i < kMessages; ++i) quick.post_receive({element(host, host_mr, 0, 100)});
    companion.meet();
    for (int i = 0; i < kMessages; ++i) quick.done();
    companion.meet();
    require(memory.read(0, kWritten) == pattern(9, kWritten), "the bytes of a WRITE that took long");
  } else {
    memory.write(0, pattern(9, kWritten));
    companion.meet();
    write_once(slow, heap, heap_mr, theirs);  // the heap is pinned now
    slow.post(IBV_WR_RDMA_WRITE, {element(memory, mr, 0, kWritten)}, theirs);
    require(ibv_dereg_mr(heap_mr) == 0, "ibv_dereg_mr");
    for (int i = 0; i < kMessages; ++i) {
      quick.post(IBV_WR_SEND, {element(host, host_mr, 0, 100)});
      quick.done();
    }
    ibv_wc none;
    require(!slow.poll(none), "a copy that waits at the gate");
    const int fd = open(gate.c_str(), O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
    require(fd >= 0, "the gate's file");
    close(fd);
    slow.done();
    std::printf("other requests went on\n");
    companion.meet();
  }
  companion.meet();
}

}  // namespace gpu
