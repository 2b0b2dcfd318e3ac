"""Server: answers calls with coroutines, in asyncio."""
import asyncio
import ctypes
import logging
import math

from . import _native
from .buffers import decoded, encoded, send
from .client import Stream
from .status import Code, RpcError, check

_SHAPES = {
    "unary": _native.UNARY,
    "server_stream": _native.SERVER_STREAM,
    "client_stream": _native.CLIENT_STREAM,
    "bidirectional": _native.BIDIRECTIONAL,
}


class ServedCall(Stream):
    """A call that arrived. Its handler reads and writes the streams. Cancelling the call cancels the handler's task."""

    def __init__(self, context, event, argument):
        super().__init__(context, event.handle)
        self._result = argument
        self.metadata = event.metadata
        self.peer = event.peer
        self.timeout = event.timeout  # seconds that were left when it arrived; None: no deadline
        self.trailers = []


class Server:
    """Answers calls. A handler is a coroutine function:

    unary: async def f(call, argument) -> result           client_stream: async def f(call) -> result
    server_stream: async def f(call, argument)             bidirectional: async def f(call)

    Arguments are Buffers, unless `argument` names another form. Results are bytes, strings, protobuf messages, NumPy arrays
    or other objects with the buffer protocol. keep_alive: seconds after which a silent client is probed; one that
    does not answer for this long again, at least a second, is gone. 0 means 2; it cannot be switched off.
    """

    def __init__(self, context, *, secret=None, encryption="other_hosts", max_argument=0, max_calls=0, reflection=True, keep_alive=0):
        self.context = context
        options = _native.ServerOptions(
            secret=secret.encode() if secret else None, max_argument=max_argument, max_calls=max_calls, no_reflection=not reflection,
            encryption=_native.ENCRYPTIONS[encryption], keep_alive_ms=math.ceil(keep_alive * 1000),
        )
        handle = ctypes.c_uint64()
        check(_native.LIBRARY.rrdma_rpc_server_open(context._handle, ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value
        self._tasks = {}  # by the handle of the call
        context._closing.add(self)

    def method(self, service, name, shape="unary", *, argument=None):
        """A decorator that adds a handler."""

        def added(handler):
            self.add(service, name, handler, shape, argument=argument)
            return handler

        return added

    def add(self, service, name, handler, shape="unary", *, argument=None):
        described = _native.Method(service=service.encode(), name=name.encode(), shape=_SHAPES[shape])

        def arrived(event):
            if event.kind == _native.CALL:
                task = self.context._loop.create_task(self._run(handler, shape, argument, event))
                self._tasks[event.handle] = task
                task.add_done_callback(lambda _: self._tasks.pop(event.handle, None))
            elif event.handle in self._tasks:
                self._tasks[event.handle].cancel()

        check(_native.LIBRARY.rrdma_rpc_server_add(self._handle, ctypes.byref(described), self.context._listen(arrived)))

    def add_service(self, descriptor, service):
        """Adds the methods of a protobuf service: its descriptor, and an object with a coroutine function for each method."""
        for method in descriptor.methods:
            self.add(descriptor.full_name, method.name, getattr(service, method.name), shape_of(method), argument=class_of(method.input_type))
        files = serialized_files(descriptor.file)
        check(_native.LIBRARY.rrdma_rpc_server_describe(self._handle, descriptor.full_name.encode(), files, len(files)))

    def listen(self, address=":0"):
        """Listens on "host:port", ":port" or port 0. Returns the port."""
        port = ctypes.c_uint16()
        check(_native.LIBRARY.rrdma_rpc_server_listen(self._handle, address.encode(), ctypes.byref(port)))
        return port.value

    async def drain(self, timeout=None):
        """Accepts nothing new and waits for the calls in flight. Aborts the rest after the timeout."""
        limit = 0 if timeout is None else max(int(timeout * 1e9), 1)
        event = await self.context._start(lambda tag: _native.LIBRARY.rrdma_rpc_server_drain(self._handle, limit, tag))
        event.check()

    def close(self):
        """Ends everything at once."""
        handle, self._handle = self._handle, 0
        if handle:
            _native.LIBRARY.rrdma_rpc_server_close(handle)
        self._context_closes()

    def _context_closes(self):
        for task in list(self._tasks.values()):
            task.cancel()

    async def _run(self, handler, shape, argument, event):
        call = ServedCall(self.context, event, argument)
        try:
            if shape in ("unary", "server_stream"):
                result = await handler(call, decoded(event.payload, argument))
            else:
                result = await handler(call)
            if shape in ("server_stream", "bidirectional"):
                result = None
            self._reply(call, encoded(result), Code.OK)
        except RpcError as error:
            call.trailers.extend(error.trailers)
            self._reply(call, None, error.code, error.message, error.details)
        except asyncio.CancelledError:
            self._reply(call, None, Code.CANCELLED)
            raise
        except Exception:
            # The text may hold anything, so the caller does not get it.
            logging.getLogger("rrdma").exception("a handler raised an exception")
            self._reply(call, None, Code.UNKNOWN, "the handler raised an exception")

    def _reply(self, call, result, code, message="", details=b""):
        if not self.context._handle:
            return
        pairs, count, kept = _native.pairs_of(call.trailers)
        outcome = _native.Outcome(
            code=code, message=message.encode(), details=details, details_size=len(details), trailers=pairs, trailer_count=count
        )
        handle, call._handle = call._handle, 0

        def reply(payload):
            return _native.LIBRARY.rrdma_rpc_reply(handle, ctypes.byref(payload), ctypes.byref(outcome))

        try:
            send(self.context, result, reply)
        except (BufferError, TypeError, ValueError):
            logging.getLogger("rrdma").exception("a handler returned what cannot be sent")
            outcome.code, outcome.message = Code.INTERNAL, b"the result cannot be sent"
            reply(_native.Payload())
        del kept


def shape_of(method):
    """The shape of a method of a protobuf service."""
    if method.client_streaming:
        return "bidirectional" if method.server_streaming else "client_stream"
    return "server_stream" if method.server_streaming else "unary"


def class_of(message):
    """The Python class of a protobuf message."""
    return message._concrete_class


def serialized_files(file):
    """A google.protobuf.FileDescriptorSet with the file and its imports."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    seen = set()

    def add(one):
        if one.name in seen:
            return
        seen.add(one.name)
        for imported in one.dependencies:
            add(imported)
        one.CopyToProto(files.file.add())

    add(file)
    return files.SerializeToString()
