#include "nic/process/lanes.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/entropy.h"
#include "base/file_space.h"
#include "base/result_try.h"
#include "host/descriptor_room.h"
#include "nic/lane/lane.h"
#include "nic/memory/cuda_sharing.h"
#include "nic/process/process_control.h"

namespace rrdma::nic {
namespace {

// More than the longest mapping of a lane.
constexpr std::int64_t kFileOctetsOfLane = 64 << 20;
// Descriptors left to the program for each one that a lane takes.
constexpr rlim_t kDescriptorsOfProgram = 2;

std::size_t cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(CPU_COUNT(&set));
}

// A lane that could not share memory with its peers would be worse than none.
bool has_room_for_another() {
  return host::require_descriptors(kDescriptorsOfLane).ok() && may_be_so_long(kFileOctetsOfLane);
}

std::size_t lanes_by_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kLanesMax;
  return static_cast<std::size_t>(limit.rlim_cur / (kDescriptorsOfLane * (1 + kDescriptorsOfProgram)));
}

}  // namespace

std::size_t lanes_allowed(const Settings& settings) {
  if (settings.packets_only()) return 1;
  if (settings.lanes != 0) return std::min<std::size_t>(settings.lanes, kLanesMax);
  return std::clamp<std::size_t>(std::min(cores(), lanes_by_descriptors()), 1, kLanesMax);
}

Lanes::Lanes(const Settings& settings, ProcessControl& control, LaneInterface interface)
    : settings_(settings),
      control_(control),
      interface_(std::move(interface)),
      allowed_(lanes_allowed(settings)),
      memory_(system_keys(), &windows_) {}

Result<std::unique_ptr<Lanes>, Problem> Lanes::open(const Settings& settings, ProcessControl& control,
                                                    LaneInterface interface) {
  std::unique_ptr<Lanes> lanes(new Lanes(settings, control, std::move(interface)));
  const std::lock_guard lock(lanes->roster_);
  if (auto opened = lanes->open_one(); !opened) return Failure{opened.error()};
  return lanes;
}

Lanes::~Lanes() {
  for_each([this](Lane& lane) { control_.remove(lane); });
  // Each lane removes its publication from the table, which no other thread may read then: end all threads
  // first.
  for_each([](Lane& lane) { lane.stop(); });
}

Lane& Lanes::first() const { return *lanes_[0]; }

Lane& Lanes::of(wire::Qpn qpn) const {
  const std::size_t count = size();
  for (std::size_t i = 0; i < count; ++i) {
    if (lanes_[i]->slot().holds(qpn)) return *lanes_[i];
  }
  return first();
}

void Lanes::set_qp_listener(QpListener* listener) {
  const std::lock_guard all(*this);
  qp_listener_ = listener;
  for_each([&](Lane& lane) { lane.set_qp_listener(listener); });
}

// ---- assignment of QPs ----

Lane& Lanes::assign(const Wish& wish) {
  const std::lock_guard lock(roster_);
  Lane* lane = wish.free ? nullptr : &first();
  for (const LanesOfQueue* queue : {wish.send, wish.receive}) {
    if (lane == nullptr && queue != nullptr) lane = queue->first();
  }
  if (lane == nullptr) lane = &least_used();
  attach(wish, *lane);
  return *lane;
}

Lane* Lanes::assign_number(const Wish& wish, std::size_t number) {
  const std::lock_guard lock(roster_);
  if (!wish.free || number >= size()) return nullptr;
  attach(wish, *lanes_[number]);
  return lanes_[number].get();
}

Lane& Lanes::least_used() {
  const auto fewest = [this] {
    return std::min_element(lanes_.begin(), lanes_.begin() + static_cast<std::ptrdiff_t>(size()),
                            [](const auto& a, const auto& b) { return a->queues() < b->queues(); })
        ->get();
  };
  if (fewest()->queues() != 0 && size() < allowed_ && !exhausted_) {
    // Not an error: the existing lanes suffice.
    exhausted_ = !has_room_for_another() || !open_one().ok();
  }
  return *fewest();
}

void Lanes::attach(const Wish& wish, Lane& lane) {
  for (LanesOfQueue* queue : {wish.send, wish.receive}) {
    if (queue == nullptr || queue->contains(lane)) continue;
    if (queue->first() == nullptr) lane.add_queue();
    lock_all();
    queue->add(lane);
    unlock_all();
    if (queue->is_armed())
      lane.rely_on_thread();  // a thread already waited for an event before the queue had this lane
  }
}

void Lanes::release(const LanesOfQueue& queue) {
  const std::lock_guard lock(roster_);
  if (Lane* lane = queue.first()) lane->remove_queue();
}

// REQUIRES: roster_.
Result<void, Problem> Lanes::open_one() {
  const std::size_t number = size();
  auto opened = Lane::open(settings_, control_.daemon(), interface_, memory_, number == 0);
  RRDMA_TRY(opened);
  Lane& lane = **opened;
  lane.set_far_copier(std::make_unique<CudaCopier>(memory_));
  lane.set_qp_listener(qp_listener_);
  control_.add(lane);
  if (auto started = start(lane, number == 0); !started) {
    control_.remove(lane);
    return started;
  }
  lock_all();
  lane.mutex().lock();
  // A type 1 window belongs to every lane, and one lane cannot remove it from another's publication.
  if (number == 1) lanes_[0]->publish_own_windows_only();
  if (number != 0) lane.publish_own_windows_only();
  lane.publish_memory();
  lane.mutex().unlock();
  unlock_all();
  lanes_[number] = std::move(*opened);
  count_.store(number + 1, std::memory_order_release);
  return {};
}

// The thread of the first lane serves the process.
Result<void, Problem> Lanes::start(Lane& lane, bool serves_control) {
  if (!serves_control) return lane.start({}, [] {});
  control_.handle();  // a fault order that arrived before the slot applies from the first call on
  return lane.start(control_.descriptors(), [this] { control_.handle(); });
}

// ---- all lanes ----

void Lanes::lock() {
  roster_.lock();
  lock_all();
}

void Lanes::unlock() {
  unlock_all();
  roster_.unlock();
}

void Lanes::lock_all() {
  for_each([](Lane& lane) { lane.mutex().lock(); });
}

void Lanes::unlock_all() {
  for_each([](Lane& lane) { lane.mutex().unlock(); });
}

void Lanes::pass_through() {
  for_each([](Lane& lane) { const std::lock_guard lock(lane.mutex()); });
}

}  // namespace rrdma::nic
