// The C interface of rrdma::rpc, for C programs and for bindings of other languages.
//
// Nothing here calls back into the program: every operation has a tag of the caller's choice, and its outcome
// is an event with that tag (rrdma_rpc_next). Objects are numbers that the library checks, so a stale or
// foreign handle is an error and not a crash. Functions return a code of rrdma_rpc_code; a negative number is
// never returned. rrdma_rpc_last_error() has the text of the last failure in the calling thread.
//
// Structures with a member struct_size grow at their end in later versions. Set struct_size to sizeof the
// structure and the members that you do not use to zero.
#ifndef RRDMA_RPC_C_H
#define RRDMA_RPC_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RRDMA_RPC_C_API __attribute__((visibility("default")))
#else
#define RRDMA_RPC_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The version of this interface. It changes only if a program must be compiled again.
#define RRDMA_RPC_ABI 1

// Handles. 0 is none. A handle is never used for a second object.
typedef uint64_t rrdma_rpc_context;
typedef uint64_t rrdma_rpc_server;
typedef uint64_t rrdma_rpc_channel;
typedef uint64_t rrdma_rpc_call;
typedef uint64_t rrdma_rpc_buffer;

// The outcome of a call or a function. The numbers are those of gRPC.
enum rrdma_rpc_code {
  RRDMA_RPC_OK = 0,
  RRDMA_RPC_CANCELLED = 1,
  RRDMA_RPC_UNKNOWN = 2,
  RRDMA_RPC_INVALID_ARGUMENT = 3,  // also: not a valid handle
  RRDMA_RPC_DEADLINE_EXCEEDED = 4,
  RRDMA_RPC_NOT_FOUND = 5,
  RRDMA_RPC_ALREADY_EXISTS = 6,
  RRDMA_RPC_PERMISSION_DENIED = 7,
  RRDMA_RPC_RESOURCE_EXHAUSTED = 8,
  RRDMA_RPC_FAILED_PRECONDITION = 9,
  RRDMA_RPC_ABORTED = 10,
  RRDMA_RPC_OUT_OF_RANGE = 11,
  RRDMA_RPC_UNIMPLEMENTED = 12,
  RRDMA_RPC_INTERNAL = 13,
  RRDMA_RPC_UNAVAILABLE = 14,
  RRDMA_RPC_DATA_LOSS = 15,
  RRDMA_RPC_UNAUTHENTICATED = 16
};

// The streams of a method.
enum rrdma_rpc_shape {
  RRDMA_RPC_UNARY = 0,          // one argument, one result
  RRDMA_RPC_SERVER_STREAM = 1,  // one argument, a stream of results
  RRDMA_RPC_CLIENT_STREAM = 2,  // a stream of arguments, one result
  RRDMA_RPC_BIDIRECTIONAL = 3   // two streams
};

// The choice of a server for each call.
enum rrdma_rpc_pick {
  RRDMA_RPC_PICK_FIRST = 0,        // the first address that answers, until it is lost
  RRDMA_RPC_PICK_ROUND_ROBIN = 1,  // all addresses that answer, in turn
  RRDMA_RPC_PICK_LEAST_LOADED = 2  // of these, the one with the fewest calls in flight
};

// The version of the library's interface: RRDMA_RPC_ABI when it was built.
RRDMA_RPC_C_API uint32_t rrdma_rpc_abi(void);
// The name of a code, such as "not found". Never null.
RRDMA_RPC_C_API const char* rrdma_rpc_code_name(int code);
// The text of the last failure of a function in this thread. Valid until the next call of a function.
RRDMA_RPC_C_API const char* rrdma_rpc_last_error(void);

// ---- contexts ----

// A device, its memory, and the loop that drives it.
typedef struct rrdma_rpc_context_options {
  size_t struct_size;
  const char* device;  // name; null selects the first usable device
  // 1: a thread of the library drives the context. All functions may be called from any thread, and progress
  // does not depend on the program. 0: rrdma_rpc_next() drives it. One thread calls all functions.
  int background_thread;
  int no_software_device;  // 1: do not bring up RRDMA's device if there is no hardware
  size_t memory_limit;     // bytes of registered memory in use at a time; 0: 1 GiB
} rrdma_rpc_context_options;

RRDMA_RPC_C_API int rrdma_rpc_context_open(const rrdma_rpc_context_options* options,
                                           rrdma_rpc_context* context);
