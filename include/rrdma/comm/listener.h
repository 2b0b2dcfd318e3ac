// Listener: a port on which peers connect. Incoming: a connection request that is not yet accepted.
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

// A connection request. Accept it in the thread and context that will serve the connection: an Incoming may
// be moved to another thread, but an Endpoint stays with the context that creates its queues. Meanwhile the
// peer's connect() waits. The listener and its context may be destroyed before the request is accepted.
// Destroying an Incoming refuses it.
class RRDMA_COMM_API Incoming {
 public:
  Incoming();
  Incoming(Incoming&&) noexcept;
  Incoming& operator=(Incoming&&) noexcept;
  ~Incoming();
  explicit operator bool() const { return state_ != nullptr; }

  [[nodiscard]] std::string_view peer() const;
  [[nodiscard]] std::span<const std::byte> hello() const;
  // The size of the largest message that the peer accepts, in bytes.
  [[nodiscard]] std::size_t message_limit() const;
  // Accepts the connection into `context`, which need not be the listener's.
  [[nodiscard]] Accepting accept(Context& context, const Profile& profile = {}, Limit limit = {});
  // Refuses the connection. The peer's connect fails with kRefused, `reason` as detail() and `text` as
  // note().
  void refuse(std::uint8_t reason, std::string_view text);

 private:
  friend class Arriving;
  friend class Accepting;
  friend class detail::ListenerState;
  explicit Incoming(std::unique_ptr<detail::IncomingState> state);
  [[nodiscard]] const detail::IncomingState& checked() const;
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

// Awaits an established connection.
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

  detail::Ref<detail::ListenerState> listener_;  // empty when accepting a single Incoming
  Incoming incoming_;
  Profile profile_;
  std::string hello_;
  detail::Ref<detail::EndpointState> endpoint_;
};

// Accepts connections on a port. Move-only. The destructor stops listening and refuses pending requests.
class RRDMA_COMM_API Listener {
 public:
  Listener();
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

  // Accepts the next peer. Skips peers that vanish while connecting.
  [[nodiscard]] Accepting accept(const Profile& profile, Limit limit = {});
  [[nodiscard]] Accepting accept(Limit limit = {}) { return accept(Profile{}, std::move(limit)); }
  // Awaits the next request, to accept or refuse it.
  [[nodiscard]] Arriving next(Limit limit = {});
  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string_view address() const;

 private:
  friend class Context;
  explicit Listener(detail::Ref<detail::ListenerState> state);
  [[nodiscard]] const detail::Ref<detail::ListenerState>& state_checked() const {
    if (!state_) detail::broken_contract("an operation on an empty Listener");
    return state_;
  }
  detail::Ref<detail::ListenerState> state_;
};

}  // namespace v0
}  // namespace rrdma::comm
