// Completion queues: creation, polling, notification, resizing, destruction. The extended polling calls are
// in completion_queue_ex.cc.
#include "preload/verbs/queues/completion_queue.h"

#include <infiniband/verbs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>

#include "base/format.h"
#include "base/raw_syscall.h"
#include "host/clock.h"
#include "host/explain.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/kept_errno.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/queues/work_completion.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {
namespace {

std::string entries_text(const ibv_context* context, std::int64_t wanted) {
  return formatted("cqe is {}, but must be between 1 and max_cqe of ibv_query_device ({}).", wanted,
                   limit_of(context, "max_cqe", kCqeMax));
}

// The capacity of a queue, which `cqe` reports. No adapter has a ring of one entry, and programs with two
// queues on one channel rely on that. An event of one queue makes them poll the other, and they poll the
// first only after the next work request (ib_send_lat -e, whose send queue has one entry).
std::uint32_t room_for(std::int64_t entries) { return std::max(static_cast<std::uint32_t>(entries), 2u); }

int take(Cq& cq, int count, ibv_wc* wc) {
  if (cq.queue.is_empty()) return 0;
  cq.passage.lock(cq.consumer);
  const std::lock_guard lock(cq.consumer, std::adopt_lock);
  int taken = 0;
  for (; taken < count; ++taken) {
    const objects::Completion* completion = cq.queue.peek();
    if (completion == nullptr) break;
    translate(*completion, wc[taken]);
    cq.queue.pop();
  }
  return taken;
}

}  // namespace

Cq::Cq(std::uint32_t entries, Context& owner, Channel* events)
    : ibv_cq_ex{},
      runtime(*owner.runtime),
      all_lanes(*owner.lanes),
      notifications(events),
      queue(entries, this, events != nullptr) {}

// By the clock, because a poll takes 60 ns here and 6 us on an emulated machine.
void Cq::wait_in_vain() {
  const Instant now = host::now();
  switch (idle_polls.pause_at(now)) {
    case nic::IdlePolls::Pause::kNone: return;
    case nic::IdlePolls::Pause::kYield:
      (void)raw::sched_yield();
      idle_polls.note_yield(host::now() - now);
      return;
    case nic::IdlePolls::Pause::kNap: break;
  }
  timespec moment{.tv_sec = 0, .tv_nsec = 1'000};
  (void)raw::ppoll(nullptr, 0, &moment);
}

void Cq::on_completion(objects::CompletionQueue&) {
  if (notifications == nullptr) return;
  {
    std::lock_guard lock(notifications->mutex);
    if (events_waiting++ == 0) notifications->waiting.push_back(*this);
  }
  notifications->descriptor.raise();
}

void Cq::on_overflow(objects::CompletionQueue& full) {
  host::explain(
      host::Severity::kError, "ibv_poll_cq",
      formatted(
          "a completion queue of {} entries overflowed and takes no more completions: {} were waiting to be "
          "polled when the next one came. Its QPs hold up to {} requests. Poll completions before you post "
          "more, or create the queue with more entries.",
          full.capacity(), full.capacity(), requests_max.load(std::memory_order_relaxed)));
  ibv_async_event event{};
  event.element.cq = abi();
  event.event_type = IBV_EVENT_CQ_ERR;
  own(context).async_events->push(event);
}

Cq* create_cq(const char* call, ibv_context* context, const CqForm& form) {
  Context& owner = own(context);
  if (owner.forked()) {
    refuse_forked(call);
    return nullptr;
  }
  if (form.entries < 1 || static_cast<std::uint32_t>(form.entries) > limit_of(context, "max_cqe", kCqeMax)) {
    host::fail(EINVAL, call, entries_text(context, form.entries));
    return nullptr;
  }
  if (form.vector < 0 || form.vector >= context->num_comp_vectors) {
    host::fail(
        EINVAL, call,
        formatted("comp_vector is {}, but must be between 0 and {} (num_comp_vectors of the context is {}).",
                  form.vector, context->num_comp_vectors - 1, context->num_comp_vectors));
    return nullptr;
  }
  if (form.channel != nullptr && check_argument(call, form.channel, context) != 0) return nullptr;
  Place place(call, ObjectKind::kCq, context);
  if (!place.granted()) return nullptr;
  std::unique_ptr<Cq> cq;
  try {
    cq = std::make_unique<Cq>(room_for(form.entries), owner,
                              form.channel != nullptr ? &own(form.channel) : nullptr);
  } catch (const std::bad_alloc&) {
    host::fail(ENOMEM, call, "no memory for that many entries.");
    return nullptr;
  }
  static std::atomic<std::uint32_t> next_handle{1};
  cq->context = context;
  cq->handle = next_handle.fetch_add(1, std::memory_order_relaxed);
  cq->channel = form.channel;
  cq->cq_context = form.user_context;
  cq->cqe = static_cast<int>(cq->queue.capacity());
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  if (form.channel != nullptr) {
    std::lock_guard lock(cq->notifications->mutex);
    ++form.channel->refcnt;
  }
  place.settle(cq->abi());
  return cq.release();
}

int poll_cq(ibv_cq* abi, int count, ibv_wc* wc) {
  Cq& cq = own(abi);
  if (cq.runtime.forked()) [[unlikely]]
    return -refuse_forked("ibv_poll_cq");
  const KeptErrno kept;
  int taken = take(cq, count, wc);
  if (taken == 0) {
    cq.lanes.poll();
    taken = take(cq, count, wc);
  }
  if (taken != 0) {
    cq.idle_polls.note_busy();
  } else {
    cq.note_idle_poll();
  }
  return taken;
}

int req_notify_cq(ibv_cq* abi, int solicited_only) {
  Cq& cq = own(abi);
  if (cq.runtime.forked()) [[unlikely]]
    return refuse_forked("ibv_req_notify_cq");
  const KeptErrno kept;
  cq.queue.arm(solicited_only != 0);
  cq.lanes.rely_on_threads();
  return 0;
}

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) {
  if (const int error = refuse_unless_live("ibv_modify_cq", cq, validity_of(cq)); error != 0) return error;
  if (attr->attr_mask != IBV_CQ_ATTR_MODERATE) {
    return host::fail(EINVAL, "ibv_modify_cq", "attr_mask must be IBV_CQ_ATTR_MODERATE.");
  }
  // Moderation permits later events; delivering them at once is also correct.
  return 0;
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                                  int vector) {
  const ObjectValidity validity = validity_of(context);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(nullptr, ibv_create_cq, "IBVERBS_1.1", context, cqe, cq_context, channel, vector);
  if (refuse_unless_live("ibv_create_cq", context, validity) != 0) return nullptr;
  Cq* cq = create_cq("ibv_create_cq", context,
                     {.entries = cqe, .user_context = cq_context, .channel = channel, .vector = vector});
  return cq != nullptr ? cq->abi() : nullptr;
}

