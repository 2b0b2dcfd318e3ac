// Standing: what an object that a program hands to the control path is. One that is not alive is refused without a
// look at it, as the kernel refuses a handle that it does not know; one that the system's library made is passed on.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <new>

#include "host/explain.h"
#include "preload/verbs/device/context.h"
#include "preload/verbs/live_objects.h"
#include "preload/verbs/struck_calls.h"

namespace rrdma::verbs {

enum class Standing : unsigned char {
  kForeign,  // of a device that is not ours
  kLive,
  kGone,     // destroyed already
  kDamaged,  // a copy, or its handle or context are not what they were
};

constexpr Thing thing_of(const ibv_qp*) { return Thing::kQp; }
constexpr Thing thing_of(const ibv_ah*) { return Thing::kAh; }
constexpr Thing thing_of(const ibv_srq*) { return Thing::kSrq; }
constexpr Thing thing_of(const ibv_cq*) { return Thing::kCq; }
constexpr Thing thing_of(const ibv_comp_channel*) { return Thing::kChannel; }
constexpr Thing thing_of(const ibv_xrcd*) { return Thing::kXrcDomain; }
constexpr Thing thing_of(const ibv_mw*) { return Thing::kWindow; }
constexpr Thing thing_of(const ibv_mr*) { return Thing::kRegion; }
constexpr Thing thing_of(const ibv_dm*) { return Thing::kDeviceMemory; }
constexpr Thing thing_of(const ibv_pd*) { return Thing::kDomain; }
constexpr Thing thing_of(const ibv_td*) { return Thing::kThreadDomain; }
constexpr Thing thing_of(const ibv_context*) { return Thing::kContext; }

template <typename Abi>
std::uint32_t handle_of(const Abi& abi) {
  if constexpr (requires { abi.handle; }) {
    return abi.handle;
  } else {
    return 0;
  }
}

template <typename Abi>
const ibv_context* context_of(const Abi& abi) {
  if constexpr (std::is_same_v<Abi, ibv_context>) {
    return &abi;
  } else {
    return abi.context;
  }
}

template <typename Abi>
Standing standing_of(const Abi* abi) {
  Record record;
  switch (live_objects().find(thing_of(abi), abi, record)) {
    case Presence::kLive: {
      const bool intact = context_of(*abi) == record.context && handle_of(*abi) == record.handle;
      return intact ? Standing::kLive : Standing::kDamaged;
    }
    case Presence::kGone: return Standing::kGone;
    case Presence::kUnknown: break;
  }
  const ibv_context* context = context_of(*abi);
  return context == nullptr || is_own(context) ? Standing::kDamaged : Standing::kForeign;
}

// 0 for what is alive, else ENOENT or EINVAL with a sentence.
int refuse_standing(const char* call, Thing kind, Standing standing);

// The same for the object that a call is for; a fault on purpose may refuse the call as well.
template <typename Abi>
int refuse_unless_live(const char* call, const Abi* abi, Standing standing) {
  if (const int error = refuse_standing(call, thing_of(abi), standing); error != 0) return error;
  return strike(call, context_of(*abi));
}

// The same for what a call gets besides its first object: it must be of the same context.
template <typename Abi>
int check_argument(const char* call, const Abi* abi, const ibv_context* context) {
  Standing standing = standing_of(abi);
  if (standing == Standing::kLive && context_of(*abi) != context) standing = Standing::kForeign;
  return refuse_standing(call, thing_of(abi), standing);
}

// A place among the objects that the device offers, from before an object is made until it is there.
class Place {
 public:
  // `counted`: false for what is no object of the device, like a parent domain.
  Place(const char* call, Thing kind, const ibv_context* context, bool counted = true);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  // False: refused, with errno and a sentence.
  [[nodiscard]] bool granted() const { return granted_; }

  // The object is complete: from now on it is alive.
  template <typename Abi>
  void settle(Abi* abi) {
    live_objects().add(kind_, abi,
                       {.context = context_of(*abi),
                        .device = device_,
                        .handle = handle_of(*abi),
                        .counted = std::exchange(granted_, false) && counted_});
  }

 private:
  const Thing kind_;
  const void* const device_;
  const bool counted_;
  bool granted_;
};

// Destroys an object of ours. REQUIRES: it is alive, and `abi` is the program's view of it.
template <typename Object, typename Abi>
void bury(Object& object, const Abi* abi) {
  std::destroy_at(&object);
  live_objects().bury(thing_of(abi), abi, &object, [](void* memory) {
    constexpr bool kAligned = alignof(Object) > __STDCPP_DEFAULT_NEW_ALIGNMENT__;
    if constexpr (kAligned) {
      ::operator delete (memory, std::align_val_t{alignof(Object)});
    } else {
      ::operator delete(memory);
    }
  });
}

// Makes an object that its program has damaged what it was, so that it can be destroyed.
template <typename Abi>
void mend(Abi* abi) {
  Record record;
  if (live_objects().find(thing_of(abi), abi, record) != Presence::kLive) return;
  abi->context = static_cast<ibv_context*>(const_cast<void*>(record.context));
  if constexpr (requires { abi->handle; }) abi->handle = record.handle;
}

}  // namespace rrdma::verbs
