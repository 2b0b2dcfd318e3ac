#include "daemon/slots/parking.h"

#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/assert.h"

namespace rrdma::daemon {
namespace {

constexpr std::uint32_t kParcelMagic = 0x52525053;  // "RRPS"
constexpr std::uint16_t kParcelVersion = 1;
constexpr std::size_t kParcelFdsMax = 2 + 2 * 64;  // the kernel's own bound is 253

struct ParcelHeader {
  std::uint32_t magic = kParcelMagic;
  std::uint16_t version = kParcelVersion;
  std::uint16_t first_slot = 0;
  std::uint16_t count = 0;
  std::uint8_t families = 0;
  std::uint8_t reserved[5] = {};
};
static_assert(sizeof(ParcelHeader) == 16);
static_assert(std::accumulate(kParcelSlots.begin(), kParcelSlots.end(), 0u) == control::kSlotCount);

constexpr int kParkingBuffer = 1 << 20;

std::vector<int> descriptors_of(const Parcel& parcel) {
  std::vector<int> fds;
  if (parcel.first_slot == 0) fds = {parcel.feed.get(), parcel.ledger.get()};
  for (const IpSockets& slot : parcel.slots) {
    if (slot.v4) fds.push_back(slot.v4.get());
  }
  for (const IpSockets& slot : parcel.slots) {
    if (slot.v6) fds.push_back(slot.v6.get());
  }
  return fds;
}

std::vector<OwnedFd> receive_descriptors(msghdr& message) {
  std::vector<OwnedFd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      fds.push_back(lifted(fd));
    }
  }
  return fds;
}

// The slots of a parcel out of its descriptors; nothing when a descriptor is not what it should be.
std::optional<std::vector<IpSockets>> sort_sockets(const ParcelHeader& header, std::vector<OwnedFd> fds) {
  std::vector<IpSockets> slots(header.count);
  auto next = fds.begin();
  for (const auto& [family_bit, family] :
       {std::pair{control::kFamilyV4, AF_INET}, {control::kFamilyV6, AF_INET6}}) {
    if ((header.families & family_bit) == 0) continue;
    for (IpSockets& slot : slots) {
      if (next == fds.end() || !is_slot_socket(next->get(), family)) return std::nullopt;
      (family == AF_INET ? slot.v4 : slot.v6) = std::move(*next++);
    }
  }
  if (next != fds.end()) return std::nullopt;
  return slots;
}

}  // namespace

Result<Parking, int> Parking::create() {
  int ends[2];
  if (raw::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
    return Failure{errno};
  Parking parking;
  parking.end_ = lifted(ends[0]);
  parking.feed_ = lifted(ends[1]);
  (void)raw::setsockopt(parking.feed_.get(), SOL_SOCKET, SO_SNDBUF, kParkingBuffer);
  return parking;
}

std::optional<Parking> Parking::adopt(OwnedFd end) {
  Parking parking;
  parking.end_ = std::move(end);
  for (std::size_t index = 0; index < kParcelSlots.size(); ++index) {
    auto parcel = parking.peek(index);
    if (!parcel) break;
    if (index == 0) parking.feed_ = std::move(parcel->feed);
    parking.slots_parked_ += static_cast<unsigned>(parcel->slots.size());
  }
  if (parking.slots_parked_ == 0) return std::nullopt;
  return parking;
}

int Parking::park(const Parcel& parcel) {
  ParcelHeader header{.first_slot = parcel.first_slot,
                      .count = static_cast<std::uint16_t>(parcel.slots.size()),
                      .families = parcel.families};
  RRDMA_ASSERT(parcel.first_slot == slots_parked_);
  std::vector<int> fds = descriptors_of(parcel);
  if (parcel.first_slot == 0) fds[0] = feed_.get();
  RRDMA_ASSERT(fds.size() <= kParcelFdsMax);

  iovec content{&header, sizeof header};
  alignas(cmsghdr) char control[CMSG_SPACE(kParcelFdsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  if (raw::sendmsg(feed_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return errno;
  slots_parked_ += header.count;
  return 0;
}

std::optional<Parcel> Parking::peek(std::size_t index) const {
  RRDMA_ASSERT(index < kParcelSlots.size());
  // The offset is a property of the shared socket: set before every look.
  if (raw::setsockopt(end_.get(), SOL_SOCKET, SO_PEEK_OFF, static_cast<int>(index * sizeof(ParcelHeader))) <
      0) {
    return std::nullopt;
  }
  ParcelHeader header;
  iovec content{&header, sizeof header};
  alignas(cmsghdr) char control[CMSG_SPACE(kParcelFdsMax * sizeof(int))];
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = raw::recvmsg(end_.get(), &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return std::nullopt;
  std::vector<OwnedFd> fds = receive_descriptors(message);
  if (size != sizeof header || (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) return std::nullopt;
  const unsigned expected_first =
      std::accumulate(kParcelSlots.begin(), kParcelSlots.begin() + static_cast<long>(index), 0u);
  if (header.magic != kParcelMagic || header.version != kParcelVersion ||
      header.first_slot != expected_first || header.count != kParcelSlots[index]) {
    return std::nullopt;
  }

  Parcel parcel;
  parcel.first_slot = header.first_slot;
  parcel.families = header.families;
  if (index == 0) {
    if (fds.size() < 2) return std::nullopt;
    parcel.feed = std::move(fds[0]);
    parcel.ledger = std::move(fds[1]);
    fds.erase(fds.begin(), fds.begin() + 2);
  }
  auto slots = sort_sockets(header, std::move(fds));
  if (!slots) return std::nullopt;
  parcel.slots = std::move(*slots);
  return parcel;
}

IpSockets Parking::sockets_of(std::uint8_t slot) const {
  RRDMA_ASSERT(slot < slots_parked_);
  std::size_t index = 0;
  unsigned first = 0;
  while (slot >= first + kParcelSlots[index]) first += kParcelSlots[index++];
  auto parcel = peek(index);
  if (!parcel) return {};
  return std::move(parcel->slots[slot - first]);
}

}  // namespace rrdma::daemon
