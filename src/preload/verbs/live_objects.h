// LiveObjects: the objects that programs have created and not destroyed yet, in all contexts. Closing a
// device destroys the rest. The control path checks here whether an object that a program passes is alive, as
// the kernel looks handles up: a destroyed or damaged object is refused and never touched.
//
// The memory of the last kKept destroyed objects of each kind is kept, so that nothing else gets their
// addresses while a program may still use them.
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

// In the order of destruction: no object depends on one of an earlier kind.
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

// The values recorded at creation. Addresses are compared, never dereferenced.
struct Record {
  const void* context = nullptr;
  const void* device = nullptr;
  std::uint32_t handle = 0;
  bool counted = false;  // counts toward the device's limit
};

enum class Presence : unsigned char { kUnknown, kLive, kGone };

class LiveObjects {
 public:
  static constexpr std::size_t kKept = 512;

  ~LiveObjects();

  // Reserves a place for one more object; false if the device already has `max` of the kind.
  bool take_place(ObjectKind kind, const void* device, std::uint32_t max);
  void give_place_back(ObjectKind kind, const void* device);

  // `object` is the address that the program knows. REQUIRES: not live.
  void add(ObjectKind kind, void* object, const Record& record);
  // Ends its life and returns its place. Its memory, which `release` frees, is kept for a while.
  void bury(ObjectKind kind, const void* object, void* memory, void (*release)(void*));

  [[nodiscard]] Presence find(ObjectKind kind, const void* object, Record& record) const;
  [[nodiscard]] std::vector<void*> list(ObjectKind kind, const void* context) const;

  // Held around a fork, so that no other thread is inside.
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
    std::map<const void*, std::uint32_t> places;  // in use, by device
  };
  [[nodiscard]] Kind& of(ObjectKind kind) { return kinds_[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const Kind& of(ObjectKind kind) const { return kinds_[static_cast<std::size_t>(kind)]; }

  mutable std::mutex mutex_;
  std::array<Kind, kObjectKinds> kinds_;
};

// The instance of this process.
LiveObjects& live_objects();

}  // namespace rrdma::verbs
