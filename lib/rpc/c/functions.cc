// The functions of rrdma/rpc/c.h. Each checks its handles and arguments, hands the work to the loop's thread,
// and lets no exception out.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "lib/rpc/c/calls.h"
#include "rrdma/rpc/c.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace c {
namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int told(const Status& status) {
  last_error() = status.ok() ? std::string() : status.message();
  return static_cast<int>(status.code());
}

// Runs a function of the interface. Exceptions become codes.
template <typename F>
int guarded(const F& function) noexcept {
  try {
    return told(function());
  } catch (const std::bad_alloc&) {
    return static_cast<int>(Code::kResourceExhausted);
  } catch (const std::exception& failure) {
    last_error() = failure.what();
  } catch (...) {
    last_error() = "an exception of an unknown type";
  }
  return static_cast<int>(Code::kInternal);
}

Status invalid(const char* what) { return {Code::kInvalidArgument, what}; }
Status no_handle(const char* of) {
  return {Code::kInvalidArgument, std::string("not the handle of a ") + of + ", or it was freed"};
}
Status closed() { return {Code::kFailedPrecondition, "the context is closed"}; }

// Lets the loop's thread of the object do `work`.
template <typename T, typename F>
int hand_to(std::uint64_t handle, const char* kind, const F& work) noexcept {
  return guarded([&] {
    const auto object = Handles::all().find<T>(handle);
    if (!object) return no_handle(kind);
    object->loop().run([object, work] { work(*object); });
    return Status();
  });
}

// Makes the handle invalid and ends the object.
template <typename T>
int end_object(std::uint64_t handle, const char* kind) noexcept {
  return guarded([&] {
    const auto object = Handles::all().take<T>(handle);
    if (!object) return no_handle(kind);
    object->loop().run([object] { object->end(); });
    return Status();
  });
}

// Copies a versioned structure. Members that the caller does not have are zero. Fails if the caller sets
// members that this library does not have.
template <typename T>
Status read_options(const T* from, T& into) {
  std::memset(static_cast<void*>(&into), 0, sizeof(into));
  if (from == nullptr) return {};
  const std::size_t size = from->struct_size;
  if (size < sizeof(std::size_t) || size > 65536) return invalid("struct_size is not set");
  std::memcpy(static_cast<void*>(&into), from, std::min(size, sizeof(T)));
  const auto* octets = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t at = sizeof(T); at < size; ++at) {
    if (octets[at] != 0) return invalid("an option is set that this library does not know");
  }
  return {};
}

std::string text_of(const char* text) { return text != nullptr ? std::string(text) : std::string(); }

Status read_metadata(const rrdma_rpc_pair* pairs, std::size_t count, Metadata& into) {
  if (count != 0 && pairs == nullptr) return invalid("the metadata is null");
  for (std::size_t i = 0; i < count; ++i) {
    if ((pairs[i].name_size != 0 && pairs[i].name == nullptr) ||
        (pairs[i].value_size != 0 && pairs[i].value == nullptr))
      return invalid("a name or value of the metadata is null");
    into.add(std::string(pairs[i].name, pairs[i].name_size),
             std::string(pairs[i].value, pairs[i].value_size));
  }
  return {};
}

// Takes the buffer over; only the last check of a function may call this.
Status read_payload_of(const rrdma_rpc_payload* payload, std::shared_ptr<Outgoing>& into) {
  into = std::make_shared<Outgoing>();
  if (payload == nullptr) return {};
  if (payload->buffer != 0) {
    into->memory = Handles::all().take<Memory>(payload->buffer);
    return into->memory ? Status() : no_handle("buffer");
  }
  if (payload->size != 0 && payload->data == nullptr) return invalid("the data is null");
  if (payload->size != 0) into->copy.assign(static_cast<const char*>(payload->data), payload->size);
  return {};
}

Status read_method(const rrdma_rpc_method* method, std::unique_ptr<OwnMethod>& into) {
  rrdma_rpc_method described;
  if (method == nullptr) return invalid("the method is null");
  Status status = read_options(method, described);
  if (!status.ok()) return status;
  if (described.service == nullptr || described.name == nullptr)
    return invalid("a method has a service and a name");
  if (described.shape > RRDMA_RPC_BIDIRECTIONAL) return invalid("the shape of the method is unknown");
  into = std::make_unique<OwnMethod>(described.service, described.name, described);
  return {};
}

