// Calls about domains, regions, windows and device memory.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "world.h"

namespace spin {
namespace {

constexpr int kNeedLocalWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

bool is_right(int access) {
  return (access & kNeedLocalWrite) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

}  // namespace

void World::make_pd() {
  if (full(pds_)) return;
  pds_.push_back(
      {.pd = verdicts_.object("ibv_alloc_pd", ibv_alloc_pd(shared_.context), Expect::kSuccess, {})});
}

void World::make_parent_domain() {
  if (full(pds_)) return;
  ibv_td_init_attr td_attr{};
  td_attr.comp_mask = chance(10) ? 8 : 0;
  ibv_td* td = verdicts_.object("ibv_alloc_td", ibv_alloc_td(shared_.context, &td_attr),
                                td_attr.comp_mask != 0 ? Expect::kRefusal : Expect::kSuccess, {EINVAL});
  ibv_pd* original = chance(90) ? any_pd() : nullptr;
  ibv_parent_domain_init_attr attr{};
  attr.pd = original;
  attr.td = td;
  attr.comp_mask = chance(10) ? 1u << 20 : 0;
  const bool right = original != nullptr && attr.comp_mask == 0;
  errno = 0;
  ibv_pd* pd = verdicts_.object("ibv_alloc_parent_domain", ibv_alloc_parent_domain(shared_.context, &attr),
                                right ? Expect::kSuccess : Expect::kRefusal, {EINVAL});
  if (pd == nullptr) {
    if (td != nullptr) verdicts_.number("ibv_dealloc_td", ibv_dealloc_td(td), Expect::kSuccess, {});
    return;
  }
  // A parent domain of a parent domain is based on the original.
  for (const PdEntry& entry : pds_) {
    if (entry.pd == original && entry.original != nullptr) original = entry.original;
  }
  pds_.push_back({.pd = pd, .original = original, .td = td});
  if (td != nullptr && chance(20))
    verdicts_.number("ibv_dealloc_td", ibv_dealloc_td(td), Expect::kRefusal, {EBUSY});
}

void World::drop_pd() {
  PdEntry* entry = pick(pds_);
  if (entry == nullptr) return;
  // A parent domain stands for its original, which counts the users.
  const bool certain =
      entry->original == nullptr &&
      !std::any_of(pds_.begin(), pds_.end(), [&](const PdEntry& e) { return e.original == entry->pd; });
  const Expect expect = !certain ? Expect::kEither : is_used(entry->pd) ? Expect::kRefusal : Expect::kSuccess;
  // A program must not free a parent domain while objects created in it exist.
  if (entry->original != nullptr && is_used(entry->pd)) return;
  if (verdicts_.number("ibv_dealloc_pd", ibv_dealloc_pd(entry->pd), expect, {EBUSY}) != 0) return;
  if (entry->td != nullptr)
    verdicts_.number("ibv_dealloc_td", ibv_dealloc_td(entry->td), Expect::kSuccess, {});
  forget(pds_, entry);
}

void World::make_mr() {
  if (full(mrs_)) return;
  const int access = chance(70) ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND
                                : static_cast<int>(below(128));
  const std::size_t length = chance(95) ? 1 + below(kArenaOctets - 1) : 0;
  const bool mapped = chance(90);
  const bool known = mapped && length != 0 && is_right(access);
  const std::size_t room = kArenaOctets - length;
  std::uint8_t* address =
      (mapped ? arena_ : nowhere_) + (room != 0 ? below(static_cast<std::uint32_t>(room)) : 0);
  ibv_mr* mr = chance(80) ? ibv_reg_mr(any_pd(), address, length, access)
                          : ibv_reg_mr_iova(any_pd(), address, length, random() >> 8, access);
  mr = verdicts_.object("ibv_reg_mr", mr,
                        known               ? Expect::kSuccess
                        : !is_right(access) ? Expect::kRefusal
                                            : Expect::kEither,  // of no bytes: refused where a page begins
                        {EINVAL, EFAULT, ENOMEM});
  if (mr != nullptr) mrs_.push_back({.mr = mr});
}

void World::make_special_mr() {
  if (full(mrs_)) return;
  switch (below(3)) {
    case 0:
      mrs_.push_back(
          {.mr = verdicts_.object("ibv_alloc_null_mr", ibv_alloc_null_mr(any_pd()), Expect::kSuccess, {})});
      return;
    case 1: {
      const bool right = chance(80);
      ibv_mr* mr =
          ibv_reg_mr(any_pd(), nullptr, right ? SIZE_MAX : 0, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
      mr = verdicts_.object("ibv_reg_mr", mr, right ? Expect::kSuccess : Expect::kRefusal, {EINVAL, EFAULT});
      if (mr != nullptr) mrs_.push_back({.mr = mr});
      return;
    }
    default: {
      ibv_dm** dm = pick(dms_);
      if (dm == nullptr) return;
      const std::uint64_t offset = below(5000);
      const std::size_t length = below(5000);
      ibv_mr* mr = ibv_reg_dm_mr(any_pd(), *dm, offset, length,
                                 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
      mr = verdicts_.object("ibv_reg_dm_mr", mr, Expect::kEither, {EINVAL});
      if (mr != nullptr) mrs_.push_back({.mr = mr, .dm = *dm});
    }
  }
}

void World::change_mr() {
  MrEntry* entry = pick(mrs_);
  if (entry == nullptr || entry->dm != nullptr) return;
  const int flags = static_cast<int>(below(10));
  const int access = static_cast<int>(below(16));
  ibv_pd* pd = chance(95) ? any_pd() : nullptr;
  const int answer = ibv_rereg_mr(entry->mr, flags, pd, any_address(), below(8000), access);
  const bool wrong = flags == 0 || flags > 7 || ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr);
  verdicts_.require("ibv_rereg_mr", answer == 0 || (answer <= -1 && answer >= -5),
                    "answered " + std::to_string(answer));
  verdicts_.require("ibv_rereg_mr", answer != 0 || !wrong, "succeeded with arguments that are wrong");
}

void World::drop_mr() {
  MrEntry* entry = pick(mrs_);
  if (entry == nullptr) return;
  const Expect expect = mws_.empty() ? Expect::kSuccess : Expect::kEither;  // a window may be bound to it
  if (verdicts_.number("ibv_dereg_mr", ibv_dereg_mr(entry->mr), expect, {EBUSY}) == 0) forget(mrs_, entry);
}

void World::advise_mr() {
  ibv_sge list[2] = {any_sge(), any_sge()};
  const std::uint32_t count = below(3);
  const auto advice = static_cast<ibv_advise_mr_advice>(below(5));
  const std::uint32_t flags = below(4);
  const bool wrong = count == 0 || advice > 2 || flags > 1;
  verdicts_.number("ibv_advise_mr", ibv_advise_mr(any_pd(), advice, flags, list, count),
                   wrong ? Expect::kRefusal : Expect::kEither,
                   {EOPNOTSUPP, EINVAL, EFAULT, ENOENT, EPERM, EBADF});
}

void World::make_dm() {
  if (full(dms_)) return;
  ibv_alloc_dm_attr attr{};
  attr.length = chance(90) ? below(16'384) : 1u << 30;
  attr.comp_mask = chance(5) ? 1 : 0;
  const bool wrong = attr.length == 0 || attr.length > (1u << 20) || attr.comp_mask != 0;
  ibv_dm* dm = verdicts_.object("ibv_alloc_dm", ibv_alloc_dm(shared_.context, &attr),
                                wrong ? Expect::kRefusal : Expect::kEither, {EINVAL, ENOMEM});
  if (dm != nullptr) dms_.push_back(dm);
}

void World::drop_dm() {
  ibv_dm** dm = pick(dms_);
  if (dm == nullptr) return;
  const bool used = std::any_of(mrs_.begin(), mrs_.end(), [&](const MrEntry& e) { return e.dm == *dm; });
  if (verdicts_.number("ibv_free_dm", ibv_free_dm(*dm), used ? Expect::kRefusal : Expect::kSuccess,
                       {EBUSY}) == 0)
    forget(dms_, dm);
}

void World::copy_dm() {
  ibv_dm** dm = pick(dms_);
  if (dm == nullptr) return;
  char text[4096] = {};
  const std::uint64_t offset = below(20'000);
  const std::size_t length = below(sizeof text);
  const int answer = chance(50) ? ibv_memcpy_to_dm(*dm, offset, text, length)
                                : ibv_memcpy_from_dm(text, *dm, offset, length);
  verdicts_.number("ibv_memcpy_dm", answer, Expect::kEither, {EINVAL, EFAULT});
}

void World::make_mw() {
  if (full(mws_)) return;
  const auto type = static_cast<ibv_mw_type>(below(4));
  const bool right = type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2;
  ibv_mw* mw = verdicts_.object("ibv_alloc_mw", ibv_alloc_mw(any_pd(), type),
                                right ? Expect::kSuccess : Expect::kRefusal, {EINVAL, EOPNOTSUPP});
  if (mw != nullptr) mws_.push_back(mw);
}

void World::drop_mw() {
  ibv_mw** mw = pick(mws_);
  if (mw == nullptr) return;
  verdicts_.number("ibv_dealloc_mw", ibv_dealloc_mw(*mw), Expect::kSuccess, {});
  forget(mws_, mw);
}

void World::bind_mw() {
  ibv_mw** mw = pick(mws_);
  QpEntry* qp = pick(qps_);
  const MrEntry* mr = pick(mrs_);
  if (mw == nullptr || qp == nullptr || mr == nullptr) return;
  ibv_mw_bind bind{};
  bind.wr_id = random();
  bind.send_flags = chance(80) ? IBV_SEND_SIGNALED : 0;
  bind.bind_info.mr = mr->mr;
  bind.bind_info.addr = any_sge().addr;
  bind.bind_info.length = below(4096);
  bind.bind_info.mw_access_flags = below(64);
  verdicts_.number("ibv_bind_mw", ibv_bind_mw(qp->qp, *mw, &bind), Expect::kEither,
                   {EINVAL, EPERM, ENOTSUP, EOPNOTSUPP, ENOMEM});
}

}  // namespace spin
