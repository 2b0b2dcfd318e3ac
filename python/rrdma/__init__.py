"""Calls and streams over RDMA: rrdma::rpc for asyncio. See docs/python.md."""
from .buffers import Buffer
from .client import Call, Channel, Stream
from .context import Context
from .server import ServedCall, Server
from .status import Code, RpcError
from .stub import Stub

__all__ = ["Buffer", "Call", "Channel", "Code", "Context", "RpcError", "ServedCall", "Server", "Stream", "Stub"]
__version__ = "0.2.0"
