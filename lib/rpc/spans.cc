// OTLP in JSON, the file of a SpanFile, and the spans of calls that go on.
#include "rrdma/rpc/spans.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>

namespace rrdma::rpc {
inline namespace v0 {
namespace {

constexpr std::size_t kMostUnwritten = 64 << 10;
constexpr std::chrono::seconds kWriteInterval{1};

std::string hex_of(std::span<const std::uint8_t> octets) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t octet : octets) {
    text += kDigits[octet >> 4];
    text += kDigits[octet & 15];
  }
  return text;
}

// The length of the valid UTF-8 sequence at the front, or 0.
std::size_t sequence_at(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  std::uint32_t number = first & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0U) != 0x80) return 0;
    number = number << 6 | (at(i) & 0x3fU);
  }
  const bool too_long = (size == 3 && number < 0x800) || (size == 4 && number < 0x10000);
  return too_long || number > 0x10ffff || (number >= 0xd800 && number < 0xe000) ? 0 : size;
}

// A string of JSON. Texts of peers may hold anything.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t size = sequence_at(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (size == 0) {
      out += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      out += {'\\', text.front()};
    } else if (first < 0x20 || first == 0x7f) {
      const std::array<std::uint8_t, 1> octet{first};
      out += "\\u00" + hex_of(octet);
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out + '"';
}

std::string attribute(std::string_view key, const std::string& type, const std::string& value) {
  return "{\"key\":" + json_string(key) + ",\"value\":{\"" + type + "\":" + value + "}}";
}

std::string nanoseconds(std::chrono::system_clock::time_point at, std::chrono::nanoseconds more = {}) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()) + more;
  return "\"" + std::to_string(since.count()) + "\"";  // numbers of 64 bits are strings in OTLP
}

}  // namespace

std::string otlp_line(const Span& span, std::string_view service) {
  std::string line = "{\"resourceSpans\":[{\"resource\":{\"attributes\":[" +
                     attribute("service.name", "stringValue", json_string(service)) +
                     "]},\"scopeSpans\":[{\"scope\":{\"name\":\"rrdma.rpc\"},\"spans\":[{\"traceId\":\"" +
                     hex_of(span.context.trace) + "\",\"spanId\":\"" + hex_of(span.context.span) + "\"";
  if (span.parent != std::array<std::uint8_t, 8>{})
    line += ",\"parentSpanId\":\"" + hex_of(span.parent) + "\"";
  line += ",\"name\":" + json_string(std::string(span.service) + "/" + std::string(span.method)) +
          ",\"kind\":" + std::to_string(static_cast<int>(span.kind)) +
          ",\"startTimeUnixNano\":" + nanoseconds(span.begin) +
          ",\"endTimeUnixNano\":" + nanoseconds(span.begin, span.duration) + ",\"attributes\":[" +
          attribute("rpc.system", "stringValue", "\"rrdma\"") + "," +
          attribute("rpc.service", "stringValue", json_string(span.service)) + "," +
          attribute("rpc.method", "stringValue", json_string(span.method)) + "," +
          attribute("network.peer.address", "stringValue", json_string(span.peer)) + "," +
          attribute("rpc.grpc.status_code", "intValue",
                    "\"" + std::to_string(static_cast<int>(span.code)) + "\"") +
          "],\"status\":{";
  // 2 is an error; without a code, the status is unset, as it should be after success.
  if (span.code != Code::kOk) line += "\"code\":2,\"message\":" + json_string(span.message);
  return line + "}}]}]}]}";
}

// ---- SpanFile ----

struct SpanFile::State {
  State(int opened, std::string name) : file(opened), service(std::move(name)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    write();
    ::close(file);
  }
  // REQUIRES: the lock, or no other user.
  void write() {
    std::string_view rest = lines;
    while (!rest.empty()) {
      const ssize_t size = ::write(file, rest.data(), rest.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) {
        lost = Status(Code::kUnavailable, std::string("spans were lost: ") + std::strerror(errno));
        break;
      }
      rest.remove_prefix(static_cast<std::size_t>(size));
    }
    lines.clear();
    written = std::chrono::steady_clock::now();
  }

  std::mutex mutex;
  const int file;
  const std::string service;
  std::string lines;
  std::chrono::steady_clock::time_point written = std::chrono::steady_clock::now();
  Status lost;
};

Result<SpanFile> SpanFile::open(const std::string& path, std::string service) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return Status(Code::kUnavailable, path + ": " + std::strerror(errno));
  return SpanFile(std::make_shared<State>(file, std::move(service)));
}

void SpanFile::operator()(const Span& span) const {
  const std::string line = otlp_line(span, state_->service) + "\n";
  const std::lock_guard lock(state_->mutex);
  state_->lines += line;
  if (state_->lines.size() >= kMostUnwritten ||
      std::chrono::steady_clock::now() - state_->written >= kWriteInterval)
    state_->write();
}

Status SpanFile::flush() const {
  const std::lock_guard lock(state_->mutex);
  state_->write();
  return std::exchange(state_->lost, Status());
}

// ---- OpenSpan ----

namespace detail {

OpenSpan::OpenSpan(Span::Kind kind, const Metadata& metadata) : kind_(kind) {
  const auto parent = TraceContext::of(metadata);
  context_ = parent ? parent->child() : TraceContext::fresh();
  if (parent) parent_ = parent->span;
}

void OpenSpan::mark(Metadata& metadata) const {
  Metadata marked;
  for (const auto& [name, value] : metadata) {
    if (name != kTraceParent) marked.add(name, value);
  }
  marked.add(kTraceParent, context_.text());
  metadata = std::move(marked);
}

void OpenSpan::end(const SpanSink& sink, std::string_view service, std::string_view method,
                   std::string_view peer, const Status& status) const {
  if (!context_.sampled()) return;
  sink({kind_, context_, parent_, service, method, peer, begin_, std::chrono::steady_clock::now() - begun_,
        status.code(), status.message()});
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
