#include "preload/verbs/injected_calls.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/format.h"
#include "base/raw_syscall.h"
#include "faults/words.h"
#include "host/clock.h"
#include "host/explain.h"
#include "preload/verbs/live_objects.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/queues/completion_queue.h"

namespace rrdma::verbs {
namespace {

using faults::Injection;
using faults::Kind;
using faults::Rule;

thread_local __attribute__((tls_model("initial-exec"))) int spared = 0;

const std::string& name_of(const ibv_context* context) {
  return own(const_cast<ibv_context*>(context)).nic_device->identity().name;
}

void wait_for(Duration time) {
  timespec left{.tv_sec = time.ns / 1'000'000'000, .tv_nsec = time.ns % 1'000'000'000};
  (void)raw::ppoll(nullptr, 0, &left);
}

template <typename T>
void exchange(T*& slot, T* function) {
  __atomic_store_n(&slot, function, __ATOMIC_RELAXED);
}

// ---- moving queue pairs to the error state ----

void push_event(const ibv_context* context, ibv_event_type type, void* object) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = static_cast<ibv_qp*>(object);
  own(const_cast<ibv_context*>(context)).async_events->push(event);
}

// A QP by number, looked up under the lane's lock, because the program may destroy it at any time.
class NumberedQp {
 public:
  NumberedQp(const ibv_context* context, std::uint32_t number)
      : context_(own(const_cast<ibv_context*>(context))),
        lane_(context_.lanes->of(wire::Qpn(number))),
        number_(number) {}

  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] wire::Gid peer() const {
    std::lock_guard lock(lane_.mutex());
    const transport::QueuePair* qp = find();
    return qp != nullptr ? qp->path.remote : wire::Gid{};
  }
  [[nodiscard]] bool reports_to(const ibv_cq* cq) const {
    std::lock_guard lock(lane_.mutex());
    const transport::QueuePair* qp = find();
    if (qp == nullptr || qp->owner == nullptr) return false;
    const ibv_qp& abi = static_cast<Qp*>(qp->owner)->qp_base;
    return abi.send_cq == cq || abi.recv_cq == cq;
  }
  // Moves it to the error state, with or without an event.
  void fail(bool tells) const {
    std::lock_guard lock(lane_.mutex());
    transport::QueuePair* qp = find();
    if (qp == nullptr || qp->owner == nullptr) return;
    auto* const owner = static_cast<Qp*>(qp->owner);
    const Instant now = host::now();
    transport::QpAttributes to;
    to.state = transport::QpState::kError;
    lane_.send_held();
    if (!lane_.engine().modify_qp(*qp, to, IBV_QP_STATE, now)) return;
    owner->qp_base.state = IBV_QPS_ERR;
    if (tells) push_event(&context_.context, IBV_EVENT_QP_FATAL, owner->abi());
    lane_.transmit(now);
  }
  // Replaces its receives with an empty queue, or restores them. `empty` must live until then. Null: it has
  // no receives.
  void starve(std::unique_ptr<objects::ReceiveQueue>& empty, bool starves) const {
    std::lock_guard lock(lane_.mutex());
    transport::QueuePair* qp = find();
    if (qp == nullptr || qp->type == transport::QpType::kXrcReceive) return;
    objects::ReceiveQueue* const full = qp->shared_queue != nullptr ? qp->shared_queue : &qp->receive_queue;
    if (starves == (qp->incoming != full)) return;
    if (starves) {
      empty = std::make_unique<objects::ReceiveQueue>(1, 1);
      empty->pd = full->pd;
    }
    qp->incoming = starves ? empty.get() : full;
  }

 private:
  [[nodiscard]] transport::QueuePair* find() const { return lane_.engine().find_qp(wire::Qpn(number_)); }

  Context& context_;
  nic::Lane& lane_;
  std::uint32_t number_;
};

std::vector<NumberedQp> queue_pairs_of(const ibv_context* context) {
  std::vector<NumberedQp> all;
  for (void* object : live_objects().list(ObjectKind::kQp, context))
    all.emplace_back(context, static_cast<ibv_qp*>(object)->qp_num);
  return all;
}

// ---- calls through pointers ----

int injected_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  const CallSite posted = call_site();
  const int error = inject("ibv_post_send", qp->context);
  if (error == 0) return post_send_from(posted, qp, wr, bad);
  if (bad != nullptr) *bad = wr;
  return error;
}

int injected_wr_complete(ibv_qp_ex* qp) {
  const CallSite posted = call_site();
  const int error = inject("ibv_wr_complete", qp->qp_base.context);
  if (error == 0) return wr_complete_from(posted, qp);
  wr_abort(qp);
  errno = error;
  return error;
}

int injected_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const int error = inject("ibv_post_recv", qp->context);
  if (error == 0) return post_recv(qp, wr, bad);
  if (bad != nullptr) *bad = wr;
  return error;
}

int injected_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const int error = inject("ibv_post_srq_recv", srq->context);
  if (error == 0) return post_srq_recv(srq, wr, bad);
  if (bad != nullptr) *bad = wr;
  return error;
}

