#include "model.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "base/instant.h"
#include "base/prng.h"
#include "link/capture_link.h"
#include "model_link.h"
#include "nic/lane/round.h"
#include "objects/exclusion.h"
#include "transport/engine.h"
#include "wire/last_answer.h"

namespace rrdma::endings {
namespace {

using transport::QpState;

constexpr std::size_t kSender = 0, kReceiver = 1;
constexpr Duration kTick = nanoseconds(300);
constexpr Instant kBegin{1'000'000'000};
constexpr int kTicksMax = 100'000;
// A program that lives on must have acknowledged after that many: 1.2 ms, far below the ACK timeout of its
// peer.
constexpr int kTicksOfLife = 4000;

// The scheduler of the model runs the lanes. No thread sleeps.
class NoSleeper final : public nic::Sleeper {
 public:
  Instant now() override { return time; }
  Woken sleep(Watch, Instant) override { return {}; }
  void ring() override {}
  bool take_ring() override { return true; }
  void yield() override {}
  Instant time = kBegin;
};

// Calls `step` on unlock: a completion has just become visible.
class Interruption final : public objects::Exclusion {
 public:
  explicit Interruption(const std::function<void()>& step) : step_(step) {}
  void lock() override {}
  void unlock() override { step_(); }

 private:
  const std::function<void()>& step_;
};

// A lane with one QP. Message n lies in words()[n - 1] of the receiver.
class ModelLane final : private transport::EventSink,
                        private objects::CompletionListener,
                        private link::Receiver {
 public:
  ModelLane(const ModelPlan& plan, Wire& wire, std::size_t side, std::function<void()> step);
  ~ModelLane() override { engine_.destroy_qp(*qp_); }

  void set_time(Instant now) { sleeper_.time = now_ = now; }
  void round(nic::WakeUp::Caller caller);
  void end();
  void die();
  void post(std::uint64_t number);
  // The next completion; none while the program waits for an event.
  [[nodiscard]] std::optional<objects::Completion> take();
  [[nodiscard]] transport::Engine& engine() { return engine_; }
  [[nodiscard]] transport::QueuePair& qp() { return *qp_; }
  [[nodiscard]] const WireEnd& wire_end() const { return end_; }
  [[nodiscard]] const ModelFile* file() const { return file_.get(); }
  [[nodiscard]] std::uint64_t word(std::size_t index) const { return words_[index]; }
  [[nodiscard]] std::optional<wire::LastAnswer> left_answer() const {
    return wire::LastAnswer::read(left_answer_);
  }
  [[nodiscard]] bool owes_answer() const { return qp_->resp.answer_due; }
  [[nodiscard]] bool ended() const { return ended_; }
  // An event was raised before the answer was sent.
  [[nodiscard]] bool had_early_event() const { return early_event_; }

 private:
  static constexpr std::size_t kWords = 64;
  void connect(const ModelPlan& plan, std::size_t side);
  void modify(transport::QpAttributes& attributes, std::uint32_t mask);
  void send(Instant now);
  void on_qp_event(transport::QueuePair&, transport::QpEvent) override {}
  void on_completion(objects::CompletionQueue&) override {
    event_ = true;
    early_event_ |= owes_answer() || in_packet_;
    step_();
  }
  void on_overflow(objects::CompletionQueue&) override {}
  void on_packet(const wire::TransportPacket& packet, const objects::PacketOrigin& origin) override {
    in_packet_ = true;
    engine_.handle_packet(packet, origin, now_);
    in_packet_ = false;
  }

  const bool events_;
  const std::function<void()> step_;
  std::array<std::uint64_t, kWords> words_{};  // received; the last one is sent from
  objects::ProtectionDomain pd_;
  objects::MemoryTable memory_;
  objects::MemoryRegion* region_ = nullptr;
  Interruption interruption_{step_};
  objects::CompletionQueue queue_;
  transport::Engine engine_;
  WireEnd end_;
  std::unique_ptr<ModelFile> file_;
  std::unique_ptr<link::CaptureLink> capture_;
  link::Link& link_;
  ModelLinks links_;
  NoSleeper sleeper_;
  nic::LaneLock lock_;
  nic::WakeUp wakeup_;
  transport::QueuePair* qp_ = nullptr;
  std::atomic<std::uint64_t> last_answer_{0};
  std::uint64_t left_answer_ = 0;  // as it was when the process died
  Instant now_ = kBegin;
  bool event_ = false;
  bool early_event_ = false;
  bool in_packet_ = false;
  bool ended_ = false;
};

ModelLane::ModelLane(const ModelPlan& plan, Wire& wire, std::size_t side, std::function<void()> step)
    : events_(plan.events),
      step_(std::move(step)),
      memory_(plan.seed + side),
      queue_(256, this),
      engine_({}, memory_, *this),
      end_(wire, side, step_),
      file_(plan.capture && side == kReceiver ? std::make_unique<ModelFile>(step_) : nullptr),
      capture_(file_ == nullptr ? nullptr
                                : std::make_unique<link::CaptureLink>(
                                      end_, *file_, link::CaptureConfig{.write_through = true})),
      link_(capture_ != nullptr ? static_cast<link::Link&>(*capture_) : end_),
      links_(link_, file_.get()),
      wakeup_(lock_, sleeper_, false) {
  region_ = memory_
                .register_region({.pd = &pd_,
                                  .host = reinterpret_cast<std::uint8_t*>(words_.data()),
                                  .length = sizeof words_,
                                  .address = reinterpret_cast<std::uint64_t>(words_.data()),
                                  .access = objects::kLocalWrite})
                .value();
  queue_.expect_producers(interruption_);
  if (plan.capture) engine_.set_trains(false);
  connect(plan, side);
  if (events_) queue_.arm(false);
}

void ModelLane::modify(transport::QpAttributes& attributes, std::uint32_t mask) {
  RRDMA_ASSERT(engine_.modify_qp(*qp_, attributes, mask, now_).ok());
}

void ModelLane::connect(const ModelPlan& plan, std::size_t side) {
  const std::array numbers{wire::Qpn(0x10), wire::Qpn(0x20)};
  qp_ = &engine_.create_qp({.type = transport::QpType::kRc,
                            .pd = &pd_,
                            .send_cq = &queue_,
                            .receive_cq = &queue_,
                            .send_entries = 4,
                            .receive_entries = kWords,
                            .signal_all = true},
                           numbers[side]);
  using namespace transport;
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  modify(attributes, kAttrState | kAttrPKeyIndex | kAttrPort | kAttrAccessFlags);
  for (std::uint64_t i = 0; i <= plan.rounds; ++i) {
    const objects::Sge place{reinterpret_cast<std::uint64_t>(&words_[i]), sizeof words_[i], {region_->key}};
    RRDMA_ASSERT(engine_.post_receive(*qp_, i, {&place, 1}, now_) == PostError::kNone);
  }
  attributes.state = QpState::kReadyToReceive;
  attributes.path_mtu = 3;
  attributes.path.local.octets[15] = static_cast<std::uint8_t>(side + 1);
  attributes.path.remote.octets[15] = static_cast<std::uint8_t>(2 - side);
  attributes.path.lossless = plan.ring;
  attributes.path.train_octets = plan.ring ? 65536 : 0;
  attributes.destination = numbers[1 - side];
  attributes.min_rnr_timer = 1;
  modify(attributes, kAttrState | kAttrPath | kAttrPathMtu | kAttrDestinationQpn | kAttrReceivePsn |
                         kAttrMaxDestinationReads | kAttrMinRnrTimer);
  attributes.state = QpState::kReadyToSend;
  attributes.timeout = 14;
  attributes.retry_count = 1;
  attributes.rnr_retry = 7;
  modify(attributes,
         kAttrState | kAttrSendPsn | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxReads);
  qp_->last_answer = &last_answer_;
}

void ModelLane::send(Instant now) {
  if (capture_ != nullptr) capture_->note_time(now);
  engine_.transmit(link_, now);
  link_.flush(now);
  engine_.flushed(now);
}

void ModelLane::round(nic::WakeUp::Caller caller) {
  if (caller == nic::WakeUp::Caller::kProgram) wakeup_.note_look(now_);
  nic::take_round(engine_, links_, wakeup_, *this, {.now = now_, .caller = caller, .ended = ended_},
                  [this](Instant now) { send(now); });
}

// As Lane::end().
void ModelLane::end() {
  ended_ = true;
  wakeup_.give_up_reply();
  if (engine_.wants_transmit()) send(now_);
  links_.write_captures();
}

void ModelLane::die() {
  left_answer_ = last_answer_.load();
  end_.die();
  if (file_ != nullptr) file_->die();
}

void ModelLane::post(std::uint64_t number) {
  words_.back() = number;
  const objects::Sge place{reinterpret_cast<std::uint64_t>(&words_.back()), sizeof number, {region_->key}};
  transport::SendRequest request;
  request.entry.opcode = objects::SendOpcode::kSend;
  request.list = {&place, 1};
  if (engine_.post_send(*qp_, request, now_) != transport::PostError::kNone) return;
  wakeup_.note_post(now_);
  send(now_);
}

std::optional<objects::Completion> ModelLane::take() {
  if (events_ && !event_) return std::nullopt;
  if (const objects::Completion* next = queue_.peek()) {
    const objects::Completion completion = *next;
    queue_.pop();
    return completion;
  }
  if (!events_) return std::nullopt;
  event_ = false;
  queue_.arm(false);
  if (queue_.is_empty()) return std::nullopt;
  event_ = true;  // completions came before it was armed
  return take();
}

// ---- both processes ----

class Run {
 public:
  explicit Run(const ModelPlan& plan) : plan_(plan), prng_(plan.seed), wires_(plan.lanes) {
    for (unsigned i = 0; i < plan.lanes; ++i) {
      wires_[i].ring = plan.ring;
      senders_.push_back({std::make_unique<ModelLane>(plan, wires_[i], kSender, [] {})});
      receivers_.push_back({std::make_unique<ModelLane>(plan, wires_[i], kReceiver, [this] { step(); })});
    }
  }

  ModelOutcome run();

 private:
  struct Party {
    std::unique_ptr<ModelLane> lane;
    std::uint64_t sent = 0;      // by the program
    std::uint64_t finished = 0;  // sends that completed with success
    std::uint64_t received = 0;
    bool failed = false;
  };
  [[nodiscard]] std::uint64_t messages() const { return plan_.rounds + 1; }
  void step();
  void look();
  static void take(Party& party);
  void turn_of_sender(Party& party);
  void turn_of_receiver(Party& party);
  void end_lanes();
  void handle_signal();
  void die();
  [[nodiscard]] bool all_acknowledged() const;
  void settle(Party& sender, const Party& receiver);
  void answer_for(const Party& receiver, ModelLane& sender);
  [[nodiscard]] std::string judge(const Party& sender, const Party& receiver) const;
  void set_time(Instant now);

  const ModelPlan plan_;
  Prng prng_;
  std::vector<Wire> wires_;
  std::vector<Party> senders_, receivers_;
  Instant now_ = kBegin;
  std::uint64_t steps_ = 0;
  std::uint64_t left_ = 0;  // steps until the end
  bool leaving_ = false, lanes_ended_ = false, dead_ = false;
  const Party* polled_ = nullptr;  // the program itself runs this lane
  bool handling_ = false;          // a signal
  bool held_an_ack_ = false;
};

void Run::take(Party& party) {
  while (const auto completion = party.lane->take()) {
    if (completion->status != objects::Status::kSuccess) {
      party.failed = true;
    } else if (completion->opcode == objects::CompletionOpcode::kReceive) {
      ++party.received;
    } else {
      ++party.finished;
    }
  }
}

// A point in the work of a lane's thread at which the program may run.
void Run::step() {
  if (dead_ || handling_) return;
  ++steps_;
  if (plan_.kill_at && steps_ >= *plan_.kill_at) return die();
  if (polled_ == nullptr && !leaving_) look();
  if (!leaving_ || plan_.end == End::kNever || (plan_.end == End::kLanes && !lanes_ended_)) return;
  if (left_ == 0) return plan_.end == End::kHandler ? handle_signal() : die();
  --left_;
}

// The program's thread holds the lock of the lane that it polls. The handler waits for other threads
// (Run::run).
void Run::handle_signal() {
  if (polled_ == nullptr) return;
  handling_ = true;
  for (Party& party : receivers_) {
    if (&party != polled_) party.lane->end();
  }
  die();
}

// The receiver's program polls. It ends after the last message.
void Run::look() {
  bool all = true;
  for (Party& party : receivers_) {
    take(party);
    all &= party.received == messages();
  }
  if (!all || plan_.kill_at) return;
  leaving_ = true;
  left_ = plan_.after;
}

void Run::die() {
  dead_ = true;
  for (Party& party : receivers_) {
    held_an_ack_ |= party.lane->owes_answer();
    party.lane->die();
  }
}

void Run::turn_of_sender(Party& party) {
  party.lane->round(nic::WakeUp::Caller::kThread);
  take(party);
  const bool replied = party.received == party.sent && party.finished == party.sent;
  if (!party.failed && replied && party.sent < messages()) party.lane->post(++party.sent);
}

void Run::turn_of_receiver(Party& party) {
  const bool program = prng_.below(2) == 0;
  if (!program) party.lane->round(nic::WakeUp::Caller::kThread);
  if (dead_ || !program || (leaving_ && plan_.end != End::kHandler)) return;
  polled_ = &party;
  if (!plan_.events) party.lane->round(nic::WakeUp::Caller::kProgram);
  if (!dead_ && !leaving_) look();
  while (!dead_ && !leaving_ && party.sent < party.received && party.sent < plan_.rounds)
    party.lane->post(++party.sent);
  polled_ = nullptr;
}

// As Runtime::end_lanes(), after the lock is free.
void Run::end_lanes() {
  for (Party& party : receivers_) party.lane->end();
  lanes_ended_ = true;
}

bool Run::all_acknowledged() const {
  return std::all_of(senders_.begin(), senders_.end(),
                     [this](const Party& sender) { return sender.finished == messages(); });
}

void Run::set_time(Instant now) {
  now_ = now;
  for (Party& party : senders_) party.lane->set_time(now);
  for (Party& party : receivers_) party.lane->set_time(now);
}

// The last answer of the dead process: from the daemon over UDP, from its answer rows on shared memory.
void Run::answer_for(const Party& receiver, ModelLane& sender) {
  if (const auto answer = receiver.lane->left_answer())
    sender.engine().handle_last_answer(sender.qp(), *answer, now_);
  if (plan_.ring) sender.engine().peer_gone(sender.qp(), now_);
}

// Runs the sender until all its messages have completed.
void Run::settle(Party& sender, const Party& receiver) {
  ModelLane& lane = *sender.lane;
  for (int i = 0; i < 8; ++i) lane.round(nic::WakeUp::Caller::kThread);
  answer_for(receiver, lane);
  for (int i = 0; i < 10'000 && !lane.qp().send_queue.empty(); ++i) {
    const Instant due = lane.engine().settled_deadline();
    if (due == kNever) break;
    set_time(std::max(due, now_ + kTick));
    lane.round(nic::WakeUp::Caller::kThread);
  }
  take(sender);
}

std::string Run::judge(const Party& sender, const Party& receiver) const {
  std::uint64_t placed = 0;
  while (placed < messages() && receiver.lane->word(placed) == placed + 1) ++placed;
  if (sender.finished < receiver.received) return "delivered and not acknowledged";
  if (sender.finished > placed) return "acknowledged and not delivered";
  if (receiver.lane->had_early_event()) return "an event was raised before the ACK was sent";
  if (receiver.lane->ended() && receiver.lane->owes_answer())
    return "a lane ended with an answer that was not sent";
  if (sender.finished + (sender.failed ? 1 : 0) < sender.sent) return "a message has no completion";
  const ModelFile* file = receiver.lane->file();
  const WireEnd& end = receiver.lane->wire_end();
  if (file != nullptr && file->packets() < end.sent() + end.handled())
    return "the capture lacks packets: " + std::to_string(file->packets()) + " of " +
           std::to_string(end.sent() + end.handled());
  return "";
}

ModelOutcome Run::run() {
  int life = 0;
  for (int tick = 0; tick < kTicksMax && !dead_; ++tick) {
    set_time(now_ + kTick);
    const std::size_t lane = prng_.below(plan_.lanes);
    if (prng_.below(2) == 0) {
      turn_of_sender(senders_[lane]);
    } else {
      turn_of_receiver(receivers_[lane]);
    }
    if (!leaving_ || dead_) continue;
    if (plan_.end == End::kNever) {
      if (all_acknowledged() || ++life > kTicksOfLife) break;
      continue;
    }
    if (!lanes_ended_ && (plan_.end == End::kLanes || (plan_.end == End::kHandler && left_ == 0)))
      end_lanes();
    if (!dead_ && left_ == 0 && (lanes_ended_ || plan_.end == End::kAtOnce)) die();
    if (left_ != 0 && tick % 64 == 63) --left_;  // no packets, no steps
  }
  ModelOutcome outcome{.steps = steps_, .held_an_ack = held_an_ack_};
  const bool lives = leaving_ && plan_.end == End::kNever;
  if (!dead_ && !lives && !plan_.kill_at) outcome.broken = "the program did not get its messages";
  if (!dead_ && !lives) return outcome;
  for (std::size_t i = 0; i < senders_.size() && outcome.broken.empty(); ++i) {
    if (dead_) settle(senders_[i], receivers_[i]);
    outcome.broken = judge(senders_[i], receivers_[i]);
  }
  return outcome;
}

}  // namespace

ModelOutcome run_model(const ModelPlan& plan) { return Run(plan).run(); }

}  // namespace rrdma::endings