RRDMA_VERBS int ibv_resize_cq(ibv_cq* abi, int cqe) {
  constexpr const char* kCall = "ibv_resize_cq";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(EOPNOTSUPP, ibv_resize_cq, "IBVERBS_1.1", abi, cqe);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Cq& cq = own(abi);
  if (cq.runtime.forked()) return refuse_forked(kCall);
  if (cqe < 1 || static_cast<std::uint32_t>(cqe) > limit_of(abi->context, "max_cqe", kCqeMax)) {
    return host::fail(EINVAL, kCall, entries_text(abi->context, cqe));
  }
  const std::lock_guard producers(cq.all_lanes);
  std::lock_guard consumer(cq.consumer);
  if (!cq.queue.resize(room_for(cqe))) {
    return host::fail(EINVAL, kCall, "more completions wait in the queue than would fit; poll them first.");
  }
  cq.cqe = static_cast<int>(cq.queue.capacity());
  return 0;
}

RRDMA_VERBS int ibv_destroy_cq(ibv_cq* abi) {
  constexpr const char* kCall = "ibv_destroy_cq";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign) RRDMA_PASS_ON(EOPNOTSUPP, ibv_destroy_cq, "IBVERBS_1.1", abi);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Cq& cq = own(abi);
  if (cq.runtime.forked()) return refuse_forked(kCall);
  {
    const std::lock_guard producers(cq.all_lanes);
    if (cq.queue.users != 0)
      return host::fail(EBUSY, kCall,
                        "QPs or shared receive queues still report to the CQ; destroy them first.");
  }
  cq.all_lanes.release(cq.lanes);
  // Nothing is added from here on. Withdraw the events that the program has not taken; those that it has
  // taken must be acknowledged.
  if (Channel* channel = cq.notifications; channel != nullptr) {
    std::lock_guard lock(channel->mutex);
    if (cq.event_hook.linked()) cq.event_hook.unlink();
    for (; cq.events_waiting != 0; --cq.events_waiting) channel->descriptor.withdraw();
    --channel->refcnt;
  }
  own(abi->context).async_events->withdraw(abi);
  wait_for_acknowledgements(abi->mutex, abi->cond, abi->comp_events_completed, cq.events_reported);
  wait_for_acknowledgements(abi->mutex, abi->cond, abi->async_events_completed, cq.async_events_reported);
  pthread_mutex_destroy(&cq.mutex);
  pthread_cond_destroy(&cq.cond);
  bury(cq, abi);
  return 0;
}
