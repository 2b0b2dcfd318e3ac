#include "link/shm/channel.h"

#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/vfs.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/entropy.h"
#include "base/file_space.h"

namespace rrdma::link {
namespace {

constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

bool ring_size_fits(std::uint32_t octets) {
  return octets >= kRingOctetsMin && octets <= kRingOctetsMax && std::has_single_bit(octets);
}

std::uint8_t* map_channel(int fd, std::size_t octets) {
  void* base = ::mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return base == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(base);
}

// A hugetlb file can be sealed as well, but may lose its pages. Only tmpfs restores them on access.
bool is_plain_memory(int fd) {
  struct statfs about;
  return ::syscall(SYS_fstatfs, fd, &about) == 0 && about.f_type == TMPFS_MAGIC;
}

bool is_doorbell(int fd) {
  int type = 0;
  int domain = 0;
  socklen_t size = sizeof type;
  if (raw::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return false;
  size = sizeof domain;
  if (raw::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return false;
  return type == SOCK_SEQPACKET && domain == AF_UNIX;
}

}  // namespace

std::string_view describe(ShmProblem problem) {
  switch (problem) {
    case ShmProblem::kNone: return "ok";
    case ShmProblem::kRingSize: return "ring size out of bounds";
    case ShmProblem::kMemory: return "shared memory could not be made";
    case ShmProblem::kDoorbell: return "doorbell socket could not be made or is none";
    case ShmProblem::kNotSealed: return "shared memory is not sealed";
    case ShmProblem::kNotMemory: return "descriptor is no plain shared memory";
    case ShmProblem::kLayout: return "channel layout differs";
    case ShmProblem::kNotReachable: return "the peer's memory cannot be reached directly";
  }
  return "unknown problem";
}

ShmChannel::ShmChannel(std::uint8_t* base, std::uint32_t ring_octets, unsigned direction, OwnedFd doorbell)
    : base_(base), ring_octets_(ring_octets), direction_(direction), doorbell_(std::move(doorbell)) {
  doorbell_.close_at_fork();  // its hang-up tells the peer that we are gone
}

ShmChannel::ShmChannel(ShmChannel&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      ring_octets_(other.ring_octets_),
      direction_(other.direction_),
      nonce_{other.nonce_[0], other.nonce_[1]},
      doorbell_(std::move(other.doorbell_)) {}

ShmChannel& ShmChannel::operator=(ShmChannel&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  base_ = std::exchange(other.base_, nullptr);
  ring_octets_ = other.ring_octets_;
  direction_ = other.direction_;
  nonce_[0] = other.nonce_[0];
  nonce_[1] = other.nonce_[1];
  doorbell_ = std::move(other.doorbell_);
  return *this;
}

ShmChannel::~ShmChannel() { unmap(); }

void ShmChannel::unmap() {
  if (base_ != nullptr) ::munmap(base_, channel_octets(ring_octets_));
  base_ = nullptr;
}

DirectionControl& ShmChannel::control(unsigned direction) const {
  return reinterpret_cast<DirectionControl*>(base_ + controls_offset())[direction];
}

AnswerRow* ShmChannel::answers(unsigned direction) const {
  return reinterpret_cast<AnswerRow*>(base_ + answers_offset(direction));
}

Result<ShmChannel::Pair, ShmError> ShmChannel::create(std::uint32_t ring_octets) {
  if (!ring_size_fits(ring_octets)) return Failure{ShmError{ShmProblem::kRingSize, 0}};
  OwnedFd memory = lifted(raw::memfd_create("rrdma-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::size_t octets = channel_octets(ring_octets);
  if (!memory || !set_length(memory.get(), static_cast<std::int64_t>(octets)) ||
      raw::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    return Failure{ShmError{ShmProblem::kMemory, errno}};
  }
  int ends[2];
  if (raw::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return Failure{ShmError{ShmProblem::kDoorbell, errno}};
  }
  OwnedFd own_end = lifted(ends[0]);
  OwnedFd peer_end = lifted(ends[1]);
  if (!own_end || !peer_end) return Failure{ShmError{ShmProblem::kDoorbell, errno}};
  std::uint8_t* base = map_channel(memory.get(), octets);
  if (base == nullptr) return Failure{ShmError{ShmProblem::kMemory, errno}};

  ShmChannel channel(base, ring_octets, 0, std::move(own_end));
  fill_with_system_entropy({reinterpret_cast<std::uint8_t*>(channel.nonce_), sizeof channel.nonce_});
  ChannelHeader header{};
  header.magic = kChannelMagic;
  header.version = kChannelVersion;
  header.ring_octets = ring_octets;
  header.nonce[0] = channel.nonce_[0];
  header.nonce[1] = channel.nonce_[1];
  std::memcpy(base, &header, sizeof header);
  return Pair{std::move(channel), std::move(memory), std::move(peer_end)};
}

Result<ShmChannel, ShmError> ShmChannel::open(OwnedFd memory, OwnedFd doorbell) {
  if (!is_doorbell(doorbell.get())) return Failure{ShmError{ShmProblem::kDoorbell, errno}};
  const int seals = raw::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || !is_plain_memory(memory.get())) return Failure{ShmError{ShmProblem::kNotMemory, errno}};
  if ((static_cast<unsigned>(seals) & kSeals) != kSeals) return Failure{ShmError{ShmProblem::kNotSealed, 0}};
  // It is sealed, so this size is final.
  const long octets = ::syscall(SYS_lseek, memory.get(), 0L, SEEK_END);
  if (octets < static_cast<long>(channel_octets(kRingOctetsMin)) ||
      octets > static_cast<long>(channel_octets(kRingOctetsMax))) {
    return Failure{ShmError{ShmProblem::kLayout, 0}};
  }
  std::uint8_t* base = map_channel(memory.get(), static_cast<std::size_t>(octets));
  if (base == nullptr) return Failure{ShmError{ShmProblem::kMemory, errno}};
  ChannelHeader header;
  std::memcpy(&header, base, sizeof header);
  if (header.magic != kChannelMagic || header.version != kChannelVersion ||
      !ring_size_fits(header.ring_octets) ||
      channel_octets(header.ring_octets) != static_cast<std::size_t>(octets)) {
    ::munmap(base, static_cast<std::size_t>(octets));
    return Failure{ShmError{ShmProblem::kLayout, 0}};
  }
  ShmChannel channel(base, header.ring_octets, 1, std::move(doorbell));
  channel.nonce_[0] = header.nonce[0];
  channel.nonce_[1] = header.nonce[1];
  return channel;
}

bool ShmChannel::ring_doorbell() const {
  const std::uint8_t knock = 1;
  // A full socket means that the peer has not read earlier knocks: it will wake without this one.
  return raw::sendto(doorbell_.get(), &knock, 1, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0) == 1 ||
         errno == EAGAIN || errno == ENOBUFS || errno == EINTR;
}

}  // namespace rrdma::link
