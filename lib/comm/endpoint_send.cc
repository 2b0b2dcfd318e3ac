// EndpointState, send side: from a started Transfer to its completion.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "lib/comm/endpoint_state.h"
#include "lib/comm/window_state.h"

namespace rrdma::comm {
inline namespace v0 {
namespace detail {
namespace {

constexpr std::size_t kSendChain = 16;  // requests posted with one call

Code code_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_REM_ABORT_ERR: return Code::kPeerGone;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR: return Code::kRemoteAccess;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR: return Code::kLocalAccess;
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_LOC_LEN_ERR: return Code::kProtocol;
    default: return Code::kSystem;
  }
}

// The value of Error::detail: an errno for kSystem, otherwise the completion status.
int detail_of(ibv_wc_status status) { return code_of(status) == Code::kSystem ? EIO : status; }

bool takes_credit(Verb verb) { return verb == Verb::kSend || verb == Verb::kWriteImmediate; }

}  // namespace

// A work request under construction.
struct EndpointState::Request {
  ibv_send_wr wr;
  std::array<ibv_sge, 2> parts;
  MessageHeader header;
};

void EndpointState::fill_header(std::byte* at, MessageKind kind, std::size_t length) {
  MessageHeader header{static_cast<std::uint8_t>(kind), 0, static_cast<std::uint16_t>(credits_.grant()),
                       static_cast<std::uint32_t>(length)};
  std::memcpy(at, &header, sizeof(header));
}

bool EndpointState::can_post(const Transfer& transfer) const {
  return send_.has_room() && (!takes_credit(transfer.verb_) || credits_.has_for_message());
}

// Returns false if the transfer can never be sent; the transfer has then failed.
bool EndpointState::fits(Transfer& transfer) {
  const std::size_t size = transfer.octets_.empty() ? transfer.buffer_.size() : transfer.octets_.size();
  if (transfer.verb_ == Verb::kSend && size > peer_limit_) {
    Error error = error_for(Code::kTooLarge, During::kSend, 0);
    transfer.fail(std::move(error).with_note(std::to_string(size) + " bytes, the peer takes " +
                                             std::to_string(peer_limit_)));
    return false;
  }
  if ((transfer.verb_ == Verb::kWrite || transfer.verb_ == Verb::kWriteImmediate) &&
      size > transfer.length_) {
    Error error = error_for(Code::kTooLarge, During::kWrite, 0);
    transfer.fail(std::move(error).with_note(std::to_string(size) + " bytes, the remote span has " +
                                             std::to_string(transfer.length_)));
    return false;
  }
  if ((transfer.verb_ == Verb::kSend || transfer.verb_ == Verb::kRead) &&
      PoolState::wrapped(transfer.buffer_)) {
    Error error = error_for(Code::kInvalid, transfer.during(), 0);
    transfer.fail(std::move(error).with_note("wrapped memory can be neither sent nor read into"));
    return false;
  }
  if (transfer.verb_ == Verb::kRead) {
    if (transfer.buffer_.capacity() < transfer.length_) {
      Error error = error_for(transfer.buffer_ ? Code::kTooLarge : Code::kNoMemory, During::kRead, 0);
      transfer.fail(std::move(error).with_note(std::to_string(transfer.length_) + " bytes, the buffer has " +
                                               std::to_string(transfer.buffer_.capacity())));
      return false;
    }
    transfer.buffer_.resize(transfer.length_);
  }
  return transfer.verb_ != Verb::kBind || makes_window(transfer);
}

bool EndpointState::makes_window(Transfer& transfer) {
  const auto access = static_cast<Access>(transfer.immediate_);
  if (transfer.swap_ != 0 && writes(access)) {  // const objects
    transfer.fail(written_const().with_peer(peer_name_));
    return false;
  }
  if (transfer.operand_ > ~std::uint32_t{0}) {
    transfer.fail(error_for(Code::kTooLarge, During::kShare, 0).with_note("a remote span counts to 4 GiB"));
    return false;
  }
  auto window = WindowState::create(reactor_, reinterpret_cast<void*>(transfer.remote_address_),
                                    transfer.operand_, access);
  if (!window) {
    Error error = window.error();
    transfer.fail(std::move(error).with_peer(peer_name_));
    return false;
  }
  windows_.push_back(window->raw());
  transfer.kept_ = Ref<Counted>(window->raw());
  return true;
}

// Copies the data of a transfer that cannot be posted immediately.
bool EndpointState::copy_octets(Transfer& transfer) {
  auto buffer = reactor_->pool()->take(transfer.octets_.size());
  if (!buffer) {
    transfer.fail(buffer.error());
    return false;
  }
  std::memcpy(buffer->data(), transfer.octets_.data(), transfer.octets_.size());
  transfer.buffer_ = std::move(*buffer);
  transfer.octets_ = {};
  return true;
}

void EndpointState::begin(Transfer* transfer) {
  if (!usable()) [[unlikely]] {
    Error error = end_of_messages(transfer->during());
    return transfer->fail(std::move(error));
  }
  if (!fits(*transfer)) return;
  const bool at_once = send_.queued().empty() && !reactor_->corked() && can_post(*transfer);
  const bool goes_inline = at_once && transfer->octets_.size() + sizeof(MessageHeader) <= inline_limit_;
  if (transfer->octets_.data() != nullptr && !goes_inline && !copy_octets(*transfer)) return;
  if (at_once) return post_one(*transfer);
  if (!send_.has_room()) {
    ++counters_.waits_for_queue;
  } else if (takes_credit(transfer->verb_) && !credits_.has_for_message()) {
    ++counters_.waits_for_credit;
  }
  send_.queued().push_back(transfer);
  reactor_->settle_later(this);
}

// Builds a SEND: header and data, inline if they fit. Returns true for inline data: the memory is free when
// the request is posted. Otherwise the Posting owns the memory until the completion.
bool EndpointState::prepare_send(Transfer& transfer, Request& request) {
  ibv_send_wr& wr = request.wr;
  wr.opcode = IBV_WR_SEND;
  std::size_t size = transfer.buffer_.size();
  if (transfer.octets_.data() != nullptr) {
    size = transfer.octets_.size();
    fill_header(reinterpret_cast<std::byte*>(&request.header), MessageKind::kData, size);
    request.parts[0] = {reinterpret_cast<std::uintptr_t>(&request.header), sizeof(MessageHeader), 0};
    request.parts[1] = {reinterpret_cast<std::uintptr_t>(transfer.octets_.data()),
                        static_cast<std::uint32_t>(size), 0};
    wr.num_sge = size != 0 ? 2 : 1;
  } else {
    fill_header(transfer.buffer_.data() - sizeof(MessageHeader), MessageKind::kData, size);
    request.parts[0].addr -= sizeof(MessageHeader);
    request.parts[0].length += sizeof(MessageHeader);
  }
  ++counters_.messages_sent;
  counters_.octets_sent += size;
  if (size + sizeof(MessageHeader) > inline_limit_) return false;
  wr.send_flags |= IBV_SEND_INLINE;
  ++counters_.inlined;
  return true;
}

// Builds a one-sided operation, or the binding of a memory window.
void EndpointState::prepare_one_sided(const Transfer& transfer, ibv_send_wr& wr) {
  const std::size_t size = transfer.buffer_.size();
  switch (transfer.verb_) {
    case Verb::kSend: break;
    case Verb::kWriteImmediate:
    case Verb::kWrite:
      wr.opcode = transfer.verb_ == Verb::kWrite ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
      wr.imm_data = htonl(transfer.immediate_);
      wr.wr.rdma = {transfer.remote_address_, transfer.remote_key_};
      if (size == 0) wr.num_sge = 0;
      if (size <= inline_limit_ && size != 0) wr.send_flags |= IBV_SEND_INLINE;
      ++counters_.writes;
      break;
    case Verb::kRead:
      wr.opcode = IBV_WR_RDMA_READ;
      wr.wr.rdma = {transfer.remote_address_, transfer.remote_key_};
      if (size == 0) wr.num_sge = 0;
      ++counters_.reads;
      break;
    case Verb::kCompareSwap:
    case Verb::kFetchAdd:
      wr.opcode =
          transfer.verb_ == Verb::kCompareSwap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
      wr.wr.atomic = {transfer.remote_address_, transfer.operand_, transfer.swap_, transfer.remote_key_};
      ++counters_.atomics;
      break;
    case Verb::kBind: static_cast<const WindowState*>(transfer.kept_.raw())->fill(wr); break;
  }
}

// Takes an entry for an inline send. It has no waiter, so a completion is requested only now and then.
void EndpointState::sign_silent(ibv_send_wr& wr) {
  Posting* posting = send_.occupy_silently();
  if (posting != nullptr) wr.send_flags |= IBV_SEND_SIGNALED;
  wr.wr_id =
      reinterpret_cast<std::uintptr_t>(static_cast<Completion*>(posting != nullptr ? posting : &silent_));
}

bool EndpointState::try_send(std::span<const std::byte> octets) {
  const bool at_once = usable() && send_.queued().empty() && !reactor_->corked() && send_.has_room() &&
                       credits_.has_for_message() && octets.size() <= peer_limit_ &&
                       octets.size() + sizeof(MessageHeader) <= inline_limit_;
  if (!at_once) return false;
  Request request;
  fill_header(reinterpret_cast<std::byte*>(&request.header), MessageKind::kData, octets.size());
  request.parts[0] = {reinterpret_cast<std::uintptr_t>(&request.header), sizeof(MessageHeader), 0};
  request.parts[1] = {reinterpret_cast<std::uintptr_t>(octets.data()),
                      static_cast<std::uint32_t>(octets.size()), 0};
  request.wr = ibv_send_wr{};
  request.wr.sg_list = request.parts.data();
  request.wr.num_sge = octets.empty() ? 1 : 2;
  request.wr.opcode = IBV_WR_SEND;
  request.wr.send_flags = IBV_SEND_INLINE;
  credits_.use();
  ++counters_.messages_sent;
  ++counters_.inlined;
  counters_.octets_sent += octets.size();
  sign_silent(request.wr);
  return post(&request.wr);
}

void EndpointState::prepare(Transfer& transfer, Request& request) {
  ibv_send_wr& wr = request.wr;
  wr = ibv_send_wr{};
  wr.sg_list = request.parts.data();
  wr.num_sge = 1;
  ibv_sge& part = request.parts[0];
  if (transfer.buffer_)
    part = {reinterpret_cast<std::uintptr_t>(transfer.buffer_.data()),
            static_cast<std::uint32_t>(transfer.buffer_.size()), PoolState::chunk_of(transfer.buffer_)->lkey};
  if (takes_credit(transfer.verb_)) credits_.use();
  const bool silent = transfer.verb_ == Verb::kSend && prepare_send(transfer, request);
  if (transfer.verb_ != Verb::kSend) prepare_one_sided(transfer, wr);
  if (transfer.fenced_) wr.send_flags |= IBV_SEND_FENCE;
  if (silent) return sign_silent(wr);
  send_.occupy();
  Posting* posting = send_.take(Posting::Kind::kTransfer);
  wr.wr_id = reinterpret_cast<std::uintptr_t>(static_cast<Completion*>(posting));
  wr.send_flags |= IBV_SEND_SIGNALED;
  if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    part = {reinterpret_cast<std::uintptr_t>(posting->scratch), sizeof(std::uint64_t),
            PoolState::chunk_of(scratch_)->lkey};
  }
  posting->buffer = std::move(transfer.buffer_);
  posting->kept = transfer.kept_;
  posting->waiter = &transfer;
  transfer.posting_ = posting;
}

