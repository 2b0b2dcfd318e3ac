#include "nic/process_lane.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

#include "host/clock.h"
#include "host/explain.h"
#include "host/fault_handler.h"
#include "link/capture_link.h"
#include "link/fault_link.h"
#include "wire/source_port.h"

namespace rrdma::nic {
namespace {

constexpr std::size_t kBurst = 64;
constexpr int kRoundsBeforeTimers = 64;
constexpr std::uint32_t kTrainOctets = 64 * 1024;
constexpr int kBackgroundRounds = 64;
constexpr int kCallsWhileArmed = 32;
constexpr int kLooksSpared = 8;
constexpr Duration kReplyWatch = microseconds(100);

std::uint64_t entropy() {
  std::uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

std::uint32_t allowed_links(const Settings& settings) {
  std::uint32_t shm = control::kLinkShm;
  if (!settings.packets_only()) shm |= control::kLinkTrains | (settings.direct ? control::kLinkDirect : 0);
  switch (settings.link) {
    case LinkChoice::kUdp: return control::kLinkUdp;
    case LinkChoice::kShm: return shm;
    case LinkChoice::kAuto: break;
  }
  return control::kLinkUdp | shm;
}

}  // namespace

Result<std::unique_ptr<ProcessLane>, Problem> ProcessLane::open(const Settings& settings,
                                                                const std::string& devices,
                                                                std::uint32_t interface_index) {
  control::DaemonSettings wanted;
  wanted.links = allowed_links(settings);
  wanted.devices = devices;
  auto daemon = control::DaemonClient::connect_or_start(wanted);
  if (!daemon) return Failure{daemon.error()};
  host::install_fault_handler();
  std::unique_ptr<ProcessLane> lane(new ProcessLane(settings, std::move(*daemon), interface_index));
  lane->open_shm();
  if (auto taken = lane->take_slot(); !taken) return Failure{taken.error()};
  lane->watch_udp();
  lane->decorate(devices);
  lane->background_.add_control_descriptor(lane->daemon_->event_fd());
  if (lane->monitor_.fd() >= 0) lane->background_.add_control_descriptor(lane->monitor_.fd());
  lane->background_.start(*lane);
  return lane;
}

ProcessLane::ProcessLane(const Settings& settings, std::unique_ptr<control::DaemonClient> daemon,
                         std::uint32_t interface_index)
    : settings_(settings),
      interface_index_(interface_index),
      daemon_(std::move(daemon)),
      publisher_(daemon_->page()),
      memory_(entropy()),
      engine_({.probe = this}, memory_, *this),
      relay_(*daemon_) {}

ProcessLane::~ProcessLane() {
  background_.stop();
  // The links go before the engine: what QPs and regions say on their way out is for nobody.
  live_capture_.stop(links_);
  direct_enabled_ = false;
  engine_.set_direct(nullptr);
  memory_.set_listener(nullptr);
}

Result<void, Problem> ProcessLane::take_slot() {
  auto granted = daemon_->request_slot();
  if (!granted) return Failure{granted.error()};
  slots_.push_back({granted->slot});
  attach(std::move(*granted));
  return {};
}

void ProcessLane::attach(control::GrantedSlot granted) {
  link::SlotSockets sockets{std::move(granted.v4), std::move(granted.v6)};
  if (!sockets.ipv4.valid() && !sockets.ipv6.valid()) return;
  if (udp_ != nullptr) {
    udp_->add_slot(std::move(sockets));
    return;
  }
  link::UdpConfig config;
  config.segmentation = settings_.segmentation;
  config.io_uring = settings_.io_uring;
  config.checksum = settings_.udp_checksum_zero ? link::UdpChecksum::kZero : link::UdpChecksum::kAuto;
  config.interface_index = interface_index_;
  config.receive_buffer_octets = static_cast<int>(settings_.receive_buffer_octets);
  auto opened = link::UdpLink::open({&sockets, 1}, config);
  if (!opened) {
    host::explain(
        host::Severity::kError, "rrdma",
        fmt::format("no network: {} failed: {}.", opened.error().step, strerror(opened.error().error)));
    return;
  }
  udp_ = std::move(*opened);
}

void ProcessLane::watch_udp() {
  if (udp_ == nullptr) {
    const control::NetworkState network = daemon_->network();
    if (!network.reason.empty())
      host::explain(host::Severity::kError, "rrdma", network.reason + " " + network.remedy);
    return;
  }
  for (const int fd : udp_->descriptors()) background_.add_link_descriptor(fd);
  // What may be in flight to a peer like us: half of what the socket holds, the rest is for the others.
  const auto room = static_cast<std::uint32_t>(udp_->receive_room(4096));
  engine_.set_windows(std::clamp(room / 4, 32u * 1024, 512u * 1024), std::max(room / 2, 64u * 1024));
}

void ProcessLane::open_shm() {
  if (settings_.link == LinkChoice::kUdp) return;
  auto created = link::ShmLink::create();
  if (!created) {
    host::explain(
        host::Severity::kError, "rrdma",
        fmt::format("no shared memory between processes: {}.", link::describe(created.error().problem)));
    return;
  }
  shm_ = std::move(*created);
  peers_ = std::make_unique<ShmPeers>(*shm_, *daemon_, mutex());
  background_.add_link_descriptor(shm_->fd());
  if (!direct_allowed()) return;
  if (auto enabled = shm_->enable_direct(); !enabled) return;  // then packets carry everything
  direct_enabled_ = true;
  engine_.set_direct(shm_.get());
  memory_.set_listener(this);
}

void ProcessLane::decorate(const std::string& interface) {
  interface_name_ = interface;
  if (!settings_.capture_file.empty()) {
    auto opened = link::CaptureFile::open(settings_.capture_file.c_str());
    if (opened) {
      capture_ = std::move(*opened);
    } else {
      host::explain(
          host::Severity::kError, "RRDMA_PCAP",
          fmt::format("nothing is captured: {}: {}.", settings_.capture_file, strerror(opened.error())));
    }
  }
  links_.attach(kUdpLink, decorated(udp_.get(), interface));
  links_.attach(kShmLink, decorated(shm_.get(), interface));
  links_.attach(kRelayLink, decorated(&relay_, interface));
}

// The capture stands inside the faults: it shows what was done to the packets, as the other end would see them.
link::Link* ProcessLane::decorated(link::Link* link, const std::string& interface) {
  if (link == nullptr) return nullptr;
  if (capture_ != nullptr) {
    link::CaptureConfig config;
    config.interface_name = interface;
    config.epoch_offset_ns = host::wall_offset_ns();
    decorators_.push_back(std::make_unique<link::CaptureLink>(*link, *capture_, config));
    link = decorators_.back().get();
  }
  if (settings_.fault.any()) {
    decorators_.push_back(std::make_unique<link::FaultLink>(*link, settings_.fault));
    link = decorators_.back().get();
  }
  return link;
}

Result<wire::Qpn, Problem> ProcessLane::allocate_qpn() {
  for (const Slot& slot : slots_) {
    for (int tries = 0; tries < 65536; ++tries) {
      const wire::Qpn qpn = daemon_->next_qpn(slot.number);
      if (engine_.find_qp(qpn) == nullptr) return qpn;
    }
  }
  return problem(ENOMEM, "all queue pair numbers of this process are in use; destroy some QPs first.");
}

// ---- progress ----

void ProcessLane::on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
  const wire::Qpn destination = packet.headers.bth.destination;
  if (!holds_slot_of(destination) && destination != wire::kMulticastQpn) return pass_on(packet, origin);
  engine_.handle_packet(packet, origin, now_);
}

bool ProcessLane::holds_slot_of(wire::Qpn qpn) const {
  const std::uint8_t slot = control::slot_of_qpn(qpn.value);
  return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& own) { return own.number == slot; });
}

