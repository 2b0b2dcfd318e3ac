// Spans: what a call was, when it was, and how it ended, as OpenTelemetry has it. ServerOptions::spans and
// ChannelOptions::spans get one span at the end of each sampled call. The trace context travels in the
// metadata `traceparent`: a server continues the trace of its caller. A handler hands it on:
//
//   options.metadata.add(kTraceParent, call.trace()->text());
//
// SpanFile writes spans for a collector.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rrdma/rpc/metadata.h"
#include "rrdma/rpc/status.h"
#include "rrdma/rpc/trace.h"
#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

// Valid during the call of SpanSink only.
struct Span {
  enum class Kind : std::uint8_t { kServer = 2, kClient = 3 };  // numbers of OpenTelemetry
  Kind kind = Kind::kServer;
  TraceContext context;
  std::array<std::uint8_t, 8> parent{};  // all zero: the root of its trace
  std::string_view service;
  std::string_view method;
  std::string_view peer;  // an address
  std::chrono::system_clock::time_point begin;
  std::chrono::nanoseconds duration{};
  Code code = Code::kOk;
  std::string_view message;  // of the status
};

// Called in the thread of the connection, with ServerOptions::threads in several threads at once. It must not
// throw, and not end the server or the channel.
using SpanSink = std::function<void(const Span&)>;

// A line of JSON in the file format of the OpenTelemetry protocol (OTLP), without the line break. `service`:
// the name of the program.
[[nodiscard]] RRDMA_RPC_API std::string otlp_line(const Span& span, std::string_view service);

// Appends spans to a file, from which a collector of OpenTelemetry reads them (its receiver otlpjsonfile). A
// sink of several servers and channels, also of several threads.
class RRDMA_RPC_API SpanFile {
 public:
  // Opens the file, or creates it for its owner only. `service`: the name of the program.
  static Result<SpanFile> open(const std::string& path, std::string service);

  // A copy shares the file. Lines are written when 64 KiB are full, a second after the last time, and at the
  // end of the last copy.
  void operator()(const Span& span) const;
  // Writes what is left. Fails with the reason if lines were lost.
  Status flush() const;

 private:
  struct State;
  explicit SpanFile(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

namespace detail {

// A span of a call that goes on.
class RRDMA_RPC_API OpenSpan {
 public:
  // `metadata`: of the call, with the context of the parent if there is one.
  OpenSpan(Span::Kind kind, const Metadata& metadata);
  [[nodiscard]] const TraceContext& context() const { return context_; }
  // Replaces the parent's context in the metadata by that of this span.
  void mark(Metadata& metadata) const;
  // Exports it, if its trace is sampled.
  void end(const SpanSink& sink, std::string_view service, std::string_view method, std::string_view peer,
           const Status& status) const;

 private:
  Span::Kind kind_;
  TraceContext context_;
  std::array<std::uint8_t, 8> parent_{};
  std::chrono::system_clock::time_point begin_ = std::chrono::system_clock::now();
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
