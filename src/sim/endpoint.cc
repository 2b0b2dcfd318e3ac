#include "sim/endpoint.h"

#include <algorithm>

#include "base/assert.h"
#include "sim/engine_call.h"
#include "sim/exchange.h"
#include "sim/message_maker.h"

namespace rrdma::sim {

using objects::Status;
using transport::QpState;
using transport::QpType;

namespace {

constexpr std::uint32_t kQpAccess =
    objects::kLocalWrite | objects::kRemoteWrite | objects::kRemoteRead | objects::kRemoteAtomic;
constexpr wire::QKey kQKey{0x11223344};
constexpr std::uint32_t kGrhRoom = 40;
constexpr Duration kPostAgain = microseconds(10);

Operation pick(Prng& prng, const Mix& mix) {
  std::uint32_t sum = 0;
  for (const std::uint8_t weight : mix) sum += weight;
  auto at = static_cast<std::uint32_t>(prng.below(sum));
  for (std::size_t i = 0; i < mix.size(); ++i) {
    if (at < mix[i]) return static_cast<Operation>(i);
    at -= mix[i];
  }
  return Operation::kSend;
}

}  // namespace

Endpoint::Endpoint(Exchange& exchange, Connection& connection, Site& site, const TrafficPlan& plan,
                   std::uint32_t psn, std::uint32_t messages)
    : exchange_(exchange),
      connection_(connection),
      site_(site),
      plan_(plan),
      first_psn_(psn),
      budget_(messages) {}

std::uint8_t Endpoint::known_features() const {
  return connection_.a == this ? plan_.features_a : plan_.features_b;
}

void Endpoint::learn_features() {
  if (state_ == State::kReady && plan_.type == QpType::kRc)
    site_.host.engine.set_peer_features(*qp_, known_features());
}

std::string Endpoint::name() const {
  return std::string(transport::describe(plan_.type)) + " QP " + std::to_string(qpn_.value) + " on host " +
         std::to_string(site_.host.index());
}

std::string Endpoint::standing() const {
  static constexpr std::string_view kStates[] = {"closed", "connecting", "ready", "broken"};
  std::string text = name() + ": " + std::string(kStates[static_cast<std::size_t>(state_)]) + ", " +
                     std::to_string(budget_) + " to post, " + std::to_string(outstanding_.size()) +
                     " outstanding, " + std::to_string(incoming_.size()) + " to receive";
  if (qp_ == nullptr) return text;
  const transport::RequesterState& req = qp_->req;
  text += "; " + std::string(transport::describe(qp_->state)) + " una " + std::to_string(req.una.value) +
          " tx " + std::to_string(req.tx.value) + " sent " + std::to_string(req.sent.value) + " next " +
          std::to_string(req.next.value) + " flight " + std::to_string(req.flight_packets) + " window " +
          std::to_string(req.congestion.window()) + " reads " + std::to_string(req.reads) +
          (req.waiting_rnr ? " waits for RNR" : "") + "; expects " +
          std::to_string(qp_->resp.expected.value) + ", receives " + std::to_string(qp_->incoming->size());
  return text;
}

void Endpoint::violate(const std::string& what, const Message* message) {
  std::string text = name() + ": " + what;
  if (message != nullptr) {
    text += " (message " + std::to_string(message->id) + ", opcode " +
            std::to_string(static_cast<int>(message->opcode)) + ", " + std::to_string(message->length) +
            " bytes)";
  }
  exchange_.world().violate(std::move(text));
}

// ---- control ----

void Endpoint::open() {
  Prng& prng = exchange_.prng();
  if (qp_ == nullptr) {
    transport::QpInit init;
    init.type = plan_.type;
    init.pd = &site_.host.pd;
    init.send_cq = &site_.completion_queue(prng.below(8));
    init.receive_cq = &site_.completion_queue(prng.below(8));
    init.shared_receive_queue = plan_.shared_receive ? &site_.shared_queue() : nullptr;
    init.send_entries = plan_.send_entries;
    init.receive_entries = plan_.shared_receive ? 0 : plan_.receive_entries;
    init.send_sges = init.receive_sges = plan_.sges;
    init.inline_octets = plan_.inline_octets;
    init.signal_all = plan_.signal_all;
    qpn_ = site_.host.fresh_qpn();
    qp_ = &site_.host.engine.create_qp(init, qpn_);
  }
  site_.add(qpn_, *this);
  state_ = State::kConnecting;
  failed_ = drained_ = refused_invalidate_ = false;
  unsignaled_ = 0;
  resume_at_ = kNever;
  transport::QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.access_flags = kQpAccess;
  attributes.qkey = kQKey;
  const std::uint32_t mask = transport::kAttrState | transport::kAttrPKeyIndex | transport::kAttrPort |
                             (plan_.type == QpType::kUd ? transport::kAttrQKey : transport::kAttrAccessFlags);
  if (!site_.host.engine.modify_qp(*qp_, attributes, mask, exchange_.world().now()).ok())
    violate("RESET to INIT was refused");
  if (plan_.type == QpType::kRc && plan_.mix[static_cast<std::size_t>(Operation::kBindWindow)] != 0) {
    auto window = site_.host.memory.allocate_window(site_.host.pd, objects::WindowType::kType2);
    RRDMA_ASSERT(window.ok());
    window_ = {};
    window_.window = *window;
    window_.stale_key = (*window)->key;
  }
  post_receives();
}

void Endpoint::to_receive(const Endpoint& other) {
  transport::QpAttributes attributes;
  attributes.state = QpState::kReadyToReceive;
  std::uint32_t mask = transport::kAttrState;
  if (plan_.type != QpType::kUd) {
    attributes.path = site_.host.path_to(other.site_.host, plan_.ipv6, qpn_, other.qpn_);
    if (!plan_.learns_late) attributes.path.features = known_features();
    attributes.path_mtu = plan_.mtu_code;
    attributes.destination = other.qpn_;
    attributes.receive_psn = wire::Psn(other.first_psn_);
    mask |= transport::kAttrPath | transport::kAttrPathMtu | transport::kAttrDestinationQpn |
            transport::kAttrReceivePsn;
  }
  if (plan_.type == QpType::kRc) {
    attributes.max_destination_reads = plan_.max_destination_reads;
    attributes.min_rnr_timer = plan_.min_rnr_timer;
    mask |= transport::kAttrMaxDestinationReads | transport::kAttrMinRnrTimer;
  }
  if (!site_.host.engine.modify_qp(*qp_, attributes, mask, exchange_.world().now()).ok())
    violate("INIT to RTR was refused");
  if (plan_.type == QpType::kRc)
    exchange_.judge().connect(qpn_, other.qpn_, attributes.receive_psn,
                              transport::mtu_octets(plan_.mtu_code));
}

void Endpoint::to_send() {
  if (state_ != State::kConnecting) return;  // it was closed meanwhile
  if (qp_->state == QpState::kError) {       // it refused the peer's first request
    state_ = State::kBroken;
    return;
  }
  transport::QpAttributes attributes;
  attributes.state = QpState::kReadyToSend;
  attributes.send_psn = wire::Psn(first_psn_);
  std::uint32_t mask = transport::kAttrState | transport::kAttrSendPsn;
  if (plan_.type == QpType::kRc) {
    attributes.timeout = plan_.timeout;
    attributes.retry_count = plan_.retry_count;
    attributes.rnr_retry = plan_.rnr_retry;
    attributes.max_reads = plan_.max_reads;
    mask |= transport::kAttrTimeout | transport::kAttrRetryCount | transport::kAttrRnrRetry |
            transport::kAttrMaxReads;
  }
  if (!site_.host.engine.modify_qp(*qp_, attributes, mask, exchange_.world().now()).ok())
    violate("RTR to RTS was refused");
  state_ = State::kReady;
  next_post_ = exchange_.world().now();
  site_.host.wake(next_post_);
}

void Endpoint::close(bool keep) {
  if (qp_ == nullptr) return;
  if (state_ == State::kClosed) {  // reset, and kept until now
    if (!keep) abandon();
    return;
  }
  site_.collect();
  site_.dispatch();
  if (exchange_.world().violation()) return;
  if (plan_.shared_receive && qp_->resp.have_receive) {
    // The message in progress had taken it; it ends with the QP.
    if (Receive* held = site_.find_shared(qp_->resp.receive.wr_id); held != nullptr) {
      end_receive(*held, nullptr);
    } else {
      violate("holds a receive request that was not posted or has completed");
    }
  }
  if (qp_->req.next.value < first_psn_ && plan_.type == QpType::kRc) ++exchange_.met().psn_wraps;
  if (keep) {
    transport::QpAttributes attributes;
    attributes.state = QpState::kReset;
    if (!site_.host.engine.modify_qp(*qp_, attributes, transport::kAttrState, exchange_.world().now()).ok()) {
      violate("the way to RESET was refused");
    }
  } else {
    site_.host.engine.destroy_qp(*qp_);
    qp_ = nullptr;
  }
  site_.forget(qpn_);
  state_ = State::kClosed;
}

void Endpoint::abandon() {
  if (qp_ != nullptr) site_.host.engine.destroy_qp(*qp_);
  qp_ = nullptr;
}

void Endpoint::settle() {
  for (Message* message : outstanding_) limbo_.push_back(message);
  outstanding_.clear();
  for (Message* message : limbo_) {
    release_local(*message);
    release_target(*message);
    end_window_use(*message);
    const bool atomic = message->opcode == objects::SendOpcode::kCompareSwap ||
                        message->opcode == objects::SendOpcode::kFetchAdd;
    if (atomic && message->expected == Status::kSuccess) {
      peer->site_.words[message->word].history.add(message->call);
    }
  }
  limbo_.clear();
  if (!receives_.empty()) {
    const Content none;
    for (Receive& receive : receives_) {
      const bool first = &receive == &receives_.front();
      const Content next = first && !incoming_.empty() ? received_content(*incoming_.front(), receive) : none;
      end_receive(receive, &next);
    }
    receives_.clear();
  }
  incoming_.clear();
  for (Target& target : unreliable_targets_) {
    if (std::string wrong = peer->site_.arena.check_partial(*target.slot, target.content); !wrong.empty())
      violate(wrong);
    peer->site_.arena.refill(*target.slot);
    peer->site_.arena.give_back(*target.slot);
  }
  unreliable_targets_.clear();
  if (window_.window != nullptr) {
    if (window_.slot != nullptr) {
      site_.arena.refill(*window_.slot);
      site_.arena.give_back(*window_.slot);
    }
    site_.host.memory.free_window(*window_.window);
    window_ = {};
  }
}

const objects::AddressHandle& Endpoint::handle_to(const Endpoint& to) {
  for (const Handle& known : handles_) {
    if (known.to == &to) return known.handle;
  }
  Handle& made = handles_.emplace_back();
  made.to = &to;
  made.handle.pd = &site_.host.pd;
  made.handle.path = site_.host.path_to(to.site_.host, plan_.ipv6, qpn_, to.qpn_);
  return made.handle;
}

// ---- receives ----

void Endpoint::post_receives() {
  Prng& prng = exchange_.prng();
  const bool starve = !exchange_.calm() && prng.chance_ppm(plan_.starve_ppm);
  if (plan_.shared_receive) {
    site_.fill_shared(starve);
    return;
  }
  if (starve || qp_ == nullptr || qp_->state == QpState::kError) return;
  const std::uint32_t want = exchange_.calm()
                                 ? plan_.receive_entries
                                 : static_cast<std::uint32_t>(prng.between(1, plan_.receive_entries));
  while (receives_.size() < want) {
    Receive receive;
    std::uint32_t octets = plan_.octets_max + (plan_.type == QpType::kUd ? kGrhRoom : 0);
    const bool spoil = !exchange_.calm() && prng.chance_ppm(plan_.provoke_ppm / 4);
    const bool small = spoil && plan_.octets_max > 1 && prng.below(2) == 0;
    if (small) octets = static_cast<std::uint32_t>(prng.below(plan_.octets_max));
    if (!site_.make_receive(receive, octets, plan_.sges)) return;
    receive.bad_key = spoil && !small && receive.layout.length() != 0 && plan_.type == QpType::kRc;
    if (spoil) connection_.error_excused = true;
    Site::SgeArray list;
    const auto sges = site_.sges(*receive.slot, receive.layout, site_.local_region->key, list);
    if (receive.bad_key) {
      for (std::size_t i = 0; i < sges.size(); ++i) list[i].lkey.value ^= 0x5500;
    }
    transport::PostError error;
    {
      EngineCall guard;
      error = site_.host.engine.post_receive(*qp_, receive.id, sges, exchange_.world().now());
    }
    if (error != transport::PostError::kNone) {
      violate("post_receive was refused: " + std::string(transport::describe(error)));
      return;
    }
    receives_.push_back(receive);
  }
}

void Endpoint::end_receive(Receive& receive, const Content* partial) {
  std::string wrong;
  if (partial != nullptr && plan_.type == QpType::kRc)
    wrong = site_.arena.check_partial(*receive.slot, *partial);
  if (!wrong.empty()) violate("a receive buffer that no message completed: " + wrong);
  if (plan_.shared_receive) {
    site_.end_shared(receive);
    return;
  }
  site_.arena.refill(*receive.slot);
  site_.arena.give_back(*receive.slot);
}

// ---- turns and events ----

void Endpoint::turn(Instant now) {
  if (qp_ == nullptr || (state_ != State::kReady && state_ != State::kConnecting)) return;
  post_receives();
  if (state_ != State::kReady || exchange_.world().violation()) return;
  if (qp_->state == QpState::kSendError && outstanding_.empty()) {
    transport::QpAttributes attributes;
    attributes.state = QpState::kReadyToSend;
    if (!site_.host.engine.modify_qp(*qp_, attributes, transport::kAttrState, now).ok())
      violate("SQE to RTS was refused");
    failed_ = false;
  }
  drain_queue(now);
  if (budget_ == 0 || qp_->state == QpState::kError) return;
  if (now >= next_post_) {
    post_burst(now);
    if (qp_ == nullptr || state_ != State::kReady) return;
    next_post_ = now + nanoseconds(static_cast<std::int64_t>(
                           exchange_.prng().below(static_cast<std::uint64_t>(plan_.think_max.ns) + 1)));
  }
  // Retry a burst that found no room, because nothing else may wake this host.
  if (budget_ != 0) site_.host.wake(next_post_ > now ? next_post_ : now + kPostAgain);
}

// ---- posting ----

void Endpoint::post_burst(Instant now) {
  Prng& prng = exchange_.prng();
  const auto count = prng.between(1, plan_.burst_max);
  for (std::uint64_t i = 0; i < count && budget_ != 0 && outstanding_.size() + 2 <= plan_.send_entries; ++i) {
    const bool provoke = !exchange_.calm() && plan_.provoke_ppm != 0 && prng.chance_ppm(plan_.provoke_ppm);
    if (provoke && prng.below(4) == 0 && plan_.type == QpType::kRc) {
      static constexpr Provocation kActs[] = {Provocation::kModifyToError, Provocation::kDestroy,
                                              Provocation::kReset};
      act_up(kActs[prng.below(3)]);
      return;
    }
    MessageMaker maker(*this, now);
    if (!maker.make(pick(prng, plan_.mix), provoke)) return;
    if (exchange_.world().violation()) return;
  }
}

// Operations of an application on its own QP in the middle of traffic.
void Endpoint::act_up(Provocation provocation) {
  ++exchange_.met().provocations[static_cast<std::size_t>(provocation)];
  connection_.error_excused = true;
  if (provocation == Provocation::kModifyToError) {
    transport::QpAttributes attributes;
    attributes.state = transport::QpState::kError;
    if (!site_.host.engine.modify_qp(*qp_, attributes, transport::kAttrState, exchange_.world().now()).ok()) {
      violate("the way to the error state was refused");
    }
    failed_ = true;
    state_ = State::kBroken;
    site_.collect();
    site_.dispatch();
    // The remaining requests succeeded earlier. They were unsignalled, and no completion behind them reported
    // it.
    while (!outstanding_.empty() && !exchange_.world().violation()) {
      Message& message = *outstanding_.front();
      outstanding_.pop_front();
      if (message.signaled) return violate("in the error state, and not everything was flushed", &message);
      succeed(message);
    }
  } else {
    close(provocation == Provocation::kReset);
  }
  exchange_.broken(connection_);
}

// Goes through SQD and back: started requests complete, the event arrives, nothing is lost.
void Endpoint::drain_queue(Instant now) {
  Prng& prng = exchange_.prng();
  transport::QpAttributes attributes;
  if (qp_->state == QpState::kReadyToSend && !exchange_.calm() && plan_.drain_ppm != 0 &&
      prng.chance_ppm(plan_.drain_ppm)) {
    attributes.state = QpState::kDrain;
    attributes.drain_notify = true;
    drained_ = false;
    if (!site_.host.engine
             .modify_qp(*qp_, attributes, transport::kAttrState | transport::kAttrDrainNotify, now)
             .ok()) {
      violate("RTS to SQD was refused");
    }
    return;
  }
  if (qp_->state != QpState::kDrain || !drained_) return;
  if (resume_at_ == kNever) resume_at_ = now + nanoseconds(static_cast<std::int64_t>(prng.below(20'000)));
  if (now < resume_at_) {
    site_.host.wake(resume_at_);
    return;
  }
  attributes.state = QpState::kReadyToSend;
  resume_at_ = kNever;
  if (!site_.host.engine.modify_qp(*qp_, attributes, transport::kAttrState, now).ok())
    violate("SQD to RTS was refused");
}

void Endpoint::on_event(transport::QpEvent event) {
  using transport::QpEvent;
  switch (event) {
    case QpEvent::kSendQueueDrained:
      if (qp_ != nullptr && qp_->state != QpState::kDrain)
        violate("the send queue is said to be drained outside of SQD");
      drained_ = true;
      site_.host.wake(exchange_.world().now());
      break;
    case QpEvent::kCommunicationEstablished:
      if (state_ != State::kConnecting) violate("communication is said to be established when it was before");
      break;
    case QpEvent::kLastReceiveReached:
      if (!plan_.shared_receive) violate("the last receive of a shared queue is told to a QP that has none");
      break;
    case QpEvent::kFatal:
    case QpEvent::kAccessError:
    case QpEvent::kRequestError:
      if (!connection_.error_excused) violate("an error event that nothing explains");
      if (state_ == State::kReady || state_ == State::kConnecting) {
        state_ = State::kBroken;
        exchange_.broken(connection_);
      }
      break;
  }
}

}  // namespace rrdma::sim
