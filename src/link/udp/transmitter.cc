#include "link/udp/transmitter.h"

#include <netinet/udp.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "base/guarded_copy.h"
#include "base/raw_syscall.h"
#include "wire/bth_words.h"
#include "wire/opcode.h"

namespace rrdma::link {
namespace {

using objects::Frame;

std::size_t packet_octets(const Frame& frame) {
  return std::size_t{frame.header_octets} + frame.payload_octets + frame.pad + wire::kIcrcOctets;
}

constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
constexpr int kNotTried = -1;

// The payload of a frame in the form that the ICRC computation takes. Clearing all places would cost as much
// as the ICRC of half a packet.
class Pieces {
 public:
  explicit Pieces(const Frame& frame) : count_(frame.span_count) {
    for (std::size_t i = 0; i < count_; ++i)
      std::construct_at(&pieces_[i], frame.spans[i].data, frame.spans[i].length);
  }
  [[nodiscard]] std::span<const Octets> view() const { return {pieces_.data(), count_}; }

 private:
  union {
    std::array<Octets, objects::kSgeMax + 1> pieces_;
  };
  std::size_t count_;
};

// True if the payload must be copied: the program may write to memory that a peer reads, and a corruption
// must not touch the program's memory.
bool may_change(const Frame& frame) {
  return frame.kind() == wire::Kind::kReadResponse || frame.corrupt_bit >= 0;
}

// Copies the payload with its padding. Returns the end.
std::uint8_t* copy_payload(const Frame& frame, std::uint8_t* to) {
  for (std::size_t i = 0; i < frame.span_count; ++i) {
    const auto& span = frame.spans[i];
    if (span.length != 0) std::memcpy(to, span.data, span.length);
    to += span.length;
  }
  std::memset(to, 0, frame.pad);
  return to + frame.pad;
}

void flip_bit(std::uint8_t* octets, std::size_t bit) {
  octets[bit / 8] = static_cast<std::uint8_t>(octets[bit / 8] ^ 0x80u >> bit % 8);
}

bool means_no_room(int error) { return error == EAGAIN || error == ENOBUFS || error == ENOMEM; }

}  // namespace

Transmitter::Transmitter(const SendPorts& ipv4, const SendPorts& ipv6, const UdpConfig& config,
                         UdpCounters& counters)
    : routes_(ipv4, ipv6, config.interface_index),
      counters_(counters),
      segments_(config.segmentation && config.checksum == UdpChecksum::kAuto),
      scratch_(new std::uint8_t[kScratchOctets]) {
  if (!config.io_uring) return;
  std::vector<int> sockets;
  for (const SendPorts* pool : {&ipv4, &ipv6}) {
    for (const SendPort& port : pool->ports()) {
      sockets.push_back(port.plain.get());
      if (port.segmenting) sockets.push_back(port.segmenting.get());
    }
  }
  uring_ = Uring::open(sockets);
}

std::span<const Frame* const> Transmitter::transmit(std::span<const Frame* const> frames) {
  RRDMA_ASSERT(frames.size() <= kBurstFrames);
  queued_ = 0;
  for (const Frame* frame : frames) queue_[queued_++] = {frame, false};
  train_error_ = 0;
  while (queued_ != 0) {
    plan();
    if (send_count_ == 0 || !fill()) continue;  // one frame was dropped
    submit();
    if (settle()) {
      ++counters_.waited_for_room;
      break;
    }
  }
  for (std::size_t i = 0; i < queued_; ++i) unsent_[i] = queue_[i].frame;
  return std::span(unsent_).first(queued_);
}

void Transmitter::plan() {
  ++batch_;
  send_count_ = 0;
  std::size_t batch_octets = 0;
  const Frame* last = nullptr;
  Route* route = nullptr;
  for (std::size_t i = 0; i < queued_; ++i) {
    const Frame& frame = *queue_[i].frame;
    if (last == nullptr || frame.path != last->path) {
      const RouteCache::Found found = routes_.find(*frame.path, batch_);
      if (found.verdict == RouteCache::Verdict::kInUse) return;
      if (found.verdict == RouteCache::Verdict::kNoSocket) {
        if (i != 0) return;
        ++counters_.dropped_no_socket;
        remove_frame(0);
        return;
      }
      route = found.route;
      last = &frame;
    }
    const std::size_t octets = packet_octets(frame);
    batch_octets += octets;
    if (send_count_ != 0 && joins(sends_[send_count_ - 1], *route, i, octets)) {
      Send& send = sends_[send_count_ - 1];
      ++send.count;
      send.octets += static_cast<std::uint32_t>(octets);
      send.closed = octets < send.packet_octets;
      continue;
    }
    if (i != 0 && batch_octets > kTrainOctets) return;
    sends_[send_count_++] = {.route = route,
                             .first = static_cast<std::uint16_t>(i),
                             .count = 1,
                             .packet_octets = static_cast<std::uint32_t>(octets),
                             .octets = static_cast<std::uint32_t>(octets),
                             .closed = frame.corrupt_bit >= 0};
  }
}

bool Transmitter::joins(const Send& send, const Route& route, std::size_t frame, std::size_t octets) const {
  return segments_ && send.route == &route && route.segmenting >= 0 && !send.closed &&
         !queue_[send.first].alone && !queue_[frame].alone && send.count < kTrainPackets &&
         octets <= send.packet_octets && send.octets + octets <= kTrainOctets &&
         queue_[frame].frame->corrupt_bit < 0 && !(octets < send.packet_octets && leads(frame, octets));
}

// True if the frame should begin a train rather than end one. The first packet of a WRITE is longer by its
// RETH. It goes alone rather than in a train of two, which would leave one packet less for the next train.
bool Transmitter::leads(std::size_t frame, std::size_t octets) const {
  if (frame + 1 == queued_) return false;
  const Frame& next = *queue_[frame + 1].frame;
  return next.path == queue_[frame].frame->path && packet_octets(next) == octets;
}

bool Transmitter::fill() {
  if (guarded_call([](void* self) { static_cast<Transmitter*>(self)->fill_sends(); }, this)) return true;
  ++counters_.dropped_unreadable;
  last_error_ = EFAULT;
  remove_frame(fill_frame_);
  return false;
}

// Runs under the fault guard: it owns no resources, and partial results are rebuilt.
void Transmitter::fill_sends() {
  Cursor cursor;
  for (std::size_t s = 0; s < send_count_; ++s) {
    const Send& send = sends_[s];
    cursor.first_iovec = cursor.iovecs;
    for (std::size_t i = 0; i < send.count; ++i) {
      fill_frame_ = send.first + i;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      fill_packet(send, send.first + i, static_cast<std::uint16_t>(i), cursor);
    }
    finish_message(s, cursor);
  }
}

void Transmitter::fill_packet(const Send& send, std::size_t index, std::uint16_t identification,
                              Cursor& cursor) {
  const Frame& frame = *queue_[index].frame;
  const wire::IcrcSeed& seed = *send.route->seed;
  std::uint8_t* const start = scratch_.get() + cursor.scratch;
  std::uint8_t* const payload = start + frame.header_octets;
  const Octets header(start, payload);
  wire::copy_headers(start, frame.header.data(), frame.header_octets);
  std::uint32_t icrc = 0;
  if (frame.payload_octets <= kCopyOctetsMax) {
    std::uint8_t* const end = copy_payload(frame, payload);
    icrc = seed.icrc(Octets(start, end), identification);
    add_scratch(cursor, header.size() + frame.payload_octets);
  } else if (may_change(frame) || frame.span_count > kGatheredSpansMax) {
    icrc = seed.icrc_copying(header, Pieces(frame).view(), frame.pad, payload, identification);
    add_scratch(cursor, header.size() + frame.payload_octets);
  } else {
    icrc = seed.icrc(header, Pieces(frame).view(), frame.pad, identification);
    add_scratch(cursor, header.size());
    for (std::size_t i = 0; i < frame.span_count; ++i) {
      iovecs_[cursor.iovecs++] = {const_cast<std::uint8_t*>(frame.spans[i].data), frame.spans[i].length};
    }
  }
  add_trailer(cursor, frame.pad, icrc);
  if (frame.corrupt_bit >= 0)
    flip_bit(start, static_cast<std::size_t>(frame.corrupt_bit) % (packet_octets(frame) * 8));
}

void Transmitter::add_trailer(Cursor& cursor, std::uint8_t pad, std::uint32_t icrc) {
  std::uint8_t* const at = scratch_.get() + cursor.scratch;
  std::memset(at, 0, pad);
  wire::store_icrc(at + pad, icrc);
  add_scratch(cursor, pad + wire::kIcrcOctets);
}

// Adds the next `octets` of the scratch area to the send, extending its last piece if possible.
void Transmitter::add_scratch(Cursor& cursor, std::size_t octets) {
  std::uint8_t* const at = scratch_.get() + cursor.scratch;
  cursor.scratch += octets;
  RRDMA_ASSERT(cursor.scratch <= kScratchOctets);
  if (cursor.iovecs > cursor.first_iovec) {
    iovec& last = iovecs_[cursor.iovecs - 1];
    if (static_cast<std::uint8_t*>(last.iov_base) + last.iov_len == at) {
      last.iov_len += octets;
      return;
    }
  }
  RRDMA_ASSERT(cursor.iovecs < kIovecs);
  iovecs_[cursor.iovecs++] = {at, octets};
}

void Transmitter::finish_message(std::size_t index, const Cursor& cursor) {
  const Send& send = sends_[index];
  Route& route = *send.route;
  msghdr& message = messages_[index].msg_hdr;
  message = {};
  message.msg_name = &route.address;
  message.msg_namelen = route.address_octets;
  message.msg_iov = iovecs_.data() + cursor.first_iovec;
  message.msg_iovlen = cursor.iovecs - cursor.first_iovec;
  message.msg_control = route.control.data();
  message.msg_controllen = route.control_octets;
  if (send.count > 1) {
    std::uint8_t* const control = controls_[index].octets.data();
    std::memcpy(control, route.control.data(), route.control_octets);
    const auto segment = static_cast<std::uint16_t>(send.packet_octets);
    message.msg_controllen =
        append_control(control, route.control_octets, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
    message.msg_control = control;
  }
}

void Transmitter::submit() {
  bool one_socket = true;
  for (std::size_t i = 0; i < send_count_; ++i) {
    const Route& route = *sends_[i].route;
    sockets_[i] = sends_[i].count > 1 ? route.segmenting : route.plain;
    one_socket = one_socket && sockets_[i] == sockets_[0];
    outcomes_[i] = kNotTried;
  }
  // On one socket plain calls are faster (docs/adr/0006).
  if (uring_ != nullptr && !one_socket && submit_by_uring()) return;
  submit_by_calls();
}

bool Transmitter::submit_by_uring() {
  ++counters_.send_calls;
  ++counters_.uring_calls;
  if (uring_->send(std::span(messages_).first(send_count_), std::span(sockets_).first(send_count_),
                   std::span(outcomes_).first(send_count_))) {
    for (std::size_t i = 0; i < send_count_; ++i)
      reported_ = reported_ || (outcomes_[i] > 0 && !means_no_room(outcomes_[i]));
    return true;
  }
  uring_.reset();
  return false;
}

// Sends runs of messages for one socket in one call. After a send without room, or a refused train, nothing
// more is attempted: order is preserved.
void Transmitter::submit_by_calls() {
  std::size_t next = 0;
  while (next < send_count_) {
    if (outcomes_[next] != kNotTried) {
      ++next;
      continue;
    }
    const int fd = sockets_[next];
    std::size_t end = next + 1;
    while (end < send_count_ && sockets_[end] == fd && outcomes_[end] == kNotTried) ++end;
    ++counters_.send_calls;
    int sent = 0;
    if (end - next == 1) {
      sent = raw::sendmsg(fd, &messages_[next].msg_hdr, kSendFlags) < 0 ? -1 : 1;
    } else {
      sent = raw::sendmmsg(fd, &messages_[next], static_cast<unsigned>(end - next), kSendFlags);
    }
    // An ICMP report about an earlier packet lets one send fail; the second try tells about this one.
    if (sent < 0 && errno != EINTR && !means_no_room(errno)) {
      reported_ = true;
      sent = raw::sendmsg(fd, &messages_[next].msg_hdr, kSendFlags) < 0 ? -1 : 1;
    }
    for (int i = 0; i < sent; ++i) outcomes_[next++] = 0;
    if (sent >= 0 || errno == EINTR) continue;
    outcomes_[next] = errno;
    if (means_no_room(errno) || sends_[next].count > 1) return;
    ++next;
  }
}

// Removes sent and dropped frames from the queue. True if the kernel had no room for one.
bool Transmitter::settle() {
  bool no_room = false;
  std::size_t kept = 0;
  for (std::size_t s = 0; s < send_count_; ++s) {
    const Send& send = sends_[s];
    const int outcome = outcomes_[s];
    if (outcome == 0) {
      count_sent(send);
      continue;
    }
    const bool refused_train = send.count > 1 && outcome != kNotTried && !means_no_room(outcome);
    if (send.count == 1 && outcome != kNotTried && !means_no_room(outcome)) {
      count_dropped(outcome);
      continue;
    }
    if (refused_train) train_error_ = outcome;
    no_room = no_room || (outcome != kNotTried && means_no_room(outcome));
    for (std::size_t i = 0; i < send.count; ++i) {
      Queued queued = queue_[send.first + i];
      queued.alone = queued.alone || refused_train;
      queue_[kept++] = queued;
    }
  }
  const std::size_t planned =
      send_count_ == 0 ? 0 : std::size_t{sends_[send_count_ - 1].first} + sends_[send_count_ - 1].count;
  std::copy(queue_.begin() + static_cast<std::ptrdiff_t>(planned),
            queue_.begin() + static_cast<std::ptrdiff_t>(queued_),
            queue_.begin() + static_cast<std::ptrdiff_t>(kept));
  queued_ = kept + queued_ - planned;
  return no_room;
}

void Transmitter::count_sent(const Send& send) {
  ++counters_.sends;
  counters_.packets_sent += send.count;
  counters_.octets_sent += send.octets;
  if (send.count > 1) {
    ++counters_.trains_sent;
  } else if (train_error_ != 0 && queue_[send.first].alone) {
    // The same packet succeeds alone, so the kernel or the device refused the segmentation.
    if (train_error_ == EIO || train_error_ == EINVAL || train_error_ == EOPNOTSUPP) {
      segments_ = false;
      ++counters_.trains_refused;
    }
    train_error_ = 0;
  }
}

void Transmitter::count_dropped(int error) {
  last_error_ = error;
  switch (error) {
    case EFAULT: ++counters_.dropped_unreadable; return;
    case EMSGSIZE: ++counters_.dropped_too_long; return;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN: ++counters_.dropped_unreachable; return;
    case EPERM:
    case EACCES: ++counters_.dropped_forbidden; return;
    case EINVAL:
    case ENODEV:
    case EADDRNOTAVAIL: ++counters_.dropped_no_source; return;
    default: ++counters_.dropped_other; return;
  }
}

void Transmitter::remove_frame(std::size_t frame) {
  RRDMA_ASSERT(frame < queued_);
  std::copy(queue_.begin() + static_cast<std::ptrdiff_t>(frame + 1),
            queue_.begin() + static_cast<std::ptrdiff_t>(queued_),
            queue_.begin() + static_cast<std::ptrdiff_t>(frame));
  --queued_;
}

}  // namespace rrdma::link