int injected_req_notify_cq(ibv_cq* cq, int solicited_only) {
  const int error = inject("ibv_req_notify_cq", cq->context);
  return error != 0 ? error : req_notify_cq(cq, solicited_only);
}

// The status that a successful completion must get instead. Its queue pair fails with it, as on hardware.
int injected_status(const ibv_context* context, std::uint32_t qpn) {
  const NumberedQp qp(context, qpn);
  const auto injection = faults::Table::instance().consider_completion(name_of(context), qpn, qp.peer());
  if (!injection) return IBV_WC_SUCCESS;
  qp.fail(false);
  faults::explain_injection(
      injection->number, injection->text,
      formatted("completion {} of QP {:#x} on {} was reported as {} and the QP is in the error state.",
                injection->nth, qpn, name_of(context), faults::status_name(injection->error)));
  return injection->error;
}

// Whether waiting completions must stay hidden (cq=delay). A program that sleeps for events gets no second
// event, so for it the call itself takes the delay.
bool is_early(Cq& cq) {
  struct Waiting {
    std::mutex mutex;
    std::map<const Cq*, Instant> since;
  };
  static auto* const waiting = new Waiting;
  const auto delay = faults::Table::instance().completion_delay(name_of(cq.context));
  if (!delay) return false;
  if (cq.queue.is_empty()) cq.lanes.poll();
  if (cq.queue.is_empty()) return false;
  if (cq.notifications != nullptr) {
    wait_for(*delay);
    return false;
  }
  const std::lock_guard lock(waiting->mutex);
  const auto [since, first] = waiting->since.try_emplace(&cq, host::now());
  if (first || host::now() < since->second + *delay) return true;
  waiting->since.erase(since);
  return false;
}

int injected_poll_cq(ibv_cq* cq, int count, ibv_wc* wc) {
  if (const int error = inject("ibv_poll_cq", cq->context); error != 0) return -error;
  if (faults::armed(Kind::kCqDelay) && is_early(own(cq))) return 0;
  const int taken = poll_cq(cq, count, wc);
  if (!faults::armed(Kind::kStatus)) return taken;
  for (int i = 0; i < taken; ++i) {
    if (wc[i].status == IBV_WC_SUCCESS)
      wc[i].status = static_cast<ibv_wc_status>(injected_status(cq->context, wc[i].qp_num));
  }
  return taken;
}

void change_current(Cq& cq) {
  if (cq.status != IBV_WC_SUCCESS || !faults::armed(Kind::kStatus)) return;
  cq.status = static_cast<ibv_wc_status>(injected_status(cq.context, cq.current.qpn.value));
}

int injected_start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  if (const int error = inject("ibv_start_poll", cq->context); error != 0) return error;
  if (faults::armed(Kind::kCqDelay) && is_early(own(cq))) return ENOENT;
  const int result = start_poll(cq, attr);
  if (result == 0) change_current(own(cq));
  return result;
}

int injected_next_poll(ibv_cq_ex* cq) {
  const int result = next_poll(cq);
  if (result == 0) change_current(own(cq));
  return result;
}

// ---- installing and removing the checks ----

void choose_calls(Cq& cq, bool asks) {
  if (!cq.extended) return;
  exchange(cq.start_poll, asks ? injected_start_poll : start_poll);
  exchange(cq.next_poll, asks ? injected_next_poll : next_poll);
}

void choose_calls(Qp& qp, bool asks) {
  if (qp.has_builders) exchange(qp.wr_complete, asks ? injected_wr_complete : wr_complete);
}

void choose_calls(Context& context, bool asks) {
  ibv_context_ops& ops = context.context.ops;
  exchange(ops.post_send, asks ? injected_post_send : post_send);
  exchange(ops.post_recv, asks ? injected_post_recv : post_recv);
  exchange(ops.post_srq_recv, asks ? injected_post_srq_recv : post_srq_recv);
  exchange(ops.req_notify_cq, asks ? injected_req_notify_cq : req_notify_cq);
  exchange(ops.poll_cq, asks ? injected_poll_cq : poll_cq);
  for (void* object : live_objects().list(ObjectKind::kCq, &context.context))
    choose_calls(own(static_cast<ibv_cq*>(object)), asks);
  for (void* object : live_objects().list(ObjectKind::kQp, &context.context))
    choose_calls(own(static_cast<ibv_qp*>(object)), asks);
}

bool calls_ask() {
  return faults::armed(Kind::kVerb) || faults::armed(Kind::kSlowVerb) || faults::armed(Kind::kStatus) ||
         faults::armed(Kind::kCqDelay);
}

// All open contexts, and the effects of rules on their objects.
class InjectedObjects final : public faults::Actor {
 public:
  void add(Context& context) {
    const std::lock_guard lock(mutex_);
    contexts_.push_back(&context);
    if (calls_ask()) choose_calls(context, true);
  }
  void remove(Context& context) {
    const std::lock_guard lock(mutex_);
    std::erase(contexts_, &context);
  }

