// ShmLink: frames between processes of one host, through channels. It owns the channels and polls them.
// Path::peer is the number that add_channel() returned; a number is never reused for another channel.
//
// While both sides poll there are no system calls. Before a thread sleeps, it arms the link: it sets the flag
// in every ring and checks the rings once more. A writer checks the flag after it published. A full barrier
// lies between the two steps on both sides, so one of them sees the other. A writer without room is woken in
// the same way. A reader that polls without doorbells announces this, which saves the writers flag and
// barrier (docs/adr/0011).
//
// The peer may write anything at any time. An invalid record costs it the frame (counted by reason) or the
// channel (lost), and affects no other peer.
//
// Direct access (direct_table.h, direct_peer.h) uses the same channels: the link introduces its table to
// every peer and receives theirs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "link/link.h"
#include "link/shm/answer_rows.h"
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

  // Returns the number for Path::peer. `party` names the process behind it in DirectQp::peer, and is the same
  // for several channels to one process; 0: the channel's own number. REQUIRES: not called from within
  // poll().
  [[nodiscard]] Result<std::uint32_t, ShmError> add_channel(ShmChannel channel, std::uint32_t party = 0);
  // Drops frames to this number from now on. REQUIRES: not called from within poll().
  void remove_channel(std::uint32_t peer);
  // Checks with a few loads that nothing has arrived. False if there are no channels, or too many to check.
  [[nodiscard]] bool is_quiet() const;
  // Returns a channel whose peer hung up or broke the protocol, after its last valid frames were polled. Each
  // is returned once; the caller then removes it.
  [[nodiscard]] std::optional<std::uint32_t> poll_lost();
  // All answers to the frames that poll() delivered are flushed: a peer may now draw conclusions from
  // silence.
  void note_served() {
    if (!unserved_.empty()) tell_served();
  }
  // The peer has taken every frame sent to this number and has flushed its answers.
  [[nodiscard]] bool served(std::uint32_t peer) const;
  [[nodiscard]] std::size_t channel_count() const { return ports_.size(); }

  // The place for the last answer of a QP that is connected through this channel; null: none. Valid until the
  // channel is removed; after release_answer() another QP may get the place.
  [[nodiscard]] std::atomic<std::uint64_t>* claim_answer(std::uint32_t peer, wire::Qpn qpn);
  void release_answer(std::uint32_t peer, wire::Qpn qpn);
  // The last answer of a QP of the process behind this channel. Searches all channels to that process.
  [[nodiscard]] std::optional<wire::LastAnswer> last_answer(std::uint32_t peer, wire::Qpn qpn) const;
  // The process behind the channel; 0: there is no such channel.
  [[nodiscard]] std::uint32_t party_of(std::uint32_t peer) const;

  // Call before sleeping on fd(). True if there is nothing to poll and no room became free for a refused
  // frame. After false, or after the sleep, call disarm().
  [[nodiscard]] bool arm();
  void disarm();
  // Announces that rings are polled without doorbells, until attend_no_more(), which must precede arm().
  void attend();
  void attend_no_more();
  // Readable when a doorbell rang or a peer hung up. handle_doorbells() resets it.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  void handle_doorbells();

  // Lets peers access the memory that this process publishes. REQUIRES: no channels yet.
  [[nodiscard]] Result<void, ShmError> enable_direct();
  // Grants peers an access from now on. False if packets must carry it (no free row, or not enabled).
  bool publish(const DirectKey& key);
  bool publish(const DirectQp& qp);
  // Revokes an access. Returns when no peer uses it any more: call it before the memory or the QP is released
  // or changed. False if a peer exceeded kRetireWait and may still use it; it has lost its channel.
  bool retire(wire::RKey rkey);
  bool retire(wire::Qpn qpn);
  static constexpr Duration kRetireWait = seconds(2);
  // True if the peer has introduced itself and is reachable.
  [[nodiscard]] bool reaches_directly(std::uint32_t peer) const;
  [[nodiscard]] bool direct_write(const objects::Path& path, const objects::DirectTarget& target,
                                  std::span<const objects::PayloadSpan> from) override;
  [[nodiscard]] bool direct_read(const objects::Path& path, const objects::DirectTarget& target,
                                 std::span<const objects::MutableSpan> to) override;
  // Reaches memory of peers that no CPU can touch; outlives the link. REQUIRES: no channels yet.
  void set_far_copier(objects::FarCopier& copier) { far_copier_ = &copier; }
  [[nodiscard]] bool reaches_far(const objects::Path& path, const objects::DirectTarget& target) override;
  // Call it more often than kRetireWait.
  void review_copies();
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
    kDirectMapped,  // part of kDirectDone
    kDirectFar,     // the same
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
          answers(channel),
          peer(number),
          party(whose != 0 ? whose : number) {
      origin.party = party;
    }
    ShmChannel channel;
    RingWriter writer;
    RingReader reader;
    AnswerRows answers;
    std::optional<DirectPeer> direct;
    objects::PacketOrigin origin;  // of the records: the reader's route, and the party
    std::uint32_t peer;
    std::uint32_t party;
    bool attended = false;    // the peer knows that it need not ring
    bool introduced = false;  // the peer's introduction was received
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
  void deliver(const RecordView& record, Port& port, Receiver& receiver);
  void deliver_any(const RecordView& record, const Port& port, Receiver& receiver);
  [[nodiscard]] const wire::TransportPacket* parse_straight(const RecordView& record);
  static void follow_route(Port& port);
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
  bool has_barrier_;  // this process is registered for membarrier and may issue one
  std::optional<DirectTable> table_;
  objects::FarCopier* far_copier_ = nullptr;
  std::array<std::uint8_t, DirectIntroduction::kNonceOctets> nonce_{};  // peers read it in our memory
  objects::Frame frame_;
  Port* reserved_ = nullptr;                  // owner of the reserved frame; null: it will be dropped
  std::vector<std::unique_ptr<Port>> ports_;  // recently active ones first
  std::vector<Port*> slots_;                  // by the low half of the number
  std::vector<std::uint16_t> generations_;    // the high half
  std::vector<Port*> unflushed_;
  std::vector<Port*> unserved_;
  std::vector<std::uint32_t> overdue_parties_;  // kept using memory after its revocation
  std::size_t next_hot_ = 0;                    // start of the next poll among the first kHotPorts
  std::size_t next_cold_ = 0;                   // among the others
  std::size_t next_demoted_ = 0;
  bool armed_ = false;       // a thread sleeps on fd(), or is about to
  std::size_t hung_up_ = 0;  // ports that poll_lost() has not reported yet
  std::array<LinkCounter, kCountOfCounters> counters_;
  std::array<std::uint8_t, wire::kGrhOctets> grh_{};
  // The packets of parse_straight() and deliver_ack(). Headers that they do not have stay zero.
  wire::TransportPacket send_, answer_, riding_;
};

}  // namespace rrdma::link
