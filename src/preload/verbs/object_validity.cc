#include "preload/verbs/object_validity.h"

#include "base/format.h"
#include "preload/verbs/device/limits.h"

namespace rrdma::verbs {
namespace {

struct Offer {
  const char* name;
  const char* attribute;  // of ibv_query_device; null: unbounded
  std::uint32_t max;
};

Offer offer_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kQp: return {"QP", "max_qp", kQpMax};
    case ObjectKind::kAh: return {"address handle", "max_ah", kAhMax};
    case ObjectKind::kSrq: return {"shared receive queue", "max_srq", kSrqMax};
    case ObjectKind::kCq: return {"CQ", "max_cq", kCqMax};
    case ObjectKind::kChannel: return {"completion channel", nullptr, 0};
    case ObjectKind::kXrcDomain: return {"XRC domain", nullptr, 0};
    case ObjectKind::kWindow: return {"memory window", "max_mw", kKeysMax};
    case ObjectKind::kRegion: return {"memory region", "max_mr", kKeysMax};
    case ObjectKind::kDeviceMemory: return {"device memory", nullptr, 0};
    case ObjectKind::kDomain: return {"protection domain", "max_pd", kPdMax};
    case ObjectKind::kThreadDomain: return {"thread domain", nullptr, 0};
    case ObjectKind::kContext: return {"context", nullptr, 0};
  }
  return {"object", nullptr, 0};
}

// REQUIRES: the kind is counted.
Offer offer_at(ObjectKind kind, const ibv_context* context) {
  Offer offer = offer_of(kind);
  offer.max = limit_of(context, offer.attribute, offer.max);
  return offer;
}

}  // namespace

// ENOENT, as from the kernel's handle lookup (rdma_lookup_get_uobject). Kernels before 6.15 turn it into
// EINVAL in calls that use an object; calls that destroy one have always returned it.
int refuse_invalid(const char* call, ObjectKind kind, ObjectValidity validity) {
  const char* name = offer_of(kind).name;
  switch (validity) {
    case ObjectValidity::kLive: return 0;
    case ObjectValidity::kGone:
      return host::fail(ENOENT, call, formatted("the {} is destroyed already.", name));
    case ObjectValidity::kForeign:
      return host::fail(ENOENT, call, formatted("the {} is of another context or another device.", name));
    case ObjectValidity::kDamaged:
      return host::fail(ENOENT, call,
                        formatted("this is no {} that was made here: it is a copy, or its handle or its "
                                  "context were changed.",
                                  name));
    case ObjectValidity::kNull:
      return host::fail(
          EINVAL, call,
          formatted("the {} is null. With the system's library, the program would crash here.", name));
  }
  return ENOENT;
}

Place::Place(const char* call, ObjectKind kind, const ibv_context* context, bool counted)
    : kind_(kind),
      device_(context->device),
      counted_(counted && offer_of(kind).attribute != nullptr),
      granted_(!counted_ || live_objects().take_place(kind, device_, offer_at(kind, context).max)) {
  if (granted_) return;
  const Offer offer = offer_at(kind, context);
  host::fail(ENOMEM, call,
             formatted("the device has {} objects of the kind {}, which is {} of ibv_query_device.",
                       offer.max, offer.name, offer.attribute));
}

Place::~Place() {
  if (granted_ && counted_) live_objects().give_place_back(kind_, device_);
}

}  // namespace rrdma::verbs
