#include "preload/verbs/device/async_events.h"

#include <algorithm>

#include "preload/verbs/device/context.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {
namespace {

enum class Subject { kNone, kCq, kQp, kSrq };

Subject subject_of(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR: return Subject::kCq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: return Subject::kQp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: return Subject::kSrq;
    default: return Subject::kNone;
  }
}

const void* object_of(const ibv_async_event& event) {
  switch (subject_of(event.event_type)) {
    case Subject::kCq: return event.element.cq;
    case Subject::kQp: return event.element.qp;
    case Subject::kSrq: return event.element.srq;
    case Subject::kNone: break;
  }
  return nullptr;
}

void count_reported(const ibv_async_event& event) {
  switch (subject_of(event.event_type)) {
    case Subject::kCq: ++own(event.element.cq).async_events_reported; break;
    case Subject::kQp: ++own(event.element.qp).events_reported; break;
    case Subject::kSrq: ++own(event.element.srq).events_reported; break;
    case Subject::kNone: break;
  }
}

void count_completed(pthread_mutex_t& mutex, pthread_cond_t& condition, std::uint32_t& completed) {
  pthread_mutex_lock(&mutex);
  ++completed;
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
}

}  // namespace

void AsyncEvents::push(const ibv_async_event& event) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(event);
  }
  descriptor_.raise();
}

int AsyncEvents::take(ibv_async_event& event) {
  for (;;) {
    if (!descriptor_.wait()) return -1;
    std::lock_guard lock(mutex_);
    if (waiting_.empty()) continue;
    event = waiting_.front();
    waiting_.pop_front();
    count_reported(event);
    return 0;
  }
}

void AsyncEvents::withdraw(const void* object) {
  std::lock_guard lock(mutex_);
  const std::size_t gone =
      std::erase_if(waiting_, [&](const ibv_async_event& e) { return object_of(e) == object; });
  for (std::size_t i = 0; i < gone; ++i) descriptor_.withdraw();
}

void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& condition,
                               const std::uint32_t& completed, const std::uint32_t& reported) {
  pthread_mutex_lock(&mutex);
  while (completed != reported) pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
}

}  // namespace rrdma::verbs

using namespace rrdma::verbs;

RRDMA_VERBS int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  if (!is_own(context)) RRDMA_PASS_ON(-1, ibv_get_async_event, "IBVERBS_1.1", context, event);
  return own(context).async_events->take(*event);
}

RRDMA_VERBS void ibv_ack_async_event(ibv_async_event* event) {
  switch (subject_of(event->event_type)) {
    case Subject::kCq: {
      ibv_cq* cq = event->element.cq;
      if (!is_own(cq->context)) break;
      count_completed(cq->mutex, cq->cond, cq->async_events_completed);
      return;
    }
    case Subject::kQp: {
      ibv_qp* qp = event->element.qp;
      if (!is_own(qp->context)) break;
      count_completed(qp->mutex, qp->cond, qp->events_completed);
      return;
    }
    case Subject::kSrq: {
      ibv_srq* srq = event->element.srq;
      if (!is_own(srq->context)) break;
      count_completed(srq->mutex, srq->cond, srq->events_completed);
      return;
    }
    case Subject::kNone: break;
  }
  // Events of ports and devices need no acknowledgement from us; the real library accepts them as well.
  if (auto* const real_function = RRDMA_REAL(ibv_ack_async_event, "IBVERBS_1.1")) real_function(event);
}
