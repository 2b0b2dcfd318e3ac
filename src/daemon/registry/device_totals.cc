#include "daemon/registry/device_totals.h"

#include <algorithm>

#include "daemon/client.h"

namespace rrdma::daemon {
namespace {

constexpr std::size_t kGoneMax = 16;
constexpr std::size_t kUsersMax = 256;
constexpr std::size_t kDevicesMax = control::kPageDeviceCapacity;
static_assert(kDevicesMax < kOutboxMax);

void add(std::vector<control::NamedCounter>& sums, const std::vector<control::NamedCounter>& counters) {
  for (const control::NamedCounter& counter : counters) {
    const auto known =
        std::find_if(sums.begin(), sums.end(), [&](const auto& sum) { return sum.name == counter.name; });
    if (known != sums.end()) {
      known->value += counter.value;
    } else if (sums.size() < control::kPagePartCapacity) {
      sums.push_back(counter);
    }
  }
}

// Null where there are too many. `Device`: anything with a name.
template <typename Device>
Device* place_of(std::vector<Device>& devices, const std::string& name) {
  const auto known =
      std::find_if(devices.begin(), devices.end(), [&](const Device& one) { return one.name == name; });
  if (known != devices.end()) return &*known;
  if (devices.size() == kDevicesMax) return nullptr;
  Device& added = devices.emplace_back();
  added.name = name;
  return &added;
}

template <typename Device>
void add(std::vector<Device>& sums, const std::vector<control::DeviceSnapshot>& devices) {
  for (const control::DeviceSnapshot& device : devices)
    if (Device* place = place_of(sums, device.name)) add(place->counters, device.counters);
}

bool has_carried(const control::DeviceSnapshot& device) {
  return std::any_of(device.counters.begin(), device.counters.end(),
                     [](const control::NamedCounter& counter) { return counter.value != 0; });
}

}  // namespace

Subsystem::Verdict DeviceTotals::handle_message(Client& client, control::Received& message) {
  if (message.type() != control::MessageType::kListDevices) return Verdict::kOthers;
  if (!message.as<control::ListDevices>()) return Verdict::kMalformed;
  for (const control::DeviceEntry& entry : seen_by(client)) (void)client.reply(message, entry);
  (void)client.reply(message, control::Done{});
  return Verdict::kHandled;
}

void DeviceTotals::handle_client_gone(Client& client) {
  if (!client.page || client.hello.role != control::Role::kProgram) return;
  std::erase_if(gone_, [&](const Gone& one) {
    return one.token == client.token && control::is_one_user(client.identity, one.user);
  });
  Devices devices = client.page->devices();
  std::erase_if(devices, [](const auto& device) { return !has_carried(device); });
  if (devices.empty()) return;
  gone_.push_back({client.token, client.identity, std::move(devices)});
  if (gone_.size() <= kGoneMax) return;
  settle(gone_.front());
  gone_.pop_front();
}

void DeviceTotals::settle(const Gone& gone) {
  if (is_back(gone)) return;
  auto known = std::find_if(ended_.begin(), ended_.end(),
                            [&](const Ended& one) { return control::is_one_user(one.user, gone.user); });
  if (known == ended_.end()) {
    if (ended_.size() == kUsersMax) ended_.pop_front();
    known = ended_.insert(ended_.end(), {gone.user, {}});
  }
  add(known->devices, gone.devices);
}

bool DeviceTotals::is_back(const Gone& gone) {
  bool found = false;
  server_.for_each_client([&](const Client& client) {
    found = found || (client.token == gone.token && control::is_one_user(client.identity, gone.user));
  });
  return found;
}

std::vector<control::DeviceEntry> DeviceTotals::seen_by(const Client& asker) {
  std::vector<control::DeviceEntry> entries;
  for (const Ended& one : ended_)
    if (may_see(asker.identity, one.user)) add(entries, one.devices);
  for (const Gone& one : gone_)
    if (may_see(asker.identity, one.user) && !is_back(one)) add(entries, one.devices);
  server_.for_each_client([&](const Client& program) {
    if (!program.page || program.hello.role != control::Role::kProgram ||
        !may_see(asker.identity, program.identity))
      return;
    const Devices devices = program.page->devices();
    add(entries, devices);
    for (const control::DeviceSnapshot& device : devices)
      if (control::DeviceEntry* place = place_of(entries, device.name)) ++place->programs;
  });
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);  // rrdma2 before rrdma10
  });
  return entries;
}

}  // namespace rrdma::daemon
