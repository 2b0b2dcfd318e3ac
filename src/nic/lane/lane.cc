#include "nic/lane/lane.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/entropy.h"
#include "base/result_try.h"
#include "wire/source_port.h"

namespace rrdma::nic {

Result<std::unique_ptr<Lane>, Problem> Lane::open(const Settings& settings, control::DaemonClient& daemon,
                                                  LaneInterface interface, objects::MemoryTable& memory,
                                                  bool counts_memory) {
  auto granted = daemon.request_slot();
  RRDMA_TRY(granted);
  std::unique_ptr<Lane> lane(
      new Lane(settings, daemon, std::move(*granted), std::move(interface), memory, counts_memory));
  if (!lane->sleeper_.valid())
    return problem(EMFILE, "the program has no descriptors left to wait with: raise its limit (ulimit -n).");
  return lane;
}

Lane::Lane(const Settings& settings, control::DaemonClient& daemon, control::GrantedSlot granted,
           LaneInterface interface, objects::MemoryTable& memory, bool counts_memory)
    : slot_(daemon, granted.slot, system_keys()),
      publisher_(daemon.page(), counts_memory ? &memory : nullptr),
      links_(settings, daemon, std::move(granted), std::move(interface)),
      peers_(links_.shm() != nullptr ? std::make_unique<ShmPeers>(*links_.shm(), daemon, mutex_) : nullptr),
      memory_(memory),
      engine_({.strict = settings.strict, .congestion = settings.congestion, .probe = &links_}, memory_,
              *this),
      paths_(settings, links_, peers_.get(), daemon),
      wakeup_(mutex_, sleeper_, has_one_core()),
      progress_({.engine = engine_,
                 .links = links_,
                 .slot = slot_,
                 .peers = peers_.get(),
                 .daemon = daemon,
                 .publisher = publisher_,
                 .direct = direct_,
                 .wakeup = wakeup_,
                 .clock = clock_}),
      thread_(wakeup_) {
  if (links_.shm() != nullptr) watch_shm(settings);
  if (links_.udp() != nullptr) watch_udp();
}

Lane::~Lane() {
  thread_.stop();
  (void)end(Duration{});
  // Ignore the events of QPs and regions that are still to be destroyed.
  engine_.set_direct(nullptr);
  memory_.remove_listener(engine_.staging());
  if (far_copier_ != nullptr) memory_.remove_listener(*far_copier_);
  if (direct_ != nullptr) memory_.remove_listener(*direct_);
  direct_.reset();
}

bool Lane::end(Duration patience) {
  if (!mutex_.lock_at_end(patience)) return false;
  const std::lock_guard held(mutex_, std::adopt_lock);
  progress_.end();
  publish_sums();
  links_.write_captures();
  return true;
}

void Lane::watch_shm(const Settings& settings) {
  sleeper_.add_link(links_.shm()->fd());
  wakeup_.set_doorbells(&links_);
  if (!settings.direct_allowed()) return;
  if (auto enabled = links_.shm()->enable_direct(); !enabled) return;
  direct_ = std::make_unique<DirectPublication>(*links_.shm(), *peers_, slot_, memory_);
  engine_.set_direct(links_.shm());
}

void Lane::set_far_copier(std::unique_ptr<objects::FarCopier> copier) {
  if (direct_ == nullptr) return;
  far_copier_ = std::move(copier);
  links_.shm()->set_far_copier(*far_copier_);
}

void Lane::publish_memory() {
  memory_.add_listener(engine_.staging());
  if (far_copier_ != nullptr) memory_.add_listener(*far_copier_);
  if (direct_ != nullptr) memory_.add_listener(*direct_);
}

void Lane::publish_own_windows_only() {
  if (direct_ != nullptr) direct_->publish_own_windows_only(memory_);
}

void Lane::watch_udp() {
  sleeper_.set_sockets(links_.udp()->descriptors());
  // The bytes in flight to an RRDMA peer. The room of our own socket is the best estimate of the peer's;
  // competing senders show up as losses. More than a megabyte in one flow exceeds the cache.
  const auto room = static_cast<std::uint32_t>(links_.udp()->receive_room(4096));
  const std::uint32_t window = std::clamp(room / 4 * 3, 32u * 1024, 1024u * 1024);
  engine_.set_windows(window, std::max({room / 2, window, 64u * 1024}));
}

Result<void, Problem> Lane::start(std::span<const int> control, std::function<void()> handle_control) {
  for (const int fd : control) sleeper_.add_control(fd);
  handle_control_ = std::move(handle_control);
  if (thread_.start(*this)) return {};
  return problem(
      EAGAIN,
      "the thread of the device could not be started: the program or its user has as many as it may "
      "have (ulimit -u, TasksMax=), or no memory for a stack.");
}

void Lane::set_feed(Feed* feed) {
  progress_.set_feed(feed);
  if (feed != nullptr) sleeper_.add_feed(feed->fd());
}

Result<objects::Path, Problem> Lane::resolve(const host::Device& device, const PathRequest& request) {
  auto path = paths_.resolve(device, request);
  // The thread may have gone to sleep before this channel existed: no doorbell would wake it.
  if (path && path->link == kShmLink) wakeup_.kick();
  return path;
}

void Lane::on_qp_event(transport::QueuePair& qp, transport::QpEvent event) {
  if (qp_listener_ != nullptr) qp_listener_->on_qp_event(qp, event);
}

void Lane::on_qp_changed(transport::QueuePair& qp, bool destroyed) {
  publisher_.handle_qp_changed(qp, destroyed);
  place_last_answer(qp, destroyed);
  failures_.handle_qp_changed(qp, destroyed);
  if (direct_ != nullptr) direct_->handle_qp_changed(qp, destroyed);
}

// The peer reads it there when this process is gone. For other links the daemon does (docs/adr/0019).
void Lane::place_last_answer(transport::QueuePair& qp, bool destroyed) {
  if (links_.shm() == nullptr || qp.path.link != kShmLink) return;
  if (destroyed || qp.state == transport::QpState::kReset)
    return links_.shm()->release_answer(qp.path.peer, qp.qpn);
  if (!qp.can_receive()) return;
  if (auto* place = links_.shm()->claim_answer(qp.path.peer, qp.qpn)) qp.last_answer = place;
}

// ---- messages of the daemon ----

void Lane::accept_channel(const control::ChannelOffered& offer, std::vector<OwnedFd> fds) {
  const std::lock_guard lock(mutex_);
  if (peers_ != nullptr) peers_->accept(offer, std::move(fds));
}

void Lane::forget_peer(const control::PeerGone& gone) {
  const std::lock_guard lock(mutex_);
  if (gone.fate != control::PeerGone::Fate::kReleased) {
    engine_.for_each_qp([&](const transport::QueuePair& qp) {
      if (qp.path.same_host && control::slot_of_qpn(qp.remote.value) == gone.slot)
        failures_.handle_peer_gone(qp, gone);
    });
  }
  progress_.forget_peer(gone.token);
}

void Lane::deliver(const control::FrameFields& frame) {
  const std::lock_guard lock(mutex_);
  progress_.deliver(frame);
}

// A peer on another host proved to be RRDMA after QPs were connected to it.
void Lane::recognise(const wire::Gid& remote, std::uint8_t features) {
  const std::lock_guard lock(mutex_);
  engine_.for_each_qp([&](transport::QueuePair& qp) {
    if (qp.path.link == kUdpLink && !qp.path.same_host && qp.path.remote == remote)
      engine_.set_peer_features(qp, features);
  });
}

void Lane::open_network(control::GrantedSlot granted) {
  const std::lock_guard lock(mutex_);
  sleeper_.set_sockets({});  // new sockets replace them, unless none are granted
  (void)links_.open_late(std::move(granted));
  if (links_.udp() != nullptr) watch_udp();
}

void Lane::follow_capture_order(const control::CaptureOrder& order, std::vector<OwnedFd> fds) {
  std::unique_ptr<CaptureStream> ended;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  captured_ = order.packets_only;
  choose_packets();
  if (order.record && fds.size() == control::kCaptureFds) {
    links_.start_capture(std::move(fds[0]), order.snap_octets);
  } else if (!order.record) {
    ended = links_.stop_capture();
  }
}

void Lane::set_faults(const std::vector<link::FaultScope>& scopes, bool packets_only) {
  const std::lock_guard lock(mutex_);
  disturbed_ = packets_only || !scopes.empty();
  choose_packets();
  links_.set_faults(scopes);
}

bool Lane::note_in_captures(std::string_view text) {
  const std::lock_guard lock(mutex_);
  return links_.note_in_captures(host::now(), text);
}

bool Lane::record_mad(const control::MadSeen& mad) {
  const std::lock_guard lock(mutex_);
  return links_.record_foreign({.source = mad.source,
                                .destination = mad.destination,
                                .source_port = wire::source_port_of_datagrams(wire::kGeneralServicesQpn),
                                .transport = mad.transport,
                                .direction = static_cast<wire::PacketDirection>(mad.direction),
                                .when = Instant{mad.when_ns}});
}

// A direct operation takes no PSN, so both settings may change between two frames.
void Lane::choose_packets() {
  const bool packets_only = captured_ || disturbed_;
  if (direct_ != nullptr) engine_.set_direct(packets_only ? nullptr : links_.shm());
  engine_.set_trains(!packets_only);
}

}  // namespace rrdma::nic
