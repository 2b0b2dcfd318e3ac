#include "nic/process/runtime.h"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/raw_syscall.h"
#include "base/result_try.h"
#include "faults/table.h"
#include "host/clock.h"
#include "host/descriptor_room.h"
#include "host/device_links.h"
#include "host/explain.h"
#include "host/fork.h"
#include "host/interfaces.h"
#include "host/netlink_device.h"
#include "nic/lane/lane.h"
#include "nic/process/lanes.h"
#include "nic/process/process_control.h"
#include "nic/wakeup/last_thread.h"

namespace rrdma::nic {
namespace {

// The latest runtime, for the exit handler: it may run in a child where no other code of ours does.
std::atomic<Runtime*> latest{nullptr};

// How long the end of a program waits for one lock. The holder needs microseconds, and a core.
constexpr Duration kEndPatience = milliseconds(500);
constexpr Duration kEndNap = microseconds(100);

// RRDMA_FAULTS: the rules that apply from the start of the process.
void take_planned_faults() {
  const char* text = std::getenv("RRDMA_FAULTS");
  if (text == nullptr || *text == '\0') return;
  auto rules = faults::parse_rules(text);
  if (!rules) return host::explain(host::Severity::kError, "RRDMA_FAULTS", rules.error());
  faults::Table::instance().set(faults::Table::Side::kEnvironment, *rules,
                                static_cast<std::uint32_t>(raw::getpid()), host::now());
}

struct OpenDevice {
  std::shared_ptr<host::NetlinkDevice> device;
  unsigned opens;
};

}  // namespace

struct Runtime::State {
  std::mutex mutex;
  Settings settings = settings_from_environment();
  host::ForkMark birth;
  pid_t pid = raw::getpid();
  // While a device is open.
  std::unique_ptr<ProcessControl> control;
  std::unique_ptr<Lanes> lanes;     // shared by all contexts
  std::vector<OpenDevice> devices;  // the open ones

