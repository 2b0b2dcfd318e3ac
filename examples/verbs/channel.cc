#include "examples/verbs/channel.h"

#include <algorithm>
#include <cerrno>

namespace examples {
namespace {

constexpr std::uint64_t kRequestMark = 1u << 31;  // wr_id of requests; receives use their slot

}  // namespace

Channel::Channel(ibv_pd* domain, std::uint32_t size, bool events, Narrator& narrator)
    : size_((std::max(size, 1u) + kWordOctets - 1) / kWordOctets * kWordOctets),
      slot_octets_(size_),
      memory_(2 * std::size_t{size_} + std::size_t{kDepth} * slot_octets_) {
  if (events) {
    events_.reset(ibv_create_comp_channel(domain->context));
    if (events_ == nullptr) fail("ibv_create_comp_channel", errno);
  }
  completions_.reset(ibv_create_cq(domain->context, 2 * kDepth, nullptr, events_.get(), 0));
  if (completions_ == nullptr) fail("ibv_create_cq", errno);
  narrator.step("Completion queue (CQ) of %d entries, %s", completions_->cqe,
                events ? "with a completion channel" : "polled");
  region_.reset(ibv_reg_mr(
      domain, memory_.data(), memory_.size(),
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
  if (region_ == nullptr) fail("ibv_reg_mr", errno);
  narrator.step("Memory region (MR) of %zu bytes, lkey 0x%08x, rkey 0x%08x", memory_.size(), region_->lkey,
                region_->rkey);
}

ibv_qp_init_attr Channel::queue_pair_wish() const {
  ibv_qp_init_attr wish{};
  wish.qp_type = IBV_QPT_RC;
  wish.send_cq = completions_.get();
  wish.recv_cq = completions_.get();
  wish.cap.max_send_wr = kDepth;
  wish.cap.max_recv_wr = kDepth;
  wish.cap.max_send_sge = 1;
  wish.cap.max_recv_sge = 1;
  return wish;
}

void Channel::attach(ibv_qp* queue_pair) {
  queue_pair_ = queue_pair;
  for (std::uint64_t slot = 0; slot < kDepth; ++slot) post_receive(slot);
}

void Channel::post_receive(std::uint64_t slot) {
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(slot_memory(slot)),
                .length = slot_octets_,
                .lkey = region_->lkey};
  ibv_recv_wr receive{};
  receive.wr_id = slot;
  receive.sg_list = &piece;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(queue_pair_, &receive, &bad); error != 0) fail("ibv_post_recv", error);
}

void Channel::post(ibv_send_wr& request, void* local, std::uint32_t octets) {
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(local), .length = octets, .lkey = region_->lkey};
  request.wr_id = kRequestMark;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(queue_pair_, &request, &bad); error != 0) fail("ibv_post_send", error);
  ++under_way_;
}

void Channel::send(std::uint32_t octets) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  post(request, memory_.data(), octets);
}

void Channel::write(const RemoteMemory& to, std::uint32_t octets) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = to.address;
  request.wr.rdma.rkey = to.key;
  post(request, memory_.data(), octets);
}

void Channel::read(const RemoteMemory& from, std::uint32_t octets) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = from.address;
  request.wr.rdma.rkey = from.key;
  post(request, memory_.data(), octets);
}

void Channel::fetch_add(const RemoteMemory& counter, std::uint64_t amount) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic.remote_addr = counter.address;
  request.wr.atomic.rkey = counter.key;
  request.wr.atomic.compare_add = amount;
  post(request, memory_.data(), sizeof(std::uint64_t));
}

void Channel::compare_swap(const RemoteMemory& counter, std::uint64_t expected, std::uint64_t wanted) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  request.wr.atomic.remote_addr = counter.address;
  request.wr.atomic.rkey = counter.key;
  request.wr.atomic.compare_add = expected;
  request.wr.atomic.swap = wanted;
  post(request, memory_.data(), sizeof(std::uint64_t));
}

void Channel::take_completions() {
  ibv_wc found[kDepth];
  int count = ibv_poll_cq(completions_.get(), kDepth, found);
  if (count == 0 && events_ != nullptr) {
    // Request an event, then poll again: completions that arrived in between raise no event.
    if (const int error = ibv_req_notify_cq(completions_.get(), 0); error != 0)
      fail("ibv_req_notify_cq", error);
    count = ibv_poll_cq(completions_.get(), kDepth, found);
    if (count == 0) sleep_until_event();
  }
  if (count < 0) fail("ibv_poll_cq", errno);
  for (const ibv_wc& completion : std::span(found, static_cast<std::size_t>(count))) {
    if (completion.status != IBV_WC_SUCCESS) {
      std::fprintf(stderr, "completion with status %d (%s), vendor_err 0x%08x\n", completion.status,
                   ibv_wc_status_str(completion.status), completion.vendor_err);
      std::exit(1);
    }
    if (completion.wr_id == kRequestMark) {
      --under_way_;
    } else {
      arrived_.push_back({completion.wr_id, completion.byte_len});
    }
  }
}

void Channel::sleep_until_event() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(events_.get(), &queue, &context) != 0) fail("ibv_get_cq_event", errno);
  ibv_ack_cq_events(queue, 1);
}

void Channel::wait_under_way(std::uint32_t most) {
  while (under_way_ > most) take_completions();
}

std::span<const std::uint8_t> Channel::next_message() {
  if (open_slot_ >= 0) post_receive(static_cast<std::uint64_t>(open_slot_));
  while (arrived_.empty()) take_completions();
  const Arrived message = arrived_.front();
  arrived_.pop_front();
  open_slot_ = static_cast<std::int64_t>(message.slot);
  return {slot_memory(message.slot), message.octets};
}

}  // namespace examples
