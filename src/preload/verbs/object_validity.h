// ObjectValidity: the state of an object that a program passes to the control path. A dead object is refused
// without access to it, as the kernel refuses an unknown handle. An object of the system's library is passed
// on.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <new>

#include "host/explain.h"
#include "preload/verbs/device/context.h"
#include "preload/verbs/injected_calls.h"
#include "preload/verbs/live_objects.h"

namespace rrdma::verbs {

enum class ObjectValidity : unsigned char {
  kForeign,  // of a device that is not ours
  kLive,
  kGone,     // already destroyed
  kDamaged,  // a copy, or its handle or context changed
  kNull,
};

constexpr ObjectKind kind_of(const ibv_qp*) { return ObjectKind::kQp; }
constexpr ObjectKind kind_of(const ibv_ah*) { return ObjectKind::kAh; }
constexpr ObjectKind kind_of(const ibv_srq*) { return ObjectKind::kSrq; }
constexpr ObjectKind kind_of(const ibv_cq*) { return ObjectKind::kCq; }
constexpr ObjectKind kind_of(const ibv_comp_channel*) { return ObjectKind::kChannel; }
constexpr ObjectKind kind_of(const ibv_xrcd*) { return ObjectKind::kXrcDomain; }
constexpr ObjectKind kind_of(const ibv_mw*) { return ObjectKind::kWindow; }
constexpr ObjectKind kind_of(const ibv_mr*) { return ObjectKind::kRegion; }
constexpr ObjectKind kind_of(const ibv_dm*) { return ObjectKind::kDeviceMemory; }
constexpr ObjectKind kind_of(const ibv_pd*) { return ObjectKind::kDomain; }
constexpr ObjectKind kind_of(const ibv_td*) { return ObjectKind::kThreadDomain; }
constexpr ObjectKind kind_of(const ibv_context*) { return ObjectKind::kContext; }

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
ObjectValidity validity_of(const Abi* abi) {
  if (abi == nullptr) return ObjectValidity::kNull;
  Record record;
  switch (live_objects().find(kind_of(abi), abi, record)) {
    case Presence::kLive: {
      const bool intact = context_of(*abi) == record.context && handle_of(*abi) == record.handle;
      return intact ? ObjectValidity::kLive : ObjectValidity::kDamaged;
    }
    case Presence::kGone: return ObjectValidity::kGone;
    case Presence::kUnknown: break;
  }
  const ibv_context* context = context_of(*abi);
  return context == nullptr || is_own(context) ? ObjectValidity::kDamaged : ObjectValidity::kForeign;
}

// 0 if it is alive, else ENOENT, or EINVAL for a null pointer, with an explanation.
int refuse_invalid(const char* call, ObjectKind kind, ObjectValidity validity);

// The same for the object that a call acts on. An injected fault may refuse the call as well.
template <typename Abi>
int refuse_unless_live(const char* call, const Abi* abi, ObjectValidity validity) {
  if (const int error = refuse_invalid(call, kind_of(abi), validity); error != 0) return error;
  return inject(call, context_of(*abi));
}

// The same for the other objects of a call: they must be of the same context.
template <typename Abi>
int check_argument(const char* call, const Abi* abi, const ibv_context* context) {
  ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kLive && context_of(*abi) != context) validity = ObjectValidity::kForeign;
  return refuse_invalid(call, kind_of(abi), validity);
}

// A reserved place within the device's limit, from before an object is created until it is live.
class Place {
 public:
  // `counted`: false for objects that the device does not count, such as a parent domain.
  Place(const char* call, ObjectKind kind, const ibv_context* context, bool counted = true);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  // False: refused, with errno and an explanation.
  [[nodiscard]] bool granted() const { return granted_; }

  // Marks the complete object as live.
  template <typename Abi>
  void settle(Abi* abi) {
    live_objects().add(kind_, abi,
                       {.context = context_of(*abi),
                        .device = device_,
                        .handle = handle_of(*abi),
                        .counted = std::exchange(granted_, false) && counted_});
  }

 private:
  const ObjectKind kind_;
  const void* const device_;
  const bool counted_;
  bool granted_;
};

// Destroys an object of ours. REQUIRES: it is alive, and `abi` is the program's view of it.
template <typename Object, typename Abi>
void bury(Object& object, const Abi* abi) {
  std::destroy_at(&object);
  live_objects().bury(kind_of(abi), abi, &object, [](void* memory) {
    constexpr bool kAligned = alignof(Object) > __STDCPP_DEFAULT_NEW_ALIGNMENT__;
    if constexpr (kAligned) {
      ::operator delete (memory, std::align_val_t{alignof(Object)});
    } else {
      ::operator delete(memory);
    }
  });
}

// Restores an object that its program has damaged, so that it can be destroyed.
template <typename Abi>
void mend(Abi* abi) {
  Record record;
  if (live_objects().find(kind_of(abi), abi, record) != Presence::kLive) return;
  abi->context = static_cast<ibv_context*>(const_cast<void*>(record.context));
  if constexpr (requires { abi->handle; }) abi->handle = record.handle;
}

}  // namespace rrdma::verbs
