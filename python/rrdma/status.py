"""The outcome of a call. The codes and their numbers are those of gRPC."""
import enum

from . import _native


class Code(enum.IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(Exception):
    """A call that failed. A handler raises it to set the status that its caller gets."""

    def __init__(self, code, message="", details=b"", trailers=()):
        super().__init__(f"{Code(code).name}: {message}" if message else Code(code).name)
        self.code = Code(code)
        self.message = message
        self.details = details
        self.trailers = list(trailers)


def check(code):
    """Raises RpcError if a function of the C interface failed."""
    if code:
        raise RpcError(code, (_native.LIBRARY.rrdma_rpc_last_error() or b"").decode(errors="replace"))
