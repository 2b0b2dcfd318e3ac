"""Memory of calls. Buffer: registered memory that this process owns. Outgoing: a Python object as a payload.

NumPy arrays, and every other object with the buffer protocol, are sent without a copy if they are larger than 256 KiB:
the peer reads them. They must not change until the call is over. Received memory becomes an array without a copy.
"""
import ctypes

from . import _native
from .status import check

# Smaller objects are copied, because registering memory costs more.
LARGEST_COPY = 256 << 10


class Buffer:
    """Registered memory: what a call received, or Context.take(). Freed with the last reference to it or its views."""

    def __init__(self, handle, address, size):
        self._handle = handle
        self._address = address
        self.nbytes = size
        self._given = False

    def __len__(self):
        return self.nbytes

    def __bytes__(self):
        return ctypes.string_at(self._address, self.nbytes) if self.nbytes else b""

    def __eq__(self, other):
        return bytes(self) == bytes(other)

    __hash__ = None

    def view(self):
        """A memoryview of the memory, without a copy."""
        if not self.nbytes:
            return memoryview(b"")
        memory = (ctypes.c_ubyte * self.nbytes).from_address(self._address)
        memory.owner = self  # the view keeps the array, and the array keeps the memory
        return memoryview(memory).cast("B")

    @property
    def __array_interface__(self):
        # NumPy keeps this object as long as an array refers to its memory.
        return {"version": 3, "shape": (self.nbytes,), "typestr": "|u1", "data": (self._address or 1, False)}

    def array(self, dtype="u1", shape=-1):
        """A NumPy array on the memory, without a copy."""
        import numpy

        return numpy.asarray(self).view(dtype).reshape(shape)

    def _give_away(self):
        self._handle, self._address, self.nbytes, self._given = 0, None, 0, True

    def __del__(self):
        if self._handle:
            _native.LIBRARY.rrdma_rpc_buffer_free(self._handle)


class _PyBuffer(ctypes.Structure):
    """Py_buffer of Python's C interface: it gives the address of read-only memory too."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_PyObject_GetBuffer = ctypes.pythonapi.PyObject_GetBuffer
_PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_PyObject_GetBuffer.restype = ctypes.c_int
_PyBuffer_Release = ctypes.pythonapi.PyBuffer_Release
_PyBuffer_Release.argtypes = [ctypes.POINTER(_PyBuffer)]
_PyBuffer_Release.restype = None


class _Pinned:
    """The memory of an object with the buffer protocol. It cannot move or shrink until release()."""

    def __init__(self, value):
        self._buffer = _PyBuffer()
        # Raises BufferError or ValueError if the memory is not contiguous.
        _PyObject_GetBuffer(value, ctypes.byref(self._buffer), 0)
        self.address, self.size = self._buffer.buf, self._buffer.len

    def release(self):
        _PyBuffer_Release(ctypes.byref(self._buffer))


def encoded(value):
    """The bytes of a value: a protobuf message, a string, None, or an object with the buffer protocol."""
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode()
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString()
    return value


def decoded(buffer, kind):
    """A Buffer as the caller asked for it: a protobuf class, a NumPy dtype, bytes, str, or any function."""
    if kind is None:
        return buffer
    if hasattr(kind, "FromString"):
        return kind.FromString(bytes(buffer))
    if kind is str:
        return bytes(buffer).decode()
    if kind is bytes:
        return bytes(buffer)
    if getattr(kind, "__module__", "").split(".")[0] == "numpy":
        return buffer.array(kind)
    return kind(buffer)


def send(context, value, function):
    """Calls function(payload) with a value as payload."""
    value = encoded(value)
    payload = _native.Payload()
    if isinstance(value, Buffer):
        if value._given:
            raise ValueError("the buffer was already sent")
        payload.buffer = value._handle
        check(function(payload))
        value._give_away()
        return
    pinned = _Pinned(value)
    if pinned.size <= LARGEST_COPY:
        try:
            payload.data, payload.size = pinned.address, pinned.size
            check(function(payload))
        finally:
            pinned.release()
        return
    tag = context._expect(lambda event: pinned.release())
    wrapped = ctypes.c_uint64()
    check(_native.LIBRARY.rrdma_rpc_buffer_wrap(context._handle, pinned.address, pinned.size, tag, ctypes.byref(wrapped)))
    payload.buffer = wrapped.value
    code = function(payload)
    if code:
        try:
            check(code)
        finally:
            _native.LIBRARY.rrdma_rpc_buffer_free(wrapped.value)
