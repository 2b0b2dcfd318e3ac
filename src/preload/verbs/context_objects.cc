#include "preload/verbs/context_objects.h"

#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/queues/multicast.h"

namespace rrdma::verbs {
namespace {

// The live objects of one kind, by the addresses that the program knows.
template <typename Abi>
std::vector<Abi*> left_of(const Context& context) {
  std::vector<Abi*> left;
  for (void* object : live_objects().list(kind_of(static_cast<Abi*>(nullptr)), &context.context)) {
    left.push_back(static_cast<Abi*>(object));
    mend(left.back());
  }
  return left;
}

void destroy(ibv_qp* qp) {
  leave_groups(own(qp));
  qp->events_completed = own(qp).events_reported;
  ibv_destroy_qp(qp);
}

void destroy(ibv_srq* srq) {
  srq->events_completed = own(srq).events_reported;
  ibv_destroy_srq(srq);
}

void destroy(ibv_cq* cq) {
  cq->comp_events_completed = own(cq).events_reported;
  cq->async_events_completed = own(cq).async_events_reported;
  ibv_destroy_cq(cq);
}

void destroy(ibv_xrcd* domain) {
  own(domain).opens = 1;
  close_xrcd(domain);
}

// Parent domains first: each refers to another domain.
void destroy_domains(const Context& context) {
  for (const bool parents : {true, false}) {
    for (ibv_pd* pd : left_of<ibv_pd>(context)) {
      if ((own(pd).original != nullptr) == parents) ibv_dealloc_pd(pd);
    }
  }
}

}  // namespace

void destroy_context_objects(Context& context) {
  for (ibv_qp* qp : left_of<ibv_qp>(context)) destroy(qp);
  for (ibv_ah* ah : left_of<ibv_ah>(context)) ibv_destroy_ah(ah);
  for (ibv_srq* srq : left_of<ibv_srq>(context)) destroy(srq);
  for (ibv_cq* cq : left_of<ibv_cq>(context)) destroy(cq);
  for (ibv_comp_channel* channel : left_of<ibv_comp_channel>(context)) ibv_destroy_comp_channel(channel);
  for (ibv_xrcd* domain : left_of<ibv_xrcd>(context)) destroy(domain);
  for (ibv_mw* mw : left_of<ibv_mw>(context)) dealloc_mw(mw);
  for (ibv_mr* mr : left_of<ibv_mr>(context)) ibv_dereg_mr(mr);
  for (ibv_dm* dm : left_of<ibv_dm>(context)) free_dm(dm);
  destroy_domains(context);
  for (ibv_td* td : left_of<ibv_td>(context)) dealloc_td(td);
}

}  // namespace rrdma::verbs
