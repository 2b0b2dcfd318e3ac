#include "control/client/daemon_client.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/entropy.h"
#include "base/result_try.h"
#include "host/clock.h"

namespace rrdma::control {
namespace {

constexpr std::size_t kEventsMax = 1024;  // for handle_events(); more are dropped, like by a full socket

timespec timespec_of(Duration duration) {
  return {.tv_sec = duration.ns / 1'000'000'000, .tv_nsec = duration.ns % 1'000'000'000};
}

std::uint64_t random_token() { return system_entropy() | 1; }  // 0 means none

// Waits until the socket is ready or the deadline has passed.
void wait_for(int socket, short what, Instant deadline) {
  pollfd wait{.fd = socket, .events = what, .revents = 0};
  const timespec left = timespec_of(std::max(deadline - host::now(), Duration{}));
  (void)raw::ppoll(&wait, socket >= 0 ? 1 : 0, &left);
}

Problem no_answer(const control::Welcome& welcome) {
  return {ETIMEDOUT,
          "the RRDMA daemon (pid " + std::to_string(welcome.daemon_pid) +
              ") does not answer: it may be stopped; `kill -CONT` it, or kill it and a new one will start."};
}

Result<void, Problem> without_content(const Result<control::Done, Problem>& done) {
  RRDMA_TRY(done);
  return {};
}

GrantedSlot granted_slot(const control::SlotGranted& granted, std::vector<OwnedFd>& fds) {
  GrantedSlot slot{.slot = granted.slot, .sockets = {}, .families = granted.families};
  auto next = fds.begin();
  if (granted.relayed) {
    if (next != fds.end()) slot.relay = std::move(*next);
    return slot;
  }
  if ((granted.families & control::kFamilyV4) != 0 && next != fds.end()) slot.sockets.v4 = std::move(*next++);
  if ((granted.families & control::kFamilyV6) != 0 && next != fds.end()) slot.sockets.v6 = std::move(*next++);
  return slot;
}

}  // namespace

Result<std::unique_ptr<DaemonClient>, Problem> DaemonClient::connect_or_start(
    const DaemonSettings& settings) {
  std::unique_ptr<control::ProcessPage> page;
  if (settings.role == control::Role::kProgram) {
    auto created = control::ProcessPage::create();
    RRDMA_TRY(created);
    page = std::make_unique<control::ProcessPage>(std::move(*created));
  }
  std::unique_ptr<DaemonClient> client(new DaemonClient(settings, std::move(page), random_token()));
  if (!client->epoll_ || !client->timer_ || !client->signal_) {
    return problem(errno, std::string("no descriptors for the RRDMA daemon: ") + std::strerror(errno) + ".");
  }
  const std::lock_guard lock(client->mutex_);
  if (auto ready = client->make_ready(host::now() + settings.patience); !ready) return Failure{ready.error()};
  client->watch_socket();
  return client;
}

DaemonClient::DaemonClient(const DaemonSettings& settings, std::unique_ptr<control::ProcessPage> page,
                           std::uint64_t token)
    : settings_(settings),
      owner_(raw::getpid()),
      token_(token),
      page_(std::move(page)),
      session_(settings, page_.get(), token),
      epoll_(lifted(raw::epoll_create1(EPOLL_CLOEXEC))),
      timer_(lifted(raw::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK))),
      signal_(lifted(raw::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  for (const OwnedFd* fd : {&timer_, &signal_}) {
    epoll_event event{};
    event.events = EPOLLIN;
    (void)raw::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd->get(), &event);
  }
}

DaemonClient::~DaemonClient() = default;

bool DaemonClient::is_forked() const { return raw::getpid() != owner_; }

control::NetworkState DaemonClient::network() {
  const std::lock_guard lock(mutex_);
  return session_.welcome().network;
}

control::Welcome DaemonClient::welcome() {
  const std::lock_guard lock(mutex_);
  return session_.welcome();
}

// ---- requests ----

Result<void, Problem> DaemonClient::make_ready(Instant deadline) {
  for (;;) {
    const Instant time = host::now();
    if (session_.advance(time) == DaemonSession::State::kReady) {
      notice_generation();
      return {};
    }
    if (session_.obstacle()) return Failure{*session_.obstacle()};
    if (time >= deadline) return session_.awaited();
    wait_for(session_.socket(), POLLIN, std::min(deadline, session_.next_attempt()));
  }
}

