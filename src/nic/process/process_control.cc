#include "nic/process/process_control.h"

#include <algorithm>
#include <utility>

#include "base/raw_syscall.h"
#include "base/result_try.h"
#include "control/recognition_messages.h"
#include "host/explain.h"
#include "host/signals/fault_handler.h"
#include "nic/lane/lane.h"
#include "wire/transport_packet.h"

namespace rrdma::nic {
namespace {

std::uint32_t allowed_links(const Settings& settings) {
  const std::uint32_t udp = control::kLinkUdp | (settings.strict ? 0 : control::kLinkArrivals);
  std::uint32_t shm = control::kLinkShm | (udp & control::kLinkArrivals);
  if (!settings.packets_only()) shm |= control::kLinkTrains | (settings.direct ? control::kLinkDirect : 0);
  switch (settings.link) {
    case LinkChoice::kUdp: return udp;
    case LinkChoice::kShm: return shm;
    case LinkChoice::kAuto: break;
  }
  return udp | shm;
}

std::vector<OwnedFd> duplicates(const std::vector<OwnedFd>& fds) {
  std::vector<OwnedFd> own;
  for (const OwnedFd& fd : fds) own.push_back(fd.duplicate());
  return own;
}

}  // namespace

Result<std::unique_ptr<ProcessControl>, Problem> ProcessControl::connect(const Settings& settings,
                                                                         const std::string& devices) {
  control::DaemonSettings wanted;
  wanted.links = allowed_links(settings);
  wanted.devices = devices;
  auto daemon = control::DaemonClient::connect_or_start(wanted);
  RRDMA_TRY(daemon);
  host::install_fault_handler();
  std::unique_ptr<ProcessControl> control(new ProcessControl(settings, std::move(*daemon)));
  control->pass_on_faults();
  if (!settings.capture_file.empty())
    (void)control->daemon_->request<control::Done>(control::WatchMads{},
                                                   control::DaemonClient::Repeat::kOnce);
  return control;
}

// Passes rules for the connection manager to the daemon, which applies them until this process ends.
void ProcessControl::pass_on_faults() {
  for (const faults::Rule& rule : faults::Table::instance().rules()) {
    if (!rule.is_for_daemon()) continue;
    const std::string text = rule.text + " pid=" + std::to_string(raw::getpid());
    const auto set = daemon_->request<control::FaultWasSet>(control::SetFault{.rule = text},
                                                            control::DaemonClient::Repeat::kOnce);
    if (!set) host::explain(host::Severity::kError, "RRDMA_FAULTS", rule.text + ": " + set.error().sentence);
  }
}

void ProcessControl::describe(std::string devices) {
  devices.resize(std::min(devices.size(), control::kNameMax));
  (void)daemon_->update_process(allowed_links(settings_), std::move(devices));
}

// ---- devices ----

void ProcessControl::follow(std::shared_ptr<host::NetlinkDevice> device) {
  keep(std::move(device));
  if (faults::armed()) apply_faults();
}

void ProcessControl::keep(std::shared_ptr<host::NetlinkDevice> device) {
  const std::lock_guard lock(devices_mutex_);
  std::erase_if(devices_, [](const auto& known) { return known.use_count() == 1; });  // closed meanwhile
  devices_.push_back(std::move(device));
}

// Applies the active rules to all present devices and lanes.
void ProcessControl::apply_faults() {
  const std::vector<faults::Rule> active = faults::Table::instance().active();
  DeviceList devices;
  {
    const std::lock_guard lock(devices_mutex_);
    devices = devices_;
  }
  const std::vector<link::FaultScope> scopes = scopes_of(devices, active);
  {
    const std::lock_guard lock(lanes_mutex_);
    for (Lane* lane : lanes_) lane->set_faults(scopes, packets_only_);
  }
  const std::vector<host::Interface> interfaces = current_interfaces();
  for (const auto& device : devices) device->impose(imposed_on(*device, active), interfaces);
}

// The lanes of a process are captured together: one of them records the event.
void ProcessControl::note_in_captures(const std::string& line) {
  const std::lock_guard lock(lanes_mutex_);
  for (Lane* lane : lanes_) {
    if (lane->note_in_captures(line)) return;
  }
}

bool ProcessControl::try_record_mad(const control::MadSeen& mad) {
  return std::any_of(lanes_.begin(), lanes_.end(), [&mad](Lane* lane) { return lane->record_mad(mad); });
}

void ProcessControl::record_mad(control::MadSeen mad) {
  const std::lock_guard lock(lanes_mutex_);
  if (!try_record_mad(mad) && lanes_.empty() && early_mads_.size() < kEarlyMadsMax)
    early_mads_.push_back(std::move(mad));
}

void ProcessControl::refresh_devices() {
  std::vector<std::shared_ptr<host::NetlinkDevice>> devices;
  {
    const std::lock_guard lock(devices_mutex_);
    devices = devices_;
  }
  const std::vector<host::Interface> interfaces = current_interfaces();
  for (const auto& device : devices) device->refresh(interfaces);
}

std::vector<host::Interface> ProcessControl::current_interfaces() {
  auto interfaces = host::read_interfaces();
  interfaces_unread_.store(!interfaces.ok());
  if (interfaces) return std::move(*interfaces);
  host::explain(host::Severity::kError, "rrdma", interfaces.error().sentence);
  return {};
}

// ---- lanes ----

void ProcessControl::add(Lane& lane) {
  {
    const std::lock_guard lock(lanes_mutex_);
    lanes_.push_back(&lane);
    if (capture_order_.record || capture_order_.packets_only)
      lane.follow_capture_order(capture_order_, duplicates(capture_channel_));
    std::erase_if(early_mads_, [this](const control::MadSeen& mad) { return try_record_mad(mad); });
  }
  if (faults::armed() || packets_only_) apply_faults();
}

void ProcessControl::remove(Lane& lane) {
  const std::lock_guard lock(lanes_mutex_);
  std::erase(lanes_, &lane);
}

Lane* ProcessControl::find_lane(control::Slot slot) const {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const Lane* lane) { return lane->slot().number() == slot; });
  return found != lanes_.end() ? *found : nullptr;
}