// UDP GRO merged a packet for another process into a train of ours: the daemon knows whose it is.
void ProcessLane::pass_on(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) {
  control::FrameFields fields;
  fields.source = origin.source;
  fields.destination = origin.destination;
  fields.traffic_class = origin.traffic_class;
  fields.frame.resize(wire::kHeaderOctetsMax);
  fields.frame.resize(wire::emit_transport_headers(packet.headers, fields.frame.data()));
  fields.frame.insert(fields.frame.end(), packet.payload.begin(), packet.payload.end());
  fields.frame.resize(fields.frame.size() + packet.headers.bth.pad +
                      wire::kIcrcOctets);  // the ICRC was checked here
  daemon_->forward_frame(fields);
}

void ProcessLane::on_qp_event(transport::QueuePair& qp, transport::QpEvent event) {
  if (qp_listener_ != nullptr) qp_listener_->on_qp_event(qp, event);
}

// What peers on this host may do to our memory by themselves (DESIGN D6) follows every change.
void ProcessLane::on_qp_changed(transport::QueuePair& qp, bool destroyed) {
  publisher_.handle_qp_changed(qp, destroyed);
  if (!direct_enabled_ || qp.type != transport::QpType::kRc) return;
  shm_->retire(qp.qpn);
  if (destroyed || !qp.can_receive() || !qp.path.direct) return;
  shm_->publish(link::DirectQp{.qpn = qp.qpn,
                               .peer_qpn = qp.remote,
                               .peer = peers_->party_of(qp.path.peer),
                               .access = qp.access_flags,
                               .domain = qp.pd->handle});
}

