// Tests the C interface as a C program sees it: all shapes of calls, metadata, deadlines, cancellation,
// memory without a copy, and wrong use. Each case runs with a background thread and driven by this thread.
#include <rrdma/rpc/c.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, rrdma_rpc_last_error()); \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

enum { kTagEcho = 1, kTagCount, kTagSum, kTagUpper, kTagSlow, kTagFail };
enum { kTagCall = 100, kTagRead, kTagWrite, kTagFinish, kTagWrapped, kTagDrain };
enum { kTagServerRead = 200, kTagServerWrite };
enum { kMost = 2 << 20 };

static const struct rrdma_rpc_method kEcho = {sizeof kEcho, "C", "echo", RRDMA_RPC_UNARY, 0, 1};
static const struct rrdma_rpc_method kCount = {sizeof kCount, "C", "count", RRDMA_RPC_SERVER_STREAM, 0, 0};
static const struct rrdma_rpc_method kSum = {sizeof kSum, "C", "sum", RRDMA_RPC_CLIENT_STREAM, 0, 0};
static const struct rrdma_rpc_method kUpper = {sizeof kUpper, "C", "upper", RRDMA_RPC_BIDIRECTIONAL, 0, 0};
static const struct rrdma_rpc_method kSlow = {sizeof kSlow, "C", "slow", RRDMA_RPC_UNARY, 0, 0};
static const struct rrdma_rpc_method kFail = {sizeof kFail, "C", "fail", RRDMA_RPC_UNARY, 0, 0};
static const struct rrdma_rpc_method kNone = {sizeof kNone, "C", "none", RRDMA_RPC_UNARY, 0, 0};

static rrdma_rpc_context context;
static rrdma_rpc_server server;
static rrdma_rpc_channel channel;
static int threaded;

// ---- the service ----

static int slow_calls;  // arrived; they are never answered
static int cancelled_calls;
static struct {
  rrdma_rpc_call call;
  uint32_t next, last;
} counting;
static struct {
  rrdma_rpc_call call;
  uint64_t sum;
} summing;
static rrdma_rpc_call uppering;

static void echo(rrdma_rpc_event* event) {
  // The memory of the argument becomes the result.
  rrdma_rpc_payload result = {0};
  rrdma_rpc_outcome outcome = {sizeof outcome};
  outcome.trailers = event->metadata;
  outcome.trailer_count = event->metadata_count;
  result.buffer = event->buffer;
  event->buffer = 0;
  CHECK(rrdma_rpc_reply(event->handle, &result, &outcome) == RRDMA_RPC_OK);
}

static void count_on(void) {
  if (counting.next == counting.last) {
    CHECK(rrdma_rpc_reply(counting.call, NULL, NULL) == RRDMA_RPC_OK);
    return;
  }
  const rrdma_rpc_payload item = {&counting.next, sizeof counting.next, 0};
  CHECK(rrdma_rpc_write(counting.call, &item, kTagServerWrite) == RRDMA_RPC_OK);
  ++counting.next;
}

static void fail(const rrdma_rpc_event* event) {
  rrdma_rpc_outcome outcome = {sizeof outcome};
  outcome.code = RRDMA_RPC_NOT_FOUND;
  outcome.message = "no such key";
  outcome.details = "\1\0\2";
  outcome.details_size = 3;
  CHECK(rrdma_rpc_reply(event->handle, NULL, &outcome) == RRDMA_RPC_OK);
}

static void serve_call(rrdma_rpc_event* event) {
  switch (event->tag) {
    case kTagEcho: echo(event); return;
    case kTagFail: fail(event); return;
    case kTagSlow: ++slow_calls; return;
    case kTagCount:
      CHECK(event->size == sizeof counting.last);
      memcpy(&counting.last, event->data, event->size);
      counting.call = event->handle;
      counting.next = 0;
      count_on();
      return;
    case kTagSum:
      summing.call = event->handle;
      summing.sum = 0;
      break;
    case kTagUpper: uppering = event->handle; break;
    default: CHECK(!"an unknown method");
  }
  CHECK(rrdma_rpc_read(event->handle, kTagServerRead) == RRDMA_RPC_OK);
}