// ---- messages of the daemon ----

std::vector<int> ProcessControl::descriptors() const {
  std::vector<int> all{daemon_->event_fd()};
  if (monitor_.fd() >= 0) all.push_back(monitor_.fd());
  if (faults_.fd() >= 0) all.push_back(faults_.fd());
  return all;
}

void ProcessControl::handle() {
  daemon_->handle_events(*this);
  if (monitor_.changed() || interfaces_unread_.load()) refresh_devices();
  faults_.handle();
}

void ProcessControl::handle_channel_offered(const control::ChannelOffered& offer, std::vector<OwnedFd> fds) {
  const std::lock_guard lock(lanes_mutex_);
  if (Lane* lane = find_lane(offer.to_slot)) lane->accept_channel(offer, std::move(fds));
}

// Any lane may have a channel to it.
void ProcessControl::handle_peer_gone(const control::PeerGone& gone) {
  const std::lock_guard lock(lanes_mutex_);
  for (Lane* lane : lanes_) lane->forget_peer(gone);
}

// Each lane checks whether the destination is its own.
void ProcessControl::handle_frame_forwarded(const control::FrameFields& frame) {
  const std::lock_guard lock(lanes_mutex_);
  for (Lane* lane : lanes_) lane->deliver(frame);
}

void ProcessControl::handle_sockets_arrived(control::GrantedSlot slot) {
  const std::lock_guard lock(lanes_mutex_);
  if (Lane* lane = find_lane(slot.slot)) lane->open_network(std::move(slot));
}

// Captures and faults were ordered through the previous daemon and end with it.
void ProcessControl::handle_daemon_changed(std::span<const control::Slot>) {
  follow_capture_order({}, {});
  packets_only_ = false;
  faults_.follow({});
  if (DaemonListener* listener = listener_.load()) listener->on_daemon_changed();
}

void ProcessControl::handle_other(control::Received& message) {
  if (const auto order = message.as<control::CaptureOrder>())
    return follow_capture_order(*order, std::move(message.fds));
  if (const auto peer = message.as<control::PeerRecognised>()) {
    const std::lock_guard lock(lanes_mutex_);
    for (Lane* lane : lanes_) lane->recognise(peer->remote, peer->features);
    return;
  }
  if (const auto order = message.as<control::FaultOrder>()) {
    packets_only_ = order->packets_only;
    return faults_.follow(*order);
  }
  if (auto mad = message.as<control::MadSeen>()) return record_mad(std::move(*mad));
  if (const auto injected = message.as<control::FaultInjected>())
    return faults::explain_injection(injected->number, injected->rule, injected->deed);
  if (DaemonListener* listener = listener_.load()) listener->on_daemon_message(message);
}

// All lanes send to the same tool, each through a descriptor of its own.
void ProcessControl::follow_capture_order(const control::CaptureOrder& order, std::vector<OwnedFd> fds) {
  const std::lock_guard lock(lanes_mutex_);
  capture_order_ = order;
  capture_channel_ = std::move(fds);
  for (Lane* lane : lanes_) lane->follow_capture_order(order, duplicates(capture_channel_));
}

}  // namespace rrdma::nic
