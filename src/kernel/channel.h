// Channel: /dev/rrdma, attached to one device. It only makes system calls; rrdma_abi.h describes them.
//
// Threads: any.
#pragma once

#include <rrdma_abi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/owned_fd.h"
#include "base/problem.h"
#include "base/result.h"

namespace rrdma::kernel {

inline constexpr std::size_t kPageOctets = 4096;

// Memory of the kernel that this process maps; unmapped with the object.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::uint8_t* data, std::size_t octets);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  [[nodiscard]] std::uint8_t* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t octets_ = 0;
};

class Channel {
 public:
  // ENOENT: there is no module; ENODEV: no such device; EBUSY: another daemon serves it.
  [[nodiscard]] static Result<Channel, Problem> attach(const std::string& device);

  [[nodiscard]] const std::string& interface() const { return interface_; }

  // Blocks until there are requests. Empty: the device is gone, or the process is to end.
  [[nodiscard]] std::span<const rrdma_request> read(std::span<rrdma_request> room) const;
  // Readable while there are doorbells.
  [[nodiscard]] int fd() const { return file_.get(); }
  // The ring of doorbells.
  [[nodiscard]] const rrdma_ring_form& doorbells() const { return doorbells_; }
  // The doorbell of this QP comes by read().
  void postpone(std::uint32_t handle) const;
  void reply(const rrdma_reply& reply) const;
  // The CQ raises its event, if it is armed.
  void notify(std::uint32_t queue) const;
  void raise(std::uint32_t handle, std::uint32_t event) const;
  void deliver(const rrdma_mad& mad) const;
  // Empty if the kernel refuses, or if this process would have too few mappings left for its own memory:
  // programs decide how many there are. An errno says why.
  [[nodiscard]] Mapping map(std::uint64_t page, std::size_t octets, bool writable) const;
  // Kernel memory. False: the grant has ended.
  [[nodiscard]] bool load(std::uint64_t place, std::span<std::uint8_t> to) const;
  [[nodiscard]] bool store(std::uint64_t place, std::span<const std::uint8_t> from) const;

 private:
  Channel(OwnedFd file, std::string interface, const rrdma_ring_form& doorbells)
      : file_(std::move(file)), interface_(std::move(interface)), doorbells_(doorbells) {}

  OwnedFd file_;
  std::string interface_;
  rrdma_ring_form doorbells_;
};

}  // namespace rrdma::kernel