static void serve_item(const rrdma_rpc_event* event) {
  if (event->handle == summing.call) {
    for (size_t i = 0; i < event->size; ++i) summing.sum += ((const unsigned char*)event->data)[i];
    CHECK(rrdma_rpc_read(event->handle, kTagServerRead) == RRDMA_RPC_OK);
    return;
  }
  char text[64];
  CHECK(event->size <= sizeof text);
  for (size_t i = 0; i < event->size; ++i) text[i] = (char)(((const char*)event->data)[i] & ~0x20);
  const rrdma_rpc_payload item = {text, event->size, 0};
  CHECK(rrdma_rpc_write(event->handle, &item, kTagServerWrite) == RRDMA_RPC_OK);
}

static void serve_end(const rrdma_rpc_event* event) {
  CHECK(event->code == RRDMA_RPC_OK);
  if (event->handle == summing.call) {
    const rrdma_rpc_payload result = {&summing.sum, sizeof summing.sum, 0};
    CHECK(rrdma_rpc_reply(event->handle, &result, NULL) == RRDMA_RPC_OK);
  } else {
    CHECK(rrdma_rpc_reply(event->handle, NULL, NULL) == RRDMA_RPC_OK);
  }
}

// Handles an event of the server. Returns 0 if it belongs to the client.
static int serve(rrdma_rpc_event* event) {
  if (event->kind == RRDMA_RPC_EVENT_CALL) {
    CHECK(event->handle != 0 && strlen(event->peer) != 0);
    serve_call(event);
  } else if (event->kind == RRDMA_RPC_EVENT_CANCELLED) {
    ++cancelled_calls;
    CHECK(event->tag == kTagSlow);
    CHECK(rrdma_rpc_call_free(event->handle) == RRDMA_RPC_OK);
  } else if (event->tag == kTagServerWrite) {
    CHECK(event->code == RRDMA_RPC_OK);
    if (event->handle == counting.call) {
      count_on();
    } else {
      CHECK(rrdma_rpc_read(uppering, kTagServerRead) == RRDMA_RPC_OK);
    }
  } else if (event->tag == kTagServerRead) {
    event->kind == RRDMA_RPC_EVENT_ITEM ? serve_item(event) : serve_end(event);
  } else {
    return 0;
  }
  return 1;
}

// ---- the loop ----

static void sleep_on_fd(void) {
  int fd = -1, idle = 0;
  CHECK(rrdma_rpc_fd(context, &fd) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_arm(context, &idle) == RRDMA_RPC_OK);
  struct pollfd one = {fd, POLLIN, 0};
  if (idle) CHECK(poll(&one, 1, 20000) == 1);
}

// Serves until an event with this tag arrives.
static rrdma_rpc_event await_event(uint64_t tag) {
  for (;;) {
    rrdma_rpc_event event;
    size_t taken = 0;
    CHECK(rrdma_rpc_next(context, &event, sizeof event, 1, 0, &taken) == RRDMA_RPC_OK);
    if (taken == 0) {
      sleep_on_fd();
      continue;
    }
    if (!serve(&event)) {
      if (event.tag != tag) fprintf(stderr, "event %u with tag %d\n", event.kind, (int)event.tag);
      CHECK(event.tag == tag);
      return event;
    }
    rrdma_rpc_event_clear(&event);
  }
}

static rrdma_rpc_call start(const rrdma_rpc_method* method, const void* data, size_t size,
                            const rrdma_rpc_call_options* options) {
  const rrdma_rpc_payload argument = {data, size, 0};
  const int streams = method->shape == RRDMA_RPC_CLIENT_STREAM || method->shape == RRDMA_RPC_BIDIRECTIONAL;
  rrdma_rpc_call call = 0;
  CHECK(rrdma_rpc_call_start(channel, method, streams ? NULL : &argument, options, kTagCall, &call) ==
        RRDMA_RPC_OK);
  CHECK(call != 0);
  return call;
}

// ---- the cases ----

