#include "inspect/server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/result_try.h"
#include "inspect/page.h"

namespace rrdma::tools {
namespace {

constexpr std::size_t kHeadersMax = 16384, kBodyMax = 1024;
constexpr std::size_t kStreamsMax = 16;              // pages with a live view
constexpr std::size_t kUnsentMax = 4 * 1024 * 1024;  // bytes buffered for a page that does not read
constexpr int kIdleSeconds = 300;
constexpr timeval kLiveInterval{0, 250'000}, kStopInterval{0, 100'000};
// Methods that we answer with our own error text; libevent answers all others.
constexpr auto kMethods =
    static_cast<std::uint16_t>(EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
                               EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);

// 128 random bits.
Result<std::string, std::string> new_token() {
  std::uint8_t octets[16];
  if (getrandom(octets, sizeof octets, 0) != sizeof octets)
    return Failure{std::string("no randomness for a token")};
  std::string token;
  for (const std::uint8_t octet : octets) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    token += kDigits[octet >> 4];
    token += kDigits[octet & 15];
  }
  return token;
}

std::string_view reason_of(Admission admission) {
  switch (admission) {
    case Admission::kWrongMethod:
      return "The inspector only answers GET: it changes nothing, unless --allow-faults lets its page set "
             "faults.\n";
    case Admission::kForeignHost:
      return "This address is not the inspector's: use the one that it printed.\n";
    case Admission::kForeignOrigin: return "Another page may not read the inspector.\n";
    default: return "The token is missing or wrong: use the whole address that `rrdma inspect` printed.\n";
  }
}

std::string_view text_or_empty(const char* text) { return text == nullptr ? std::string_view() : text; }

using EventBase = std::unique_ptr<event_base, decltype(&event_base_free)>;
using Http = std::unique_ptr<evhttp, decltype(&evhttp_free)>;
using Event = std::unique_ptr<struct event, decltype(&event_free)>;

}  // namespace

class InspectServer::Impl {
 public:
  explicit Impl(ServerContent content) : content_(std::move(content)) {}

  Result<std::string, std::string> start(int port) {
    auto token = new_token();
    RRDMA_TRY(token);
    token_ = *token;
    base_.reset(event_base_new());
    http_.reset(base_ == nullptr ? nullptr : evhttp_new(base_.get()));
    if (http_ == nullptr) return Failure{std::string("no memory for a server")};
    evhttp_set_max_headers_size(http_.get(), kHeadersMax);
    evhttp_set_max_body_size(http_.get(), kBodyMax);
    evhttp_set_timeout(http_.get(), kIdleSeconds);
    evhttp_set_allowed_methods(http_.get(), kMethods);
    evhttp_set_gencb(
        http_.get(), [](evhttp_request* request, void* self) { static_cast<Impl*>(self)->answer(request); },
        this);
    evhttp_bound_socket* bound =
        evhttp_bind_socket_with_handle(http_.get(), "127.0.0.1", static_cast<std::uint16_t>(port));
    sockaddr_in address{};
    socklen_t length = sizeof address;
    if (bound == nullptr ||
        getsockname(evhttp_bound_socket_get_fd(bound), reinterpret_cast<sockaddr*>(&address), &length) != 0)
      return Failure{"port " + std::to_string(port) + " of 127.0.0.1 is not free"};
    port_ = ntohs(address.sin_port);
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + token_ + "/";
  }

  void serve(const std::function<bool()>& stop_wanted) {
    stop_wanted_ = &stop_wanted;
    const Event stopper(
        event_new(
            base_.get(), -1, EV_PERSIST,
            [](evutil_socket_t, short, void* self) { static_cast<Impl*>(self)->look_for_stop(); }, this),
        event_free);
    const Event ticker(
        event_new(
            base_.get(), -1, EV_PERSIST,
            [](evutil_socket_t, short, void* self) { static_cast<Impl*>(self)->tell_streams(); }, this),
        event_free);
    event_add(stopper.get(), &kStopInterval);
    if (content_.live) event_add(ticker.get(), &kLiveInterval);
    event_base_dispatch(base_.get());
  }

 private:
  void look_for_stop() {
    if ((*stop_wanted_)()) event_base_loopbreak(base_.get());
  }