void ProcessLane::on_region_opened(const objects::MemoryRegion& region) {
  constexpr std::uint32_t kOneSided = objects::kRemoteRead | objects::kRemoteWrite;
  if ((region.access & kOneSided) == 0 || region.null_region) return;
  shm_->publish(link::DirectKey{.rkey = {region.key},
                                .address = region.address,
                                .length = region.length,
                                .host = region.host,
                                .access = region.access,
                                .domain = region.pd->handle});
}

void ProcessLane::on_window_opened(const objects::MemoryWindow& window) {
  shm_->publish(link::DirectKey{.rkey = {window.key},
                                .address = (window.access & objects::kZeroBased) != 0 ? 0 : window.address,
                                .length = window.length,
                                .host = window.region->host + (window.address - window.region->address),
                                .access = window.access,
                                .domain = window.pd->handle,
                                .only_through = window.bound_through});
}

void ProcessLane::on_key_closed(wire::RKey key) { shm_->retire(key); }

bool ProcessLane::taken(const objects::Path& path) const {
  return shm_ == nullptr || shm_->drained(path.peer);
}

void ProcessLane::transmit(Instant now) {
  now_ = now;
  note_call();
  reply_habit_.note_post(now);
  engine_.transmit(links_, now_);
  links_.flush(now_);
  engine_.flushed(now_);
  tell_background();
  // Operations that are done at once leave nothing to poll for, and nothing wakes the background thread.
  publisher_.publish(engine_, links_.all(), now_);
}

void ProcessLane::send_held() {
  reply_habit_.give_up();
  if (engine_.wants_transmit()) transmit(host::now());
}

std::size_t ProcessLane::poll_all(link::Look look, Instant now) {
  if (udp_ != nullptr) udp_->look_next(look);
  return links_.poll_all(*this, now, kBurst);
}

// See ReplyHabit. It goes out with the next request of the program, or when a poll or the background thread finds
// that none came. That thread must be about to wake: the program may not call us again.
bool ProcessLane::waits_for_reply(bool in_background) const {
  if (!reply_habit_.expects_reply() || background_.one_core()) return false;
  return in_background || background_.standing_by() || background_deadline_ <= now_ + kReplyWatch;
}

