// LiveObjects: what programs have made and not destroyed yet, in all contexts. Closing a device destroys what is
// left there; and the control path asks here whether an object that a program hands over is alive, as the kernel
// looks handles up: an object that is destroyed already, or was damaged, is refused and never touched.
//
// The memory of the last kKept destroyed objects of each kind is kept, so that nothing else has their addresses
// while somebody may still use them.
//
// Threads: any. A fork leaves it usable in the child.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace rrdma::verbs {

// In the order in which they can be destroyed: nothing stands on what comes before it.
enum class ObjectKind : unsigned char {
  kQp,
  kAh,
  kSrq,
  kCq,
  kChannel,
  kXrcDomain,
  kWindow,
  kRegion,
  kDeviceMemory,
  kDomain,
  kThreadDomain,
  kContext
};
inline constexpr std::size_t kObjectKinds = static_cast<std::size_t>(ObjectKind::kContext) + 1;

// What was recorded when the object was made. Addresses are compared, never followed.
struct Record {
  const void* context = nullptr;
  const void* device = nullptr;
  std::uint32_t handle = 0;
  bool counted = false;  // has a place among those that the device offers
};

enum class Presence : unsigned char { kUnknown, kLive, kGone };

class LiveObjects {
 public:
  static constexpr std::size_t kKept = 512;

  ~LiveObjects();

  // Takes a place for one more object; false if the device has `max` of the kind already.
  bool take_place(ObjectKind kind, const void* device, std::uint32_t max);
  void give_place_back(ObjectKind kind, const void* device);

  // `object` is the address that the program knows. REQUIRES: not live.
  void add(ObjectKind kind, void* object, const Record& record);
  // Ends its life and gives its place back. Its memory, which `release` frees, is kept for a while.
  void bury(ObjectKind kind, const void* object, void* memory, void (*release)(void*));

  [[nodiscard]] Presence find(ObjectKind kind, const void* object, Record& record) const;
  [[nodiscard]] std::vector<void*> list(ObjectKind kind, const void* context) const;

  // Around a fork: nobody else may be inside.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct Grave {
    const void* object;
    void* memory;
    void (*release)(void*);
  };
  struct Kind {
    std::unordered_map<const void*, Record> live;
    std::unordered_set<const void*> gone;
    std::deque<Grave> graves;                     // oldest first
    std::map<const void*, std::uint32_t> places;  // taken, by device
  };
  [[nodiscard]] Kind& of(ObjectKind kind) { return kinds_[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const Kind& of(ObjectKind kind) const { return kinds_[static_cast<std::size_t>(kind)]; }

  mutable std::mutex mutex_;
  std::array<Kind, kObjectKinds> kinds_;
};

// The one of this process.
LiveObjects& live_objects();

}  // namespace rrdma::verbs
