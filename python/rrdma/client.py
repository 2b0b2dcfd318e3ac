"""Channel and its calls: the client side, in asyncio."""
import ctypes
import math

from . import _native
from .buffers import decoded, send
from .status import check


class Channel:
    """Calls to a service with one or several addresses. Connects on demand, and again after a loss.

    addresses: "host:port", or a list of them. pick: "first", "round_robin" or "least_loaded". secret: shared
    with the server. encryption: "other_hosts", "never" or "always"; it needs a secret. keep_alive: seconds after which a silent server
    is probed; one that does not answer for this long again, at least a second, is gone. 0 means 2; it cannot be switched off. result
    in the calls: the form of results and items: a protobuf class, a NumPy dtype, str, bytes or a function of a Buffer; by default a
    Buffer.
    """

    def __init__(self, context, addresses, *, pick="first", tries=0, wait_for_ready=False, connect_timeout=0, secret=None, encryption="other_hosts", max_result=0, keep_alive=0):
        self.context = context
        addresses = [addresses] if isinstance(addresses, str) else list(addresses)
        array = (ctypes.c_char_p * len(addresses))(*(address.encode() for address in addresses))
        options = _native.ChannelOptions(
            addresses=array,
            address_count=len(addresses),
            pick=_native.PICKS[pick],
            tries=tries,
            wait_for_ready=wait_for_ready,
            connect_timeout_ms=int(connect_timeout * 1000),
            keep_alive_ms=math.ceil(keep_alive * 1000),
            secret=secret.encode() if secret else None,
            max_result=max_result,
            encryption=_native.ENCRYPTIONS[encryption],
        )
        handle = ctypes.c_uint64()
        check(_native.LIBRARY.rrdma_rpc_channel_open(context._handle, ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value

    def close(self):
        """Calls in flight continue. The connection ends with the last of them."""
        if self._handle:
            _native.LIBRARY.rrdma_rpc_channel_close(self._handle)
            self._handle = 0

    async def unary(self, service, method, argument=None, *, result=None, timeout=None, metadata=None, idempotent=False, trailers=None):
        """One argument, one result. trailers: a list that gets the metadata of the answer."""
        call = self._begin(_native.UNARY, service, method, argument, timeout, metadata, idempotent)
        try:
            event = await call._opened
        finally:
            call._free()
        if trailers is not None:
            trailers.extend(event.metadata)
        event.check()
        return decoded(event.payload, result)

    async def server_stream(self, service, method, argument=None, *, result=None, timeout=None, metadata=None):
        """One argument, a stream of results: a Call to read."""
        return await self._open(_native.SERVER_STREAM, service, method, argument, result, timeout, metadata)

    async def client_stream(self, service, method, *, result=None, timeout=None, metadata=None):
        """A stream of arguments, one result: a Call to write and finish."""
        return await self._open(_native.CLIENT_STREAM, service, method, None, result, timeout, metadata)

    async def bidirectional(self, service, method, *, result=None, timeout=None, metadata=None):
        """Two streams: a Call to read and write."""
        return await self._open(_native.BIDIRECTIONAL, service, method, None, result, timeout, metadata)

    async def _open(self, shape, service, method, argument, result, timeout, metadata):
        call = self._begin(shape, service, method, argument, timeout, metadata, False)
        call._result = result
        try:
            (await call._opened).check()
        except BaseException:
            call._free()
            raise
        return call

    def _begin(self, shape, service, method, argument, timeout, metadata, idempotent):
        described = _native.Method(service=service.encode(), name=method.encode(), shape=shape, idempotent=idempotent)
        pairs, count, kept = _native.pairs_of(metadata)
        # A deadline that has passed is a deadline too.
        timeout_ns = 0 if timeout is None else max(int(timeout * 1e9), 1)
        options = _native.CallOptions(timeout_ns=timeout_ns, metadata=pairs, metadata_count=count)
        call = Call(self.context, shape)
        handle = ctypes.c_uint64()
        future = self.context._loop.create_future()
        tag = self.context._expect(lambda event: future.done() or future.set_result(event))

        def start(payload):
            takes = shape in (_native.UNARY, _native.SERVER_STREAM)
            return _native.LIBRARY.rrdma_rpc_call_start(
                self._handle, ctypes.byref(described), ctypes.byref(payload) if takes else None, ctypes.byref(options), tag, ctypes.byref(handle)
            )

        try:
            send(self.context, argument, start)
        except BaseException:
            self.context._expected.pop(tag, None)
            raise
        del kept
        call._handle, call._opened = handle.value, future
        return call


class Stream:
    """The streams of a call, which both ends use alike. One read and one write at a time."""

    def __init__(self, context, handle=0):
        self.context = context
        self._handle = handle
        self._result = None

    async def read(self):
        """The next item, or None at the end of the stream. Raises RpcError if the call has failed."""
        event = await self.context._start(lambda tag: _native.LIBRARY.rrdma_rpc_read(self._handle, tag))
        if event.kind == _native.ITEM:
            return decoded(event.payload, self._result)
        event.check()
        return None

    def __aiter__(self):
        return self

    async def __anext__(self):
        item = await self.read()
        if item is None:
            raise StopAsyncIteration
        return item

    async def write(self, item):
        """Completes when the item is on its way, which requires that the peer has room for it."""
        future = self.context._loop.create_future()
        tag = self.context._expect(lambda event: future.done() or future.set_result(event))
        try:
            send(self.context, item, lambda payload: _native.LIBRARY.rrdma_rpc_write(self._handle, ctypes.byref(payload), tag))
        except BaseException:
            self.context._expected.pop(tag, None)
            raise
        (await future).check()


class Call(Stream):
    """A call with streams. Leaving its `async with` block, or losing the last reference to it, cancels it if it is not over."""

    def __init__(self, context, shape):
        super().__init__(context)
        self._shape = shape
        self._opened = None
        self.trailers = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self._free()

    def done_writing(self):
        """Ends the stream of arguments. Results may still arrive."""
        check(_native.LIBRARY.rrdma_rpc_writes_done(self._handle))

    async def finish(self):
        """Ends the stream of arguments and awaits the outcome. Returns the result of a client stream."""
        try:
            event = await self.context._start(lambda tag: _native.LIBRARY.rrdma_rpc_call_finish(self._handle, tag))
        finally:
            self._free()
        self.trailers = event.metadata
        event.check()
        return decoded(event.payload, self._result) if self._shape == _native.CLIENT_STREAM else None

    def cancel(self):
        """Reads and writes of the call, also those in flight, end with CANCELLED."""
        if self._handle:
            _native.LIBRARY.rrdma_rpc_call_cancel(self._handle)

    def _free(self):
        handle, self._handle = self._handle, 0
        if handle:
            _native.LIBRARY.rrdma_rpc_call_free(handle)

    def __del__(self):
        self._free()


