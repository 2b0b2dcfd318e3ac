// Method: identifies a method by the hash of its name; the schema lets both ends check that they agree on its
// types. MethodOf<&Service::function> describes a member function of a plain C++ service at compile time.
//
// A service is any class. A method is a member function of one of these forms; Call& is optional:
//   Task<Result<R>> f(Call&, const A&)                   one argument, one result
//   Task<Status>    f(Call&, const A&, Writer<R>&)       a stream of results
//   Task<Result<R>> f(Call&, Reader<A>&)                 a stream of arguments
//   Task<Status>    f(Call&, Reader<A>&, Writer<R>&)     both
// Instead of a Result<R>: comm::Result<R> or R; without a result Result<void>, comm::Result<void>, Status or
// void. The first form needs no Task.
//
// A method is named after its class and function. A class may define:
//   static constexpr std::string_view kService                         another name
//   static constexpr unsigned kVersion                                 clients of another version are refused
//   static constexpr std::array<std::string_view, n> kIdempotent       methods that are safe to repeat
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "rrdma/comm/task.h"
#include "rrdma/rpc/bulk.h"
#include "rrdma/rpc/codec.h"
#include "rrdma/rpc/flow.h"
#include "rrdma/rpc/status.h"

namespace rrdma::rpc {
inline namespace v0 {

class Call;

enum class Shape : std::uint8_t { kUnary, kServerStream, kClientStream, kBidirectional };

// The 64-bit FNV-1a hash that identifies names on the wire.
constexpr std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  return hash;
}

struct Method {
  std::string_view service;
  std::string_view name;
  std::uint64_t id = 0;
  std::uint32_t schema = 0;  // 0: not checked
  Shape shape = Shape::kUnary;
  bool idempotent = false;  // safe to repeat: retried when its connection is lost

