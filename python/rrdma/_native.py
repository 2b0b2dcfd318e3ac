"""The C interface of rrdma::rpc (rrdma/rpc/c.h) through ctypes.

Owns the structures, the prototypes and the search for the library. The environment variable RRDMA_RPC_LIBRARY names
another library.
"""
import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p

ABI = 1

UNARY, SERVER_STREAM, CLIENT_STREAM, BIDIRECTIONAL = range(4)
PICKS = {"first": 0, "round_robin": 1, "least_loaded": 2}
ENCRYPTIONS = {"other_hosts": 0, "never": 1, "always": 2}
DONE, OPENED, ITEM, END, WRITTEN, CALL, CANCELLED, RELEASED = range(1, 9)


class Versioned(ctypes.Structure):
    """A structure that begins with its size."""

    def __init__(self, **values):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **values)


class ContextOptions(Versioned):
    _fields_ = [
        ("struct_size", c_size_t),
        ("device", c_char_p),
        ("background_thread", c_int),
        ("no_software_device", c_int),
        ("memory_limit", c_size_t),
    ]


class Pair(ctypes.Structure):
    # The values are bytes of any kind, so they are not c_char_p.
    _fields_ = [("name", c_void_p), ("name_size", c_size_t), ("value", c_void_p), ("value_size", c_size_t)]


class Event(ctypes.Structure):
    _fields_ = [
        ("kind", c_uint32),
        ("code", c_int32),
        ("tag", c_uint64),
        ("handle", c_uint64),
        ("buffer", c_uint64),
        ("data", c_void_p),
        ("size", c_size_t),
        ("message", c_char_p),
        ("details", c_void_p),
        ("details_size", c_size_t),
        ("metadata", POINTER(Pair)),
        ("metadata_count", c_size_t),
        ("peer", c_char_p),
        ("timeout_ns", c_int64),
        ("owner", c_void_p),
    ]


class Payload(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t), ("buffer", c_uint64)]


class Method(Versioned):
    _fields_ = [
        ("struct_size", c_size_t),
        ("service", c_char_p),
        ("name", c_char_p),
        ("shape", c_uint32),
        ("schema", c_uint32),
        ("idempotent", c_int),
    ]


class ChannelOptions(Versioned):
    _fields_ = [
        ("struct_size", c_size_t),
        ("addresses", POINTER(c_char_p)),
        ("address_count", c_size_t),
        ("pick", c_uint32),
        ("tries", c_uint32),
        ("wait_for_ready", c_int),
        ("connect_timeout_ms", c_int),
        ("keep_alive_ms", c_int),
        ("secret", c_char_p),
        ("max_result", c_size_t),
        ("encryption", c_uint32),
    ]


class CallOptions(Versioned):
    _fields_ = [
        ("struct_size", c_size_t),
        ("timeout_ns", c_int64),
        ("metadata", POINTER(Pair)),
        ("metadata_count", c_size_t),
    ]


class ServerOptions(Versioned):
    _fields_ = [
        ("struct_size", c_size_t),
        ("secret", c_char_p),
        ("max_argument", c_size_t),
        ("max_calls", c_uint32),
        ("keep_alive_ms", c_int),
        ("no_reflection", c_int),
        ("encryption", c_uint32),
    ]


class Outcome(Versioned):
    _fields_ = [
        ("struct_size", c_size_t),
        ("code", c_int32),
        ("message", c_char_p),
        ("details", c_char_p),
        ("details_size", c_size_t),
        ("trailers", POINTER(Pair)),
        ("trailer_count", c_size_t),
    ]


PROTOTYPES = {
    "arm": [c_uint64, POINTER(c_int)],
    "buffer_free": [c_uint64],
    "buffer_memory": [c_uint64, POINTER(c_void_p), POINTER(c_size_t)],
    "buffer_take": [c_uint64, c_size_t, POINTER(c_uint64)],
    "buffer_wrap": [c_uint64, c_void_p, c_size_t, c_uint64, POINTER(c_uint64)],
    "call_cancel": [c_uint64],
    "call_finish": [c_uint64, c_uint64],
    "call_free": [c_uint64],
    "call_start": [c_uint64, POINTER(Method), POINTER(Payload), POINTER(CallOptions), c_uint64, POINTER(c_uint64)],
    "channel_close": [c_uint64],
    "channel_open": [c_uint64, POINTER(ChannelOptions), POINTER(c_uint64)],
    "context_address": [c_uint64, POINTER(c_char_p)],
    "context_close": [c_uint64],
    "context_device": [c_uint64, POINTER(c_char_p)],
    "context_open": [POINTER(ContextOptions), POINTER(c_uint64)],
    "fd": [c_uint64, POINTER(c_int)],
    "next": [c_uint64, POINTER(Event), c_size_t, c_size_t, c_int, POINTER(c_size_t)],
    "read": [c_uint64, c_uint64],
    "reply": [c_uint64, POINTER(Payload), POINTER(Outcome)],
    "server_add": [c_uint64, POINTER(Method), c_uint64],
    "server_close": [c_uint64],
    "server_describe": [c_uint64, c_char_p, c_char_p, c_size_t],
    "server_drain": [c_uint64, c_int64, c_uint64],
    "server_listen": [c_uint64, c_char_p, POINTER(c_uint16)],
    "server_open": [c_uint64, POINTER(ServerOptions), POINTER(c_uint64)],
    "write": [c_uint64, POINTER(Payload), c_uint64],
    "writes_done": [c_uint64],
}


def load():
    name = os.environ.get("RRDMA_RPC_LIBRARY", "librrdma-rpc.so.0")
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"{error}: install librrdma-rpc0, or set RRDMA_RPC_LIBRARY to the library's path") from None
    library.rrdma_rpc_abi.restype = c_uint32
    if library.rrdma_rpc_abi() != ABI:
        raise ImportError(f"{name} has version {library.rrdma_rpc_abi()} of the C interface, this package needs {ABI}")
    library.rrdma_rpc_last_error.restype = c_char_p
    library.rrdma_rpc_event_clear.argtypes = [POINTER(Event)]
    library.rrdma_rpc_event_clear.restype = None
    for suffix, arguments in PROTOTYPES.items():
        function = getattr(library, "rrdma_rpc_" + suffix)
        function.argtypes = arguments
        function.restype = c_int
    return library


LIBRARY = load()


def pairs_of(metadata):
    """An array of pairs, and the bytes that it points to, which the caller keeps meanwhile."""
    if not metadata:
        return None, 0, None
    items = metadata.items() if hasattr(metadata, "items") else metadata
    kept = [(_bytes_of(name), _bytes_of(value)) for name, value in items]
    array = (Pair * len(kept))()
    for place, (name, value) in zip(array, kept):
        place.name, place.name_size = ctypes.cast(c_char_p(name), c_void_p), len(name)
        place.value, place.value_size = ctypes.cast(c_char_p(value), c_void_p), len(value)
    return array, len(kept), kept


def _bytes_of(text):
    return text.encode() if isinstance(text, str) else bytes(text)