DaemonClient::Wait DaemonClient::send_all(Octets datagram, std::span<const int> fds, Instant deadline,
                                          int& error) {
  for (;;) {
    switch (session_.send(datagram, fds)) {
      case control::SendOutcome::kSent: return Wait::kReplied;
      case control::SendOutcome::kGone: return Wait::kLost;
      case control::SendOutcome::kRefused: error = errno; return Wait::kTimedOut;
      case control::SendOutcome::kWouldBlock:
        if (host::now() >= deadline) return Wait::kTimedOut;
        wait_for(session_.socket(), POLLOUT, deadline);
    }
  }
}

DaemonClient::Wait DaemonClient::await_replies(std::uint32_t serial, bool many, Instant deadline,
                                               std::vector<control::Received>& replies) {
  for (;;) {
    control::Received message;
    switch (session_.receive(message)) {
      case control::ReceiveOutcome::kNothing:
        if (host::now() >= deadline) return Wait::kTimedOut;
        wait_for(session_.socket(), POLLIN, deadline);
        continue;
      case control::ReceiveOutcome::kMessage: break;
      default: return Wait::kLost;
    }
    // Drop late replies to requests that were given up.
    if (message.header.serial == 0)
      keep_event(std::move(message));
    else if (message.header.serial == serial) {
      const bool is_last = !many || message.type() == control::MessageType::kDone ||
                           message.type() == control::MessageType::kFailed;
      replies.push_back(std::move(message));
      if (is_last) return Wait::kReplied;
    }
  }
}

Result<std::vector<control::Received>, Problem> DaemonClient::exchange(std::vector<std::uint8_t> datagram,
                                                                       std::span<const int> fds,
                                                                       Repeat repeat, bool many) {
  if (is_forked()) {
    return problem(EOWNERDEAD,
                   "this process was forked from the one that opened the device: open it again here.");
  }
  const std::lock_guard lock(mutex_);
  const Instant deadline = host::now() + settings_.patience;
  quiet_events();
  Result<std::vector<control::Received>, Problem> result =
      problem(ECONNRESET, "the RRDMA daemon ended before it answered.");
  for (bool again = true; again;) {
    again = repeat == Repeat::kAgain && host::now() < deadline;
    if (auto ready = make_ready(deadline); !ready) {
      result = Failure{ready.error()};
      break;
    }
    if (++last_serial_ == 0) last_serial_ = 2;  // 0 is reserved for events, 1 for Hello
    std::memcpy(datagram.data() + offsetof(control::Header, serial), &last_serial_, sizeof last_serial_);
    std::vector<control::Received> replies;
    int error = 0;
    Wait wait = send_all(datagram, fds, deadline, error);
    if (wait == Wait::kReplied) wait = await_replies(last_serial_, many, deadline, replies);
    if (wait == Wait::kLost) continue;
    if (wait == Wait::kTimedOut) {
      result = error == 0 ? Failure{no_answer(session_.welcome())}
                          : problem(error, std::string("descriptors cannot be passed to the RRDMA daemon: ") +
                                               std::strerror(error) + ".");
      break;
    }
    if (const auto failed = replies.back().as<control::Failed>()) {
      result = problem(failed->error, failed->sentence);
    } else {
      result = std::move(replies);
    }
    break;
  }
  watch_socket();
  return result;
}

Result<GrantedSlot, Problem> DaemonClient::request_slot() {
  std::vector<OwnedFd> fds;
  const auto granted = request<control::SlotGranted>(control::RequestSlot{}, Repeat::kAgain, {}, &fds);
  RRDMA_TRY(granted);
  const std::lock_guard lock(mutex_);
  session_.add_slot(granted->slot, granted->families);
  if (page_) page_->next_index(granted->slot).store(granted->next_index, std::memory_order_release);
  return granted_slot(*granted, fds);
}