comm::Limit limit_of(std::int64_t timeout_ns) {
  return timeout_ns > 0 ? comm::Limit(std::chrono::nanoseconds(timeout_ns)) : comm::Limit();
}
std::chrono::milliseconds or_else(int given, std::chrono::milliseconds otherwise) {
  return given > 0 ? std::chrono::milliseconds(given) : otherwise;
}

Status read_encryption(std::uint32_t given, const std::string& secret, rpc::Encryption& encryption) {
  switch (given) {
    case RRDMA_RPC_ENCRYPT_OTHER_HOSTS: encryption = rpc::Encryption::kOtherHosts; return {};
    case RRDMA_RPC_ENCRYPT_NEVER: encryption = rpc::Encryption::kNever; return {};
    case RRDMA_RPC_ENCRYPT_ALWAYS: encryption = rpc::Encryption::kAlways; break;
    default: return invalid("this kind of encryption is unknown");
  }
  return secret.empty() ? invalid("encryption needs a secret") : Status();
}

// The memory that an event points to once it was handed out.
struct Given {
  Event event;
  std::vector<rrdma_rpc_pair> pairs;
};

void hand_out(Event event, rrdma_rpc_event& into) {
  auto given = std::make_unique<Given>();
  given->event = std::move(event);
  const Event& kept = given->event;
  for (const auto& [name, value] : kept.metadata)
    given->pairs.push_back({name.data(), name.size(), value.data(), value.size()});
  into.kind = kept.kind;
  into.code = static_cast<std::int32_t>(kept.status.code());
  into.tag = kept.tag;
  into.handle = kept.handle;
  if (kept.payload) {
    into.data = kept.payload->data();
    into.size = kept.payload->size();
    into.buffer = Handles::all().add(std::move(given->event.payload));
  }
  into.message = kept.status.message().c_str();
  into.details = kept.status.details().data();
  into.details_size = kept.status.details().size();
  into.metadata = given->pairs.data();
  into.metadata_count = given->pairs.size();
  into.peer = kept.peer.c_str();
  into.timeout_ns = kept.timeout_ns;
  into.owner = given.release();
}

}  // namespace
}  // namespace c
}  // namespace v0
}  // namespace rrdma::rpc

namespace rpc = rrdma::rpc;
namespace c = rrdma::rpc::c;
using rrdma::rpc::Status;

extern "C" {

std::uint32_t rrdma_rpc_abi(void) { return RRDMA_RPC_ABI; }

const char* rrdma_rpc_code_name(int code) {
  if (code < 0 || code > rpc::kHighestCode) return "unknown code";
  return rpc::name_of(static_cast<rpc::Code>(code)).data();
}

const char* rrdma_rpc_last_error(void) { return c::last_error().c_str(); }

// ---- contexts ----

int rrdma_rpc_context_open(const rrdma_rpc_context_options* options, rrdma_rpc_context* context) {
  return c::guarded([&] {
    rrdma_rpc_context_options given;
    Status status = c::read_options(options, given);
    if (!status.ok()) return status;
    if (context == nullptr) return c::invalid("the context is null");
    rrdma::comm::ContextOptions own;
    own.device = c::text_of(given.device);
    own.software_device = given.no_software_device == 0;
    if (given.memory_limit != 0) own.pool.limit = given.memory_limit;
    auto loop = std::make_shared<c::Loop>(given.background_thread != 0);
    status = loop->open(own);
    if (status.ok()) *context = c::Handles::all().add(std::move(loop));
    return status;
  });
}

int rrdma_rpc_context_close(rrdma_rpc_context context) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().take<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    loop->close();
    return Status();
  });
}

int rrdma_rpc_context_device(rrdma_rpc_context context, const char** name) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    *name = loop->device().c_str();
    return Status();
  });
}

int rrdma_rpc_context_address(rrdma_rpc_context context, const char** address) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    *address = loop->address().c_str();
    return Status();
  });
}

// ---- events ----

int rrdma_rpc_next(rrdma_rpc_context context, rrdma_rpc_event* events, size_t event_size, size_t count,
                   int timeout_ms, size_t* taken) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    if (events == nullptr || taken == nullptr) return c::invalid("there is no place for events");
    if (event_size < sizeof(rrdma_rpc_event)) return c::invalid("event_size is too small");
    using rrdma::comm::Clock;
    *taken = 0;
    Status status = loop->wait(timeout_ms < 0 ? Clock::time_point::max()
                                              : Clock::now() + std::chrono::milliseconds(timeout_ms));
    auto* at = reinterpret_cast<char*>(events);
    c::Event event;
    for (; *taken < count && loop->take(event); ++*taken, at += event_size) {
      std::memset(at, 0, event_size);
      c::hand_out(std::exchange(event, c::Event()), *reinterpret_cast<rrdma_rpc_event*>(at));
    }
    return status;
  });
}

