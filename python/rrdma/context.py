"""Context: a device and its events in an asyncio event loop."""
import asyncio
import ctypes
import itertools
import weakref

from . import _native
from .buffers import Buffer
from .status import Code, RpcError, check


class Event:
    """What an event of the C interface said. The payload belongs to it."""

    __slots__ = ("kind", "code", "tag", "handle", "payload", "message", "details", "metadata", "peer", "timeout")

    def __init__(self, native):
        self.kind, self.code, self.tag, self.handle = native.kind, native.code, native.tag, native.handle
        self.payload = Buffer(native.buffer, native.data, native.size)
        native.buffer = 0  # the Buffer frees it
        self.message = native.message.decode(errors="replace")
        self.details = ctypes.string_at(native.details, native.details_size) if native.details_size else b""
        self.metadata = [
            (ctypes.string_at(pair.name, pair.name_size).decode(errors="replace"), ctypes.string_at(pair.value, pair.value_size))
            for pair in native.metadata[: native.metadata_count]
        ]
        self.peer = native.peer.decode(errors="replace")
        self.timeout = None if native.timeout_ns < 0 else native.timeout_ns / 1e9

    def check(self):
        if self.code:
            raise RpcError(self.code, self.message, self.details, self.metadata)


class Context:
    """A device, its memory and its events. Belongs to the event loop in which it was opened.

    device: its name; by default the first usable one, or RRDMA's own. background_thread: a thread of the library drives
    the device, so that calls proceed while Python computes. Otherwise the event loop drives it.
    """

    _BATCH = 64

    def __init__(self, *, device=None, background_thread=True, software_device=True, memory_limit=0):
        self._loop = asyncio.get_running_loop()
        self._handle = 0
        options = _native.ContextOptions(
            device=device.encode() if device else None,
            background_thread=background_thread,
            no_software_device=not software_device,
            memory_limit=memory_limit,
        )
        handle = ctypes.c_uint64()
        check(_native.LIBRARY.rrdma_rpc_context_open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value
        self._threaded = background_thread
        self._tags = itertools.count(1)
        self._expected = {}  # by tag: called once
        self._listening = {}  # by tag: called for each event
        self._events = (_native.Event * self._BATCH)()
        self._closing = weakref.WeakSet()  # servers and others with tasks of their own
        fd = ctypes.c_int()
        check(_native.LIBRARY.rrdma_rpc_fd(self._handle, ctypes.byref(fd)))
        self._fd = fd.value
        self._loop.add_reader(self._fd, self._turn)
        if not self._threaded:
            self._loop.call_soon(self._turn)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.close()

    @property
    def device(self):
        return self._text(_native.LIBRARY.rrdma_rpc_context_device)

    @property
    def address(self):
        """An address of the device, at which servers of this context can be reached."""
        return self._text(_native.LIBRARY.rrdma_rpc_context_address)

    def _text(self, function):
        text = ctypes.c_char_p()
        check(function(self._handle, ctypes.byref(text)))
        return text.value.decode()

    def take(self, size):
        """Takes registered memory, uninitialised: a Buffer."""
        handle, address = ctypes.c_uint64(), ctypes.c_void_p()
        check(_native.LIBRARY.rrdma_rpc_buffer_take(self._handle, size, ctypes.byref(handle)))
        check(_native.LIBRARY.rrdma_rpc_buffer_memory(handle, ctypes.byref(address), None))
        return Buffer(handle.value, address.value, size)

    def close(self):
        """Ends all servers, channels and calls."""
        if not self._handle:
            return
        for one in list(self._closing):
            one._context_closes()
        self._loop.remove_reader(self._fd)
        handle, self._handle = self._handle, 0
        check(_native.LIBRARY.rrdma_rpc_context_close(handle))
        closed = Event.__new__(Event)
        closed.kind, closed.code, closed.tag, closed.handle = _native.DONE, Code.CANCELLED, 0, 0
        closed.payload, closed.message, closed.details = Buffer(0, None, 0), "the context was closed", b""
        closed.metadata, closed.peer, closed.timeout = [], "", None
        expected, self._expected = self._expected, {}
        for call in expected.values():
            call(closed)

    def __del__(self):
        if self._handle:
            _native.LIBRARY.rrdma_rpc_context_close(self._handle)

    # ---- for the other modules ----

    def _expect(self, call):
        """A tag for one event."""
        tag = next(self._tags)
        self._expected[tag] = call
        return tag

    def _listen(self, call):
        """A tag for any number of events."""
        tag = next(self._tags)
        self._listening[tag] = call
        return tag

    def _start(self, function):
        """Starts an operation: function(tag). Returns a future for its event."""
        future = self._loop.create_future()
        tag = self._expect(lambda event: future.done() or future.set_result(event))
        code = function(tag)
        if code:
            del self._expected[tag]
            check(code)
        return future

    def _turn(self):
        if not self._handle:
            return
        taken = ctypes.c_size_t()
        check(_native.LIBRARY.rrdma_rpc_next(self._handle, self._events, ctypes.sizeof(_native.Event), self._BATCH, 0, ctypes.byref(taken)))
        for i in range(taken.value):
            native = self._events[i]
            event = Event(native)
            _native.LIBRARY.rrdma_rpc_event_clear(ctypes.byref(native))
            call = self._expected.pop(event.tag, None) or self._listening.get(event.tag)
            if call is not None:
                call(event)
        if not self._threaded and self._handle:
            idle = ctypes.c_int()
            check(_native.LIBRARY.rrdma_rpc_arm(self._handle, ctypes.byref(idle)))
            if not idle.value:
                self._loop.call_soon(self._turn)
