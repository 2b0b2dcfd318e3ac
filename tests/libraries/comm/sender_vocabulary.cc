// sender.h with the vocabulary of another implementation of std::execution, whose receivers use members or
// tag_invoke, and whose senders have requirements as those of stdexec. It is only compiled: a program must
// not contain both vocabularies.
#include <concepts>
#include <exception>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace another {

struct sender_t {};
struct receiver_t {};
struct operation_state_t {};
template <typename... Signatures>
struct completion_signatures {
  static constexpr std::size_t kCount = sizeof...(Signatures);
};

struct Invoking {
  template <typename Tag, typename... A>
  auto operator()(Tag tag, A&&... arguments) const
      -> decltype(tag_invoke(tag, std::forward<A>(arguments)...)) {
    return tag_invoke(tag, std::forward<A>(arguments)...);
  }
};
template <typename Self>
struct Tag {
  template <typename... A>
  decltype(auto) operator()(A&&... arguments) const noexcept {
    if constexpr (requires { Self::member(std::forward<A>(arguments)...); }) {
      return Self::member(std::forward<A>(arguments)...);
    } else {
      return Invoking()(static_cast<const Self&>(*this), std::forward<A>(arguments)...);
    }
  }
};
inline constexpr struct set_value_t : Tag<set_value_t> {
  template <typename R, typename... V>
  static auto member(R&& receiver, V&&... values)
      -> decltype(std::forward<R>(receiver).set_value(std::forward<V>(values)...)) {
    return std::forward<R>(receiver).set_value(std::forward<V>(values)...);
  }
} set_value{};
inline constexpr struct set_error_t : Tag<set_error_t> {
  template <typename R, typename E>
  static auto member(R&& receiver, E&& error)
      -> decltype(std::forward<R>(receiver).set_error(std::forward<E>(error))) {
    return std::forward<R>(receiver).set_error(std::forward<E>(error));
  }
} set_error{};
inline constexpr struct set_stopped_t : Tag<set_stopped_t> {
  template <typename R>
  static auto member(R&& receiver) -> decltype(std::forward<R>(receiver).set_stopped()) {
    return std::forward<R>(receiver).set_stopped();
  }
} set_stopped{};
inline constexpr struct get_env_t : Tag<get_env_t> {
  template <typename R>
  static auto member(const R& receiver) -> decltype(receiver.get_env()) {
    return receiver.get_env();
  }
} get_env{};
inline constexpr struct get_stop_token_t : Tag<get_stop_token_t> {
  template <typename E, typename Self = get_stop_token_t>
  static auto member(const E& env) -> decltype(env.query(Self())) {
    return env.query(Self());
  }
} get_stop_token{};

// As stdexec's: std::stop_token of GCC 12 does not meet it.
template <template <typename> class>
struct Exists;
template <typename Token>
concept StoppableToken = std::copyable<Token> && std::equality_comparable<Token> &&
    std::is_nothrow_copy_constructible_v<Token> && requires(const Token& token) {
  typename Exists<Token::template callback_type>;
  { token.stop_requested() }
  noexcept->std::same_as<bool>;
  { token.stop_possible() }
  noexcept->std::same_as<bool>;
};

inline constexpr struct connect_t {
  template <typename S, typename R>
  auto operator()(S&& sender, R&& receiver) const {
    return std::forward<S>(sender).connect(std::forward<R>(receiver));
  }
} connect{};
inline constexpr struct start_t {
  template <typename O>
  void operator()(O& operation) const noexcept {
    operation.start();
  }
} start{};

struct Env {
  friend std::stop_token tag_invoke(get_stop_token_t, const Env&) noexcept { return {}; }
};
// A receiver without members.
struct Receiver {
  using receiver_concept = receiver_t;
  int* completions;
  template <typename... V>
  friend void tag_invoke(set_value_t, Receiver&& self, V&&...) noexcept {
    ++*self.completions;
  }
  template <typename E>
  friend void tag_invoke(set_error_t, Receiver&& self, E&&) noexcept {
    ++*self.completions;
  }
  friend void tag_invoke(set_stopped_t, Receiver&& self) noexcept { ++*self.completions; }
  friend Env tag_invoke(get_env_t, const Receiver&) noexcept { return {}; }
};

// A sender that completes at once.
struct Just {
  using sender_concept = sender_t;
  template <typename R>
  struct State {
    using operation_state_concept = operation_state_t;
    void start() noexcept { set_value(std::move(receiver), 7); }
    R receiver;
  };
  template <typename R>
  requires StoppableToken<decltype(get_stop_token(get_env(std::declval<const R&>())))> State<R> connect(
      R receiver) && {
    return {std::move(receiver)};
  }
};

}  // namespace another

#define RRDMA_EXECUTION ::another
#include "rrdma/comm/sender.h"

namespace comm_test::sender_vocabulary {

using namespace rrdma::comm;

using Sending = decltype(as_sender(std::declval<Context&>(), std::declval<Task<Result<int>>>()));
static_assert(std::same_as<Sending::sender_concept, another::sender_t>);
static_assert(
    std::same_as<
        Sending::completion_signatures,
        another::completion_signatures<another::set_value_t(int), another::set_error_t(Error),
                                       another::set_error_t(std::exception_ptr), another::set_stopped_t()>>);
using State = decltype(another::connect(std::declval<Sending>(), std::declval<another::Receiver>()));
static_assert(std::same_as<State::operation_state_concept, another::operation_state_t>);

void use(Context& context, Task<Result<int>> task, int& completions) {
  auto operation = another::connect(as_sender(context, std::move(task)), another::Receiver{&completions});
  another::start(operation);
}

Task<Result<int>> await(Context& context) { return from_sender<int>(context, another::Just()); }

}  // namespace comm_test::sender_vocabulary