void rrdma_rpc_event_clear(rrdma_rpc_event* event) {
  if (event == nullptr) return;
  if (event->buffer != 0) static_cast<void>(rrdma_rpc_buffer_free(event->buffer));
  delete static_cast<c::Given*>(event->owner);
  *event = rrdma_rpc_event{};
}

int rrdma_rpc_fd(rrdma_rpc_context context, int* fd) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    *fd = loop->fd();
    return Status();
  });
}

int rrdma_rpc_arm(rrdma_rpc_context context, int* idle) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    *idle = loop->arm() ? 1 : 0;
    return Status();
  });
}

int rrdma_rpc_wake(rrdma_rpc_context context) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    loop->wake();
    return Status();
  });
}

// ---- buffers ----

int rrdma_rpc_buffer_take(rrdma_rpc_context context, size_t size, rrdma_rpc_buffer* buffer) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    if (buffer == nullptr) return c::invalid("the buffer is null");
    using Taken = std::pair<Status, std::shared_ptr<c::Memory>>;
    const auto taken = loop->ask<Taken>([loop, size]() -> Taken {
      auto memory = loop->context().pool().take(size);
      if (!memory) return {Status(memory.error()), nullptr};
      return {Status(), std::make_shared<c::Memory>(loop, std::move(*memory))};
    });
    if (!taken) return c::closed();
    if (taken->second) *buffer = c::Handles::all().add(taken->second);
    return taken->first;
  });
}

int rrdma_rpc_buffer_wrap(rrdma_rpc_context context, const void* data, size_t size, uint64_t tag,
                          rrdma_rpc_buffer* buffer) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    if (buffer == nullptr || (data == nullptr && size != 0)) return c::invalid("the memory is null");
    *buffer = c::Handles::all().add(std::make_shared<c::Memory>(loop, data, size, tag));
    return Status();
  });
}

int rrdma_rpc_buffer_memory(rrdma_rpc_buffer buffer, void** data, size_t* size) {
  return c::guarded([&] {
    const auto memory = c::Handles::all().find<c::Memory>(buffer);
    if (!memory) return c::no_handle("buffer");
    if (data != nullptr) *data = memory->data();
    if (size != nullptr) *size = memory->size();
    return Status();
  });
}

int rrdma_rpc_buffer_shrink(rrdma_rpc_buffer buffer, size_t size) {
  return c::guarded([&] {
    const auto memory = c::Handles::all().find<c::Memory>(buffer);
    if (!memory) return c::no_handle("buffer");
    return memory->shrink(size) ? Status() : c::invalid("the buffer is shorter");
  });
}

int rrdma_rpc_buffer_free(rrdma_rpc_buffer buffer) {
  return c::guarded(
      [&] { return c::Handles::all().take<c::Memory>(buffer) ? Status() : c::no_handle("buffer"); });
}

// ---- clients ----

int rrdma_rpc_channel_open(rrdma_rpc_context context, const rrdma_rpc_channel_options* options,
                           rrdma_rpc_channel* channel) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    rrdma_rpc_channel_options given;
    Status status = c::read_options(options, given);
    if (!status.ok()) return status;
    if (channel == nullptr || given.addresses == nullptr || given.address_count == 0)
      return c::invalid("a channel has addresses");
    std::vector<std::string> addresses;
    for (std::size_t i = 0; i < given.address_count; ++i) {
      if (given.addresses[i] == nullptr) return c::invalid("an address is null");
      addresses.emplace_back(given.addresses[i]);
    }
    rpc::ClientOptions own;
    if (given.pick > RRDMA_RPC_PICK_LEAST_LOADED) return c::invalid("the choice of a server is unknown");
    own.pick = static_cast<rpc::Pick>(given.pick);
    if (given.tries != 0) own.tries = given.tries;
    own.wait_for_ready = given.wait_for_ready != 0;
    own.connect = c::or_else(given.connect_timeout_ms, own.connect);
    own.channel.keep_alive = c::or_else(given.keep_alive_ms, own.channel.keep_alive);
    own.channel.secret = c::text_of(given.secret);
    status = c::read_encryption(given.encryption, own.channel.secret, own.channel.encryption);
    if (!status.ok()) return status;
    if (given.max_result != 0) own.channel.max_result = given.max_result;
    auto object = std::make_shared<c::ChannelObject>(loop);
    *channel = c::Handles::all().add(object);
    loop->run([object, addresses, own] { object->open(addresses, own); });
    return Status();
  });
}