  // "service/name", the text that is hashed.
  [[nodiscard]] std::string path() const { return std::string(service) + "/" + std::string(name); }
};

constexpr std::uint64_t method_id(std::string_view service, std::string_view name) {
  std::uint64_t hash = hash_of(service);
  hash = (hash ^ static_cast<unsigned char>('/')) * 1099511628211ULL;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  return hash;
}

namespace detail {

template <auto kFunction>
constexpr std::string_view written_as() {
  return __PRETTY_FUNCTION__;
}

// Extracts "Kv::get" from the compiler's name of this instance: "... kFunction = &ns::Kv::get; ..." or
// "[kFunction = &ns::Kv::get]".
template <auto kFunction>
constexpr std::string_view qualified_name() {
  constexpr std::string_view all = written_as<kFunction>();
  constexpr std::string_view mark = "kFunction = ";
  std::string_view name = all.substr(all.find(mark) + mark.size());
  return name.substr(0, name.find_first_of(";]"));
}
template <auto kFunction>
constexpr std::string_view function_name() {
  const std::string_view name = qualified_name<kFunction>();
  std::string_view last = name.substr(name.rfind("::") + 2);
  // Some compilers put the whole name into parentheses.
  return last.substr(0, last.find_first_of(") "));
}
template <auto kFunction>
constexpr std::string_view class_name() {
  std::string_view name = qualified_name<kFunction>();
  name = name.substr(0, name.rfind("::"));
  const std::size_t from = name.find_last_of(":&( ");
  return from == std::string_view::npos ? name : name.substr(from + 1);
}

template <typename F>
struct Signature;
template <typename R, typename S, typename... A>
struct Signature<R (S::*)(A...)> {
  using Service = S;
  using Return = R;
  using Arguments = std::tuple<A...>;
};
template <typename R, typename S, typename... A>
struct Signature<R (S::*)(A...) const> : Signature<R (S::*)(A...)> {};
template <typename R, typename S, typename... A>
struct Signature<R (S::*)(A...) noexcept> : Signature<R (S::*)(A...)> {};
template <typename R, typename S, typename... A>
struct Signature<R (S::*)(A...) const noexcept> : Signature<R (S::*)(A...)> {};

template <typename T>
struct ReturnOf {
  using Value = T;
};
template <>
struct ReturnOf<void> {
  using Value = Empty;
};
template <>
struct ReturnOf<Status> {
  using Value = Empty;
};
template <typename T, typename E>
struct ReturnOf<comm::BasicResult<T, E>> : ReturnOf<T> {};
template <typename T>
struct ReturnOf<comm::Task<T>> : ReturnOf<T> {};

// The parameters without Call&.
template <typename Tuple>
struct WithoutCall {
  using Rest = Tuple;
  static constexpr bool kCall = false;
};
template <typename... A>
struct WithoutCall<std::tuple<Call&, A...>> {
  using Rest = std::tuple<A...>;
  static constexpr bool kCall = true;
};

template <typename Rest, typename Return>
struct ShapeOf;
template <typename Return>
struct ShapeOf<std::tuple<>, Return> {
  static constexpr Shape kShape = Shape::kUnary;
  static constexpr bool kArgument = false;
  using Argument = Empty;
  using Reply = typename ReturnOf<Return>::Value;
};
template <typename A, typename Return>
struct ShapeOf<std::tuple<A>, Return> {
  static constexpr Shape kShape = Shape::kUnary;
  static constexpr bool kArgument = true;
  using Argument = std::remove_cvref_t<A>;
  using Reply = typename ReturnOf<Return>::Value;
};
template <typename A, typename R, typename Return>
struct ShapeOf<std::tuple<A, Writer<R>&>, Return> {
  static_assert(std::is_same_v<Return, comm::Task<Status>>, "a method with a Writer returns Task<Status>");
  static constexpr Shape kShape = Shape::kServerStream;
  using Argument = std::remove_cvref_t<A>;
  using Reply = R;
};
template <typename A, typename Return>
struct ShapeOf<std::tuple<Reader<A>&>, Return> {
  static constexpr Shape kShape = Shape::kClientStream;
  using Argument = A;
  using Reply = typename ReturnOf<Return>::Value;
};
template <typename A, typename R, typename Return>
struct ShapeOf<std::tuple<Reader<A>&, Writer<R>&>, Return> {
  static_assert(std::is_same_v<Return, comm::Task<Status>>, "a method with a Writer returns Task<Status>");
  static constexpr Shape kShape = Shape::kBidirectional;
  using Argument = A;
  using Reply = R;
};

template <typename S>
constexpr std::uint32_t version_of() {
  if constexpr (requires { S::kVersion; }) {
    return static_cast<std::uint32_t>(S::kVersion);
  } else {
    return 0;
  }
}

template <typename S>
constexpr bool idempotent_in(std::string_view name) {
  if constexpr (requires { S::kIdempotent; }) {
    for (const std::string_view one : S::kIdempotent) {
      if (one == name) return true;
    }
  }
  return false;
}

}  // namespace detail

template <auto kFunction>
struct MethodOf {
  using Written = detail::Signature<decltype(kFunction)>;
  using Service = typename Written::Service;
  using Return = typename Written::Return;
  using Parameters = detail::WithoutCall<typename Written::Arguments>;
  using Form = detail::ShapeOf<typename Parameters::Rest, Return>;
  using Argument = typename Form::Argument;
  using Reply = typename Form::Reply;
  static constexpr bool kCall = Parameters::kCall;
  static_assert(
      Encodable<Argument> && Encodable<Reply>,
      "the argument and the result are trivially copyable without pointers, std::string or have a Codec");

  static constexpr std::string_view service() {
    if constexpr (requires { Service::kService; }) {
      return Service::kService;
    } else {
      return detail::class_name<kFunction>();
    }
  }
  static constexpr Method method() { return kMethod; }

 private:
  static constexpr Method described() {
    Method method;
    method.service = service();
    method.name = detail::function_name<kFunction>();
    method.id = method_id(method.service, method.name);
    std::uint32_t schema = static_cast<std::uint32_t>(Form::kShape) + 1;
    schema = schema * 1000003U + Codec<Argument>::kSchema;
    schema = schema * 1000003U + Codec<Reply>::kSchema;
    schema = schema * 1000003U + detail::version_of<Service>();
    method.schema = schema != 0 ? schema : 1;
    method.shape = Form::kShape;
    method.idempotent = detail::idempotent_in<Service>(method.name);
    return method;
  }
  // Computed once, at compile time; a call only copies it.
  static constexpr Method kMethod = described();
};

}  // namespace v0
}  // namespace rrdma::rpc