bool EndpointState::post(ibv_send_wr* first) {
  ibv_send_wr* bad = nullptr;
  const int status = ibv_post_send(queue_pair_, first, &bad);
  if (status == 0) [[likely]]
    return true;
  break_off(Code::kSystem, status);
  // Requests that were not posted yield no completion.
  for (; bad != nullptr; bad = bad->next) {
    if ((bad->send_flags & IBV_SEND_SIGNALED) == 0) continue;
    auto* posting = static_cast<Posting*>(reinterpret_cast<Completion*>(bad->wr_id));
    if (posting->waiter != nullptr) {
      posting->waiter->posting_ = nullptr;
      std::exchange(posting->waiter, nullptr)->fail(Code::kSystem, status);
    }
    posting->buffer = Buffer();
    posting->kept.reset();
    send_.give_back(posting);
  }
  return false;
}

void EndpointState::post_one(Transfer& transfer) {
  Request request;
  prepare(transfer, request);
  if (!post(&request.wr)) {
    if (!transfer.done()) transfer.fail(Code::kSystem, reason_detail_);
    return;
  }
  if (transfer.posting_ == nullptr) transfer.complete();
}

void EndpointState::post_queued() {
  while (!send_.queued().empty() && phase_ == Phase::kOpen) {
    std::array<Request, kSendChain> requests;
    std::array<Transfer*, kSendChain> silent;
    std::size_t count = 0;
    std::size_t silent_count = 0;
    while (count < kSendChain && !send_.queued().empty() && can_post(*send_.queued().front())) {
      Transfer* transfer = send_.queued().pop_front();
      prepare(*transfer, requests[count]);
      if (count > 0) requests[count - 1].wr.next = &requests[count].wr;
      if (transfer->posting_ == nullptr) silent[silent_count++] = transfer;
      ++count;
    }
    if (count == 0) return;
    const bool posted = post(&requests[0].wr);
    for (std::size_t i = 0; i < silent_count; ++i) {
      if (posted) {
        silent[i]->complete();
      } else {
        silent[i]->fail(Code::kSystem, reason_detail_);
      }
    }
    if (!posted) return;
  }
}

