#include "nic/runtime.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "base/fork_closed.h"
#include "nic/explain.h"
#include "nic/interfaces.h"
#include "nic/netlink_device.h"
#include "nic/process_lane.h"
#include "nic/settings.h"

namespace rrdma::nic {
namespace {

// Incremented in every child: a runtime that was made before it is the parent's.
std::atomic<unsigned> fork_count{0};

}  // namespace

struct Runtime::State {
  std::mutex mutex;
  Settings settings = settings_from_environment();
  unsigned born = fork_count.load();
  std::unique_ptr<ProcessLane> lane;
  std::shared_ptr<NetlinkDevice> device;
  unsigned opens = 0;
};

Runtime::Runtime() : state_(std::make_unique<State>()) {}

Runtime& Runtime::instance() {
  static std::mutex mutex;
  static Runtime* runtime = nullptr;
  static const bool registered = [] {
    pthread_atfork(nullptr, nullptr, [] {
      fork_count.fetch_add(1);
      close_marked_after_fork();
    });
    return true;
  }();
  static_cast<void>(registered);
  std::lock_guard lock(mutex);
  if (runtime != nullptr && runtime->forked()) {
    // The parent's locks, threads and sockets mean nothing here; its memory is left alone on purpose.
    runtime = nullptr;
  }
  if (runtime == nullptr) runtime = new Runtime;  // never destroyed: programs call into us from exit handlers
  return *runtime;
}

bool Runtime::forked() const { return state_->born != fork_count.load(); }

std::vector<DeviceIdentity> Runtime::devices() {
  const std::vector<Interface> interfaces = read_interfaces();
  const Interface* chosen = choose_interface(interfaces, state_->settings.netdev);
  if (chosen == nullptr) {
    explain(Severity::kError, "rrdma",
            state_->settings.netdev.empty()
                ? std::string("this network namespace has no usable interface; bring lo up: ip link set lo up")
                : fmt::format("there is no network interface '{}'; `ip link` lists those that exist", state_->settings.netdev));
    return {};
  }
  return {identify(*chosen, 0)};
}

Result<std::shared_ptr<Device>, Problem> Runtime::open(std::string_view name) {
  std::lock_guard lock(state_->mutex);
  if (state_->device != nullptr && state_->device->identity().name == name) {
    ++state_->opens;
    return std::shared_ptr<Device>(state_->device);
  }
  const std::vector<Interface> interfaces = read_interfaces();
  const Interface* chosen = choose_interface(interfaces, state_->settings.netdev);
  if (chosen == nullptr || identify(*chosen, 0).name != name) {
    return control::problem(ENODEV, fmt::format("there is no device '{}' any more.", name));
  }
  auto device = std::make_shared<NetlinkDevice>(identify(*chosen, 0), interfaces);
  auto lane = ProcessLane::open(state_->settings, fmt::format("{} on {}", name, chosen->name), chosen->index);
  if (!lane) return Failure{lane.error()};
  state_->lane = std::move(*lane);
  state_->lane->follow(device);
  state_->device = std::move(device);
  state_->opens = 1;
  return std::shared_ptr<Device>(state_->device);
}

void Runtime::close(const std::shared_ptr<Device>&) {
  std::unique_ptr<ProcessLane> lane;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->opens == 0 || --state_->opens != 0) return;
    lane = std::move(state_->lane);
    state_->device.reset();
  }
}

std::shared_ptr<Device> Runtime::find_open(std::string_view name) {
  std::lock_guard lock(state_->mutex);
  return state_->device != nullptr && state_->device->identity().name == name ? state_->device : nullptr;
}

Lane& Runtime::lane() { return *state_->lane; }

}  // namespace rrdma::nic
