// ShmLink: frames between processes of one host, through channels. It owns the channels and polls them;
// Path::peer is the number that add_channel() gave, and never means another channel later.
//
// While both sides poll there is no system call. Who wants to sleep arms the link: the flag is set in
// every ring before the rings are looked at once more, and a writer looks at the flag after it published
// (a full barrier between the two on both sides), so one of them sees the other. A writer that was
// refused room is woken the same way. Who attends, which means looks without being rung for, says so, and
// spares the writers flag and barrier (docs/adr/0011).
//
// The peer may write anything at any time: what cannot be right costs it its frame (counted by reason)
// or its channel (lost), and nobody else anything.
//
// Direct access (direct_table.h, direct_peer.h) rides on the same channels: the link introduces its table
// to every peer and knows theirs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "link/link.h"
#include "link/shm/channel.h"
#include "link/shm/direct_peer.h"
#include "link/shm/direct_table.h"
#include "link/shm/ring.h"
#include "objects/direct_access.h"
#include "wire/grh.h"

namespace rrdma::link {

class ShmLink final : public Link, public objects::DirectAccess {
 public:
  static constexpr std::size_t kChannelsMax = 4096;

  [[nodiscard]] static Result<std::unique_ptr<ShmLink>, ShmError> create();
  ~ShmLink() override;

  // Returns the number for Path::peer. `party` names the process behind it in DirectQp::peer, the same for
  // several channels to one process; 0: the channel's own number. REQUIRES: not from within poll().
  [[nodiscard]] Result<std::uint32_t, ShmError> add_channel(ShmChannel channel, std::uint32_t party = 0);
  // Frames to this number are dropped from now on. REQUIRES: not from within poll().
  void remove_channel(std::uint32_t peer);
  // Nothing has come: a few loads tell. False when there is nobody to hear, or too many to look at all.
  [[nodiscard]] bool is_quiet() const;
  // A channel whose peer hung up or broke the rules, and whose last good frames were polled. Each is
  // named once; remove it then.
  [[nodiscard]] std::optional<std::uint32_t> poll_lost();
  // What poll() delivered has its answers, flushed, as far as it gets any: peers that hear nothing may draw their conclusions.
  void note_served() {
    if (!unserved_.empty()) tell_served();
  }
  // The peer has taken every frame that was sent to this number and has flushed its answers.
  [[nodiscard]] bool served(std::uint32_t peer) const;
  [[nodiscard]] std::size_t channel_count() const { return ports_.size(); }

  // Before sleeping on fd(): true if there is nothing to poll and no room came for what was refused.
  // When it says false, or when the sleep is over, disarm().
  [[nodiscard]] bool arm();
  void disarm();
  // From now on rings are looked at without a doorbell; until attend_no_more(), which must come before arm().
  void attend();
  void attend_no_more();
  // Readable when a doorbell rang or a peer hung up; handle_doorbells() makes it quiet again.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  void handle_doorbells();

  // Lets peers reach this process's memory directly, as far as it publishes. REQUIRES: no channels yet.
  [[nodiscard]] Result<void, ShmError> enable_direct();
  // What peers may do from now on. False: packets will carry it (no row free, or not enabled).
  bool publish(const DirectKey& key);
  bool publish(const DirectQp& qp);
  // What they may no longer do. Returns when nobody is at it any more: call it before the memory or the
  // QP is let go or changed. False: a peer held on for longer than kRetireWait and may still be at it; it has
  // lost its channel.
  bool retire(wire::RKey rkey);
  bool retire(wire::Qpn qpn);
  static constexpr Duration kRetireWait = seconds(2);
  // Whether the peer has introduced itself and can be reached.
  [[nodiscard]] bool reaches_directly(std::uint32_t peer) const;
  [[nodiscard]] bool direct_write(const objects::Path& path, const objects::DirectTarget& target,
                                  std::span<const objects::PayloadSpan> from) override;
  [[nodiscard]] bool direct_read(const objects::Path& path, const objects::DirectTarget& target,
                                 std::span<const objects::MutableSpan> to) override;
  [[nodiscard]] bool direct_atomic(const objects::Path& path, const objects::DirectTarget& target,
                                   objects::AtomicCall& call) override;

