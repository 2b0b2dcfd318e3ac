#include "preload/verbs/belongings.h"

#include <string>

#include "host/explain.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"
#include "preload/verbs/queues/multicast.h"

namespace rrdma::verbs {
namespace {

void destroy(Qp& qp) {
  leave_groups(qp);
  qp.qp_base.events_completed = qp.events_reported;
  ibv_destroy_qp(qp.abi());
}

void destroy(Srq& srq) {
  srq.events_completed = srq.events_reported;
  ibv_destroy_srq(&srq);
}

void destroy(Cq& cq) {
  cq.comp_events_completed = cq.events_reported;
  cq.async_events_completed = cq.async_events_reported;
  ibv_destroy_cq(cq.abi());
}

void destroy(XrcDomain& domain) {
  domain.opens = 1;
  close_xrcd(&domain);
}

// Parent domains first: each stands on another one.
void destroy_domains(const Belongings& all) {
  for (const bool parents : {true, false}) {
    for (void* object : all.list(Thing::kDomain)) {
      if (auto* pd = static_cast<Pd*>(object); (pd->original != nullptr) == parents) ibv_dealloc_pd(pd);
    }
  }
}

}  // namespace

void Belongings::add(Thing kind, void* object) {
  std::lock_guard lock(mutex_);
  objects_[static_cast<std::size_t>(kind)].insert(object);
}

void Belongings::remove(Thing kind, void* object) {
  std::lock_guard lock(mutex_);
  objects_[static_cast<std::size_t>(kind)].erase(object);
}

std::vector<void*> Belongings::list(Thing kind) const {
  std::lock_guard lock(mutex_);
  const auto& objects = objects_[static_cast<std::size_t>(kind)];
  return {objects.begin(), objects.end()};
}

void destroy_belongings(Context& context) {
  const Belongings& all = context.belongings;
  for (void* object : all.list(Thing::kQp)) destroy(*static_cast<Qp*>(object));
  for (void* object : all.list(Thing::kAh)) ibv_destroy_ah(static_cast<Ah*>(object));
  for (void* object : all.list(Thing::kSrq)) destroy(*static_cast<Srq*>(object));
  for (void* object : all.list(Thing::kCq)) destroy(*static_cast<Cq*>(object));
  for (void* object : all.list(Thing::kChannel)) ibv_destroy_comp_channel(static_cast<Channel*>(object));
  for (void* object : all.list(Thing::kXrcDomain)) destroy(*static_cast<XrcDomain*>(object));
  for (void* object : all.list(Thing::kWindow)) dealloc_mw(static_cast<Mw*>(object));
  for (void* object : all.list(Thing::kRegion)) ibv_dereg_mr(static_cast<Mr*>(object));
  for (void* object : all.list(Thing::kDeviceMemory)) free_dm(static_cast<DeviceMemory*>(object));
  destroy_domains(all);
  for (void* object : all.list(Thing::kThreadDomain)) dealloc_td(static_cast<ThreadDomain*>(object));
}

}  // namespace rrdma::verbs
