"""Stub: the methods of a protobuf service as coroutine functions of an object."""
from .server import class_of, shape_of


class Stub:
    """A client of a protobuf service: Stub(channel, store_pb2.DESCRIPTOR.services_by_name["Store"]).

    Each method of the service is a coroutine function with the name in the .proto file. Unary: f(message). Results as a stream:
    f(message), a Call. Arguments as a stream: f(), a Call. Keyword arguments are those of Channel.
    """

    def __init__(self, channel, descriptor):
        for method in descriptor.methods:
            setattr(self, method.name, _caller(channel, descriptor.full_name, method))


def _caller(channel, service, method):
    result = class_of(method.output_type)
    call = getattr(channel, shape_of(method))

    if method.client_streaming:

        async def begin(**options):
            return await call(service, method.name, result=result, **options)

        return begin

    async def begin_with(message, **options):
        return await call(service, method.name, message, result=result, **options)

    return begin_with