// Posts a control message or a probe. Returns false if there is no room or credit now; the caller retries
// after the next completion or message.
bool EndpointState::post_control(Posting::Kind kind) {
  const bool message = kind == Posting::Kind::kCredit || kind == Posting::Kind::kClose;
  if (!send_.has_control_room() || (message && !credits_.has_for_control())) return false;
  Posting* posting = send_.take(kind);
  ibv_sge part{reinterpret_cast<std::uintptr_t>(posting->scratch), sizeof(MessageHeader),
               PoolState::chunk_of(scratch_)->lkey};
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<std::uintptr_t>(static_cast<Completion*>(posting));
  wr.send_flags = IBV_SEND_SIGNALED;
  if (message) {
    credits_.use();
    fill_header(posting->scratch, kind == Posting::Kind::kCredit ? MessageKind::kCredit : MessageKind::kClose,
                0);
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &part;
    wr.num_sge = 1;
    if (inline_limit_ >= sizeof(MessageHeader)) wr.send_flags |= IBV_SEND_INLINE;
  } else {
    // A write of zero bytes: the peer's device acknowledges it and the peer's program does not notice.
    wr.opcode = IBV_WR_RDMA_WRITE;
  }
  send_.occupy();
  return post(&wr);
}

void EndpointState::give_credits() {
  if (!credits_.message_due(profile_.receive_depth) || closing_.peer_closed() || phase_ != Phase::kOpen)
    return;
  if (post_control(Posting::Kind::kCredit)) ++counters_.credit_messages_sent;
}