// Ends all servers, channels and calls of the context. Their handles become invalid and wrapped memory is no
// longer used. Buffers stay valid until they are freed.
RRDMA_RPC_C_API int rrdma_rpc_context_close(rrdma_rpc_context context);
// The name of the device. Valid until the context is closed.
RRDMA_RPC_C_API int rrdma_rpc_context_device(rrdma_rpc_context context, const char** name);
// An address of the device, IPv4 if it has one. Valid until the context is closed.
RRDMA_RPC_C_API int rrdma_rpc_context_address(rrdma_rpc_context context, const char** address);

// ---- events ----

// A name and a value. Both may hold any bytes; the pointers are not terminated by a zero.
typedef struct rrdma_rpc_pair {
  const char* name;
  size_t name_size;
  const char* value;
  size_t value_size;
} rrdma_rpc_pair;

enum rrdma_rpc_event_kind {
  RRDMA_RPC_EVENT_DONE = 1,       // a call, finish or drain is over: code, payload, metadata (trailers)
  RRDMA_RPC_EVENT_OPENED = 2,     // a stream is open, if the code is RRDMA_RPC_OK
  RRDMA_RPC_EVENT_ITEM = 3,       // a read got an item
  RRDMA_RPC_EVENT_END = 4,        // a read got nothing: the stream is over, or failed (code)
  RRDMA_RPC_EVENT_WRITTEN = 5,    // a write is over (code)
  RRDMA_RPC_EVENT_CALL = 6,       // a call arrived: handle, tag of its method, payload, metadata, peer
  RRDMA_RPC_EVENT_CANCELLED = 7,  // the call `handle` is not wanted any more; it must still be answered
  RRDMA_RPC_EVENT_RELEASED = 8    // wrapped memory is not used any more
};

// One event. The receiver owns it: call rrdma_rpc_event_clear() when done. To keep the payload, take the
// handle `buffer` and set it to 0 before.
typedef struct rrdma_rpc_event {
  uint32_t kind;  // rrdma_rpc_event_kind
  int32_t code;   // rrdma_rpc_code
  uint64_t tag;
  uint64_t handle;          // the call that the event is about; 0: none
  rrdma_rpc_buffer buffer;  // the payload; 0: empty
  void* data;               // its memory
  size_t size;              // its bytes
  const char* message;      // text of the status, terminated by a zero; never null
  const void* details;      // bytes that the server's application set
  size_t details_size;
  const rrdma_rpc_pair* metadata;
  size_t metadata_count;
  const char* peer;    // address of the caller, for RRDMA_RPC_EVENT_CALL; otherwise empty
  int64_t timeout_ns;  // what is left of an arrived call's time; -1: no deadline
  void* owner;         // memory of the library
} rrdma_rpc_event;

// Takes up to `count` events. Waits up to timeout_ms milliseconds for the first one: 0 does not wait, -1
// waits without limit. `taken` may be 0 after the time or a wake. `event_size` is sizeof(rrdma_rpc_event).
RRDMA_RPC_C_API int rrdma_rpc_next(rrdma_rpc_context context, rrdma_rpc_event* events, size_t event_size,
                                   size_t count, int timeout_ms, size_t* taken);
// Frees what an event owns. Safe for an event that is all zero or was cleared.
RRDMA_RPC_C_API void rrdma_rpc_event_clear(rrdma_rpc_event* event);
// A file descriptor for poll() and event loops. It becomes readable when rrdma_rpc_next() has something to
// do. Without a background thread this requires a successful rrdma_rpc_arm() before each sleep.
RRDMA_RPC_C_API int rrdma_rpc_fd(rrdma_rpc_context context, int* fd);
// Sets `idle` to 1 if the program may sleep on the file descriptor, and to 0 if it must call rrdma_rpc_next()
// first.
RRDMA_RPC_C_API int rrdma_rpc_arm(rrdma_rpc_context context, int* idle);
// Lets a waiting rrdma_rpc_next() return. May be called from any thread.
RRDMA_RPC_C_API int rrdma_rpc_wake(rrdma_rpc_context context);

// ---- buffers ----

