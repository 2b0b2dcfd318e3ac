// Completion channels: CQs with events wait in the order of their first event. Each event is one count of the
// channel's descriptor.
#include <infiniband/verbs.h>

#include <mutex>

#include "host/explain.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/real_library.h"

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  constexpr const char* kCall = "ibv_create_comp_channel";
  const ObjectValidity validity = validity_of(context);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_create_comp_channel, "IBVERBS_1.0", context);
  if (refuse_unless_live(kCall, context, validity) != 0) return nullptr;
  if (own(context).forked()) {
    refuse_forked(kCall);
    return nullptr;
  }
  EventDescriptor descriptor = EventDescriptor::create();
  if (!descriptor.valid()) {
    host::fail(errno, kCall, "no file descriptor is to be had: raise `ulimit -n`.");
    return nullptr;
  }
  auto* channel = new Channel(std::move(descriptor));
  channel->context = context;
  channel->fd = channel->descriptor.fd();
  channel->refcnt = 0;
  Place(kCall, ObjectKind::kChannel, context).settle<ibv_comp_channel>(channel);
  return channel;
}

RRDMA_VERBS int ibv_destroy_comp_channel(ibv_comp_channel* abi) {
  constexpr const char* kCall = "ibv_destroy_comp_channel";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(EOPNOTSUPP, ibv_destroy_comp_channel, "IBVERBS_1.0", abi);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Channel& channel = own(abi);
  {
    std::lock_guard lock(channel.mutex);
    if (channel.refcnt != 0)
      return host::fail(EBUSY, kCall, "CQs still use the channel; destroy them first.");
  }
  bury(channel, abi);
  return 0;
}

RRDMA_VERBS int ibv_get_cq_event(ibv_comp_channel* abi, ibv_cq** cq, void** cq_context) {
  if (!is_own(abi->context)) RRDMA_PASS_ON(-1, ibv_get_cq_event, "IBVERBS_1.1", abi, cq, cq_context);
  Channel& channel = own(abi);
  for (;;) {
    if (!channel.descriptor.wait()) return -1;
    std::lock_guard lock(channel.mutex);
    if (channel.waiting.empty()) continue;  // withdrawn
    Cq& first = channel.waiting.pop_front();
    if (--first.events_waiting != 0) channel.waiting.push_back(first);
    ++first.events_reported;
    *cq = first.abi();
    *cq_context = first.cq_context;
    return 0;
  }
}

RRDMA_VERBS void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  if (!is_own(cq->context)) {
    if (auto* const real_function = RRDMA_REAL(ibv_ack_cq_events, "IBVERBS_1.1")) real_function(cq, count);
    return;
  }
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}
