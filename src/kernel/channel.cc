#include "kernel/channel.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace rrdma::kernel {
namespace {

constexpr const char* kPath = "/dev/rrdma";

std::atomic<std::size_t> mappings{0};

// An eighth of what the kernel allows a process stays for memory, threads and peers.
std::size_t mappings_max() {
  static const std::size_t max = [] {
    std::size_t allowed = 65530;
    std::ifstream("/proc/sys/vm/max_map_count") >> allowed;
    return allowed - allowed / 8;
  }();
  return max;
}

}  // namespace

Mapping::Mapping(std::uint8_t* data, std::size_t octets) : data_(data), octets_(octets) { ++mappings; }

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), octets_(std::exchange(other.octets_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(octets_, other.octets_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ == nullptr) return;
  ::munmap(data_, octets_);
  --mappings;
}

Result<Channel, Problem> Channel::attach(const std::string& device) {
  OwnedFd file(::open(kPath, O_RDWR | O_CLOEXEC));
  if (!file) {
    return problem(errno, std::string(kPath) + ": " + std::strerror(errno) +
                              ". Load the module (modprobe rrdma) and run this daemon as root.");
  }
  rrdma_attach attach{};
  attach.version = RRDMA_ABI_VERSION;
  if (device.size() >= sizeof attach.device)
    return problem(EINVAL, device + " is too long for a device's name.");
  std::memcpy(attach.device, device.c_str(), device.size());
  if (::ioctl(file.get(), RRDMA_IOC_ATTACH, &attach) != 0) {
    switch (errno) {
      case ENODEV:
        return problem(ENODEV, "there is no device " + device + ": rdma link add " + device +
                                   " type rrdma netdev INTERFACE");
      case EBUSY: return problem(EBUSY, "another daemon serves " + device + ".");
      case ENOTCONN:  // of a module that does not know this size of rrdma_attach
      case EINVAL: return problem(EINVAL, "the module rrdma.ko is of another version than this daemon.");
      default: return problem(errno, device + ": " + std::strerror(errno) + ".");
    }
  }
  attach.interface[sizeof attach.interface - 1] = '\0';
  return Channel(std::move(file), attach.interface, attach.doorbells);
}

std::span<const rrdma_request> Channel::read(std::span<rrdma_request> room) const {
  const ssize_t size = ::read(file_.get(), room.data(), room.size_bytes());
  return room.first(size > 0 ? static_cast<std::size_t>(size) / sizeof(rrdma_request) : 0);
}

void Channel::postpone(std::uint32_t handle) const {
  rrdma_postpone postpone{.handle = handle};
  (void)::ioctl(file_.get(), RRDMA_IOC_POSTPONE, &postpone);
}

void Channel::reply(const rrdma_reply& reply) const { (void)!::write(file_.get(), &reply, sizeof reply); }

void Channel::notify(std::uint32_t queue) const {
  rrdma_notify notify{.handle = queue};
  (void)::ioctl(file_.get(), RRDMA_IOC_NOTIFY, &notify);
}

void Channel::raise(std::uint32_t handle, std::uint32_t event) const {
  rrdma_event raised{.handle = handle, .event = event};
  (void)::ioctl(file_.get(), RRDMA_IOC_EVENT, &raised);
}

void Channel::deliver(const rrdma_mad& mad) const { (void)::ioctl(file_.get(), RRDMA_IOC_MAD, &mad); }

Mapping Channel::map(std::uint64_t page, std::size_t octets, bool writable) const {
  if (mappings >= mappings_max()) {
    errno = ENOMEM;
    return {};
  }
  void* const at = ::mmap(nullptr, octets, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                          file_.get(), static_cast<off_t>(page * kPageOctets));
  return at == MAP_FAILED ? Mapping() : Mapping(static_cast<std::uint8_t*>(at), octets);
}

bool Channel::load(std::uint64_t place, std::span<std::uint8_t> to) const {
  return ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(place)) ==
         static_cast<ssize_t>(to.size());
}

bool Channel::store(std::uint64_t place, std::span<const std::uint8_t> from) const {
  return ::pwrite(file_.get(), from.data(), from.size(), static_cast<off_t>(place)) ==
         static_cast<ssize_t>(from.size());
}

}  // namespace rrdma::kernel