Result<void, Problem> DaemonClient::release_slot(Slot slot) {
  const std::uint32_t next = page_ ? page_->next_index(slot).load(std::memory_order_relaxed) : 0;
  {
    // First, so that we do not claim the slot from a later daemon.
    const std::lock_guard lock(mutex_);
    session_.remove_slot(slot);
  }
  auto released = without_content(request<control::Done>(
      control::ReleaseSlot{.slot = slot, .next_index = static_cast<std::uint16_t>(next)}, Repeat::kOnce));
  if (page_) page_->forget_slot(slot);
  return released;
}

wire::Qpn DaemonClient::next_qpn(Slot slot) {
  const control::QpnRange range = control::qpns_of(slot);
  std::atomic<std::uint32_t>& next = page_->next_index(slot);
  for (;;) {
    std::uint32_t index = next.load(std::memory_order_relaxed);
    while (!next.compare_exchange_weak(index, (index + 1) % range.count, std::memory_order_relaxed)) {
    }
    const wire::Qpn qpn(range.first + index % range.count);
    if (qpn != wire::kMulticastQpn) return qpn;
  }
}

Result<control::SlotOwner, Problem> DaemonClient::look_up_slot(Slot slot) {
  return request<control::SlotOwner>(control::LookUpSlot{.slot = slot});
}

Result<void, Problem> DaemonClient::offer_channel(Slot from_slot, Slot to_slot, Octets opaque,
                                                  std::span<const int> fds) {
  RRDMA_ASSERT(opaque.size() <= control::kOpaqueMax && fds.size() <= control::kChannelFdsMax);
  const control::OfferChannel offer{
      .from_slot = from_slot, .to_slot = to_slot, .opaque = {opaque.begin(), opaque.end()}};
  return without_content(request<control::Done>(offer, Repeat::kOnce, fds));
}

void DaemonClient::forward_frame(const control::FrameFields& frame) {
  if (is_forked() || frame.frame.size() > control::kFrameMax) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || session_.state() != DaemonSession::State::kReady) return;
  (void)control::send_datagram(session_.socket(),
                               control::encode(control::ForwardFrame{.content = frame}, 0));
}

Result<void, Problem> DaemonClient::join_group(Slot slot, std::uint32_t interface_index,
                                               const wire::Gid& group) {
  return without_content(request<control::Done>(
      control::JoinGroup{.slot = slot, .interface_index = interface_index, .group = group}));
}

Result<void, Problem> DaemonClient::leave_group(Slot slot, std::uint32_t interface_index,
                                                const wire::Gid& group) {
  return without_content(request<control::Done>(
      control::LeaveGroup{.slot = slot, .interface_index = interface_index, .group = group}, Repeat::kOnce));
}

Result<void, Problem> DaemonClient::update_process(std::uint32_t links, std::string devices) {
  {
    const std::lock_guard lock(mutex_);
    session_.describe(links, devices);
  }
  return without_content(
      request<control::Done>(control::UpdateProcess{.links = links, .devices = std::move(devices)}));
}

Result<std::vector<ListedProcess>, Problem> DaemonClient::list_processes() {
  auto replies = exchange(control::encode(control::ListProcesses{}, 0), {}, Repeat::kAgain, true);
  RRDMA_TRY(replies);
  std::vector<ListedProcess> listed;
  for (control::Received& reply : *replies) {
    auto entry = reply.as<control::ProcessEntry>();
    if (!entry) continue;
    OwnedFd page;
    if (entry->has_page && !reply.fds.empty()) page = std::move(reply.fds[0]);
    listed.push_back({std::move(*entry), std::move(page)});
  }
  return listed;
}

Result<std::vector<control::DeviceEntry>, Problem> DaemonClient::list_devices() {
  auto replies = exchange(control::encode(control::ListDevices{}, 0), {}, Repeat::kAgain, true);
  RRDMA_TRY(replies);
  std::vector<control::DeviceEntry> listed;
  for (const control::Received& reply : *replies) {
    if (auto entry = reply.as<control::DeviceEntry>()) listed.push_back(std::move(*entry));
  }
  return listed;
}

Result<control::Status, Problem> DaemonClient::status() {
  return request<control::Status>(control::QueryStatus{});
}

// ---- events ----