std::size_t ProcessLane::round(Instant now, bool in_background) {
  now_ = now;
  const std::uint64_t messages_before = engine_.counters().messages_received;
  std::size_t received =
      in_background ? poll_all(link::Look::kPending, now) : links_.poll(*this, now, kBurst);
  if (now >= engine_.next_deadline()) {
    // Silence is judged when all that has arrived was heard: perhaps it was this thread that came late.
    for (int i = 0; i < kRoundsBeforeTimers; ++i) {
      const std::size_t more = poll_all(link::Look::kEverywhere, now);
      if (more == 0) break;
      received += more;
    }
    engine_.handle_timers(now);
  }
  reply_habit_.note_time(now);
  if (engine_.counters().messages_received != messages_before) reply_habit_.note_arrival(now);
  if (waits_for_reply(in_background)) return received;
  if (engine_.wants_transmit() || now >= links_.next_deadline()) {
    engine_.transmit(links_, now);
    links_.flush(now);
    engine_.flushed(now);
  }
  return received;
}

// Who calls a few times and then sleeps needs the doorbell; who goes on does not, but then the background thread
// must know that nobody will ring. Who posts all the time will poll, too: its queue has an end.
void ProcessLane::note_call() {
  background_.note_call();
  if (!shm_armed_.load(std::memory_order_relaxed) || ++calls_while_armed_ <= kCallsWhileArmed) return;
  shm_armed_ = false;
  shm_->disarm();
  background_.kick();
}

void ProcessLane::progress() {
  note_call();
  // Where nothing has come, most polls end after a look at shared memory: asking for the time costs more.
  if (shm_ != nullptr && shm_->is_quiet() && !engine_.wants_transmit() && ++looks_spared_ < kLooksSpared)
    return;
  looks_spared_ = 0;
  const Instant time = host::now();
  background_.note_look(time);
  round(time, false);
  tell_background();
  // A program that polls all the time keeps the background thread asleep: it publishes for itself.
  publisher_.publish(engine_, links_.all(), now_);
}

// The thread sleeps until the deadline that it saw last. The caller may sleep next, too: an earlier one that
// came with its post or its poll (a time-out, the pause after an RNR NAK) would be nobody's.
void ProcessLane::tell_background() {
  const Instant deadline = std::min(engine_.next_deadline(), links_.next_deadline());
  if (deadline >= background_deadline_ || background_.standing_by()) return;
  background_deadline_ = deadline;
  background_.kick();
}

void ProcessLane::rely_on_background() {
  if (background_.standing_by() || !shm_armed_) background_.kick();
}

void ProcessLane::note_arrival(int descriptor) { arrivals_.push_back(descriptor); }

bool ProcessLane::work(Instant& deadline) {
  std::lock_guard lock(mutex());
  if (udp_ != nullptr) {
    for (const int descriptor : arrivals_) udp_->note_arrival(descriptor);
  }
  arrivals_.clear();
  if (shm_ != nullptr) shm_->handle_doorbells();
  std::size_t received = 0, last = 0;
  for (int i = 0; i < kBackgroundRounds; ++i) {
    last = round(host::now(), true);
    received += last;
    if (last == 0) break;
  }
  if (shm_ != nullptr) {
    while (auto lost = shm_->poll_lost()) {
      fail_qps_of(*lost);
      peers_->forget_channel(*lost);
    }
  }
  // The descriptors tell of arrivals, not of what is there: nothing may be left behind when the thread sleeps.
  deadline = last != 0 ? now_
                       : std::min({engine_.next_deadline(), links_.next_deadline(),
                                   publisher_.publish(engine_, links_.all(), now_)});
  if (waits_for_reply(true)) deadline = std::min(deadline, reply_habit_.patience_ends());
  if (reply_habit_.replied_again() && !background_.one_core())
    deadline = std::min(deadline, now_ + kReplyWatch);
  background_deadline_ = deadline;
  return received != 0;
}

bool ProcessLane::arm() {
  if (shm_ == nullptr) return true;
  std::lock_guard lock(mutex());
  shm_armed_ = true;
  calls_while_armed_ = 0;
  return shm_->arm();
}

void ProcessLane::disarm() {
  if (shm_ == nullptr) return;
  std::lock_guard lock(mutex());
  if (!shm_armed_) return;
  shm_armed_ = false;
  shm_->disarm();
}