static void test_unary(void) {
  const rrdma_rpc_pair pair = {"color", 5, "b\0ue", 4};
  rrdma_rpc_call_options options = {sizeof options};
  options.metadata = &pair;
  options.metadata_count = 1;
  const rrdma_rpc_call call = start(&kEcho, "hello", 5, &options);
  rrdma_rpc_event event = await_event(kTagCall);
  CHECK(event.kind == RRDMA_RPC_EVENT_DONE && event.code == RRDMA_RPC_OK && event.handle == call);
  CHECK(event.size == 5 && memcmp(event.data, "hello", 5) == 0);
  CHECK(event.metadata_count == 1 && event.metadata[0].value_size == 4);
  CHECK(memcmp(event.metadata[0].name, "color", 5) == 0 && memcmp(event.metadata[0].value, "b\0ue", 4) == 0);
  rrdma_rpc_event_clear(&event);
  rrdma_rpc_event_clear(&event);
  CHECK(rrdma_rpc_call_free(call) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_call_free(call) == RRDMA_RPC_INVALID_ARGUMENT);
  // Without a handle, and without an argument.
  CHECK(rrdma_rpc_call_start(channel, &kEcho, NULL, NULL, kTagCall, NULL) == RRDMA_RPC_OK);
  event = await_event(kTagCall);
  CHECK(event.code == RRDMA_RPC_OK && event.buffer == 0 && event.size == 0);
  rrdma_rpc_event_clear(&event);
}

static void test_failures(void) {
  rrdma_rpc_call call = start(&kFail, "x", 1, NULL);
  rrdma_rpc_event event = await_event(kTagCall);
  CHECK(event.code == RRDMA_RPC_NOT_FOUND && strcmp(event.message, "no such key") == 0);
  CHECK(event.details_size == 3 && memcmp(event.details, "\1\0\2", 3) == 0);
  rrdma_rpc_event_clear(&event);
  CHECK(rrdma_rpc_call_free(call) == RRDMA_RPC_OK);
  call = start(&kNone, "x", 1, NULL);
  event = await_event(kTagCall);
  CHECK(event.code == RRDMA_RPC_UNIMPLEMENTED);
  rrdma_rpc_event_clear(&event);
  CHECK(rrdma_rpc_call_free(call) == RRDMA_RPC_OK);
}

// Serves until the condition holds.
static void serve_until(const int* condition) {
  while (*condition == 0) {
    rrdma_rpc_event event;
    size_t taken = 0;
    CHECK(rrdma_rpc_next(context, &event, sizeof event, 1, 100, &taken) == RRDMA_RPC_OK);
    if (taken == 0) continue;
    CHECK(serve(&event));
    rrdma_rpc_event_clear(&event);
  }
}

static void test_deadline_and_cancel(void) {
  cancelled_calls = slow_calls = 0;
  rrdma_rpc_call_options options = {sizeof options};
  options.timeout_ns = 200 * 1000 * 1000;
  rrdma_rpc_call call = start(&kSlow, "x", 1, &options);
  rrdma_rpc_event event = await_event(kTagCall);
  CHECK(event.code == RRDMA_RPC_DEADLINE_EXCEEDED);
  rrdma_rpc_event_clear(&event);
  CHECK(rrdma_rpc_call_free(call) == RRDMA_RPC_OK);
  serve_until(&cancelled_calls);
  cancelled_calls = slow_calls = 0;
  call = start(&kSlow, "x", 1, NULL);
  serve_until(&slow_calls);
  CHECK(rrdma_rpc_call_cancel(call) == RRDMA_RPC_OK);
  event = await_event(kTagCall);
  CHECK(event.code == RRDMA_RPC_CANCELLED);
  rrdma_rpc_event_clear(&event);
  CHECK(rrdma_rpc_call_free(call) == RRDMA_RPC_OK);
  serve_until(&cancelled_calls);
}

static void finish(rrdma_rpc_call call, uint64_t sum) {
  CHECK(rrdma_rpc_call_finish(call, kTagFinish) == RRDMA_RPC_OK);
  rrdma_rpc_event event = await_event(kTagFinish);
  CHECK(event.kind == RRDMA_RPC_EVENT_DONE && event.code == RRDMA_RPC_OK);
  if (sum != 0) CHECK(event.size == sizeof sum && memcmp(event.data, &sum, sizeof sum) == 0);
  rrdma_rpc_event_clear(&event);
  CHECK(rrdma_rpc_call_free(call) == RRDMA_RPC_OK);
}