  objects::Frame* reserve(const objects::Path& path) override;
  void commit(objects::Frame& frame) override;
  void flush(Instant now) override;
  std::size_t poll(Receiver& receiver, Instant now, std::size_t burst_max) override;
  [[nodiscard]] std::span<const LinkCounter> counters() override { return counters_; }

 private:
  enum Count : std::size_t {
    kSent,
    kReceived,
    kNoRoom,
    kNoChannel,
    kSourceFault,
    kCorrupted,
    kBadHeaders,
    kBadPayload,
    kBadRecord,
    kHungUp,
    kDoorbellsRung,
    kDoorbellsHeard,
    kDirectDone,
    kDirectMapped,  // of these
    kDirectNotListed,
    kDirectFault,
    kDirectRefused,
    kRetireOverdue,
    kCountOfCounters,
  };
  struct Port {
    Port(ShmChannel given, std::uint32_t number, std::uint32_t whose)
        : channel(std::move(given)),
          writer(channel),
          reader(channel),
          peer(number),
          party(whose != 0 ? whose : number) {}
    ShmChannel channel;
    RingWriter writer;
    RingReader reader;
    std::optional<DirectPeer> direct;
    std::uint32_t peer;
    std::uint32_t party;
    bool attended = false;    // the peer knows that it need not ring
    bool introduced = false;  // the peer's introduction was heard
    bool shown = false;       // the peer has our table
    bool unflushed = false;   // has frames that the peer was not woken for
    bool unserved = false;    // had frames since note_served()
    bool hung_up = false;     // nothing is written any more
    bool lost_told = false;
  };

  explicit ShmLink(OwnedFd epoll);
  [[nodiscard]] Port* find(std::uint32_t peer) const;
  std::size_t poll_hot(Receiver& receiver, std::size_t burst_max);
  std::size_t poll_cold(Receiver& receiver, std::size_t burst_max, std::size_t looks);
  std::size_t poll_port(Port& port, Receiver& receiver, std::size_t burst_max);
  void deliver(const RecordView& record, const Port& port, Receiver& receiver);
  static void leave_ack_alone(objects::Frame& frame);
  bool deliver_ack(const RecordView& record, const wire::Bth& request, const objects::PacketOrigin& origin,
                   Receiver& receiver);
  void hang_up(Port& port, Count reason);
  [[nodiscard]] bool has_room(Port& port, std::size_t payload_octets);
  void wake(Port& port);
  void tell_served();
  void introduce(Port& port);
  void hear_doorbell(Port& port);
  bool account(DirectOutcome outcome);
  bool wait_for_initiators();
  void count(Count which) { ++counters_[which].value; }

  OwnedFd epoll_;
  bool has_barrier_;  // this process takes part in the kernel's barriers, and can ask for one
  std::optional<DirectTable> table_;
  std::array<std::uint8_t, DirectIntroduction::kNonceOctets> nonce_{};  // peers read it where it lies
  objects::Frame frame_;
  Port* reserved_ = nullptr;                  // whose frame is out; null: nobody's, it will be dropped
  std::vector<std::unique_ptr<Port>> ports_;  // those that had frames of late stand first
  std::vector<Port*> slots_;                  // by the low half of the number
  std::vector<std::uint16_t> generations_;    // the high half
  std::vector<Port*> unflushed_;
  std::vector<Port*> unserved_;
  std::vector<std::uint32_t> overdue_parties_;  // held on to memory that was taken back
  std::size_t next_hot_ = 0;                    // where the next poll starts among the first kHotPorts
  std::size_t next_cold_ = 0;                   // and among the others
  std::size_t next_demoted_ = 0;
  bool armed_ = false;       // somebody sleeps on fd(), or is about to
  std::size_t hung_up_ = 0;  // ports that poll_lost() has yet to name
  std::array<LinkCounter, kCountOfCounters> counters_;
  std::array<std::uint8_t, wire::kGrhOctets> grh_{};
};

}  // namespace rrdma::link
