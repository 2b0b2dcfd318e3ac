#include "preload/verbs/live_objects.h"

#include <pthread.h>

#include "base/assert.h"

namespace rrdma::verbs {

LiveObjects::~LiveObjects() {
  for (Kind& kind : kinds_) {
    for (const Grave& grave : kind.graves) grave.release(grave.memory);
  }
}

bool LiveObjects::take_place(ObjectKind kind, const void* device, std::uint32_t max) {
  std::lock_guard lock(mutex_);
  std::uint32_t& taken = of(kind).places[device];
  if (taken >= max) return false;
  ++taken;
  return true;
}

void LiveObjects::give_place_back(ObjectKind kind, const void* device) {
  std::lock_guard lock(mutex_);
  --of(kind).places[device];
}

void LiveObjects::add(ObjectKind kind, void* object, const Record& record) {
  std::lock_guard lock(mutex_);
  const bool added = of(kind).live.emplace(object, record).second;
  RRDMA_ASSERT(added);
}

void LiveObjects::bury(ObjectKind kind, const void* object, void* memory, void (*release)(void*)) {
  Grave oldest{};
  {
    std::lock_guard lock(mutex_);
    Kind& all = of(kind);
    const auto found = all.live.find(object);
    RRDMA_ASSERT(found != all.live.end());
    if (found->second.counted) --all.places[found->second.device];
    all.live.erase(found);
    all.gone.insert(object);
    all.graves.push_back({object, memory, release});
    if (all.graves.size() <= kKept) return;
    oldest = all.graves.front();
    all.graves.pop_front();
    all.gone.erase(oldest.object);
  }
  oldest.release(oldest.memory);
}

Presence LiveObjects::find(ObjectKind kind, const void* object, Record& record) const {
  std::lock_guard lock(mutex_);
  const Kind& all = of(kind);
  if (const auto found = all.live.find(object); found != all.live.end()) {
    record = found->second;
    return Presence::kLive;
  }
  return all.gone.contains(object) ? Presence::kGone : Presence::kUnknown;
}

std::vector<void*> LiveObjects::list(ObjectKind kind, const void* context) const {
  std::lock_guard lock(mutex_);
  std::vector<void*> found;
  for (const auto& [object, record] : of(kind).live) {
    if (record.context == context) found.push_back(const_cast<void*>(object));
  }
  return found;
}

LiveObjects& live_objects() {
  // Never destroyed, because programs call into the library from exit handlers.
  static auto* const all = [] {
    auto* made = new LiveObjects;
    pthread_atfork([] { live_objects().lock(); }, [] { live_objects().unlock(); },
                   [] { live_objects().unlock(); });
    return made;
  }();
  return *all;
}

}  // namespace rrdma::verbs