static void await_opened(void) {
  rrdma_rpc_event event = await_event(kTagCall);
  CHECK(event.kind == RRDMA_RPC_EVENT_OPENED && event.code == RRDMA_RPC_OK);
  rrdma_rpc_event_clear(&event);
}

static void write_item(rrdma_rpc_call call, const void* data, size_t size) {
  const rrdma_rpc_payload item = {data, size, 0};
  CHECK(rrdma_rpc_write(call, &item, kTagWrite) == RRDMA_RPC_OK);
  rrdma_rpc_event event = await_event(kTagWrite);
  CHECK(event.kind == RRDMA_RPC_EVENT_WRITTEN && event.code == RRDMA_RPC_OK);
  rrdma_rpc_event_clear(&event);
}

static void test_server_stream(void) {
  const uint32_t many = 1000;
  const rrdma_rpc_call call = start(&kCount, &many, sizeof many, NULL);
  await_opened();
  for (uint32_t i = 0;; ++i) {
    CHECK(rrdma_rpc_read(call, kTagRead) == RRDMA_RPC_OK);
    rrdma_rpc_event event = await_event(kTagRead);
    if (event.kind == RRDMA_RPC_EVENT_END) {
      CHECK(i == many && event.code == RRDMA_RPC_OK);
      rrdma_rpc_event_clear(&event);
      break;
    }
    CHECK(event.kind == RRDMA_RPC_EVENT_ITEM && event.size == sizeof i &&
          memcmp(event.data, &i, sizeof i) == 0);
    rrdma_rpc_event_clear(&event);
  }
  finish(call, 0);
}

static void test_client_stream(void) {
  const rrdma_rpc_call call = start(&kSum, NULL, 0, NULL);
  await_opened();
  uint64_t sum = 0;
  for (unsigned char i = 1; i < 100; ++i) {
    write_item(call, &i, 1);
    sum += i;
  }
  // One large item, which is wrapped.
  unsigned char* large = malloc(kMost);
  memset(large, 1, kMost);
  rrdma_rpc_payload item = {0};
  CHECK(rrdma_rpc_buffer_wrap(context, large, kMost, kTagWrapped, &item.buffer) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_write(call, &item, kTagWrite) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_buffer_memory(item.buffer, NULL, NULL) == RRDMA_RPC_INVALID_ARGUMENT);
  rrdma_rpc_event event = await_event(kTagWrite);
  CHECK(event.code == RRDMA_RPC_OK);
  rrdma_rpc_event_clear(&event);
  event = await_event(kTagWrapped);
  CHECK(event.kind == RRDMA_RPC_EVENT_RELEASED);
  rrdma_rpc_event_clear(&event);
  free(large);
  finish(call, sum + kMost);
}

static void test_both_streams(void) {
  const rrdma_rpc_call call = start(&kUpper, NULL, 0, NULL);
  await_opened();
  for (int i = 0; i < 100; ++i) {
    write_item(call, "word", 4);
    CHECK(rrdma_rpc_read(call, kTagRead) == RRDMA_RPC_OK);
    rrdma_rpc_event event = await_event(kTagRead);
    CHECK(event.size == 4 && memcmp(event.data, "WORD", 4) == 0);
    rrdma_rpc_event_clear(&event);
  }
  CHECK(rrdma_rpc_writes_done(call) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_read(call, kTagRead) == RRDMA_RPC_OK);
  rrdma_rpc_event event = await_event(kTagRead);
  CHECK(event.kind == RRDMA_RPC_EVENT_END && event.code == RRDMA_RPC_OK);
  rrdma_rpc_event_clear(&event);
  finish(call, 0);
}

