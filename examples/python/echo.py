# A server and a client with asyncio. Run it without arguments: both ends are in one process. With "serve [address]" or
# "call ADDRESS TEXT" it is one of them.
import asyncio
import sys

import rrdma


def add_methods(server):
    @server.method("Echo", "echo")
    async def echo(call, argument):
        return argument  # the received memory becomes the result

    @server.method("Echo", "count", "server_stream", argument=str)
    async def count(call, upto):
        for number in range(int(upto)):
            await call.write(str(number))


async def serve(context, address):
    server = rrdma.Server(context)
    add_methods(server)
    port = server.listen(address)
    print(f"listening on {context.address}:{port}", flush=True)
    return server, port


async def call(context, address, text):
    channel = rrdma.Channel(context, address)
    print(await channel.unary("Echo", "echo", text, result=str, timeout=10))
    async with await channel.server_stream("Echo", "count", "3", result=str, timeout=10) as numbers:
        async for number in numbers:
            print(number)
        await numbers.finish()


async def main(words):
    async with rrdma.Context() as context:
        if words[:1] == ["call"]:
            await call(context, *words[1:])
            return
        server, port = await serve(context, words[1] if words[1:] else ":0")
        if words[:1] == ["serve"]:
            await asyncio.Event().wait()
        await call(context, f"{context.address}:{port}", "hello")
        await server.drain()


asyncio.run(main(sys.argv[1:]))
