// The two ends of a test between two processes whose buffers lie on a GPU: memory of any kind, a socket to
// agree on things, and one reliable connection in plain verbs. Every failure ends the process.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda_api.h"

namespace gpu {

[[noreturn]] void fail(const std::string& why);
void require(bool true_here, const std::string& what);
[[nodiscard]] double seconds_now();
// A counter of this process as it publishes it (src/control/process_page.h), a fraction of a second late.
[[nodiscard]] std::uint64_t published_counter(const std::string& name);

// The contents of messages.
[[nodiscard]] std::vector<std::uint8_t> pattern(std::uint64_t seed, std::size_t octets);

// kHost is pinned memory, kHeap is not. kCreated is made by cuMemCreate, as NCCL does.
enum class Where { kHost, kHeap, kDevice, kCreated, kManaged, kAsync };
[[nodiscard]] inline bool is_of_cpu(Where where) { return where == Where::kHost || where == Where::kHeap; }
[[nodiscard]] Where where_of(const std::string& name);

class Memory {
 public:
  Memory(const Cuda& cuda, Where where, std::size_t octets);
  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] std::size_t octets() const { return octets_; }
  void write(std::size_t at, const std::vector<std::uint8_t>& from) const;
  [[nodiscard]] std::vector<std::uint8_t> read(std::size_t at, std::size_t octets) const;
  void release() const;

 private:
  [[nodiscard]] Address create(std::size_t octets) const;
  const Cuda& cuda_;
  Where where_;
  std::uint64_t address_ = 0;
  std::size_t octets_;
};

// A socket to the other process.
class Companion {
 public:
  Companion(int fd, int side) : fd_(fd), side_(side) {}
  [[nodiscard]] int side() const { return side_; }
  void send(const void* octets, std::size_t count) const;
  void receive(void* octets, std::size_t count) const;
  template <typename T>
  T trade(const T& ours) const {
    T theirs;
    send(&ours, sizeof ours);
    receive(&theirs, sizeof theirs);
    return theirs;
  }
  void meet() const { (void)trade('m'); }

 private:
  int fd_;
  int side_;
};

struct Key {
  std::uint64_t address;
  std::uint32_t rkey;
};

class Device {
 public:
  Device();
  [[nodiscard]] ibv_mr* add(const Memory& memory) const;
  // REQUIRES: no other objects of it.
  [[nodiscard]] bool close() const;
  [[nodiscard]] ibv_pd* pd() const { return pd_; }
  [[nodiscard]] ibv_context* context() const { return context_; }

 private:
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

class Connection {
 public:
  Connection(const Device& device, const Companion& companion);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void post(ibv_wr_opcode opcode, std::vector<ibv_sge> list, Key to = {}, unsigned flags = 0,
            std::uint64_t operand = 0, std::uint64_t swap = 0);
  void post_receive(std::vector<ibv_sge> list);
  // The next completion, within half a minute.
  [[nodiscard]] ibv_wc next();
  // The same; it must be a success.
  ibv_wc done();
  [[nodiscard]] ibv_qp* qp() const { return qp_; }
  [[nodiscard]] bool poll(ibv_wc& completion) const { return ibv_poll_cq(cq_, 1, &completion) == 1; }

 private:
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

// The target refused the request. It says so once: with injected loss, it may look as if it said nothing.
[[nodiscard]] bool is_remote_error(ibv_wc_status status);

[[nodiscard]] ibv_sge element(const Memory& memory, const ibv_mr* mr, std::size_t at, std::size_t octets);

}  // namespace gpu
