#include "conversation.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "pattern.h"
#include "verdict.h"

namespace proof {
namespace {

constexpr std::uint64_t kReceiveMark = 1ull << 31;
constexpr std::size_t kPage = 4096;

bool is_heard(Operation operation) {
  return operation == kSend || operation == kSendImmediate || operation == kWriteImmediate;
}

std::uint32_t stride_of(const TalkSettings& settings) {
  return (std::max(settings.octets_max, 8u) + 63) / 64 * 64;
}

const char* name_of(Operation operation) {
  switch (operation) {
    case kSend: return "SEND";
    case kSendImmediate: return "SEND with immediate";
    case kWriteImmediate: return "WRITE with immediate";
    case kRead: return "READ";
    case kFetchAdd: return "FETCH AND ADD";
    case kCompareSwap: return "COMPARE AND SWAP";
    case kEveryOperation: break;
  }
  return "?";
}

}  // namespace

// sends[window], receives[window], writes[2 * window], source, counter
std::size_t Conversation::memory_octets(const TalkSettings& settings) {
  const std::size_t octets = std::size_t{stride_of(settings)} * (4 * settings.window + 1) + 64;
  return (octets + kPage - 1) / kPage * kPage;
}

std::uint8_t* Conversation::send_slot(std::uint64_t sequence) const {
  return memory_ + sequence % settings_.window * stride_;
}
std::uint8_t* Conversation::receive_slot(std::uint64_t number) const {
  return memory_ + (settings_.window + number % settings_.window) * stride_;
}
std::size_t Conversation::write_slot(std::uint64_t number) const {
  return (2 * settings_.window + number % (2 * settings_.window)) * stride_;
}
std::size_t Conversation::source_area() const { return std::size_t{4} * settings_.window * stride_; }
std::size_t Conversation::counter() const { return source_area() + stride_; }
std::uint64_t Conversation::source_key(unsigned side) const {
  return mix(settings_.seed ^ topic_, 0x5eed0000 + side);
}

Conversation::Conversation(Device& device, ibv_cq* cq, std::uint8_t* memory, const ibv_mr& mr,
                           const TalkSettings& settings, std::uint32_t index, std::uint64_t topic,
                           unsigned side)
    : settings_(settings),
      topic_(topic),
      side_(side),
      index_(index),
      memory_(memory),
      lkey_(mr.lkey),
      stride_(stride_of(settings)) {
  fill(memory_ + source_area(), stride_, source_key(side_));
  qp_ = device.create_qp(cq, {.sends = settings_.window, .receives = settings_.window});
  // PSNs start near the wrap, so that every long run crosses it.
  hello_.qp = device.prepare(qp_, 0xffff80u + index % 64);
  hello_.memory = {.address = reinterpret_cast<std::uintptr_t>(memory_), .rkey = mr.rkey};
  for (std::uint64_t i = 0; i < settings_.window; ++i) post_receive(i);
}

Conversation::~Conversation() {
  if (const int error = ibv_destroy_qp(qp_); error != 0) fail("ibv_destroy_qp: " + std::to_string(error));
}

void Conversation::connect(Device& device, const Hello& peer, const Patience& patience) {
  peer_ = peer;
  device.connect(qp_, hello_.qp, peer.qp, patience);
  skip_silent();
}

Conversation::Plan Conversation::plan(unsigned side, std::uint64_t sequence) const {
  const std::uint64_t key = mix(mix(settings_.seed, topic_), sequence * 2 + side);
  unsigned choice =
      static_cast<unsigned>(mix(key, 1) % static_cast<unsigned>(__builtin_popcount(settings_.operations)));
  unsigned operation = settings_.operations;
  while (choice-- != 0) operation &= operation - 1;
  operation &= ~(operation - 1);
  // Short and long messages are equally frequent; some are empty.
  const std::uint64_t below = 1ull << (mix(key, 2) % 25);
  std::uint32_t octets = static_cast<std::uint32_t>(
      mix(key, 3) % std::min<std::uint64_t>(below + 1, settings_.octets_max + 1ull));
  std::uint32_t offset = 0;
  if (operation == kRead) offset = static_cast<std::uint32_t>(mix(key, 4) % (stride_ - octets + 1));
  if (operation == kFetchAdd || operation == kCompareSwap) octets = 8;
  return {static_cast<Operation>(operation), octets, offset, key};
}

void Conversation::post_receive(std::uint64_t number) {
  ibv_sge place{.addr = reinterpret_cast<std::uintptr_t>(receive_slot(number)),
                .length = settings_.octets_max,
                .lkey = lkey_};
  ibv_recv_wr request{};
  request.wr_id = std::uint64_t{index_} << 32 | kReceiveMark | number % settings_.window;
  request.sg_list = &place;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(qp_, &request, &bad); error != 0)
    fail("ibv_post_recv: " + std::to_string(error));
}