void EndpointState::settle() {
  const Ref<EndpointState> self(this);
  if (phase_ != Phase::kOpen) return;
  if (receive_.has_released() && !post_released()) return;
  post_queued();
  give_credits();
  if (!closing_.message_due() || !send_.queued().empty() || phase_ != Phase::kOpen) return;
  if (closing_.peer_closed()) return stay_behind();
  if (post_control(Posting::Kind::kClose)) closing_.message_sent();
}

void EndpointState::withdraw(Transfer* transfer) noexcept {
  if (transfer->posting_ != nullptr) {
    // The device still uses the request, so its memory stays with the posting until the completion.
    transfer->posting_->waiter = nullptr;
    transfer->posting_ = nullptr;
  } else {
    static_cast<Link*>(transfer)->unlink();
    // Operations behind it may proceed now, including the close.
    reactor_->settle_later(this);
  }
}

void EndpointState::send_arrived(Completion* completion, const ibv_wc& wc) {
  auto* posting = static_cast<Posting*>(completion);
  posting->endpoint->end_posting(posting, wc);
}

void EndpointState::silent_arrived(Completion* completion, const ibv_wc& wc) {
  auto* posting = static_cast<Posting*>(completion);
  if (wc.status != IBV_WC_SUCCESS) posting->endpoint->break_off(wc);
}

