#include "nic/links/lane_links.h"

#include <errno.h>

#include <cstring>
#include <utility>

#include "base/format.h"
#include "base/raw_syscall.h"
#include "host/calls/method_names.h"
#include "host/clock.h"
#include "host/explain.h"

namespace rrdma::nic {
namespace {

std::string name_of_this_process() {
  return formatted("{}, process {}", program_invocation_short_name, raw::getpid());
}

}  // namespace

LaneLinks::LaneLinks(const Settings& settings, control::DaemonClient& daemon, control::GrantedSlot granted,
                     LaneInterface interface)
    : settings_(settings), daemon_(daemon), interface_(std::move(interface)), relay_(daemon) {
  open_shm();
  open_udp(std::move(granted));
  open_capture_file();
  attach(kUdpLink, udp_.get());
  attach(kShmLink, shm_.get());
  attach(kRelayLink, &relay_);
}

LaneLinks::~LaneLinks() { stop_capture(); }

bool LaneLinks::open_late(control::GrantedSlot granted) {
  if (udp_ != nullptr) return replace_sockets(std::move(granted));
  open_udp(std::move(granted));
  if (udp_ != nullptr) attach(kUdpLink, udp_.get());
  return udp_ != nullptr;
}

// Another daemon serves the slot, and what it gave for it stands for what the last one gave.
bool LaneLinks::replace_sockets(control::GrantedSlot granted) {
  if (granted.relay) {
    udp_->replace_relay(std::move(granted.relay));
  } else if (granted.sockets.v4 || granted.sockets.v6) {
    udp_->replace_sockets(std::move(granted.sockets));
  } else {
    return false;
  }
  return true;
}

void LaneLinks::open_shm() {
  if (settings_.link == LinkChoice::kUdp) return;
  auto created = link::ShmLink::create();
  if (!created) {
    host::explain(
        host::Severity::kError, "rrdma",
        formatted("no shared memory between processes: {}.", link::describe(created.error().problem)));
    return;
  }
  shm_ = std::move(*created);
}

void LaneLinks::open_udp(control::GrantedSlot granted) {
  IpSockets sockets = std::move(granted.sockets);
  if (!sockets.v4.valid() && !sockets.v6.valid() && !granted.relay) {
    const control::NetworkState network = daemon_.network();
    if (!network.reason.empty())
      host::explain(host::Severity::kError, "rrdma", network.reason + " " + network.remedy);
    return;
  }
  link::UdpConfig config;
  config.segmentation = settings_.segmentation;
  config.io_uring = settings_.io_uring;
  config.checksum = settings_.udp_checksum_zero ? link::UdpChecksum::kZero : link::UdpChecksum::kAuto;
  config.interface_index = interface_.index;
  config.receive_buffer_octets = static_cast<int>(settings_.receive_buffer_octets);
  const bool has_v4 = (granted.families & control::kFamilyV4) != 0;
  const bool has_v6 = (granted.families & control::kFamilyV6) != 0;
  auto opened = granted.relay ? link::UdpLink::open_relayed(std::move(granted.relay), has_v4, has_v6, config)
                              : link::UdpLink::open({&sockets, 1}, config);
  if (!opened) {
    host::explain(
        host::Severity::kError, "rrdma",
        formatted("no network: {} failed: {}.", opened.error().step, strerror(opened.error().error)));
    return;
  }
  udp_ = std::move(*opened);
}

void LaneLinks::note_arrivals(std::span<const int> descriptors) {
  if (udp_ != nullptr) {
    for (const int descriptor : descriptors) udp_->note_arrival(descriptor);
  }
  if (shm_ != nullptr) shm_->handle_doorbells();
}

// Without shared memory no path is lossless, and the question does not arise.
bool LaneLinks::answered(const objects::Path& path) const {
  return shm_ == nullptr || shm_->served(path.peer);
}

// ---- captures and faults ----

void LaneLinks::open_capture_file() {
  if (settings_.capture_file.empty()) return;
  auto opened = link::CaptureFile::open(settings_.capture_file, settings_.capture_limits);
  if (opened) {
    capture_ = std::move(*opened);
  } else {
    host::explain(
        host::Severity::kError, "RRDMA_PCAP",
        formatted("nothing is captured: {}: {}.", settings_.capture_file, strerror(opened.error())));
  }
}

void LaneLinks::attach(LinkIndex index, link::Link* link) {
  if (link == nullptr) return;
  bare_[index] = link;
  if (capture_ != nullptr) {
    link::CaptureConfig config;
    config.interface_name = interface_.name;
    config.owner = name_of_this_process();
    config.snap_octets = settings_.capture_limits.snap_octets;
    config.epoch_offset_ns = host::wall_offset_ns();
    config.write_through = true;
    config.clock = &host::now;
    config.methods = &host::method_names();
    recorders_[index] = std::make_unique<link::CaptureLink>(*link, *capture_, config);
  }
  if (settings_.fault.any()) faults_[index] = std::make_unique<link::FaultLink>(*link, settings_.fault);
  put_gate(index);
}

// Assembles the decorators of a link in their present state.
void LaneLinks::connect(LinkIndex index, bool captured) {
  link::Link* link = bare_[index];
  if (link == nullptr) return;
  if (recorders_[index] != nullptr) link = recorders_[index].get();
  if (captured) link = &live_capture_.around(index, *link);
  if (faults_[index] != nullptr) {
    faults_[index]->set_inner(*link);
    link = faults_[index].get();
  }
  if (gates_[index] != nullptr) {
    gates_[index]->set_inner(*link);
    link = gates_[index].get();
  }
  switch_.attach(index, link);
}

void LaneLinks::connect_all(bool captured) {
  for (std::uint8_t index = 0; index < kLinkCount; ++index) connect(static_cast<LinkIndex>(index), captured);
}

// Frames that the previous gate held back are lost, as on a network.
void LaneLinks::put_gate(LinkIndex index) {
  if (gates_[index] != nullptr) done_by_faults_[index] = gates_[index]->tally();
  gates_[index] = scopes_.empty()
                      ? nullptr
                      : std::make_unique<link::FaultGate>(*bare_[index], scopes_, done_by_faults_[index]);
  if (recorders_[index] != nullptr) recorders_[index]->expect_faults(gates_[index] != nullptr);
  connect(index);
}

void LaneLinks::set_faults(const std::vector<link::FaultScope>& scopes) {
  if (scopes == scopes_) return;  // other rules have changed: delayed frames continue
  scopes_ = scopes;
  for (std::uint8_t index = 0; index < kLinkCount; ++index) {
    if (bare_[index] != nullptr) put_gate(static_cast<LinkIndex>(index));
  }
}

std::uint64_t LaneLinks::lost_to_faults() const {
  link::FaultCounters all;
  for (std::size_t index = 0; index < kLinkCount; ++index) {
    if (faults_[index] != nullptr) all.add(faults_[index]->tally());
    all.add(gates_[index] != nullptr ? gates_[index]->tally() : done_by_faults_[index]);
  }
  return all.dropped + all.too_long + all.blocked;
}

LinkEvidence LaneLinks::evidence(const wire::Gid& peer, bool silent, Instant now) {
  LinkEvidence evidence{.lost = lost_to_faults()};
  if (silent && udp_ != nullptr) evidence.report = udp_->report_about(peer, now);
  return evidence;
}

void LaneLinks::start_capture(OwnedFd socket, std::uint32_t snap_octets) {
  stop_capture();
  live_capture_.start(
      std::move(socket),
      {.interface_name = interface_.name, .owner = name_of_this_process(), .snap_octets = snap_octets});
  connect_all();
}

bool LaneLinks::note_in_captures(Instant now, std::string_view text, std::string_view facts) {
  const bool live = live_capture_.note(now, text, facts);
  for (const auto& recorder : recorders_) {
    if (recorder == nullptr) continue;
    recorder->note(now, text, facts);
    return true;
  }
  return live;
}

bool LaneLinks::record_foreign(const link::CaptureLink::ForeignPacket& packet) {
  const bool live = live_capture_.record_foreign(packet);
  for (const auto& recorder : recorders_) {
    if (recorder == nullptr) continue;
    recorder->record_foreign(packet);
    return true;
  }
  return live;
}

std::unique_ptr<CaptureStream> LaneLinks::stop_capture() {
  connect_all(false);
  return live_capture_.stop();
}

}  // namespace rrdma::nic