// Takes registered memory, uninitialised. The caller owns it until it is freed or passed on.
RRDMA_RPC_C_API int rrdma_rpc_buffer_take(rrdma_rpc_context context, size_t size, rrdma_rpc_buffer* buffer);
// Makes a buffer of the caller's memory, without a copy. The memory must stay and must not change until the
// event RRDMA_RPC_EVENT_RELEASED with this tag: after the buffer was freed, or after the operation that it
// was passed to. Peers can read the memory while such an operation is in flight.
RRDMA_RPC_C_API int rrdma_rpc_buffer_wrap(rrdma_rpc_context context, const void* data, size_t size,
                                          uint64_t tag, rrdma_rpc_buffer* buffer);
RRDMA_RPC_C_API int rrdma_rpc_buffer_memory(rrdma_rpc_buffer buffer, void** data, size_t* size);
// Makes a buffer shorter.
RRDMA_RPC_C_API int rrdma_rpc_buffer_shrink(rrdma_rpc_buffer buffer, size_t size);
RRDMA_RPC_C_API int rrdma_rpc_buffer_free(rrdma_rpc_buffer buffer);

// An argument, a result or an item: bytes that the function copies, or a buffer. A function that succeeds
// takes the buffer over, and its handle becomes invalid. A buffer larger than 256 KiB is sent without a copy:
// the peer reads it.
typedef struct rrdma_rpc_payload {
  const void* data;
  size_t size;
  rrdma_rpc_buffer buffer;  // not 0: used instead of data and size
} rrdma_rpc_payload;

// ---- methods ----

typedef struct rrdma_rpc_method {
  size_t struct_size;
  const char* service;
  const char* name;
  uint32_t shape;   // rrdma_rpc_shape
  uint32_t schema;  // a number that both ends compare; 0: not compared
  int idempotent;   // 1: a channel may repeat a call whose connection was lost
} rrdma_rpc_method;

// ---- clients ----

// When connections are encrypted. An end never continues with less than it demands.
typedef enum rrdma_rpc_encryption {
  RRDMA_RPC_ENCRYPT_OTHER_HOSTS = 0,  // if there is a secret
  RRDMA_RPC_ENCRYPT_NEVER = 1,
  RRDMA_RPC_ENCRYPT_ALWAYS = 2
} rrdma_rpc_encryption;

typedef struct rrdma_rpc_channel_options {
  size_t struct_size;
  const char* const* addresses;  // "host:port"
  size_t address_count;
  uint32_t pick;           // rrdma_rpc_pick
  uint32_t tries;          // attempts of a call that may be repeated; 0: 4
  int wait_for_ready;      // 1: calls wait for a server as long as their time allows
  int connect_timeout_ms;  // for one address; 0: 2,000
  // Interval after which a silent server is probed. One that does not answer for this long again, at least a
  // second, is gone: its calls end with RRDMA_RPC_UNAVAILABLE. 0 or less: 2,000; it cannot be switched off.
  int keep_alive_ms;
  const char* secret;   // shared with the server; null: none
  size_t max_result;    // bytes of the largest result or item; 0: 64 MiB
  uint32_t encryption;  // rrdma_rpc_encryption; needs a secret
} rrdma_rpc_channel_options;

// Connects on demand and again after a loss. Failures show in the calls.
RRDMA_RPC_C_API int rrdma_rpc_channel_open(rrdma_rpc_context context,
                                           const rrdma_rpc_channel_options* options,
                                           rrdma_rpc_channel* channel);
// Calls in flight continue. The connection ends with the last of them.
RRDMA_RPC_C_API int rrdma_rpc_channel_close(rrdma_rpc_channel channel);

typedef struct rrdma_rpc_call_options {
  size_t struct_size;
  int64_t timeout_ns;  // limit of the whole call, sent to the server; 0: none
  const rrdma_rpc_pair* metadata;
  size_t metadata_count;
} rrdma_rpc_call_options;

// Starts a call. A unary call ends with RRDMA_RPC_EVENT_DONE. A call with streams begins with
// RRDMA_RPC_EVENT_OPENED; then read, write, and finish. A method that reads a stream takes no argument:
// `argument` is null. `options` may be null. `call` must be freed; null, for unary calls only, means that the
// library frees it. Events of a freed call may still arrive.
RRDMA_RPC_C_API int rrdma_rpc_call_start(rrdma_rpc_channel channel, const rrdma_rpc_method* method,
                                         const rrdma_rpc_payload* argument,
                                         const rrdma_rpc_call_options* options, uint64_t tag,
                                         rrdma_rpc_call* call);