// Who holds the lock polls, and publishes by itself: to wait for it would only take its core away.
bool ProcessLane::tick() {
  const std::unique_lock lock(mutex(), std::try_to_lock);
  if (!lock.owns_lock()) return true;
  publisher_.publish(engine_, links_.all(), host::now());
  if (shm_ != nullptr) shm_->attend();
  return false;
}

void ProcessLane::resume() {
  if (shm_ == nullptr) return;
  std::lock_guard lock(mutex());
  shm_->attend_no_more();
}

void ProcessLane::handle_control() {
  daemon_->handle_events(*this);
  if (!monitor_.changed()) return;
  std::vector<std::shared_ptr<host::NetlinkDevice>> devices;
  {
    std::lock_guard lock(mutex());
    devices = devices_;
  }
  for (const auto& device : devices) device->refresh(host::read_interfaces());
}

void ProcessLane::follow(std::shared_ptr<host::NetlinkDevice> device) {
  std::lock_guard lock(mutex());
  std::erase_if(devices_, [](const auto& known) { return known.use_count() == 1; });  // closed by now
  devices_.push_back(std::move(device));
}

void ProcessLane::describe(std::string devices) {
  devices.resize(std::min(devices.size(), control::kNameMax));
  (void)daemon_->update_process(allowed_links(settings_), std::move(devices));
}

// ---- paths ----

Result<objects::Path, Problem> ProcessLane::resolve(const host::Device& device, const PathRequest& request) {
  const std::vector<host::GidEntry> gids = device.gids();
  if (request.local_gid_index >= gids.size() || !gids[request.local_gid_index].valid) {
    return problem(EINVAL, fmt::format("sgid_index {} names no GID of {}; `rrdma gids` lists them.",
                                       request.local_gid_index, device.identity().name));
  }
  objects::Path path;
  path.local = gids[request.local_gid_index].gid;
  path.remote = request.remote;
  path.flow_label = request.flow_label;
  path.hop_limit = request.hop_limit != 0 ? request.hop_limit : 64;
  path.traffic_class = request.traffic_class;
  path.service_level = request.service_level;
  path.local_gid_index = static_cast<std::uint8_t>(request.local_gid_index);
  if (request.remote.is_zero()) {
    return problem(EINVAL, "the destination GID is zero: RoCE needs ah_attr.is_global = 1 and grh.dgid.");
  }
  if (device.is_local_address(request.remote) && !request.datagram && shm_ != nullptr) {
    auto by_shm = try_shm(request, path);
    if (!by_shm) return Failure{by_shm.error()};
    if (*by_shm) return path;
  }
  if (udp_ == nullptr && request.datagram && device.is_local_address(request.remote)) {
    path.link = kRelayLink;
    return path;
  }
  if (udp_ == nullptr) {
    const control::NetworkState network = daemon_->network();
    return problem(ENETUNREACH, network.reason.empty() ? "this process has no network link."
                                                       : network.reason + " " + network.remedy);
  }
  path.link = kUdpLink;
  path.source_port = request.datagram ? wire::source_port_of_datagrams(request.local_qpn)
                                      : wire::source_port_of_connection(request.flow_label, request.local_qpn,
                                                                        request.remote_qpn);
  path.source_port = udp_->source_port(path);
  if (path.source_port == 0) {
    return problem(EHOSTUNREACH,
                   "no packet can be sent from that source GID to that destination GID: they are not of the "
                   "same family.");
  }
  return path;
}

// True if the peer is a process of this host that takes shm; then the path is complete.
Result<bool, Problem> ProcessLane::try_shm(const PathRequest& request, objects::Path& path) {
  const std::uint8_t slot = control::slot_of_qpn(request.remote_qpn.value);
  auto owner = daemon_->look_up_slot(slot);
  if (!owner) return Failure{owner.error()};
  if (!owner->found || !owner->same_user || (owner->links & control::kLinkShm) == 0) return false;
  const std::uint8_t own_slot = control::slot_of_qpn(request.local_qpn.value);
  auto channel = peers_->open_channel(own_slot, slot, owner->token);
  if (!channel) return Failure{channel.error()};
  background_.kick();  // it may sleep since before there was this channel: nobody would ring
  path.link = kShmLink;
  path.peer = *channel;
  path.lossless = !settings_.fault.any();
  path.direct = direct_allowed() && (owner->links & control::kLinkDirect) != 0;
  // A peer that captures wants to see packets, not trains.
  path.train_octets =
      settings_.packets_only() || (owner->links & control::kLinkTrains) == 0 ? 0 : kTrainOctets;
  path.train_accepted = kTrainOctets;
  return true;
}

