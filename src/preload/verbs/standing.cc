#include "preload/verbs/standing.h"

#include <fmt/format.h>

#include "preload/verbs/device/limits.h"

namespace rrdma::verbs {
namespace {

struct Offer {
  const char* name;
  const char* attribute;  // of ibv_query_device; null: without bound
  std::uint32_t max;
};

Offer offer_of(Thing kind) {
  switch (kind) {
    case Thing::kQp: return {"QP", "max_qp", kQpMax};
    case Thing::kAh: return {"address handle", "max_ah", kAhMax};
    case Thing::kSrq: return {"shared receive queue", "max_srq", kSrqMax};
    case Thing::kCq: return {"CQ", "max_cq", kCqMax};
    case Thing::kChannel: return {"completion channel", nullptr, 0};
    case Thing::kXrcDomain: return {"XRC domain", nullptr, 0};
    case Thing::kWindow: return {"memory window", "max_mw", kKeysMax};
    case Thing::kRegion: return {"memory region", "max_mr", kKeysMax};
    case Thing::kDeviceMemory: return {"device memory", nullptr, 0};
    case Thing::kDomain: return {"protection domain", "max_pd", kPdMax};
    case Thing::kThreadDomain: return {"thread domain", nullptr, 0};
    case Thing::kContext: return {"context", nullptr, 0};
  }
  return {"object", nullptr, 0};
}

// REQUIRES: the kind is counted.
Offer offer_at(Thing kind, const ibv_context* context) {
  Offer offer = offer_of(kind);
  offer.max = limit_of(context, offer.attribute, offer.max);
  return offer;
}

}  // namespace

int refuse_standing(const char* call, Thing kind, Standing standing) {
  const char* name = offer_of(kind).name;
  switch (standing) {
    case Standing::kLive: return 0;
    case Standing::kGone: return host::fail(ENOENT, call, fmt::format("the {} is destroyed already.", name));
    case Standing::kForeign:
      return host::fail(EINVAL, call, fmt::format("the {} is of another context or another device.", name));
    case Standing::kDamaged:
      return host::fail(EINVAL, call,
                        fmt::format("this is no {} that was made here: it is a copy, or its handle or its "
                                    "context were changed.",
                                    name));
  }
  return EINVAL;
}

Place::Place(const char* call, Thing kind, const ibv_context* context, bool counted)
    : kind_(kind),
      device_(context->device),
      counted_(counted && offer_of(kind).attribute != nullptr),
      granted_(!counted_ || live_objects().take_place(kind, device_, offer_at(kind, context).max)) {
  if (granted_) return;
  const Offer offer = offer_at(kind, context);
  host::fail(ENOMEM, call,
             fmt::format("the device has {} objects of the kind {}, which is {} of ibv_query_device.",
                         offer.max, offer.name, offer.attribute));
}

Place::~Place() {
  if (granted_ && counted_) live_objects().give_place_back(kind_, device_);
}

}  // namespace rrdma::verbs
