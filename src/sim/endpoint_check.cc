// The oracle of Endpoint. It checks every completion against the posted request, against the memory of both
// sides, and against the errors that the network and the workload excuse.
#include <algorithm>
#include <array>

#include "sim/endpoint.h"
#include "sim/exchange.h"

namespace rrdma::sim {

using objects::Completion;
using objects::CompletionOpcode;
using objects::SendOpcode;
using objects::Status;
using transport::QpState;
using transport::QpType;

namespace {

constexpr std::uint32_t kGrhOctets = 40;

// Deliberately separate from the engine's table: an oracle that used it could not find an error in it.
CompletionOpcode completion_of(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImmediate: return CompletionOpcode::kWrite;
    case SendOpcode::kRead: return CompletionOpcode::kRead;
    case SendOpcode::kCompareSwap: return CompletionOpcode::kCompareSwap;
    case SendOpcode::kFetchAdd: return CompletionOpcode::kFetchAdd;
    case SendOpcode::kLocalInvalidate: return CompletionOpcode::kLocalInvalidate;
    case SendOpcode::kBindWindow: return CompletionOpcode::kBindWindow;
    case SendOpcode::kFlush: return CompletionOpcode::kFlush;
    case SendOpcode::kAtomicWrite: return CompletionOpcode::kAtomicWrite;
    default: return CompletionOpcode::kSend;
  }
}

bool is_atomic(const Message& message) {
  return message.opcode == SendOpcode::kCompareSwap || message.opcode == SendOpcode::kFetchAdd;
}
bool has_answer(const Message& message) { return message.opcode == SendOpcode::kRead || is_atomic(message); }
bool awaits_answer(const Message& message) {
  return has_answer(message) || message.opcode == SendOpcode::kFlush ||
         message.opcode == SendOpcode::kAtomicWrite;
}

std::string status_text(Status status) { return "'" + std::string(objects::describe(status)) + "'"; }

// The layout without its first bytes.
Layout behind(const Layout& layout, std::uint32_t octets) {
  Layout rest;
  for (const Piece& piece : layout.list()) {
    const std::uint32_t cut_off = std::min(octets, piece.length);
    octets -= cut_off;
    rest.pieces[rest.count++] = {piece.offset + cut_off, piece.length - cut_off};
  }
  return rest;
}

}  // namespace

void Endpoint::on_completion(const Completion& completion) {
  if (static_cast<std::size_t>(completion.status) >= kStatusCount)
    return violate("a completion status that does not exist");
  if ((completion.wr_id & kReceiveIdBit) != 0) {
    ++exchange_.met().receive_statuses[static_cast<std::size_t>(completion.status)];
    on_receive_completion(completion);
  } else {
    ++exchange_.met().send_statuses[static_cast<std::size_t>(completion.status)];
    on_send_completion(completion);
  }
}

// ---- our requests ----

void Endpoint::on_send_completion(const Completion& completion) {
  // This completion also completes the unsignalled requests before it.
  while (!outstanding_.empty() && outstanding_.front()->id != completion.wr_id) {
    Message& silent = *outstanding_.front();
    if (silent.signaled)
      return violate("completions are out of order, or one is missing: " + std::to_string(completion.wr_id) +
                         " came first",
                     &silent);
    outstanding_.pop_front();
    succeed(silent);
    if (exchange_.world().violation()) return;
  }
  if (outstanding_.empty())
    return violate("a completion for message " + std::to_string(completion.wr_id) +
                   ", which is not outstanding");
  Message& message = *outstanding_.front();
  outstanding_.pop_front();
  if (completion.opcode != completion_of(message.opcode))
    return violate("the completion names another operation", &message);
  if (completion.status != Status::kSuccess) return fail(message, completion.status);
  if (!message.signaled) return violate("an unsignalled request made a completion", &message);
  if (has_answer(message) && completion.byte_length != message.length)
    return violate("the completion names another length", &message);
  succeed(message);
}

