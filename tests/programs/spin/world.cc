#include "world.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace spin {

World::World(Shared& shared, std::uint64_t seed, unsigned thread)
    : shared_(shared), verdicts_(seed, thread), random_(seed * 1000003 + thread) {
  void* memory = ::mmap(nullptr, kArenaOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  verdicts_.require("mmap", memory != MAP_FAILED, "no memory for the test");
  arena_ = static_cast<std::uint8_t*>(memory);
  memory = ::mmap(nullptr, kArenaOctets, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  verdicts_.require("mmap", memory != MAP_FAILED, "no memory for the test");
  nowhere_ = static_cast<std::uint8_t*>(memory);
}

World::~World() {
  ::munmap(arena_, kArenaOctets);
  ::munmap(nowhere_, kArenaOctets);
}

const std::vector<World::Choice>& World::choices() {
  static const std::vector<Choice> all = {{1, &World::query_device},
                                          {2, &World::query_port},
                                          {3, &World::query_gid},
                                          {1, &World::query_pkey},
                                          {1, &World::query_clock},
                                          {1, &World::open_another},
                                          {3, &World::take_async_event},
                                          {2, &World::ask_for_what_is_not_offered},
                                          {2, &World::make_pd},
                                          {2, &World::drop_pd},
                                          {1, &World::make_parent_domain},
                                          {6, &World::make_mr},
                                          {1, &World::make_special_mr},
                                          {2, &World::change_mr},
                                          {4, &World::drop_mr},
                                          {2, &World::advise_mr},
                                          {1, &World::make_dm},
                                          {1, &World::drop_dm},
                                          {1, &World::copy_dm},
                                          {2, &World::make_mw},
                                          {2, &World::drop_mw},
                                          {3, &World::bind_mw},
                                          {1, &World::make_channel},
                                          {1, &World::drop_channel},
                                          {2, &World::make_cq},
                                          {2, &World::drop_cq},
                                          {2, &World::change_cq},
                                          {4, &World::arm_cq},
                                          {30, &World::poll_cq},
                                          {4, &World::take_cq_event},
                                          {2, &World::make_srq},
                                          {2, &World::drop_srq},
                                          {2, &World::change_srq},
                                          {4, &World::post_srq},
                                          {1, &World::make_xrcd},
                                          {1, &World::drop_xrcd},
                                          {3, &World::make_qp},
                                          {2, &World::drop_qp},
                                          {6, &World::change_qp},
                                          {4, &World::connect_pair},
                                          {3, &World::query_qp},
                                          {1, &World::attach_group},
                                          {2, &World::make_ah},
                                          {2, &World::drop_ah},
                                          {30, &World::post_send},
                                          {15, &World::post_receive},
                                          {10, &World::build_requests}};
  return all;
}

void World::step() {
  static const unsigned total = [] {
    unsigned sum = 0;
    for (const Choice& choice : choices()) sum += choice.weight;
    return sum;
  }();
  std::uint32_t ticket = below(total);
  for (const Choice& choice : choices()) {
    if (ticket < choice.weight) {
      errno = 0;
      (this->*choice.action)();
      return;
    }
    ticket -= choice.weight;
  }
}

ibv_pd* World::any_pd() {
  const PdEntry* own = chance(70) ? pick(pds_) : nullptr;
  return own != nullptr ? own->pd : shared_.pd;
}

ibv_cq* World::any_cq() {
  const CqEntry* own = chance(70) ? pick(cqs_) : nullptr;
  return own != nullptr ? own->cq : shared_.cq;
}

std::uint8_t* World::any_address() { return (chance(95) ? arena_ : nowhere_) + below(kArenaOctets - 8192); }

ibv_sge World::any_sge() {
  const MrEntry* known = chance(90) ? pick(mrs_) : nullptr;
  ibv_sge sge{};
  sge.addr = reinterpret_cast<std::uintptr_t>(any_address());
  sge.length = chance(90) ? below(4096) : below(100'000);
  sge.lkey = known != nullptr ? known->mr->lkey : static_cast<std::uint32_t>(random());
  // Usually inside its region, so that there is traffic.
  if (known != nullptr && chance(90) && known->dm == nullptr && known->mr->addr != nullptr &&
      known->mr->length > sge.length) {
    sge.addr = reinterpret_cast<std::uintptr_t>(known->mr->addr) +
               below(static_cast<std::uint32_t>(
                   std::min<std::size_t>(known->mr->length - sge.length, kArenaOctets)));
  }
  return sge;
}

std::uint64_t World::any_remote_address() { return any_sge().addr; }

std::uint32_t World::any_rkey() {
  if (const ibv_mw* const* window = chance(20) ? pick(mws_) : nullptr; window != nullptr)
    return (*window)->rkey;
  return any_sge().lkey;
}

// The same question for each kind: does another object still use it?
bool World::is_used(const ibv_pd* pd) const {
  const auto of_pd = [pd](const auto* object) { return object->pd == pd; };
  return std::any_of(mrs_.begin(), mrs_.end(), [&](const MrEntry& e) { return of_pd(e.mr); }) ||
         std::any_of(mws_.begin(), mws_.end(), of_pd) ||
         std::any_of(srqs_.begin(), srqs_.end(), [&](const SrqEntry& e) { return of_pd(e.srq); }) ||
         std::any_of(qps_.begin(), qps_.end(), [&](const QpEntry& e) { return of_pd(e.qp); }) ||
         std::any_of(ahs_.begin(), ahs_.end(), of_pd) ||
         std::any_of(pds_.begin(), pds_.end(), [&](const PdEntry& e) { return e.original == pd; });
}

bool World::is_used(const ibv_cq* cq) const {
  const auto by_srq = [&](const SrqEntry& e) { return e.xrcd != nullptr; };  // its CQ cannot be queried
  return std::any_of(qps_.begin(), qps_.end(),
                     [&](const QpEntry& e) { return e.qp->send_cq == cq || e.qp->recv_cq == cq; }) ||
         std::any_of(srqs_.begin(), srqs_.end(), by_srq);
}

bool World::is_used(const ibv_srq* srq) const {
  return std::any_of(qps_.begin(), qps_.end(), [&](const QpEntry& e) { return e.qp->srq == srq; });
}

bool World::is_used(const ibv_xrcd* xrcd) const {
  return std::any_of(qps_.begin(), qps_.end(), [&](const QpEntry& e) { return e.xrcd == xrcd; }) ||
         std::any_of(srqs_.begin(), srqs_.end(), [&](const SrqEntry& e) { return e.xrcd == xrcd; });
}

// In the order of dependencies.
void World::clear() {
  while (!qps_.empty()) destroy_qp(&qps_.back());
  for (ibv_ah* ah : ahs_) verdicts_.number("ibv_destroy_ah", ibv_destroy_ah(ah), Expect::kSuccess, {});
  for (const SrqEntry& e : srqs_)
    verdicts_.number("ibv_destroy_srq", ibv_destroy_srq(e.srq), Expect::kSuccess, {});
  for (const CqEntry& e : cqs_)
    verdicts_.number("ibv_destroy_cq", ibv_destroy_cq(e.cq), Expect::kSuccess, {});
  for (ibv_comp_channel* channel : channels_)
    verdicts_.number("ibv_destroy_comp_channel", ibv_destroy_comp_channel(channel), Expect::kSuccess, {});
  for (ibv_xrcd* xrcd : xrcds_)
    verdicts_.number("ibv_close_xrcd", ibv_close_xrcd(xrcd), Expect::kSuccess, {});
  for (ibv_mw* mw : mws_) verdicts_.number("ibv_dealloc_mw", ibv_dealloc_mw(mw), Expect::kSuccess, {});
  for (const MrEntry& e : mrs_) verdicts_.number("ibv_dereg_mr", ibv_dereg_mr(e.mr), Expect::kSuccess, {});
  for (ibv_dm* dm : dms_) verdicts_.number("ibv_free_dm", ibv_free_dm(dm), Expect::kSuccess, {});
  // Parent domains first, the newest before those that they are based on.
  for (auto e = pds_.rbegin(); e != pds_.rend(); ++e) {
    if (e->original == nullptr) continue;
    verdicts_.number("ibv_dealloc_pd", ibv_dealloc_pd(e->pd), Expect::kSuccess, {});
    if (e->td != nullptr) verdicts_.number("ibv_dealloc_td", ibv_dealloc_td(e->td), Expect::kSuccess, {});
  }
  for (const PdEntry& e : pds_) {
    if (e.original == nullptr) verdicts_.number("ibv_dealloc_pd", ibv_dealloc_pd(e.pd), Expect::kSuccess, {});
  }
  ahs_.clear(), srqs_.clear(), cqs_.clear(), channels_.clear(), xrcds_.clear(), mws_.clear(), mrs_.clear(),
      dms_.clear(), pds_.clear();
}

}  // namespace spin
