#include "nic/lane_links.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "host/clock.h"
#include "host/explain.h"
#include "link/capture_link.h"
#include "link/fault_link.h"

namespace rrdma::nic {

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
  if (udp_ != nullptr) return false;
  open_udp(std::move(granted));
  if (udp_ != nullptr) attach(kUdpLink, udp_.get());
  return udp_ != nullptr;
}

void LaneLinks::open_shm() {
  if (settings_.link == LinkChoice::kUdp) return;
  auto created = link::ShmLink::create();
  if (!created) {
    host::explain(
        host::Severity::kError, "rrdma",
        fmt::format("no shared memory between processes: {}.", link::describe(created.error().problem)));
    return;
  }
  shm_ = std::move(*created);
}

void LaneLinks::open_udp(control::GrantedSlot granted) {
  IpSockets sockets = std::move(granted.sockets);
  if (!sockets.v4.valid() && !sockets.v6.valid()) {
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
  auto opened = link::UdpLink::open({&sockets, 1}, config);
  if (!opened) {
    host::explain(
        host::Severity::kError, "rrdma",
        fmt::format("no network: {} failed: {}.", opened.error().step, strerror(opened.error().error)));
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

// Where nothing is kept back on the way, what was sent has been seen.
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
        fmt::format("nothing is captured: {}: {}.", settings_.capture_file, strerror(opened.error())));
  }
}

void LaneLinks::attach(LinkIndex index, link::Link* link) {
  if (link == nullptr) return;
  undisturbed_[index] = decorated(link);
  put_gate(index);
}

void LaneLinks::put_gate(LinkIndex index) {
  std::unique_ptr<link::FaultGate> gate;
  if (!scopes_.empty()) gate = std::make_unique<link::FaultGate>(*undisturbed_[index], scopes_);
  live_capture_.attach(switch_, index, gate != nullptr ? gate.get() : undisturbed_[index]);
  gates_[index] = std::move(gate);  // what the last one held back is lost, as on a network
}

void LaneLinks::set_faults(const std::vector<link::FaultScope>& scopes) {
  scopes_ = scopes;
  for (std::uint8_t index = 0; index < kLinkCount; ++index) {
    if (undisturbed_[index] != nullptr) put_gate(static_cast<LinkIndex>(index));
  }
}

// The capture stands inside the faults: it shows what was done to the packets, as the other end would see them.
link::Link* LaneLinks::decorated(link::Link* link) {
  if (capture_ != nullptr) {
    link::CaptureConfig config;
    config.interface_name = interface_.name;
    config.snap_octets = settings_.capture_limits.snap_octets;
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

void LaneLinks::start_capture(OwnedFd socket, std::uint32_t snap_octets) {
  live_capture_.start(switch_, std::move(socket),
                      {.interface_name = interface_.name, .snap_octets = snap_octets});
}

}  // namespace rrdma::nic