void Endpoint::succeed(Message& message) {
  message.completed = true;
  message.succeeded = true;
  message.completed_at = exchange_.world().now();
  ++exchange_.met().operations[static_cast<std::size_t>(message.opcode)];
  Totals& totals = exchange_.count();
  ++totals.messages_succeeded;
  totals.octets_moved += message.length;
  totals.latency.add(message.completed_at - message.posted);
  if (message.expected != Status::kSuccess) {
    return violate("success where " + status_text(message.expected) + " was due", &message);
  }
  check_success(message);
}

void Endpoint::check_success(Message& message) {
  if (plan_.type != QpType::kRc) {
    if (message.provocation != Provocation::kNone)
      ++exchange_.met().provocations[static_cast<std::size_t>(message.provocation)];
    release_local(message);
    rest_target(message);
    return;
  }
  if (message.provocation == Provocation::kBadInvalidate) {
    ++exchange_.met().provocations[static_cast<std::size_t>(message.provocation)];
    if (!peer->has_refused_invalidate())
      return violate("success, and the other side took the key that it had to refuse", &message);
  } else if (message.takes_receive && !message.delivered) {
    const auto& queue = peer->incoming_;
    const auto position =
        static_cast<std::size_t>(std::find(queue.begin(), queue.end(), &message) - queue.begin());
    if (peer->site_.waiting_receives(peer->qpn_, Status::kSuccess) <= position) {
      return violate("success, and the other side has no receive completion for it", &message);
    }
  }
  if (message.target != nullptr && !message.target_overwritten) {
    const Content* content = message.target_content.length != 0 ? &message.target_content : nullptr;
    if (std::string wrong = peer->site_.arena.check(*message.target, content); !wrong.empty()) {
      return violate("success, and the memory of the other side is wrong: " + wrong, &message);
    }
  }
  if (has_answer(message)) check_answer(message);
  switch (message.opcode) {
    case SendOpcode::kBindWindow: window_.state = Window::State::kBound; break;
    case SendOpcode::kLocalInvalidate: end_window(); break;
    default: break;
  }
  if (exchange_.world().violation()) return;
  release_local(message);
  release_target(message);
  end_window_use(message);
  if (!message.takes_receive || message.delivered) exchange_.recycle(message);
}

void Endpoint::check_answer(Message& message) {
  if (!is_atomic(message)) {
    if (std::string wrong = site_.arena.check(*message.local, &message.answer); !wrong.empty()) {
      violate("a READ brought the wrong bytes: " + wrong, &message);
    }
    return;
  }
  std::array<std::uint8_t, 8> octets{};
  std::size_t done = 0;
  for (const Piece& piece : message.answer.layout.list()) {
    std::copy_n(site_.arena.host(message.local->at + piece.offset), piece.length, octets.data() + done);
    done += piece.length;
  }
  message.call.original = load_native<std::uint64_t>(octets.data());
  message.call.completed = exchange_.world().now();
  message.call.certain = true;
  peer->site_.words[message.word].history.add(message.call);
}

void Endpoint::fail(Message& message, Status status) {
  message.completed = true;
  message.completed_at = exchange_.world().now();
  ++exchange_.count().messages_failed;
  if (!excused(message, status)) {
    return violate(status_text(status) + " where " +
                       (message.expected == Status::kSuccess ? "nothing was wrong"
                                                             : status_text(message.expected) + " was due"),
                   &message);
  }
  if (status == message.expected)
    ++exchange_.met().provocations[static_cast<std::size_t>(message.provocation)];
  if (status != Status::kFlushed) failed_ = true;
  if (plan_.type != QpType::kRc) {
    release_local(message);
    rest_target(message);
    return;
  }
  limbo_.push_back(&message);
  state_ = State::kBroken;
  exchange_.broken(connection_);
}

// Class J: the message that asked for it succeeds, and this side is silent ever after.
bool Endpoint::has_refused_invalidate() {
  return refused_invalidate_ || site_.waiting_receives(qpn_, Status::kRemoteInvalidRequest) != 0;
}

