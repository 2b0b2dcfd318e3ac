// Calls about completion queues, their channels, shared receive queues and XRC domains.
#include <fcntl.h>

#include <algorithm>

#include "world.h"

namespace spin {

void World::make_channel() {
  if (channels_.size() >= 4) return;
  ibv_comp_channel* channel = verdicts_.object(
      "ibv_create_comp_channel", ibv_create_comp_channel(shared_.context), Expect::kSuccess, {});
  verdicts_.require("fcntl", ::fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0,
                    "a channel's descriptor cannot be made non-blocking");
  channels_.push_back(channel);
}

void World::drop_channel() {
  ibv_comp_channel** channel = pick(channels_);
  if (channel == nullptr) return;
  const bool used =
      std::any_of(cqs_.begin(), cqs_.end(), [&](const CqEntry& e) { return e.channel == *channel; });
  if (verdicts_.number("ibv_destroy_comp_channel", ibv_destroy_comp_channel(*channel),
                       used ? Expect::kRefusal : Expect::kSuccess, {EBUSY}) == 0) {
    forget(channels_, channel);
  }
}

void World::make_cq() {
  if (full(cqs_)) return;
  ibv_comp_channel** channel = chance(60) ? pick(channels_) : nullptr;
  ibv_comp_channel* events = channel != nullptr ? *channel : nullptr;
  const int entries = chance(90) ? static_cast<int>(1 + below(2000)) : static_cast<int>(below(3)) - 2;
  const int vector = chance(95) ? 0 : static_cast<int>(below(2)) * 100'000 - 1;
  const bool extended = chance(40);
  bool right = entries >= 1 && vector == 0;
  ibv_cq* cq = nullptr;
  ibv_cq_ex* full = nullptr;
  if (extended) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = static_cast<std::uint32_t>(entries);
    attr.channel = events;
    attr.comp_vector = static_cast<std::uint32_t>(vector);
    attr.wc_flags = chance(95) ? random() & IBV_CREATE_CQ_SUP_WC_FLAGS : std::uint64_t{1} << 40;
    attr.comp_mask = chance(95) ? 0 : 1u << 20;
    full = ibv_create_cq_ex(shared_.context, &attr);
    cq = full != nullptr ? ibv_cq_ex_to_cq(full) : nullptr;
    if (attr.comp_mask != 0 || attr.wc_flags >> 40 != 0) right = false;
    cq = verdicts_.object("ibv_create_cq_ex", cq, right ? Expect::kEither : Expect::kRefusal,
                          {EINVAL, EOPNOTSUPP, ENOSYS});
  } else {
    cq = ibv_create_cq(shared_.context, entries, nullptr, events, vector);
    cq = verdicts_.object("ibv_create_cq", cq, right ? Expect::kSuccess : Expect::kRefusal, {EINVAL});
  }
  if (cq != nullptr) cqs_.push_back({.cq = cq, .channel = events, .extended = full});
}

void World::drop_cq() {
  CqEntry* entry = pick(cqs_);
  if (entry == nullptr) return;
  const Expect expect = is_used(entry->cq) ? Expect::kEither : Expect::kSuccess;
  if (verdicts_.number("ibv_destroy_cq", ibv_destroy_cq(entry->cq), expect, {EBUSY}) == 0)
    forget(cqs_, entry);
}

void World::change_cq() {
  CqEntry* entry = pick(cqs_);
  if (entry == nullptr) return;
  if (chance(50)) {
    const int entries = static_cast<int>(below(3000)) - 100;
    verdicts_.number("ibv_resize_cq", ibv_resize_cq(entry->cq, entries),
                     entries < 1 ? Expect::kRefusal : Expect::kEither, {EINVAL});
    return;
  }
  ibv_modify_cq_attr attr{};
  attr.attr_mask = below(3);
  verdicts_.number("ibv_modify_cq", ibv_modify_cq(entry->cq, &attr),
                   attr.attr_mask == IBV_CQ_ATTR_MODERATE ? Expect::kSuccess : Expect::kRefusal, {EINVAL});
}

void World::arm_cq() {
  verdicts_.number("ibv_req_notify_cq", ibv_req_notify_cq(any_cq(), static_cast<int>(below(2))),
                   Expect::kSuccess, {});
}

void World::poll_cq() {
  CqEntry* entry = chance(80) ? pick(cqs_) : nullptr;
  if (entry != nullptr && entry->extended != nullptr && chance(70)) {
    ibv_cq_ex* cq = entry->extended;
    ibv_poll_cq_attr attr{};
    int answer = ibv_start_poll(cq, &attr);
    if (verdicts_.number("ibv_start_poll", answer, Expect::kEither, {ENOENT}) != 0) return;
    do {
      verdicts_.require("ibv_start_poll", cq->status <= IBV_WC_TM_RNDV_INCOMPLETE,
                        "a status that does not exist");
      static_cast<void>(ibv_wc_read_opcode(cq));
      answer = ibv_next_poll(cq);
      verdicts_.number("ibv_next_poll", answer, Expect::kEither, {ENOENT});
    } while (answer == 0);
    ibv_end_poll(cq);
    return;
  }
  ibv_wc completions[16];
  const int wanted = static_cast<int>(below(17));
  const int taken = ibv_poll_cq(entry != nullptr ? entry->cq : shared_.cq, wanted, completions);
  verdicts_.require("ibv_poll_cq", taken >= 0 && taken <= wanted, "answered " + std::to_string(taken));
  for (int i = 0; i < taken; ++i) {
    verdicts_.require("ibv_poll_cq", completions[i].status <= IBV_WC_TM_RNDV_INCOMPLETE,
                      "a status that does not exist");
  }
}