// Events of the connection manager are never dropped: the number of connections bounds them.
void DaemonClient::keep_event(control::Received message) {
  const bool is_cm =
      message.type() >= control::MessageType::kCmFirst && message.type() <= control::MessageType::kCmLast;
  if (is_cm || events_.size() < kEventsMax) events_.push_back(std::move(message));
}

void DaemonClient::notice_generation() {
  if (session_.generation() == seen_generation_) return;
  seen_generation_ = session_.generation();
  daemon_changed_ = true;
  const auto& lost = session_.welcome().lost_slots;
  lost_slots_.insert(lost_slots_.end(), lost.begin(), lost.end());
}

// While a request waits for its reply, do not wake the background thread: it could not take the lock.
void DaemonClient::quiet_events() {
  unwatch_socket();
  const itimerspec never{};
  (void)raw::timerfd_settime(timer_.get(), 0, &never);
  std::uint64_t count = 0;
  (void)!raw::read(signal_.get(), &count, sizeof count);
}

void DaemonClient::unwatch_socket() {
  if (watched_ >= 0 && watched_ == session_.socket()) {
    (void)raw::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched_, nullptr);
  }
  watched_ = -1;  // closing a socket removes it from the epoll set
}

void DaemonClient::watch_socket() {
  unwatch_socket();
  if (session_.socket() >= 0) {
    epoll_event event{};
    event.events = EPOLLIN;
    // A new socket may have the number of one that is already watched.
    if (raw::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, session_.socket(), &event) == 0 || errno == EEXIST) {
      watched_ = session_.socket();
    }
  }
  arm_timer();
  if (!events_.empty() || daemon_changed_) signal_events();
}

void DaemonClient::arm_timer() {
  const Instant next = session_.next_attempt();
  itimerspec when{};
  // Not 0, which would disarm the timer.
  if (next != kNever) when.it_value = timespec_of(std::max(Duration{next.ns}, nanoseconds(1)));
  (void)raw::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when);
}

void DaemonClient::signal_events() {
  const std::uint64_t one = 1;
  (void)!raw::write(signal_.get(), &one, sizeof one);
}

void DaemonClient::handle_events(DaemonEvents& events) {
  if (is_forked()) return;
  std::vector<control::Received> arrived;
  std::vector<Slot> lost;
  bool changed = false;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    // The holder of the lock signals us when it is done, if there are events.
    if (!lock.owns_lock()) return;
    std::uint64_t count = 0;
    (void)!raw::read(signal_.get(), &count, sizeof count);
    (void)!raw::read(timer_.get(), &count, sizeof count);
    control::Received message;
    while (session_.state() == DaemonSession::State::kReady &&
           session_.receive(message) == control::ReceiveOutcome::kMessage) {
      if (message.header.serial == 0) keep_event(std::move(message));
    }
    if (session_.state() != DaemonSession::State::kReady &&
        session_.advance(host::now()) == DaemonSession::State::kReady) {
      notice_generation();
    }
    for (control::Received& event : events_) {
      if (auto up = event.as<control::NetworkUp>()) {
        session_.take_network(up->network, event.fds.empty() ? OwnedFd() : std::move(event.fds[0]));
      } else if (const auto granted = event.as<control::SlotGranted>();
                 granted && session_.holds(granted->slot)) {
        session_.add_slot(granted->slot, granted->families);
      }
    }
    arrived.swap(events_);
    lost.swap(lost_slots_);
    changed = std::exchange(daemon_changed_, false);
    watch_socket();
  }
  if (changed) events.handle_daemon_changed(lost);
  for (control::Received& message : arrived) deliver(events, message);
}

void DaemonClient::deliver(DaemonEvents& events, control::Received& message) {
  if (const auto offer = message.as<control::ChannelOffered>()) {
    events.handle_channel_offered(*offer, std::move(message.fds));
  } else if (const auto gone = message.as<control::PeerGone>()) {
    events.handle_peer_gone(*gone);
  } else if (const auto frame = message.as<control::FrameForwarded>()) {
    events.handle_frame_forwarded(frame->content);
  } else if (const auto granted = message.as<control::SlotGranted>()) {
    events.handle_sockets_arrived(granted_slot(*granted, message.fds));
  } else if (message.type() != control::MessageType::kNetworkUp) {
    events.handle_other(message);
  }
}

}  // namespace rrdma::control