// True if each retry was spent on a whole timeout without an answer, or on a gap that the peer reported.
bool Endpoint::was_patient(const Message& message) const {
  const std::size_t gaps = exchange_.judge().gaps_told(qpn_, message.posted);
  const std::int64_t timeouts = plan_.retry_count + 1 - static_cast<std::int64_t>(gaps);
  return exchange_.world().now() - message.posted >=
         plan_.ack_timeout() * std::max<std::int64_t>(timeouts, 0);
}

bool Endpoint::excused(const Message& message, Status status) {
  if (status == message.expected || status == message.first_expected) return true;
  const bool broken_here = failed_ || connection_.error_excused;
  switch (status) {
    case Status::kFlushed:
      return broken_here && (qp_->state == QpState::kError || qp_->state == QpState::kSendError);
    case Status::kRetryExceeded:
      if (plan_.type != QpType::kRc || !was_patient(message)) return false;
      if (plan_.max_reads > plan_.max_destination_reads)
        return true;  // the peer discards answers that are still needed
      if (exchange_.plan().harsh || exchange_.was_partitioned(*this, *peer)) return true;
      if (peer->qp_ == nullptr || peer->state_ == State::kClosed || peer->state_ == State::kConnecting)
        return true;
      // The answer with the reason may be lost, and then the peer stays silent.
      return peer->qp_->state == QpState::kError &&
             (!exchange_.plan().calm() || peer->failed_ || peer->has_refused_invalidate());
    case Status::kRnrRetryExceeded: return plan_.rnr_retry < 7 && message.takes_receive;
    case Status::kRemoteInvalidRequest:
      if (plan_.max_reads > plan_.max_destination_reads && awaits_answer(message)) return true;
      return message.takes_receive &&
             peer->site_.waiting_receives(peer->qpn_, Status::kLocalLengthError) != 0;
    case Status::kRemoteOperationError:
      return message.takes_receive &&
             peer->site_.waiting_receives(peer->qpn_, Status::kLocalProtectionError) != 0;
    default: return false;
  }
}

void Endpoint::release_local(Message& message) {
  if (message.local == nullptr || message.keeps_local) return;
  std::string wrong;
  if (!message.succeeded && !is_atomic(message)) {
    wrong = site_.arena.check_partial(*message.local, has_answer(message) ? message.answer : message.carried);
  } else if (!has_answer(message)) {
    wrong = site_.arena.check(*message.local, &message.carried);
  }
  if (!wrong.empty()) violate("the memory of this side is wrong: " + wrong, &message);
  site_.arena.refill(*message.local);
  site_.arena.give_back(*message.local);
  message.local = nullptr;
}

void Endpoint::release_target(Message& message) {
  if (message.target == nullptr || message.keeps_target) return;
  Arena& arena = peer->site_.arena;
  if (std::string wrong =
          message.succeeded ? "" : arena.check_partial(*message.target, message.target_content);
      !wrong.empty()) {
    violate("the memory of the other side is wrong: " + wrong, &message);
  }
  arena.refill(*message.target);
  arena.give_back(*message.target);
  message.target = nullptr;
}

// From now on its packets may be in flight for up to a packet lifetime.
void Endpoint::rest_target(const Message& message) {
  for (Target& target : unreliable_targets_) {
    if (target.slot == message.target) target.used = exchange_.world().now();
  }
}

void Endpoint::end_window_use(Message& message) {
  if (!message.through_window) return;
  message.through_window = false;
  peer->window_.uses = 0;
  peer->site_.arena.refill(*message.target);
}

void Endpoint::end_window() {
  window_.state = Window::State::kIdle;
  window_.stale_key = window_.key;
  if (window_.slot == nullptr) return;
  site_.arena.refill(*window_.slot);
  site_.arena.give_back(*window_.slot);
  window_.slot = nullptr;
}

// ---- the peer's requests ----