static void test_memory(void) {
  // Registered memory there and back.
  rrdma_rpc_payload argument = {0};
  void* data = NULL;
  size_t size = 0;
  CHECK(rrdma_rpc_buffer_take(context, kMost, &argument.buffer) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_buffer_memory(argument.buffer, &data, &size) == RRDMA_RPC_OK && size == kMost);
  for (size_t i = 0; i < kMost; ++i) ((unsigned char*)data)[i] = (unsigned char)(i * 7);
  CHECK(rrdma_rpc_buffer_shrink(argument.buffer, kMost + 1) == RRDMA_RPC_INVALID_ARGUMENT);
  CHECK(rrdma_rpc_buffer_shrink(argument.buffer, kMost - 1) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_call_start(channel, &kEcho, &argument, NULL, kTagCall, NULL) == RRDMA_RPC_OK);
  rrdma_rpc_event event = await_event(kTagCall);
  CHECK(event.code == RRDMA_RPC_OK && event.size == kMost - 1);
  for (size_t i = 0; i < event.size; ++i) CHECK(((unsigned char*)event.data)[i] == (unsigned char)(i * 7));
  // The payload outlives the event.
  const rrdma_rpc_buffer kept = event.buffer;
  event.buffer = 0;
  rrdma_rpc_event_clear(&event);
  CHECK(rrdma_rpc_buffer_memory(kept, &data, &size) == RRDMA_RPC_OK);
  CHECK(((unsigned char*)data)[3] == 21);
  CHECK(rrdma_rpc_buffer_free(kept) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_buffer_free(kept) == RRDMA_RPC_INVALID_ARGUMENT);
  // Wrapped memory that is never sent.
  rrdma_rpc_buffer wrapped = 0;
  CHECK(rrdma_rpc_buffer_wrap(context, "abc", 3, kTagWrapped, &wrapped) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_buffer_free(wrapped) == RRDMA_RPC_OK);
  event = await_event(kTagWrapped);
  CHECK(event.kind == RRDMA_RPC_EVENT_RELEASED);
  rrdma_rpc_event_clear(&event);
}

static void test_wrong_use(void) {
  size_t taken = 0;
  rrdma_rpc_event event;
  rrdma_rpc_call call = 0;
  CHECK(rrdma_rpc_next(channel, &event, sizeof event, 1, 0, &taken) == RRDMA_RPC_INVALID_ARGUMENT);
  CHECK(strstr(rrdma_rpc_last_error(), "context") != NULL);
  CHECK(rrdma_rpc_next(context, &event, 8, 1, 0, &taken) == RRDMA_RPC_INVALID_ARGUMENT);
  CHECK(rrdma_rpc_next(0, &event, sizeof event, 1, 0, &taken) == RRDMA_RPC_INVALID_ARGUMENT);
  CHECK(rrdma_rpc_call_start(channel, &kSum, NULL, NULL, 1, NULL) == RRDMA_RPC_INVALID_ARGUMENT);
  CHECK(rrdma_rpc_call_start(channel, NULL, NULL, NULL, 1, &call) == RRDMA_RPC_INVALID_ARGUMENT);
  rrdma_rpc_call_options options = {0};
  CHECK(rrdma_rpc_call_start(channel, &kEcho, NULL, &options, 1, &call) == RRDMA_RPC_INVALID_ARGUMENT);
  // A structure of a later version: zeros pass, an unknown option does not.
  struct {
    rrdma_rpc_method method;
    uint64_t later;
  } newer = {kEcho, 0};
  newer.method.struct_size = sizeof newer;
  CHECK(rrdma_rpc_call_start(channel, &newer.method, NULL, NULL, kTagCall, NULL) == RRDMA_RPC_OK);
  event = await_event(kTagCall);
  CHECK(event.code == RRDMA_RPC_OK);
  rrdma_rpc_event_clear(&event);
  newer.later = 1;
  CHECK(rrdma_rpc_call_start(channel, &newer.method, NULL, NULL, 1, &call) == RRDMA_RPC_INVALID_ARGUMENT);
  // A read of a call without streams, and two reads at once.
  call = start(&kEcho, "x", 1, NULL);
  event = await_event(kTagCall);
  rrdma_rpc_event_clear(&event);
  CHECK(rrdma_rpc_read(call, kTagRead) == RRDMA_RPC_OK);
  event = await_event(kTagRead);
  CHECK(event.kind == RRDMA_RPC_EVENT_END && event.code == RRDMA_RPC_FAILED_PRECONDITION);
  rrdma_rpc_event_clear(&event);
  CHECK(rrdma_rpc_reply(call, NULL, NULL) == RRDMA_RPC_INVALID_ARGUMENT);
  CHECK(rrdma_rpc_call_free(call) == RRDMA_RPC_OK);
  CHECK(strcmp(rrdma_rpc_code_name(RRDMA_RPC_NOT_FOUND), "not found") == 0);
  CHECK(rrdma_rpc_code_name(-1) != NULL && rrdma_rpc_code_name(99) != NULL);
  CHECK(rrdma_rpc_abi() == RRDMA_RPC_ABI);
}