void ProcessLane::fail_qps_of(std::uint32_t channel) {
  now_ = host::now();
  engine_.for_each_qp([&](transport::QueuePair& qp) {
    if (qp.path.link == kShmLink && qp.path.peer == channel) engine_.peer_gone(qp, now_);
  });
}

// ---- what the daemon says ----

void ProcessLane::handle_channel_offered(const control::ChannelOffered& offer, std::vector<OwnedFd> fds) {
  std::lock_guard lock(mutex());
  if (peers_ != nullptr) peers_->accept(offer, std::move(fds));
}

void ProcessLane::handle_peer_gone(std::uint8_t, std::uint64_t token) {
  std::lock_guard lock(mutex());
  if (peers_ == nullptr) return;
  scratch_.clear();
  round(host::now(), true);  // what it sent before it ended counts
  peers_->forget_token(token, scratch_);
  for (const std::uint32_t channel : scratch_) fail_qps_of(channel);
}

void ProcessLane::handle_frame_forwarded(const control::FrameFields& frame) {
  std::lock_guard lock(mutex());
  wire::TransportPacket packet;
  if (frame.frame.size() < wire::kIcrcOctets) return;
  const Octets octets = Octets(frame.frame).first(frame.frame.size() - wire::kIcrcOctets);
  if (wire::parse_transport(octets, packet) != wire::TransportError::kNone) return;
  if (!holds_slot_of(packet.headers.bth.destination)) return;
  std::array<std::uint8_t, 40> grh{};
  emit_relayed_grh(frame, frame.frame.size(), grh);
  now_ = host::now();
  engine_.handle_packet(packet,
                        {.source = frame.source,
                         .destination = frame.destination,
                         .grh = grh.data(),
                         .traffic_class = frame.traffic_class},
                        now_);
  transmit(now_);
}

// The port was somebody else's when this process started, and is ours now.
void ProcessLane::handle_sockets_arrived(control::GrantedSlot slot) {
  std::lock_guard lock(mutex());
  if (udp_ != nullptr) return;
  attach(std::move(slot));
  if (udp_ == nullptr) return;
  watch_udp();
  live_capture_.attach(links_, kUdpLink, decorated(udp_.get(), interface_name_));
}

// Who ordered a capture is gone with the last daemon.
void ProcessLane::handle_daemon_changed(std::span<const std::uint8_t>) {
  follow_capture_order({}, {});
  if (DaemonListener* listener = daemon_listener_.load()) listener->on_daemon_changed();
}

void ProcessLane::handle_other(control::Received& message) {
  if (const auto order = message.as<control::CaptureOrder>())
    return follow_capture_order(*order, std::move(message.fds));
  if (DaemonListener* listener = daemon_listener_.load()) listener->on_daemon_message(message);
}

// ---- captures while the program runs ----

void ProcessLane::follow_capture_order(const control::CaptureOrder& order, std::vector<OwnedFd> fds) {
  std::lock_guard lock(mutex());
  send_packets_only(order.packets_only);
  if (order.record && fds.size() == control::kCaptureFds) {
    live_capture_.start(links_, std::move(fds[0]), std::move(fds[1]), interface_name_);
  } else if (!order.record) {
    live_capture_.stop(links_);
  }
}

// A direct operation takes no PSN: either may end or begin between two frames.
void ProcessLane::send_packets_only(bool packets_only) {
  if (direct_enabled_) engine_.set_direct(packets_only ? nullptr : shm_.get());
  engine_.set_trains(!packets_only);
}

}  // namespace rrdma::nic
