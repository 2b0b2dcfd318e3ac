#include "talk.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "requests.h"
#include "verdict.h"

namespace guest {
namespace {

constexpr double kSecondsAtMost = 20;

}  // namespace

proof::Arguments& no_arguments() {
  static char name[] = "guest";
  static char* words[] = {name, nullptr};
  static proof::Arguments none(1, words);
  return none;
}

Talk::Talk(bool events)
    : device_(no_arguments()),
      memory_(proof::map_memory(2 * kOctets)),
      region_(device_.register_memory(memory_, 2 * kOctets)) {
  completions_.emplace(device_, 64, events);
  for (ibv_qp*& qp : qps_) qp = device_.create_qp(completions_->cq(), {});
  proof::QpAddress addresses[2] = {device_.prepare(qps_[0], 100), device_.prepare(qps_[1], 200)};
  for (int i : {0, 1}) device_.connect(qps_[i], addresses[i], addresses[1 - i]);
}

Talk::~Talk() {
  for (ibv_qp* qp : qps_) {
    if (ibv_destroy_qp(qp) != 0) proof::fail("ibv_destroy_qp");
  }
  completions_.reset();
  if (ibv_dereg_mr(region_) != 0) proof::fail("ibv_dereg_mr");
  ::munmap(memory_, 2 * kOctets);
}

void Talk::send(ibv_qp* from, ibv_qp* to) {
  std::fill_n(memory_, kOctets, ++mark_);
  std::fill_n(memory_ + kOctets, kOctets, std::uint8_t{0});
  proof::post_receive(to, {*region_, kOctets, kOctets}, 1);
  proof::post_send(from, {*region_, 0, kOctets}, 2);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc completion = completions_->take(kSecondsAtMost);
    if (completion.status != IBV_WC_SUCCESS) proof::fail("a message: " + proof::describe(completion));
  }
  if (!std::all_of(memory_ + kOctets, memory_ + 2 * kOctets,
                   [&](std::uint8_t octet) { return octet == mark_; }))
    proof::fail("the message is not what was sent");
}

void Talk::exchange(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    send(qps_[0], qps_[1]);
    send(qps_[1], qps_[0]);
  }
}

ibv_wc_status Talk::write_from(const ibv_mr& region, std::uint32_t octets) {
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(region.addr), .length = octets, .lkey = region.lkey};
  ibv_send_wr request{};
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(memory_), .rkey = region_->rkey};
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qps_[0], &request, &bad) != 0) proof::fail("ibv_post_send");
  return completions_->take(kSecondsAtMost).status;
}

}  // namespace guest