int rrdma_rpc_channel_close(rrdma_rpc_channel channel) {
  return c::end_object<c::ChannelObject>(channel, "channel");
}

int rrdma_rpc_call_start(rrdma_rpc_channel channel, const rrdma_rpc_method* method,
                         const rrdma_rpc_payload* argument, const rrdma_rpc_call_options* options,
                         uint64_t tag, rrdma_rpc_call* call) {
  return c::guarded([&] {
    const auto by = c::Handles::all().find<c::ChannelObject>(channel);
    if (!by) return c::no_handle("channel");
    std::unique_ptr<c::OwnMethod> own;
    Status status = c::read_method(method, own);
    if (!status.ok()) return status;
    rrdma_rpc_call_options given;
    status = c::read_options(options, given);
    if (!status.ok()) return status;
    const rpc::Shape shape = own->method.shape;
    if (call == nullptr && shape != rpc::Shape::kUnary) return c::invalid("a call with streams has a handle");
    if (argument != nullptr && shape != rpc::Shape::kUnary && shape != rpc::Shape::kServerStream)
      return c::invalid("a method that reads a stream takes no argument");
    rpc::CallOptions with(c::limit_of(given.timeout_ns));
    status = c::read_metadata(given.metadata, given.metadata_count, with.metadata);
    if (!status.ok()) return status;
    std::shared_ptr<c::Outgoing> bytes;
    status = c::read_payload_of(argument, bytes);
    if (!status.ok()) return status;
    auto calling = std::make_shared<c::Calling>(by->shared_loop(), std::move(own), std::move(with),
                                                std::move(bytes), tag);
    if (call != nullptr) *call = c::Handles::all().add(calling);
    by->loop().run([by, calling, owned = call != nullptr] { calling->start(by->client(), owned); });
    return Status();
  });
}

int rrdma_rpc_call_finish(rrdma_rpc_call call, uint64_t tag) {
  return c::hand_to<c::CallObject>(call, "call", [tag](c::CallObject& object) { object.finish(tag); });
}

int rrdma_rpc_call_cancel(rrdma_rpc_call call) {
  return c::hand_to<c::CallObject>(call, "call", [](c::CallObject& object) { object.cancel(); });
}

int rrdma_rpc_call_free(rrdma_rpc_call call) { return c::end_object<c::CallObject>(call, "call"); }

// ---- streams ----

int rrdma_rpc_read(rrdma_rpc_call call, uint64_t tag) {
  return c::hand_to<c::CallObject>(call, "call", [tag](c::CallObject& object) { object.read(tag); });
}

int rrdma_rpc_write(rrdma_rpc_call call, const rrdma_rpc_payload* item, uint64_t tag) {
  return c::guarded([&] {
    const auto object = c::Handles::all().find<c::CallObject>(call);
    if (!object) return c::no_handle("call");
    std::shared_ptr<c::Outgoing> bytes;
    Status status = c::read_payload_of(item, bytes);
    if (!status.ok()) return status;
    object->loop().run([object, bytes, tag] { object->write(bytes, tag); });
    return Status();
  });
}

int rrdma_rpc_writes_done(rrdma_rpc_call call) {
  return c::hand_to<c::CallObject>(call, "call", [](c::CallObject& object) { object.writes_done(); });
}

// ---- servers ----