void Endpoint::on_receive_completion(const Completion& completion) {
  Receive own;
  Receive* receive = nullptr;
  if (plan_.shared_receive) {
    receive = site_.find_shared(completion.wr_id);
  } else if (!receives_.empty() && receives_.front().id == completion.wr_id) {
    own = receives_.front();
    receives_.pop_front();
    receive = &own;
  }
  if (receive == nullptr)
    return violate("a receive completion out of order, or for a request that is not posted");
  if (completion.status != Status::kSuccess) return receive_failed(*receive, completion);
  Message* message = match(*receive, completion);
  if (message == nullptr) return;
  message->delivered = true;
  if (message->expected != Status::kSuccess) return violate("received what had to fail", message);
  if (message->opcode == SendOpcode::kSendInvalidate) end_window();
  end_receive(*receive, nullptr);
  if (message->succeeded && plan_.type == QpType::kRc) exchange_.recycle(*message);
}

void Endpoint::receive_failed(Receive& receive, const Completion& completion) {
  Message* next = incoming_.empty() ? nullptr : incoming_.front();
  switch (completion.status) {
    case Status::kLocalLengthError:
      if (next == nullptr || next->length <= receive.room)
        return violate("a length error, and the message fits");
      next->first_expected = next->expected;
      next->expected = Status::kRemoteInvalidRequest;
      next->provocation = Provocation::kSmallReceive;
      break;
    case Status::kLocalProtectionError:
      if (next == nullptr || !receive.bad_key)
        return violate("a protection error, and nothing is wrong with the receive request");
      next->first_expected = next->expected;
      next->expected = Status::kRemoteOperationError;
      next->provocation = Provocation::kBadReceiveKey;
      break;
    case Status::kRemoteInvalidRequest:
      if (next == nullptr || next->provocation != Provocation::kBadInvalidate)
        return violate("an invalid request, and nothing is wrong with the message");
      break;
    case Status::kFlushed:
      if (qp_->state != QpState::kError ||
          !(failed_ || connection_.error_excused || site_.waiting_send_error(qpn_))) {
        return violate("a receive request was flushed for no reason");
      }
      break;
    default: return violate("a receive completion with status " + status_text(completion.status));
  }
  // The first receive that fails may hold the beginning of the message in progress.
  const Content partial = next != nullptr ? received_content(*next, receive) : Content{};
  end_receive(receive, &partial);
  if (completion.status == Status::kRemoteInvalidRequest) {
    // It is acknowledged all the same.
    refused_invalidate_ = true;
    incoming_.pop_front();
    next->delivered = true;
    if (next->succeeded) exchange_.recycle(*next);
  }
  if (state_ == State::kReady || state_ == State::kConnecting) state_ = State::kBroken;
  exchange_.broken(connection_);
}

Content Endpoint::received_content(const Message& message, const Receive& receive) const {
  Content content = message.carried;
  if (message.opcode == SendOpcode::kWriteImmediate) content.length = 0;
  content.layout = plan_.type == QpType::kUd ? behind(receive.layout, kGrhOctets) : receive.layout;
  content.length = std::min(content.length, content.layout.length());
  return content;
}

// Finds the message that has arrived. RC: the next one. UC and UD: any that may be in flight.
Message* Endpoint::match(const Receive& receive, const Completion& completion) {
  if (plan_.type == QpType::kRc) {
    if (incoming_.empty()) {
      violate("received a message that was not sent, or twice");
      return nullptr;
    }
    Message* message = incoming_.front();
    incoming_.pop_front();
    if (std::string wrong = check_received(*message, receive, completion); !wrong.empty()) {
      violate("received, but " + wrong, message);
      return nullptr;
    }
    return message;
  }
  if (plan_.type == QpType::kUd && !check_grh(receive, completion)) {
    violate("a datagram with a wrong GRH area");
    return nullptr;
  }
  const Instant now = exchange_.world().now();
  std::erase_if(incoming_, [&](const Message* message) {
    return message->completed && now - message->completed_at > exchange_.plan().packet_lifetime;
  });
  std::string wrong = "nothing was sent";
  for (std::size_t i = 0; i < incoming_.size(); ++i) {
    Message* message = incoming_[i];
    if (message->expected != Status::kSuccess || (message->delivered && exchange_.keeps_order())) continue;
    wrong = check_received(*message, receive, completion);
    if (!wrong.empty()) continue;
    if (exchange_.keeps_order() && plan_.type == QpType::kUc)
      incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return message;
  }
  violate("received what fits no message that may be under way: " + wrong);
  return nullptr;
}