  OpenDevice* find(std::string_view name) {
    for (OpenDevice& one : devices) {
      if (one.device->identity().name == name) return &one;
    }
    return nullptr;
  }
  [[nodiscard]] Result<std::vector<host::Placement>, Problem> placements(
      const std::vector<host::Interface>& interfaces) const {
    const auto added = host::read_added_links();
    RRDMA_TRY(added);
    return host::place_devices(interfaces, *added, settings.netdev, settings.device_plan.count);
  }
  // For the tools.
  [[nodiscard]] std::string description_with(const host::DeviceIdentity& added) const {
    std::string shown;
    for (const OpenDevice& one : devices)
      shown += formatted("{} on {}, ", one.device->identity().name, one.device->identity().interface);
    return shown + formatted("{} on {}", added.name, added.interface);
  }
  // Link-local addresses and groups use the interface of the first device.
  Result<void, Problem> provide_lanes(const host::DeviceIdentity& device, std::uint32_t interface_index) {
    const std::string shown = description_with(device);
    if (control != nullptr) {
      control->describe(shown);
      return {};
    }
    if (auto room = host::require_descriptors(kDescriptorsOfLane); !room) return room;
    auto connected = ProcessControl::connect(settings, shown);
    RRDMA_TRY(connected);
    auto opened = Lanes::open(settings, **connected, {.name = shown, .index = interface_index});
    RRDMA_TRY(opened);
    control = std::move(*connected);
    lanes = std::move(*opened);
    return {};
  }
};

Runtime::Runtime() : state_(std::make_unique<State>()) {
  watch_main_thread();
  take_planned_faults();
}

Runtime& Runtime::instance() {
  static std::mutex mutex;
  static Runtime* runtime = nullptr;
  static const bool registered = [] {
    // A thread that held it during a fork does not exist in the child.
    (void)pthread_atfork(nullptr, nullptr, [] { new (&mutex) std::mutex; });
    std::atexit(end_process);
    ::at_quick_exit(end_process);
    return true;
  }();
  static_cast<void>(registered);
  std::lock_guard lock(mutex);
  if (runtime != nullptr && runtime->forked()) {
    // The parent's locks, threads and sockets are invalid here; its memory is deliberately not freed.
    runtime = nullptr;
  }
  if (runtime == nullptr) runtime = new Runtime;  // never destroyed: programs call into us from exit handlers
  latest.store(runtime);
  return *runtime;
}

// A child of vfork has the parent's memory and another pid.
void Runtime::end_process() {
  Runtime* last = latest.load();
  if (last != nullptr && !last->forked() && last->state_->pid == raw::getpid()) last->end_lanes();
}

void Runtime::publish_counters() {
  Runtime* last = latest.load();
  if (last == nullptr || last->forked() || last->state_->pid != raw::getpid()) return;
  const std::unique_lock lock(last->state_->mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  if (last->state_->lanes == nullptr) return;
  last->state_->lanes->for_each([](Lane& lane) {
    const std::unique_lock held(lane.mutex(), std::try_to_lock);
    if (held.owns_lock()) lane.publish_sums();
  });
}

// The program may have received a message and ended: the sender needs the ACK. The thread that holds a lane's
// lock may have just woken the program, so wait for the lock. The wait is bounded: the holder may also have
// been stopped for good.
void Runtime::end_lanes() {
  std::unique_lock lock(state_->mutex, std::try_to_lock);
  for (Duration waited; !lock.owns_lock() && waited < kEndPatience; waited = waited + kEndNap) {
    const timespec nap{.tv_sec = 0, .tv_nsec = kEndNap.ns};
    (void)raw::ppoll(nullptr, 0, &nap);
    lock = std::unique_lock(state_->mutex, std::try_to_lock);
  }
  if (!lock.owns_lock() || state_->lanes == nullptr) return;
  state_->lanes->for_each([](Lane& lane) { (void)lane.end(kEndPatience); });
  state_->control->daemon().page().mark_exited();
}

bool Runtime::forked() const { return state_->birth.forked(); }

const Settings& Runtime::settings() const { return state_->settings; }

Result<std::vector<host::DeviceIdentity>, Problem> Runtime::devices() {
  const auto interfaces = host::read_interfaces();
  RRDMA_TRY(interfaces);
  const auto placements = state_->placements(*interfaces);
  RRDMA_TRY(placements);
  std::vector<host::DeviceIdentity> identities;
  for (const host::Placement& placement : *placements) {
    identities.push_back(host::identify(placement, state_->settings.device_plan));
  }
  // No interface at all, not even lo: a constructor of another library called us before libnl's constructors
  // ran. Do not report this to the user.
  if (identities.empty() && !interfaces->empty()) {
    host::explain(
        host::Severity::kError, "rrdma",
        state_->settings.netdev.empty()
            ? std::string("this network namespace has no usable interface; bring lo up: ip link set lo up")
            : formatted("there is no network interface '{}'; `ip link` lists those that exist",
                        state_->settings.netdev));
  }
  return identities;
}

Result<std::shared_ptr<host::Device>, Problem> Runtime::open(std::string_view name) {
  std::lock_guard lock(state_->mutex);
  if (OpenDevice* known = state_->find(name)) {
    ++known->opens;
    return std::shared_ptr<host::Device>(known->device);
  }
  const auto interfaces = host::read_interfaces();
  RRDMA_TRY(interfaces);
  const auto placements = state_->placements(*interfaces);
  RRDMA_TRY(placements);
  for (const host::Placement& placement : *placements) {
    const host::DeviceIdentity identity = host::identify(placement, state_->settings.device_plan);
    if (identity.name != name) continue;
    auto device = std::make_shared<host::NetlinkDevice>(identity, *interfaces);
    if (auto ready = state_->provide_lanes(identity, placement.interface->index); !ready)
      return Failure{ready.error()};
    state_->control->follow(device);
    state_->devices.push_back({device, 1});
    return std::shared_ptr<host::Device>(device);
  }
  return problem(ENODEV, formatted("there is no device '{}' any more.", name));
}

void Runtime::close(const std::shared_ptr<host::Device>& device) {
  std::unique_ptr<ProcessControl> control;
  std::unique_ptr<Lanes> lanes;
  {
    std::lock_guard lock(state_->mutex);
    OpenDevice* known = device == nullptr ? nullptr : state_->find(device->identity().name);
    if (known == nullptr || --known->opens != 0) return;
    std::erase_if(state_->devices, [](const OpenDevice& one) { return one.opens == 0; });
    if (!state_->devices.empty()) return;
    control = std::move(state_->control);
    lanes = std::move(state_->lanes);
  }
  lanes.reset();  // before the control, which the thread of one of them serves
}

std::shared_ptr<host::Device> Runtime::find_open(std::string_view name) {
  std::lock_guard lock(state_->mutex);
  const OpenDevice* known = state_->find(name);
  return known != nullptr ? known->device : nullptr;
}

std::uint16_t Runtime::device_number(const host::Device& device) {
  std::lock_guard lock(state_->mutex);
  return static_cast<std::uint16_t>(state_->control->daemon().page().add_device(device.identity().name));
}

Lanes& Runtime::lanes() { return *state_->lanes; }

control::DaemonClient& Runtime::daemon() const { return state_->control->daemon(); }

void Runtime::set_daemon_listener(DaemonListener* listener) { state_->control->set_listener(listener); }

}  // namespace rrdma::nic