int rrdma_rpc_server_open(rrdma_rpc_context context, const rrdma_rpc_server_options* options,
                          rrdma_rpc_server* server) {
  return c::guarded([&] {
    const auto loop = c::Handles::all().find<c::Loop>(context);
    if (!loop) return c::no_handle("context");
    rrdma_rpc_server_options given;
    Status status = c::read_options(options, given);
    if (!status.ok()) return status;
    if (server == nullptr) return c::invalid("the server is null");
    if (given.max_calls > 65535) return c::invalid("max_calls is at most 65535");
    rpc::ServerOptions own;
    own.secret = c::text_of(given.secret);
    status = c::read_encryption(given.encryption, own.secret, own.encryption);
    if (!status.ok()) return status;
    if (given.max_argument != 0) own.max_argument = given.max_argument;
    if (given.max_calls != 0) own.max_calls = static_cast<std::uint16_t>(given.max_calls);
    own.keep_alive = c::or_else(given.keep_alive_ms, own.keep_alive);
    own.reflection = given.no_reflection == 0;
    auto object = std::make_shared<c::ServerObject>(loop);
    *server = c::Handles::all().add(object);
    loop->run([object, own] { object->open(own); });
    return Status();
  });
}

int rrdma_rpc_server_add(rrdma_rpc_server server, const rrdma_rpc_method* method, uint64_t tag) {
  return c::guarded([&] {
    const auto object = c::Handles::all().find<c::ServerObject>(server);
    if (!object) return c::no_handle("server");
    std::unique_ptr<c::OwnMethod> own;
    Status status = c::read_method(method, own);
    if (!status.ok()) return status;
    auto shared = std::make_shared<std::unique_ptr<c::OwnMethod>>(std::move(own));
    object->loop().run([object, shared, tag] { object->add(std::move(*shared), tag); });
    return Status();
  });
}

int rrdma_rpc_server_describe(rrdma_rpc_server server, const char* service, const void* descriptors,
                              size_t size) {
  return c::guarded([&] {
    const auto object = c::Handles::all().find<c::ServerObject>(server);
    if (!object) return c::no_handle("server");
    if (service == nullptr || descriptors == nullptr) return c::invalid("the description is null");
    object->loop().run([object, name = std::string(service),
                        octets = std::string(static_cast<const char*>(descriptors), size)] {
      if (object->server() != nullptr) object->server()->describe(name, octets);
    });
    return Status();
  });
}

int rrdma_rpc_server_listen(rrdma_rpc_server server, const char* address, uint16_t* port) {
  return c::guarded([&] {
    const auto object = c::Handles::all().find<c::ServerObject>(server);
    if (!object) return c::no_handle("server");
    if (address == nullptr) return c::invalid("the address is null");
    using Listening = std::pair<Status, std::uint16_t>;
    const auto listening =
        object->loop().ask<Listening>([object, where = std::string(address)]() -> Listening {
          if (object->server() == nullptr) return {c::closed(), std::uint16_t{0}};
          Status status = object->server()->listen(where);
          return {status, status.ok() ? object->server()->port() : std::uint16_t{0}};
        });
    if (!listening) return c::closed();
    if (port != nullptr) *port = listening->second;
    return listening->first;
  });
}

int rrdma_rpc_server_drain(rrdma_rpc_server server, int64_t timeout_ns, uint64_t tag) {
  return c::hand_to<c::ServerObject>(
      server, "server",
      [limit = c::limit_of(timeout_ns), tag](c::ServerObject& object) { object.drain(limit, tag); });
}

int rrdma_rpc_server_close(rrdma_rpc_server server) {
  return c::end_object<c::ServerObject>(server, "server");
}

int rrdma_rpc_reply(rrdma_rpc_call call, const rrdma_rpc_payload* result, const rrdma_rpc_outcome* outcome) {
  return c::guarded([&] {
    const auto object = c::Handles::all().find<c::CallObject>(call);
    const auto serving = std::dynamic_pointer_cast<c::Serving>(object);
    if (!serving) return c::no_handle("call that arrived");
    rrdma_rpc_outcome given;
    Status status = c::read_options(outcome, given);
    if (!status.ok()) return status;
    if (given.code < 0 || given.code > rpc::kHighestCode) return c::invalid("the code is unknown");
    if (given.details_size != 0 && given.details == nullptr) return c::invalid("the details are null");
    c::Answer answer;
    status = c::read_metadata(given.trailers, given.trailer_count, answer.trailers);
    if (!status.ok()) return status;
    std::string details(static_cast<const char*>(given.details), given.details_size);
    answer.status = Status(static_cast<rpc::Code>(given.code), c::text_of(given.message), std::move(details));
    status = c::read_payload_of(result, answer.result);
    if (!status.ok()) return status;
    if (!c::Handles::all().take<c::CallObject>(call)) return c::no_handle("call that arrived");
    serving->loop().run([serving, answer] { serving->answer(answer); });
    return Status();
  });
}

}  // extern "C"
