#include "daemon/registry/device_totals.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "daemon/client.h"

namespace rrdma::daemon {
namespace {

constexpr std::size_t kGoneMax = 16;
constexpr std::size_t kUsersMax = 256;
constexpr std::size_t kDevicesMax = control::kPageDeviceCapacity;
static_assert(kDevicesMax < kOutboxMax);
// For one user, before the others get their turn.
constexpr std::size_t kPagesInOneTurn = 16;
constexpr std::size_t kClientsInOneTurn = 1024;
constexpr Duration kListingPause = milliseconds(2);

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

// Null if there are too many. `Device`: any type with a name.
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
  if (listings_.contains(&client)) {
    client.fail(message, EBUSY, "the last list of devices is not finished yet.");
    return Verdict::kHandled;
  }
  Listing listing = begin(client, message.header.serial);
  // Each user has one list in progress; its other requests wait.
  const bool waits = std::any_of(listings_.begin(), listings_.end(),
                                 [&](const auto& one) { return one.first->account == client.account; });
  if (!waits && go_on(client, listing)) return Verdict::kHandled;
  listings_.emplace(&client, std::move(listing));
  go_on_at_ = std::min(go_on_at_, EventLoop::now() + kListingPause);
  return Verdict::kHandled;
}

void DeviceTotals::handle_deadline(Instant now) {
  std::set<uid_t> served;
  for (auto entry = listings_.begin(); entry != listings_.end();) {
    const bool is_first = served.insert(entry->first->account).second;
    entry = is_first && go_on(*entry->first, entry->second) ? listings_.erase(entry) : std::next(entry);
  }
  go_on_at_ = listings_.empty() ? kNever : now + kListingPause;
}

void DeviceTotals::handle_client_gone(Client& client) {
  listings_.erase(&client);
  if (!client.page || client.hello.role != control::Role::kProgram) return;
  std::erase_if(gone_, [&](const Gone& one) {
    return one.token == client.token && control::is_one_user(client.identity, one.user);
  });
  Devices devices = client.page->devices();
  std::erase_if(devices, [](const auto& device) { return !has_carried(device); });
  if (devices.empty()) return;
  gone_.push_back({client.token, client.identity, client.account, std::move(devices)});
  if (gone_.size() <= kGoneMax) return;
  settle(gone_.front());
  gone_.pop_front();
}

void DeviceTotals::settle(const Gone& gone) {
  if (is_back(gone)) return;
  auto known = std::find_if(ended_.begin(), ended_.end(),
                            [&](const Ended& one) { return control::is_one_user(one.user, gone.user); });
  if (known == ended_.end()) {
    if (ended_.size() == kUsersMax) make_room();
    known = ended_.insert(ended_.end(), {gone.user, gone.account, {}});
  }
  add(known->devices, gone.devices);
}

void DeviceTotals::make_room() {
  std::map<uid_t, std::size_t> counts;
  for (const Ended& one : ended_) ++counts[one.account];
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  ended_.erase(std::find_if(ended_.begin(), ended_.end(),
                            [&](const Ended& one) { return one.account == most->first; }));
}

bool DeviceTotals::is_back(const Gone& gone) {
  bool found = false;
  server_.for_each_client([&](const Client& client) {
    found = found || (client.token == gone.token && control::is_one_user(client.identity, gone.user));
  });
  return found;
}

DeviceTotals::Listing DeviceTotals::begin(const Client& asker, std::uint32_t serial) {
  Listing listing{.serial = serial, .asker = asker.acting, .sees_all = acts_as_root(asker), .entries = {}};
  for (const Ended& one : ended_)
    if (listing.may_see(one.user)) add(listing.entries, one.devices);
  for (const Gone& one : gone_)
    if (listing.may_see(one.user) && !is_back(one)) add(listing.entries, one.devices);
  return listing;
}

bool DeviceTotals::go_on(Client& client, Listing& listing) {
  std::size_t pages = 0;
  for (std::size_t looked_at = 0; looked_at < kClientsInOneTurn && pages < kPagesInOneTurn; ++looked_at) {
    const Client* program = server_.client_after(listing.last);
    if (program == nullptr) {
      std::sort(listing.entries.begin(), listing.entries.end(), [](const auto& a, const auto& b) {
        return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);  // rrdma2 before rrdma10
      });
      for (const control::DeviceEntry& entry : listing.entries) (void)client.answer(listing.serial, entry);
      (void)client.answer(listing.serial, control::Done{});
      return true;
    }
    listing.last = program->fd();
    if (!program->page || program->hello.role != control::Role::kProgram ||
        !listing.may_see(program->identity))
      continue;
    ++pages;
    const Devices devices = program->page->devices();
    add(listing.entries, devices);
    for (const control::DeviceSnapshot& device : devices)
      if (control::DeviceEntry* place = place_of(listing.entries, device.name)) ++place->programs;
  }
  return client.doomed();
}

}  // namespace rrdma::daemon