void EndpointState::end_posting(Posting* posting, const ibv_wc& wc) {
  const Ref<EndpointState> self(this);
  const Posting::Kind kind = posting->kind;
  Transfer* waiter = std::exchange(posting->waiter, nullptr);
  Buffer buffer = std::move(posting->buffer);
  posting->kept.reset();
  send_.vacate(*posting);
  if (waiter != nullptr) waiter->posting_ = nullptr;
  if (wc.status == IBV_WC_SUCCESS) [[likely]] {
    if (silent_ticks_ != 0) heard_ = true;
    if (waiter != nullptr) {
      if (waiter->verb_ == Verb::kCompareSwap || waiter->verb_ == Verb::kFetchAdd)
        std::memcpy(&waiter->answer_, posting->scratch, sizeof(waiter->answer_));
      waiter->buffer_ = std::move(buffer);
      waiter->complete();
    }
  } else {
    if (kind != Posting::Kind::kMarker) break_off(wc);
    if (waiter != nullptr) {
      if (wc.status == IBV_WC_WR_FLUSH_ERR) {
        waiter->fail(end_of_messages(waiter->during()));
      } else {
        waiter->fail(code_of(wc.status), detail_of(wc.status));
      }
    }
  }
  send_.give_back(posting);
  if (kind == Posting::Kind::kMarker) {
    marker_done_ = true;
    check_drained();
  } else if (wc.status == IBV_WC_SUCCESS) {
    if (kind == Posting::Kind::kClose) close_acknowledged();
    if (kind == Posting::Kind::kProbe) probe_answered();
    if (!send_.queued().empty() || credits_.owes_for_messages() || closing_.begun())
      reactor_->settle_later(this);
  }
}

void EndpointState::break_off(const ibv_wc& wc) {
  if (wc.status == IBV_WC_WR_FLUSH_ERR) {
    break_off(closing_.loss(), wc.status);
  } else {
    break_off(code_of(wc.status), detail_of(wc.status));
  }
}

}  // namespace detail

namespace detail {

Transfer::Transfer(const Ref<EndpointState>& endpoint, Verb verb, During during, Buffer buffer, Limit limit)
    : Operation(endpoint->reactor(), during, std::move(limit)),
      endpoint_(endpoint),
      buffer_(std::move(buffer)),
      verb_(verb) {}

Transfer::Transfer(Transfer&& other) noexcept
    : Operation(std::move(other)),
      endpoint_(std::move(other.endpoint_)),
      buffer_(std::move(other.buffer_)),
      octets_(other.octets_),
      remote_address_(other.remote_address_),
      remote_key_(other.remote_key_),
      immediate_(other.immediate_),
      length_(other.length_),
      operand_(other.operand_),
      swap_(other.swap_),
      kept_(std::move(other.kept_)),
      verb_(other.verb_),
      fenced_(other.fenced_) {}

Transfer::~Transfer() { abandon(); }
WindowHandle Transfer::take_window() {
  return WindowHandle(Ref<WindowState>(static_cast<WindowState*>(std::exchange(kept_, {}).raw())));
}
void Transfer::begin() { endpoint_->begin(this); }
void Transfer::withdraw() noexcept { endpoint_->withdraw(this); }
Error Transfer::error_for(Code code, int detail) const {
  return endpoint_->error_for(code, during(), detail);
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