bool Conversation::post() {
  if (posted_ == settings_.messages || posted_ - completed_ == settings_.window) return false;
  const Plan what = plan(side_, posted_);
  std::uint8_t* const slot = send_slot(posted_);
  ibv_sge from{.addr = reinterpret_cast<std::uintptr_t>(slot), .length = what.octets, .lkey = lkey_};
  ibv_send_wr request{};
  request.wr_id = std::uint64_t{index_} << 32 | (posted_ & (kReceiveMark - 1));
  request.sg_list = &from;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(static_cast<std::uint32_t>(posted_));
  if (is_heard(what.operation)) fill(slot, what.octets, what.key);
  switch (what.operation) {
    case kSend: request.opcode = IBV_WR_SEND; break;
    case kSendImmediate: request.opcode = IBV_WR_SEND_WITH_IMM; break;
    case kWriteImmediate:
      request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
      request.wr.rdma = {.remote_addr = peer_.memory.address + write_slot(posted_heard_),
                         .rkey = peer_.memory.rkey};
      break;
    case kRead:
      request.opcode = IBV_WR_RDMA_READ;
      request.wr.rdma = {.remote_addr = peer_.memory.address + source_area() + what.offset,
                         .rkey = peer_.memory.rkey};
      break;
    case kFetchAdd:
    case kCompareSwap:
      request.opcode = what.operation == kFetchAdd ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
      request.wr.atomic.remote_addr = peer_.memory.address + counter();
      request.wr.atomic.rkey = peer_.memory.rkey;
      request.wr.atomic.compare_add = what.operation == kFetchAdd ? 1 : atomics_posted_;
      request.wr.atomic.swap = ++atomics_posted_;
      break;
    case kEveryOperation: fail("no such operation");
  }
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(qp_, &request, &bad); error != 0)
    fail("ibv_post_send: " + std::to_string(error));
  posted_heard_ += is_heard(what.operation);
  ++posted_;
  return true;
}

void Conversation::check(const char* what, const std::uint8_t* octets, const Plan& planned,
                         std::uint64_t sequence, std::uint64_t key) const {
  const std::size_t from = planned.operation == kRead ? planned.offset : 0;
  const std::size_t wrong = first_wrong(octets, planned.octets, key, from);
  if (wrong == planned.octets) return;
  fail(std::string(what) + " " + name_of(planned.operation) + " number " + std::to_string(sequence) + " of " +
       std::to_string(planned.octets) + " octets: wrong at octet " + std::to_string(wrong) + "; " + state());
}

void Conversation::handle(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS)
    fail("completion failed: " + describe(completion) + "; " + state());
  if ((completion.wr_id & kReceiveMark) != 0) {
    handle_received(completion);
  } else {
    handle_sent(completion);
  }
}

void Conversation::handle_sent(const ibv_wc& completion) {
  if ((completion.wr_id & (kReceiveMark - 1)) != (completed_ & (kReceiveMark - 1)))
    fail("completions out of order: " + describe(completion) + "; " + state());
  const Plan what = plan(side_, completed_);
  const std::uint8_t* const slot = send_slot(completed_);
  if (what.operation == kRead) check("the answer to", slot, what, completed_, source_key(1 - side_));
  if (what.operation == kFetchAdd || what.operation == kCompareSwap) {
    std::uint64_t before = 0;
    std::memcpy(&before, slot, sizeof before);
    if (before != atomics_) {
      fail(std::string(name_of(what.operation)) + " found " + std::to_string(before) + " instead of " +
           std::to_string(atomics_) + "; " + state());
    }
    ++atomics_;
  }
  octets_ += what.octets;
  ++completed_;
}

// Skips messages of the peer that complete no receive.
void Conversation::skip_silent() {
  while (heard_ < settings_.messages && !is_heard(plan(1 - side_, heard_).operation)) ++heard_;
}

void Conversation::handle_received(const ibv_wc& completion) {
  if (heard_ == settings_.messages) fail("one message too many: " + describe(completion) + "; " + state());
  const Plan what = plan(1 - side_, heard_);
  const std::string which = std::string(name_of(what.operation)) + " number " + std::to_string(heard_);
  const ibv_wc_opcode opcode = what.operation == kWriteImmediate ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  if (completion.opcode != opcode || completion.byte_len != what.octets) {
    fail(which + " of " + std::to_string(what.octets) + " octets arrived as opcode " +
         std::to_string(completion.opcode) + " with " + std::to_string(completion.byte_len) + " octets; " +
         state());
  }
  const bool has_immediate = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
  if (has_immediate != (what.operation != kSend))
    fail(which + ": immediate data is missing or should not be there; " + state());
  if (has_immediate && ntohl(completion.imm_data) != static_cast<std::uint32_t>(heard_))
    fail(which + ": wrong immediate data; " + state());
  if ((completion.wr_id & (kReceiveMark - 1)) != received_ % settings_.window)
    fail(which + ": receives out of order; " + state());
  const std::uint8_t* const octets =
      what.operation == kWriteImmediate ? memory_ + write_slot(received_) : receive_slot(received_);
  check("received", octets, what, heard_, what.key);
  octets_ += what.octets;
  post_receive(received_);
  ++received_;
  ++heard_;
  skip_silent();
}

void Conversation::check_end() const {
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < settings_.messages; ++i) {
    const Operation operation = plan(1 - side_, i).operation;
    expected += operation == kFetchAdd || operation == kCompareSwap;
  }
  std::uint64_t found = 0;
  std::memcpy(&found, memory_ + counter(), sizeof found);
  if (found != expected)
    fail("the counter stands at " + std::to_string(found) + " instead of " + std::to_string(expected));
}

std::string Conversation::state() const {
  return "QP " + std::to_string(qp_->qp_num) + " to " + std::to_string(peer_.qp.qpn) + ": posted " +
         std::to_string(posted_) + ", completed " + std::to_string(completed_) + ", heard " +
         std::to_string(heard_) + " of " + std::to_string(settings_.messages);
}

}  // namespace proof
