// Transmitter: frames in, datagrams out. Neighbouring frames on one route whose packets have the same length
// become a train: one segmented send, gathered from registered memory without a copy. Other packets go alone,
// several in one call. io_uring takes batches that span several sockets.
//
//   batch := { send }        at most kBatchOctets; planned, then filled, then submitted to the kernel
//   send  := frame | frame frame ...      a train: 64 packets or 65507 bytes, only the last one shorter
//
// Planning reads lengths only. Filling computes ICRCs and gather lists. It reads memory that the program may
// have unmapped, under the fault guard; a frame that faults is dropped and the batch is planned again.
// Payload is copied first if a copy is cheaper than a gather list, and for READ responses. A program may
// write to memory that a peer reads, and the ICRC must match the bytes that are sent.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "link/udp/route_cache.h"
#include "link/udp/udp_config.h"
#include "link/udp/udp_counters.h"
#include "link/udp/uring.h"
#include "objects/frame.h"

namespace rrdma::link {

inline constexpr std::size_t kBurstFrames = 64;

class Transmitter {
 public:
  // Pools and counters must outlive the transmitter.
  Transmitter(const SendPorts& ipv4, const SendPorts& ipv6, const UdpConfig& config, UdpCounters& counters);

  // Sends in order. Returns the frames for which the socket had no room; all others are sent, or dropped and
  // counted. The result is valid until the next call. REQUIRES: at most kBurstFrames.
  [[nodiscard]] std::span<const objects::Frame* const> transmit(
      std::span<const objects::Frame* const> frames);

  [[nodiscard]] bool segments() const { return segments_; }
  [[nodiscard]] bool uses_uring() const { return uring_ != nullptr; }
  [[nodiscard]] std::uint16_t source_port(const objects::Path& path) const {
    return routes_.source_port(path);
  }
  // The errno of the last dropped frame; 0: none yet.
  [[nodiscard]] int last_error() const { return last_error_; }
  // Whether a send failed since the last call, which may have been a report of the network
  // (network_reports.h).
  [[nodiscard]] bool take_reported() { return std::exchange(reported_, false); }

 private:
  static constexpr std::size_t kTrainOctets = 65507;
  // No train starts behind a full one: it would be short. The next batch starts with a full one instead.
  static constexpr std::size_t kBatchOctets = 2 * kTrainOctets;
  static constexpr std::size_t kTrainPackets = 64;
  static constexpr std::size_t kSends = 64;
  static constexpr std::size_t kCopyOctetsMax =
      1024;  // up to here a copy costs less than a gather list (measured)
  static constexpr std::size_t kGatheredSpansMax = 3;
  static constexpr std::size_t kIovecs = kBurstFrames * (kGatheredSpansMax + 2);
  static constexpr std::size_t kScratchOctets = kBatchOctets + 8192;

  struct Queued {
    const objects::Frame* frame = nullptr;
    bool alone = false;  // was in a train that the kernel refused
  };
  struct Send {
    Route* route = nullptr;
    std::uint16_t first = 0;  // frame index
    std::uint16_t count = 0;
    std::uint32_t packet_octets = 0;  // of all but the last packet
    std::uint32_t octets = 0;
    bool closed = false;  // takes no more frames
  };
  // State while the batch is filled.
  struct Cursor {
    std::size_t scratch = 0;
    std::size_t iovecs = 0;
    std::size_t first_iovec = 0;  // of the current send
  };

  void plan();
  [[nodiscard]] bool joins(const Send& send, const Route& route, std::size_t frame, std::size_t octets) const;
  [[nodiscard]] bool leads(std::size_t frame, std::size_t octets) const;
  [[nodiscard]] bool fill();
  void fill_sends();
  void fill_packet(const Send& send, std::size_t frame, std::uint16_t identification, Cursor& cursor);
  void finish_message(std::size_t send, const Cursor& cursor);
  void add_scratch(Cursor& cursor, std::size_t octets);
  void add_trailer(Cursor& cursor, std::uint8_t pad, std::uint32_t icrc);

  void submit();
  [[nodiscard]] bool submit_by_uring();
  void submit_by_calls();
  [[nodiscard]] bool settle();
  void count_sent(const Send& send);
  void count_dropped(int error);
  void remove_frame(std::size_t frame);

  RouteCache routes_;
  std::unique_ptr<Uring> uring_;  // null: not wanted, or not allowed
  UdpCounters& counters_;
  bool segments_;
  int last_error_ = 0;
  bool reported_ = false;
  int train_error_ = 0;  // of the train whose frames are being sent one by one
  std::uint64_t batch_ = 0;
  std::size_t fill_frame_ = 0;  // the frame being read: a fault is attributed to it

  std::array<Queued, kBurstFrames> queue_{};
  std::size_t queued_ = 0;
  std::array<const objects::Frame*, kBurstFrames> unsent_{};

  std::array<Send, kSends> sends_{};
  std::size_t send_count_ = 0;
  std::array<mmsghdr, kSends> messages_{};
  std::array<int, kSends> sockets_{};
  std::array<int, kSends> outcomes_{};
  std::array<iovec, kIovecs> iovecs_{};
  struct alignas(cmsghdr) Control {
    std::array<std::uint8_t, kControlOctetsMax> octets;
  };
  std::array<Control, kSends> controls_{};
  std::unique_ptr<std::uint8_t[]> scratch_;
};

}  // namespace rrdma::link