// Ends the stream of arguments and awaits the outcome: RRDMA_RPC_EVENT_DONE, with the result of a client
// stream.
RRDMA_RPC_C_API int rrdma_rpc_call_finish(rrdma_rpc_call call, uint64_t tag);
// The operations of the call end with RRDMA_RPC_CANCELLED. The handle stays valid.
RRDMA_RPC_C_API int rrdma_rpc_call_cancel(rrdma_rpc_call call);
// Cancels a call that is not over and frees the handle. For a call that arrived: answers it with
// RRDMA_RPC_INTERNAL if it was not answered.
RRDMA_RPC_C_API int rrdma_rpc_call_free(rrdma_rpc_call call);

// ---- streams, of both ends ----

// Reads one item: RRDMA_RPC_EVENT_ITEM or RRDMA_RPC_EVENT_END. One read at a time.
RRDMA_RPC_C_API int rrdma_rpc_read(rrdma_rpc_call call, uint64_t tag);
// Writes one item: RRDMA_RPC_EVENT_WRITTEN when it is on its way, which requires that the peer has room. One
// write at a time.
RRDMA_RPC_C_API int rrdma_rpc_write(rrdma_rpc_call call, const rrdma_rpc_payload* item, uint64_t tag);
// Ends the caller's stream of arguments. Results may still arrive.
RRDMA_RPC_C_API int rrdma_rpc_writes_done(rrdma_rpc_call call);

// ---- servers ----

typedef struct rrdma_rpc_server_options {
  size_t struct_size;
  const char* secret;   // that clients must know; null: none
  size_t max_argument;  // bytes of the largest argument or item; 0: 64 MiB
  uint32_t max_calls;   // concurrent calls of one connection; 0: 1,024
  // Interval after which a silent client is probed. One that does not answer for this long again, at least a
  // second, is gone. 0 or less: 2,000; it cannot be switched off.
  int keep_alive_ms;
  int no_reflection;    // 1: without rrdma.Health, rrdma.Reflection and rrdma.Metrics
  uint32_t encryption;  // rrdma_rpc_encryption; needs a secret
} rrdma_rpc_server_options;

// `options` may be null.
RRDMA_RPC_C_API int rrdma_rpc_server_open(rrdma_rpc_context context, const rrdma_rpc_server_options* options,
                                          rrdma_rpc_server* server);
// Adds a method. Its calls arrive as RRDMA_RPC_EVENT_CALL with this tag. Each must be answered once, by
// rrdma_rpc_reply() or rrdma_rpc_call_free().
RRDMA_RPC_C_API int rrdma_rpc_server_add(rrdma_rpc_server server, const rrdma_rpc_method* method,
                                         uint64_t tag);
// Sets the description that rrdma.Reflection returns: a serialized google.protobuf.FileDescriptorSet.
RRDMA_RPC_C_API int rrdma_rpc_server_describe(rrdma_rpc_server server, const char* service,
                                              const void* descriptors, size_t size);
// Listens on "host:port", ":port" or port 0. `port` gets the port; it may be null.
RRDMA_RPC_C_API int rrdma_rpc_server_listen(rrdma_rpc_server server, const char* address, uint16_t* port);
// Accepts nothing new, waits for the calls in flight, and closes: RRDMA_RPC_EVENT_DONE. After timeout_ns the
// rest is aborted; 0 waits without limit.
RRDMA_RPC_C_API int rrdma_rpc_server_drain(rrdma_rpc_server server, int64_t timeout_ns, uint64_t tag);
// Ends everything at once.
RRDMA_RPC_C_API int rrdma_rpc_server_close(rrdma_rpc_server server);

// The end of a call that arrived.
typedef struct rrdma_rpc_outcome {
  size_t struct_size;
  int32_t code;         // rrdma_rpc_code
  const char* message;  // null: none
  const void* details;
  size_t details_size;
  const rrdma_rpc_pair* trailers;
  size_t trailer_count;
} rrdma_rpc_outcome;

// Answers a call that arrived and frees its handle. `result` is for the code RRDMA_RPC_OK of methods with one
// result; null: empty. `outcome` may be null: RRDMA_RPC_OK.
RRDMA_RPC_C_API int rrdma_rpc_reply(rrdma_rpc_call call, const rrdma_rpc_payload* result,
                                    const rrdma_rpc_outcome* outcome);

#ifdef __cplusplus
}
#endif

#endif
