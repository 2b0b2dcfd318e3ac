#include "daemon/slots/parking.h"

#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/result_try.h"

namespace rrdma::daemon {
namespace {

constexpr std::uint32_t kParcelMagic = 0x52525053;  // "RRPS"
constexpr std::uint16_t kParcelVersion = 2;
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
// Replaces the first slot number in the parcel that holds the next shelf.
constexpr std::uint16_t kNextShelf = 0xffff;

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

// Sorts the descriptors of a parcel into slots; nothing if a descriptor is of the wrong kind.
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

int send_parcel(int feed, const ParcelHeader& header, const std::vector<int>& fds) {
  RRDMA_ASSERT(fds.size() <= kParcelFdsMax);
  iovec content{const_cast<ParcelHeader*>(&header), sizeof header};
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
  return raw::sendmsg(feed, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

}  // namespace

struct Parking::Message {
  ParcelHeader header;
  std::vector<OwnedFd> fds;
};

Result<Parking::Shelf, int> Parking::create_shelf() {
  int ends[2];
  if (raw::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
    return Failure{errno};
  Shelf shelf{lifted(ends[0]), lifted(ends[1])};
  (void)raw::setsockopt(shelf.feed.get(), SOL_SOCKET, SO_SNDBUF, kParkingBuffer);
  return shelf;
}

Result<Parking, int> Parking::create() {
  auto shelf = create_shelf();
  RRDMA_TRY(shelf);
  Parking parking;
  parking.shelves_.push_back(std::move(*shelf));
  return parking;
}

std::optional<Parking> Parking::adopt(OwnedFd end) {
  Parking parking;
  parking.shelves_.push_back({std::move(end), OwnedFd()});
  while (parking.parcels_ < kParcels) {
    auto parcel = parking.peek(parking.parcels_);
    if (!parcel) break;
    if (parking.parcels_ == 0) parking.shelves_[0].feed = std::move(parcel->feed);
    parking.slots_parked_ += static_cast<unsigned>(parcel->slots.size());
    ++parking.parcels_;
    if (parking.parcels_ % kParcelsOnShelf != 0) continue;
    auto next = peek_message(parking.shelves_.back(), kParcelsOnShelf);
    if (!next || next->header.first_slot != kNextShelf || next->fds.size() != 2) break;
    parking.shelves_.push_back({std::move(next->fds[0]), std::move(next->fds[1])});
  }
  if (parking.slots_parked_ == 0) return std::nullopt;
  return parking;
}

int Parking::add_shelf() {
  auto shelf = create_shelf();
  if (!shelf) return shelf.error();
  const int error = send_parcel(shelves_.back().feed.get(), {.first_slot = kNextShelf},
                                {shelf->end.get(), shelf->feed.get()});
  if (error == 0) shelves_.push_back(std::move(*shelf));
  return error;
}

int Parking::park(const Parcel& parcel) {
  RRDMA_ASSERT(parcel.first_slot == slots_parked_ && parcel.slots.size() == next_parcel_slots());
  const ParcelHeader header{.first_slot = parcel.first_slot,
                            .count = static_cast<std::uint16_t>(parcel.slots.size()),
                            .families = parcel.families};
  if (parcels_ / kParcelsOnShelf >= shelves_.size()) {
    if (const int error = add_shelf(); error != 0) return error;
  }
  std::vector<int> fds = descriptors_of(parcel);
  if (parcel.first_slot == 0) fds[0] = shelves_[0].feed.get();
  if (const int error = send_parcel(shelves_.back().feed.get(), header, fds); error != 0) return error;
  slots_parked_ += header.count;
  ++parcels_;
  return 0;
}

std::optional<Parking::Message> Parking::peek_message(const Shelf& shelf, std::size_t place) {
  // The offset belongs to the shared socket, so set it before every peek.
  if (raw::setsockopt(shelf.end.get(), SOL_SOCKET, SO_PEEK_OFF,
                      static_cast<int>(place * sizeof(ParcelHeader))) < 0) {
    return std::nullopt;
  }
  Message found;
  iovec content{&found.header, sizeof found.header};
  alignas(cmsghdr) char control[CMSG_SPACE(kParcelFdsMax * sizeof(int))];
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = raw::recvmsg(shelf.end.get(), &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return std::nullopt;
  found.fds = receive_descriptors(message);
  if (size != sizeof found.header || (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) return std::nullopt;
  if (found.header.magic != kParcelMagic || found.header.version != kParcelVersion) return std::nullopt;
  return found;
}

std::optional<Parcel> Parking::peek(std::size_t index) const {
  RRDMA_ASSERT(index < kParcels);
  if (index / kParcelsOnShelf >= shelves_.size()) return std::nullopt;
  auto message = peek_message(shelves_[index / kParcelsOnShelf], index % kParcelsOnShelf);
  if (!message || message->header.first_slot != first_slot_of_parcel(index) ||
      message->header.count != parcel_slots(index)) {
    return std::nullopt;
  }
  Parcel parcel;
  parcel.first_slot = message->header.first_slot;
  parcel.families = message->header.families;
  if (index == 0) {
    if (message->fds.size() < 2) return std::nullopt;
    parcel.feed = std::move(message->fds[0]);
    parcel.ledger = std::move(message->fds[1]);
    message->fds.erase(message->fds.begin(), message->fds.begin() + 2);
  }
  auto slots = sort_sockets(message->header, std::move(message->fds));
  if (!slots) return std::nullopt;
  parcel.slots = std::move(*slots);
  return parcel;
}

IpSockets Parking::sockets_of(Slot slot) const {
  RRDMA_ASSERT(slot < slots_parked_);
  const std::size_t index = parcel_of_slot(slot);
  auto parcel = peek(index);
  if (!parcel) return {};
  return std::move(parcel->slots[slot - first_slot_of_parcel(index)]);
}

}  // namespace rrdma::daemon