  void answer(evhttp_request* request) {
    const evkeyvalq* headers = evhttp_request_get_input_headers(request);
    const std::string path(text_or_empty(evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request))));
    const evhttp_cmd_type method = evhttp_request_get_command(request);
    const RequestHead head{method == EVHTTP_REQ_GET    ? "GET"
                           : method == EVHTTP_REQ_POST ? "POST"
                                                       : "",
                           path, text_or_empty(evhttp_find_header(headers, "Host")),
                           text_or_empty(evhttp_find_header(headers, "Origin"))};
    add_headers(request);
    const Admission admission = admission_of(head, token_, port_, static_cast<bool>(content_.order));
    if (admission == Admission::kAdmittedOrder) return take_order(request);
    if (admission != Admission::kAdmitted) {
      const int status = admission == Admission::kWrongMethod ? HTTP_BADMETHOD : 403;
      reply(request, status, "text/plain; charset=utf-8", reason_of(admission));
      return;
    }
    route(request, std::string_view(path).substr(token_.size() + 2));
  }

  void route(evhttp_request* request, std::string_view wanted) {
    constexpr std::string_view kPacket = "packet/", kCaptured = "captured/";
    if (wanted.empty()) {
      reply(request, HTTP_OK, "text/html; charset=utf-8", inspector_page());
    } else if (wanted == "capture") {
      reply(request, content_.image.empty() ? HTTP_NOCONTENT : HTTP_OK, "application/octet-stream",
            content_.image);
    } else if (wanted == "live") {
      open_stream(request);
    } else if (wanted.substr(0, kPacket.size()) == kPacket) {
      tell_packet(request, std::string(wanted.substr(kPacket.size())));
    } else if (wanted.substr(0, kCaptured.size()) == kCaptured) {
      tell_captured(request, std::string(wanted.substr(kCaptured.size())));
    } else {
      reply(request, HTTP_NOTFOUND, "text/plain; charset=utf-8", "There is no such thing here.\n");
    }
  }

  static void add_headers(evhttp_request* request) {
    static constexpr std::pair<const char*, const char*> kHeaders[] = {
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
        // The page itself lists the hashes of its script and style.
        {"Content-Security-Policy", "frame-ancestors 'none'"}};
    evkeyvalq* headers = evhttp_request_get_output_headers(request);
    for (const auto& [name, value] : kHeaders) evhttp_add_header(headers, name, value);
  }

  // Does not copy `octets`, which must outlive the server.
  static void reply(evhttp_request* request, int status, const char* type, std::string_view octets) {
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", type);
    evbuffer* body = evbuffer_new();
    evbuffer_add_reference(body, octets.data(), octets.size(), nullptr, nullptr);
    evhttp_send_reply(request, status, nullptr, body);
    evbuffer_free(body);
  }

  static std::optional<std::uint32_t> number_in(const std::string& text) {
    constexpr std::size_t kDigitsMax = 9;
    const bool is_number = !text.empty() && text.size() <= kDigitsMax &&
                           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) return std::nullopt;
    return static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
  }

  void tell_packet(evhttp_request* request, const std::string& text) {
    const auto index = number_in(text);
    if (!index || *index >= content_.packets) {
      reply(request, HTTP_NOTFOUND, "text/plain; charset=utf-8", "There is no such packet.\n");
      return;
    }
    reply_text(request, "application/json", content_.details(*index));
  }

  void tell_captured(evhttp_request* request, const std::string& text) {
    const auto number = number_in(text);
    const std::string page = number && content_.captured ? content_.captured(*number) : std::string();
    if (page.empty()) {
      reply(request, HTTP_NOTFOUND, "text/plain; charset=utf-8", "There is no such capture.\n");
      return;
    }
    reply_text(request, "text/html; charset=utf-8", page);
  }

  void take_order(evhttp_request* request) {
    evbuffer* input = evhttp_request_get_input_buffer(request);
    std::string words(evbuffer_get_length(input), '\0');
    evbuffer_copyout(input, words.data(), words.size());
    reply_text(request, "application/json", content_.order(words));
  }

  // Copies the text.
  static void reply_text(evhttp_request* request, const char* type, const std::string& text) {
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", type);
    evbuffer* body = evbuffer_new();
    evbuffer_add(body, text.data(), text.size());
    evhttp_send_reply(request, HTTP_OK, nullptr, body);
    evbuffer_free(body);
  }

  struct Stream {
    evhttp_request* request;
    evhttp_connection* connection;
  };

  // Server-sent events.
  void open_stream(evhttp_request* request) {
    if (!content_.live) {
      reply(request, HTTP_NOCONTENT, "text/event-stream", {});
      return;
    }
    if (streams_.size() == kStreamsMax) {
      reply(request, HTTP_SERVUNAVAIL, "text/plain; charset=utf-8", "Too many pages watch already.\n");
      return;
    }
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", "text/event-stream");
    evhttp_connection_set_closecb(
        evhttp_request_get_connection(request),
        [](evhttp_connection* connection, void* self) {
          static_cast<Impl*>(self)->forget_stream(connection);
        },
        this);
    streams_.push_back({request, evhttp_request_get_connection(request)});
    evhttp_send_reply_start(request, HTTP_OK, nullptr);
    tell_streams();
  }

  void forget_stream(const evhttp_connection* connection) {
    std::erase_if(streams_, [connection](const Stream& stream) {
      if (stream.connection != connection) return false;
      // libevent takes the request of a connection that failed off it, and leaves it to us.
      if (evhttp_request_get_connection(stream.request) == nullptr) evhttp_request_free(stream.request);
      return true;
    });
  }

  void tell_streams() {
    if (streams_.empty()) return;
    const std::string event = "data: " + content_.live() + "\n\n";
    for (const Stream& stream : std::vector(streams_)) {
      bufferevent* output = evhttp_connection_get_bufferevent(stream.connection);
      if (evbuffer_get_length(bufferevent_get_output(output)) > kUnsentMax) continue;
      evbuffer* body = evbuffer_new();
      evbuffer_add(body, event.data(), event.size());
      evhttp_send_reply_chunk(stream.request, body);
      evbuffer_free(body);
    }
  }

  ServerContent content_;
  EventBase base_{nullptr, event_base_free};
  // Before http_, and so destroyed after it: freeing it closes the connections, and each says that its stream
  // is gone.
  std::vector<Stream> streams_;
  Http http_{nullptr, evhttp_free};
  std::string token_;
  int port_ = 0;
  const std::function<bool()>* stop_wanted_ = nullptr;
};

InspectServer::InspectServer(ServerContent content) : impl_(std::make_unique<Impl>(std::move(content))) {}
InspectServer::~InspectServer() = default;
Result<std::string, std::string> InspectServer::start(int port) { return impl_->start(port); }
void InspectServer::serve(const std::function<bool()>& stop_wanted) { impl_->serve(stop_wanted); }

}  // namespace rrdma::tools