std::string Endpoint::check_received(const Message& message, const Receive& receive,
                                     const Completion& completion) {
  const bool write = message.opcode == SendOpcode::kWriteImmediate;
  const bool immediate = write || message.opcode == SendOpcode::kSendImmediate;
  const bool invalidate = message.opcode == SendOpcode::kSendInvalidate;
  const bool datagram = plan_.type == QpType::kUd;
  if (completion.opcode != (write ? CompletionOpcode::kReceiveWriteImmediate : CompletionOpcode::kReceive))
    return "the opcode is wrong";
  if (completion.byte_length != message.length + (datagram ? kGrhOctets : 0)) {
    return "the length is " + std::to_string(completion.byte_length);
  }
  const unsigned flags = (immediate ? objects::kWithImmediate : 0u) |
                         (invalidate ? objects::kWithInvalidate : 0u) | (datagram ? objects::kWithGrh : 0u);
  if (completion.flags != flags) return "the flags are wrong";
  if ((immediate || invalidate) && completion.immediate_or_key != message.immediate)
    return "the immediate data or key is wrong";
  if (completion.solicited != ((message.flags & objects::kSendSolicited) != 0))
    return "the solicited event bit is wrong";
  if (completion.source_qpn != message.from->qpn_) return "the source QP is wrong";
  if (write) {
    if (std::string wrong = site_.arena.check(
            *message.target, message.target_content.length != 0 ? &message.target_content : nullptr);
        !wrong.empty()) {
      return "the memory that it announces is wrong: " + wrong;
    }
    if (plan_.type == QpType::kUc) return {};
    return site_.arena.check(*receive.slot, nullptr);
  }
  if (message.length > receive.layout.length()) return "it is longer than the buffer";
  const Content content = received_content(message, receive);
  return plan_.type == QpType::kUc ? site_.arena.check_front(*receive.slot, content)
                                   : site_.arena.check(*receive.slot, &content);
}

// Checks the first 40 bytes, then restores their fill so that the rest can be checked as usual.
bool Endpoint::check_grh(const Receive& receive, const Completion& completion) {
  std::array<std::uint8_t, kGrhOctets> grh{};
  std::size_t done = 0;
  for (const Piece& piece : receive.layout.list()) {
    const std::size_t n = std::min<std::size_t>(piece.length, kGrhOctets - done);
    std::uint8_t* from = site_.arena.host(receive.slot->at + piece.offset);
    std::copy_n(from, n, grh.data() + done);
    Content fill;
    fill.layout.count = 1;
    fill.layout.pieces[0] = {piece.offset, static_cast<std::uint32_t>(n)};
    fill.id = receive.slot->fill_id;
    fill.length = static_cast<std::uint32_t>(n);
    fill.skip = piece.offset;
    site_.arena.write(*receive.slot, fill);
    done += n;
  }
  if (done != kGrhOctets) return false;
  const auto own4 = link::SimNetwork::ipv4_gid(site_.host.index());
  const auto own6 = link::SimNetwork::ipv6_gid(site_.host.index());
  if (grh[0] >> 4 == 6) return std::equal(own6.octets.begin(), own6.octets.end(), grh.begin() + 24);
  return (completion.flags & objects::kWithGrh) != 0 &&
         std::equal(own4.octets.begin() + 12, own4.octets.end(), grh.begin() + 36);
}

}  // namespace rrdma::sim