  void handle_rules(const std::vector<Rule>& active) override {
    const std::lock_guard lock(mutex_);
    for (Context* context : contexts_) {
      choose_calls(*context, calls_ask());
      for (const NumberedQp& qp : queue_pairs_of(&context->context)) choose_receives(*context, qp, active);
    }
  }
  // Adds a queue pair that was just created.
  void add(const Context& context, const NumberedQp& qp) {
    const std::vector<Rule> active = faults::Table::instance().active();
    const std::lock_guard lock(mutex_);
    choose_receives(context, qp, active);
  }

  void act(const Rule& rule) override {
    const std::lock_guard lock(mutex_);
    for (Context* context : contexts_) {
      const ibv_context* abi = &context->context;
      if (!rule.device.empty() && rule.device != name_of(abi)) continue;
      switch (rule.kind) {
        case Kind::kQpError: strike_queue_pairs(rule, abi); break;
        case Kind::kCqOverrun: overrun_queues(rule, abi); break;
        case Kind::kSrqLimit: reach_limits(rule, abi); break;
        case Kind::kDeviceFatal:
          for (const NumberedQp& qp : queue_pairs_of(abi)) qp.fail(false);
          break;
        default: break;
      }
    }
  }

 private:
  static void strike_queue_pairs(const Rule& rule, const ibv_context* context) {
    for (const NumberedQp& qp : queue_pairs_of(context)) {
      if (rule.qpn && *rule.qpn != qp.number()) continue;
      if (!rule.concerns_peer(qp.peer())) continue;
      // Reported first: the program may end as soon as it sees the error.
      faults::explain_injection(
          rule.number, rule.text,
          formatted("QP {:#x} on {} is in the error state.", qp.number(), name_of(context)));
      qp.fail(true);
    }
  }

  // As on hardware: raises the event, and every queue pair that completes into the queue fails.
  static void overrun_queues(const Rule& rule, const ibv_context* context) {
    const std::vector<NumberedQp> queue_pairs = queue_pairs_of(context);
    for (void* object : live_objects().list(ObjectKind::kCq, context)) {
      auto* const cq = static_cast<ibv_cq*>(object);
      bool concerned = !rule.qpn;
      for (const NumberedQp& qp : queue_pairs) {
        if (!qp.reports_to(cq) || (rule.qpn && *rule.qpn != qp.number())) continue;
        concerned = true;
        qp.fail(false);
      }
      if (!concerned) continue;
      push_event(context, IBV_EVENT_CQ_ERR, cq);
      faults::explain_injection(rule.number, rule.text,
                                formatted("a CQ on {} was overrun.", name_of(context)));
    }
  }

  static void reach_limits(const Rule& rule, const ibv_context* context) {
    for (void* srq : live_objects().list(ObjectKind::kSrq, context)) {
      push_event(context, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
      faults::explain_injection(rule.number, rule.text,
                                formatted("an SRQ on {} is at its limit.", name_of(context)));
    }
  }

  void choose_receives(const Context& context, const NumberedQp& qp, const std::vector<Rule>& active) {
    const bool starves = std::any_of(active.begin(), active.end(), [&](const Rule& rule) {
      return rule.kind == Kind::kRnr && (rule.device.empty() || rule.device == name_of(&context.context)) &&
             (!rule.qpn || *rule.qpn == qp.number()) && rule.concerns_peer(qp.peer());
    });
    const auto known = empty_.find(qp.number());
    if (!starves && known == empty_.end()) return;
    qp.starve(empty_[qp.number()], starves);
    if (!starves) empty_.erase(qp.number());
  }

  std::mutex mutex_;
  std::vector<Context*> contexts_;
  std::map<std::uint32_t, std::unique_ptr<objects::ReceiveQueue>>
      empty_;  // by the number of the starved queue pair
};

InjectedObjects& injected_objects() {
  static auto* const all = [] {
    auto* const made = new InjectedObjects;
    faults::Table::instance().add(*made);
    return made;
  }();
  return *all;
}

}  // namespace

NoInjection::NoInjection() { ++spared; }
NoInjection::~NoInjection() { --spared; }

int strike_armed(const char* call, const ibv_context* context) {
  if (spared != 0) return 0;
  const std::string& device = name_of(context);
  const auto injected = faults::Table::instance().consider_call(call, device);
  if (!injected) return 0;
  if (injected->delay.ns != 0) {
    faults::explain_injection(injected->number, injected->text,
                              formatted("call {} of {} on {} took {} us longer.", injected->nth, call, device,
                                        injected->delay.ns / 1000));
    wait_for(injected->delay);
    return 0;
  }
  faults::explain_injection(injected->number, injected->text,
                            formatted("call {} of {} on {} failed with {}.", injected->nth, call, device,
                                      faults::errno_name(injected->error)));
  errno = injected->error;
  return injected->error;
}

void note_opened(Context& context) { injected_objects().add(context); }
void note_closed(Context& context) { injected_objects().remove(context); }
void note_made(Cq& cq) {
  if (calls_ask()) choose_calls(cq, true);
}
void note_made(Qp& qp) {
  if (calls_ask()) choose_calls(qp, true);
  if (faults::armed(Kind::kRnr))
    injected_objects().add(own(qp.qp_base.context), NumberedQp(qp.qp_base.context, qp.qp_base.qp_num));
}

}  // namespace rrdma::verbs