void World::take_cq_event() {
  ibv_comp_channel** channel = pick(channels_);
  if (channel == nullptr) return;
  ibv_cq* cq = nullptr;
  void* unused = nullptr;
  if (verdicts_.minus_one("ibv_get_cq_event", ibv_get_cq_event(*channel, &cq, &unused), Expect::kEither,
                          {EAGAIN}) == 0)
    ibv_ack_cq_events(cq, 1);
}

void World::make_srq() {
  if (full(srqs_)) return;
  const std::uint32_t entries = chance(90) ? 1 + below(500) : chance(50) ? 0 : 1u << 30;
  const std::uint32_t sges = chance(95) ? below(5) : 1000;
  bool right = entries != 0 && entries < 1u << 30 && sges != 1000;
  ibv_xrcd** xrcd = chance(40) ? pick(xrcds_) : nullptr;
  if (xrcd == nullptr) {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = entries, .max_sge = sges, .srq_limit = 0};
    ibv_srq* srq = verdicts_.object("ibv_create_srq", ibv_create_srq(any_pd(), &attr),
                                    right ? Expect::kSuccess : Expect::kRefusal, {EINVAL, ENOMEM});
    if (srq != nullptr) srqs_.push_back({.srq = srq});
    return;
  }
  ibv_srq_init_attr_ex attr{};
  attr.attr = {.max_wr = entries, .max_sge = sges, .srq_limit = 0};
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD;
  if (chance(10)) attr.comp_mask &= ~(1u << below(4)), right = false;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = any_pd();
  attr.cq = any_cq();
  attr.xrcd = *xrcd;
  ibv_srq* srq = ibv_create_srq_ex(shared_.context, &attr);
  // Without the type bit it is a basic SRQ.
  srq = verdicts_.object("ibv_create_srq_ex", srq, right ? Expect::kSuccess : Expect::kEither,
                         {EINVAL, EOPNOTSUPP, ENOMEM});
  if (srq == nullptr) return;
  std::uint32_t number = 0;
  const bool is_xrc = (attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
  verdicts_.number("ibv_get_srq_num", ibv_get_srq_num(srq, &number),
                   is_xrc ? Expect::kSuccess : Expect::kRefusal, {EINVAL, EOPNOTSUPP});
  srqs_.push_back({.srq = srq, .xrcd = is_xrc ? *xrcd : nullptr});
}

void World::drop_srq() {
  SrqEntry* entry = pick(srqs_);
  if (entry == nullptr) return;
  const Expect expect = is_used(entry->srq) ? Expect::kRefusal : Expect::kSuccess;
  if (verdicts_.number("ibv_destroy_srq", ibv_destroy_srq(entry->srq), expect, {EBUSY}) == 0)
    forget(srqs_, entry);
}

void World::change_srq() {
  SrqEntry* entry = pick(srqs_);
  if (entry == nullptr) return;
  ibv_srq_attr attr{.max_wr = below(1000), .max_sge = 1, .srq_limit = below(1000)};
  const int mask = static_cast<int>(below(5));
  const Expect expect = mask > 3 ? Expect::kRefusal : mask == 0 ? Expect::kSuccess : Expect::kEither;
  verdicts_.number("ibv_modify_srq", ibv_modify_srq(entry->srq, &attr, mask), expect, {EINVAL, ENOMEM});
  verdicts_.number("ibv_query_srq", ibv_query_srq(entry->srq, &attr), Expect::kSuccess, {});
}

void World::post_srq() {
  SrqEntry* entry = chance(80) ? pick(srqs_) : nullptr;
  ibv_sge list[3] = {any_sge(), any_sge(), any_sge()};
  ibv_recv_wr wr{};
  wr.wr_id = random();
  wr.sg_list = list;
  wr.num_sge = static_cast<int>(below(5)) - 1;
  if (wr.num_sge > 3) wr.num_sge = 1000;
  ibv_recv_wr* bad = nullptr;
  const bool wrong = wr.num_sge < 0 || wr.num_sge > 3;
  const int error = verdicts_.number(
      "ibv_post_srq_recv", ibv_post_srq_recv(entry != nullptr ? entry->srq : shared_.srq, &wr, &bad),
      wrong ? Expect::kRefusal : Expect::kEither, {EINVAL, ENOMEM});
  verdicts_.require("ibv_post_srq_recv", error == 0 || bad == &wr, "did not name the request that failed");
}

void World::make_xrcd() {
  if (xrcds_.size() >= 4) return;
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = -1;
  attr.oflags = O_CREAT;
  if (chance(10)) attr.comp_mask = 1;
  if (chance(10)) attr.fd = 100'000;
  const bool right = attr.comp_mask == 3 && attr.fd == -1;
  ibv_xrcd* xrcd = verdicts_.object("ibv_open_xrcd", ibv_open_xrcd(shared_.context, &attr),
                                    right ? Expect::kSuccess : Expect::kRefusal, {EINVAL, EBADF});
  if (xrcd != nullptr) xrcds_.push_back(xrcd);
}

void World::drop_xrcd() {
  ibv_xrcd** xrcd = pick(xrcds_);
  if (xrcd == nullptr) return;
  const Expect expect = is_used(*xrcd) ? Expect::kRefusal : Expect::kSuccess;
  if (verdicts_.number("ibv_close_xrcd", ibv_close_xrcd(*xrcd), expect, {EBUSY}) == 0) forget(xrcds_, xrcd);
}

}  // namespace spin