// The context is closed with a call in flight.
static void test_close(void) {
  CHECK(rrdma_rpc_server_drain(server, 0, kTagDrain) == RRDMA_RPC_OK);
  rrdma_rpc_event event = await_event(kTagDrain);
  CHECK(event.code == RRDMA_RPC_OK);
  rrdma_rpc_event_clear(&event);
  rrdma_rpc_buffer kept = 0;
  CHECK(rrdma_rpc_buffer_take(context, 100, &kept) == RRDMA_RPC_OK);
  rrdma_rpc_call_options options = {sizeof options};
  options.timeout_ns = 1000 * 1000;
  const rrdma_rpc_call call = start(&kEcho, "x", 1, &options);
  CHECK(rrdma_rpc_context_close(context) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_call_cancel(call) == RRDMA_RPC_INVALID_ARGUMENT);
  CHECK(rrdma_rpc_channel_close(channel) == RRDMA_RPC_INVALID_ARGUMENT);
  CHECK(rrdma_rpc_context_close(context) == RRDMA_RPC_INVALID_ARGUMENT);
  CHECK(rrdma_rpc_buffer_free(kept) == RRDMA_RPC_OK);
}

// A client that cannot encrypt is refused; encryption needs a secret.
static void test_encryption(void) {
  rrdma_rpc_server_options guarded = {sizeof guarded};
  guarded.encryption = RRDMA_RPC_ENCRYPT_ALWAYS;
  rrdma_rpc_server other = 0;
  CHECK(rrdma_rpc_server_open(context, &guarded, &other) == RRDMA_RPC_INVALID_ARGUMENT);
  guarded.encryption = 3;
  guarded.secret = "open sesame";
  CHECK(rrdma_rpc_server_open(context, &guarded, &other) == RRDMA_RPC_INVALID_ARGUMENT);
  const char* const addresses[] = {"127.0.0.1:1"};
  rrdma_rpc_channel_options by = {sizeof by};
  by.addresses = addresses;
  by.address_count = 1;
  by.encryption = RRDMA_RPC_ENCRYPT_ALWAYS;
  rrdma_rpc_channel to = 0;
  CHECK(rrdma_rpc_channel_open(context, &by, &to) == RRDMA_RPC_INVALID_ARGUMENT);
}

static void open_all(void) {
  rrdma_rpc_context_options options = {sizeof options};
  options.background_thread = threaded;
  CHECK(rrdma_rpc_context_open(&options, &context) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_server_open(context, NULL, &server) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_server_add(server, &kEcho, kTagEcho) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_server_add(server, &kCount, kTagCount) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_server_add(server, &kSum, kTagSum) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_server_add(server, &kUpper, kTagUpper) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_server_add(server, &kSlow, kTagSlow) == RRDMA_RPC_OK);
  CHECK(rrdma_rpc_server_add(server, &kFail, kTagFail) == RRDMA_RPC_OK);
  uint16_t port = 0;
  CHECK(rrdma_rpc_server_listen(server, ":0", &port) == RRDMA_RPC_OK && port != 0);
  const char* host = NULL;
  CHECK(rrdma_rpc_context_address(context, &host) == RRDMA_RPC_OK);
  char address[128];
  snprintf(address, sizeof address, "%s:%u", host, (unsigned)port);
  const char* const addresses[] = {address};
  rrdma_rpc_channel_options by = {sizeof by};
  by.addresses = addresses;
  by.address_count = 1;
  CHECK(rrdma_rpc_channel_open(context, &by, &channel) == RRDMA_RPC_OK);
}

int main(void) {
  for (threaded = 0; threaded < 2; ++threaded) {
    open_all();
    test_encryption();
    test_unary();
    test_failures();
    test_deadline_and_cancel();
    test_server_stream();
    test_client_stream();
    test_both_streams();
    test_memory();
    test_wrong_use();
    test_close();
    printf("%s: good\n", threaded ? "with a background thread" : "driven by this thread");
  }
  return 0;
}
