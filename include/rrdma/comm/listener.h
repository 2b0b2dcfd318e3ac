// Listener: a port at which peers connect. Incoming: a peer that asks to be let in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rrdma/comm/endpoint.h"
#include "rrdma/comm/error.h"
#include "rrdma/comm/operation.h"
#include "rrdma/comm/visibility.h"

namespace rrdma::comm {
inline namespace v0 {

class Context;
class Listener;

namespace detail {
class ListenerState;
struct IncomingState;
}  // namespace detail

class Accepting;

// A connection request, not yet a connection. It may be moved to another thread and accepted there into another context, which is how a connection
// gets to the thread that is to serve it: the queues of an Endpoint are those of its context for as long as it lives, so it is handed over
// before they are made. The peer's connect() waits meanwhile; what it sends then arrives at the new place. The listener and its context may go
// before the request is accepted. Dropping it refuses it.
class RRDMA_COMM_API Incoming {
 public:
  Incoming();
  Incoming(Incoming&&) noexcept;
  Incoming& operator=(Incoming&&) noexcept;
  ~Incoming();
  explicit operator bool() const { return state_ != nullptr; }

  [[nodiscard]] std::string_view peer() const;
  [[nodiscard]] std::span<const std::byte> hello() const;
  // Octets of the largest message that the peer takes.
  [[nodiscard]] std::size_t message_limit() const;
  // Lets it in; `context` may be another one than the listener's.
  [[nodiscard]] Accepting accept(Context& context, const Profile& profile = {}, Limit limit = {});
  // The peer's connect fails with kRefused, this number as detail() and this text as note().
  void refuse(std::uint8_t reason, std::string_view text);

 private:
  friend class Arriving;
  friend class Accepting;
  friend class detail::ListenerState;
  explicit Incoming(std::unique_ptr<detail::IncomingState> state);
  std::unique_ptr<detail::IncomingState> state_;
};

// Awaits a connection request.
class RRDMA_COMM_API Arriving final : public Operation {
 public:
  Arriving(Arriving&&) noexcept;
  ~Arriving() override;
  Result<Incoming> await_resume();

 private:
  friend class Listener;
  friend class detail::ListenerState;
  Arriving(const detail::Ref<detail::ListenerState>& listener, Limit limit);
  void begin() override;
  void withdraw() noexcept override;

  detail::Ref<detail::ListenerState> listener_;
  Incoming incoming_;
};

// Awaits a peer that is connected.
class RRDMA_COMM_API Accepting final : public Operation, private detail::Opener {
 public:
  Accepting(Accepting&&) noexcept;
  ~Accepting() override;
  Result<Endpoint> await_resume();

 private:
  friend class Listener;
  friend class Incoming;
  friend class detail::ListenerState;
  friend class detail::EndpointState;
  Accepting(detail::Ref<detail::Reactor> reactor, const Profile& profile, Limit limit);
  void begin() override;
  void withdraw() noexcept override;
  [[nodiscard]] Error error_for(Code code, int detail) const override;
  void opened() override;
  void not_opened(Error error) override;
  void admit();

  detail::Ref<detail::ListenerState> listener_;  // empty for one Incoming
  Incoming incoming_;
  Profile profile_;
  std::string hello_;
  detail::Ref<detail::EndpointState> endpoint_;
};

// Move-only; its destructor stops listening and refuses who still waits.
class RRDMA_COMM_API Listener {
 public:
  Listener();
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  // The next peer, connected. One that vanishes while it connects is passed over.
  [[nodiscard]] Accepting accept(const Profile& profile, Limit limit = {});
  [[nodiscard]] Accepting accept(Limit limit = {}) { return accept(Profile{}, std::move(limit)); }
  // The next request, to be accepted or refused.
  [[nodiscard]] Arriving next(Limit limit = {});
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string_view address() const;

 private:
  friend class Context;
  explicit Listener(detail::Ref<detail::ListenerState> state);
  detail::Ref<detail::ListenerState> state_;
};

}  // namespace v0
}  // namespace rrdma::comm
