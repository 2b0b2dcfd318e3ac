# Tests the Python package over one link, with the library's thread and driven by asyncio. Run by links.py. Arguments: the
# source folder, the folder of the C++ examples, protoc.
import asyncio
import gc
import importlib
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, EXAMPLES, PROTOC = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
sys.path.insert(0, str(SOURCE / "python"))

import numpy  # noqa: E402

import rrdma  # noqa: E402


def add_methods(server):
    @server.method("T", "echo")
    async def echo(call, argument):
        call.trailers.extend(call.metadata)
        return argument

    @server.method("T", "fail")
    async def fail(call, argument):
        raise rrdma.RpcError(rrdma.Code.NOT_FOUND, "no such key", b"\1\0")

    @server.method("T", "broken")
    async def broken(call, argument):
        raise ValueError("a secret")

    @server.method("T", "slow")
    async def slow(call, argument):
        slow.arrived.set()
        try:
            await asyncio.sleep(60)
        finally:
            slow.ended.set()

    slow.arrived, slow.ended = asyncio.Event(), asyncio.Event()
    server.slow = slow

    @server.method("T", "count", "server_stream", argument=int_of)
    async def count(call, upto):
        for number in range(upto):
            await call.write(number.to_bytes(4, "little"))

    @server.method("T", "sum", "client_stream", argument=numpy.uint8)
    async def add(call):
        total = 0
        async for item in call:
            total += int(item.sum(dtype=numpy.uint64))
        return str(total)

    @server.method("T", "upper", "bidirectional", argument=str)
    async def upper(call):
        async for word in call:
            await call.write(word.upper())


def int_of(buffer):
    return int.from_bytes(bytes(buffer), "little")


class Calls(unittest.IsolatedAsyncioTestCase):
    background_thread = True

    async def asyncSetUp(self):
        self.context = rrdma.Context(background_thread=self.background_thread)
        self.server = rrdma.Server(self.context, keep_alive=1.5)
        add_methods(self.server)
        self.channel = rrdma.Channel(self.context, f"{self.context.address}:{self.server.listen()}", keep_alive=1.5)

    async def asyncTearDown(self):
        self.context.close()

    async def test_unary_with_metadata(self):
        trailers = []
        said = await self.channel.unary("T", "echo", "hello", result=str, metadata={"color": "blue", "raw": b"\0\xff"}, trailers=trailers)
        self.assertEqual(said, "hello")
        self.assertEqual(trailers, [("color", b"blue"), ("raw", b"\0\xff")])
        self.assertEqual(bytes(await self.channel.unary("T", "echo")), b"")

    async def test_encryption(self):
        server = rrdma.Server(self.context, secret="open sesame", encryption="always")
        add_methods(server)
        address = f"{self.context.address}:{server.listen()}"
        for encryption in ("always", "other_hosts"):
            channel = rrdma.Channel(self.context, address, secret="open sesame", encryption=encryption)
            self.assertEqual(await channel.unary("T", "echo", "hello", result=str), "hello")
        plain = rrdma.Channel(self.context, address, secret="open sesame", encryption="never")
        with self.assertRaises(rrdma.RpcError) as caught:
            await plain.unary("T", "echo", "hello", result=str, timeout=5)
        self.assertIn("this server encrypts", caught.exception.message)

    async def test_many_at_once(self):
        said = await asyncio.gather(*(self.channel.unary("T", "echo", str(i), result=str) for i in range(300)))
        self.assertEqual(said, [str(i) for i in range(300)])

    async def test_failures(self):
        with self.assertRaises(rrdma.RpcError) as caught:
            await self.channel.unary("T", "fail", b"x")
        self.assertEqual((caught.exception.code, caught.exception.message, caught.exception.details), (rrdma.Code.NOT_FOUND, "no such key", b"\1\0"))
        with self.assertLogs("rrdma"), self.assertRaises(rrdma.RpcError) as caught:
            await self.channel.unary("T", "broken", b"x")
        self.assertEqual(caught.exception.code, rrdma.Code.UNKNOWN)
        self.assertNotIn("secret", str(caught.exception))
        with self.assertRaises(rrdma.RpcError) as caught:
            await self.channel.unary("T", "none", b"x")
        self.assertEqual(caught.exception.code, rrdma.Code.UNIMPLEMENTED)

    async def test_deadline(self):
        with self.assertRaises(rrdma.RpcError) as caught:
            await self.channel.unary("T", "slow", timeout=0.2)
        self.assertEqual(caught.exception.code, rrdma.Code.DEADLINE_EXCEEDED)
        await asyncio.wait_for(self.server.slow.ended.wait(), 10)

    async def test_cancel(self):
        task = asyncio.create_task(self.channel.unary("T", "slow"))
        await asyncio.wait_for(self.server.slow.arrived.wait(), 10)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(self.server.slow.ended.wait(), 10)

    async def test_server_stream(self):
        async with await self.channel.server_stream("T", "count", (1000).to_bytes(4, "little"), result=int_of) as numbers:
            self.assertEqual([number async for number in numbers], list(range(1000)))
            await numbers.finish()

    async def test_client_stream(self):
        call = await self.channel.client_stream("T", "sum", result=str)
        large = numpy.full(3 << 20, 2, dtype=numpy.uint8)
        for item in (b"\1\2", large, large[: 1 << 10]):
            await call.write(item)
        self.assertEqual(await call.finish(), str(3 + (6 << 20) + (2 << 10)))

    async def test_bidirectional(self):
        async with await self.channel.bidirectional("T", "upper", result=str) as call:
            for word in ("one", "two"):
                await call.write(word)
                self.assertEqual(await call.read(), word.upper())
            call.done_writing()
            self.assertIsNone(await call.read())
            await call.finish()

    async def test_cancelled_stream(self):
        call = await self.channel.bidirectional("T", "upper", result=str)
        call.cancel()
        with self.assertRaises(rrdma.RpcError) as caught:
            await call.read()
        self.assertEqual(caught.exception.code, rrdma.Code.CANCELLED)

    async def test_arrays_without_a_copy(self):
        sent = numpy.arange(1 << 20, dtype=numpy.float32)
        sent.flags.writeable = False
        got = await self.channel.unary("T", "echo", sent, result=numpy.float32)
        numpy.testing.assert_array_equal(got, sent)
        # The array lies in the memory that the call received, and keeps it.
        self.assertFalse(got.flags.owndata)
        base = got
        while isinstance(base, numpy.ndarray):
            base = base.base
        self.assertIsInstance(base, rrdma.Buffer)
        gc.collect()
        self.assertEqual(got[12345], 12345)
        with self.assertRaises((BufferError, ValueError)):
            await self.channel.unary("T", "echo", sent.reshape(1024, 1024)[:, ::2])

    async def test_memory_stays_until_it_is_released(self):
        sent = bytearray(1 << 20)
        task = asyncio.create_task(self.channel.unary("T", "slow", sent))
        await asyncio.wait_for(self.server.slow.arrived.wait(), 10)
        with self.assertRaises(BufferError):
            sent.append(0)  # its memory would move
        task.cancel()
        await asyncio.wait_for(self.server.slow.ended.wait(), 10)
        for _ in range(1000):
            try:
                sent.append(0)
                break
            except BufferError:
                await asyncio.sleep(0.01)
        else:
            self.fail("the memory was never released")

    async def test_registered_memory(self):
        buffer = self.context.take(1 << 20)
        buffer.array(numpy.uint64)[:] = 7
        got = await self.channel.unary("T", "echo", buffer, result=numpy.uint64)
        self.assertEqual(int(got.sum()), 7 << 17)
        self.assertEqual(len(buffer), 0)
        with self.assertRaises(ValueError):
            await self.channel.unary("T", "echo", buffer)
        self.assertEqual(bytes(self.context.take(3).view()[:0]), b"")

    async def test_drain(self):
        await self.channel.unary("T", "echo", b"x")
        await self.server.drain(timeout=10)
        with self.assertRaises(rrdma.RpcError) as caught:
            await self.channel.unary("T", "echo", b"x")
        self.assertEqual(caught.exception.code, rrdma.Code.UNAVAILABLE)

    async def test_close_with_calls_in_flight(self):
        task = asyncio.create_task(self.channel.unary("T", "slow"))
        await asyncio.wait_for(self.server.slow.arrived.wait(), 10)
        self.context.close()
        with self.assertRaises(rrdma.RpcError) as caught:
            await task
        self.assertEqual(caught.exception.code, rrdma.Code.CANCELLED)


class CallsOfTheEventLoop(Calls):
    background_thread = False


class KeepAlive(unittest.IsolatedAsyncioTestCase):
    """A stopped process is gone after 0.2 seconds of silence and one without an answer. By default it takes four."""

    async def test_of_a_channel(self):
        server = await asyncio.create_subprocess_exec(EXAMPLES / "key_value", "serve", ":7082", stdout=asyncio.subprocess.PIPE)
        try:
            await asyncio.wait_for(server.stdout.readline(), 20)
            async with rrdma.Context() as context:
                channel = rrdma.Channel(context, f"{context.address}:7082", wait_for_ready=True, keep_alive=0.2)
                with self.assertRaises(rrdma.RpcError):
                    await channel.unary("key_value.Store", "None")
                server.send_signal(signal.SIGSTOP)
                begin = time.monotonic()
                with self.assertRaises(rrdma.RpcError) as caught:
                    await channel.unary("key_value.Store", "None", timeout=30)
                self.assertEqual(caught.exception.code, rrdma.Code.UNAVAILABLE)
                self.assertLess(time.monotonic() - begin, 3)
        finally:
            server.kill()
            await server.wait()

    async def test_of_a_server(self):
        async with rrdma.Context() as context:
            server = rrdma.Server(context, keep_alive=0.2)
            add_methods(server)
            program = ("import asyncio, rrdma, sys\n"
                       "async def main():\n"
                       "    async with rrdma.Context() as context:\n"
                       "        await rrdma.Channel(context, sys.argv[1]).unary('T', 'slow')\n"
                       "asyncio.run(main())\n")
            client = await asyncio.create_subprocess_exec(sys.executable, "-c", program, f"{context.address}:{server.listen()}")
            try:
                await asyncio.wait_for(server.slow.arrived.wait(), 20)
                client.send_signal(signal.SIGSTOP)
                await asyncio.wait_for(server.slow.ended.wait(), 3)
            finally:
                client.kill()
                await client.wait()


class Protobuf(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="rrdma-python.")
        protos = SOURCE / "examples/rpc"
        subprocess.run([PROTOC, f"--proto_path={protos}", f"--python_out={cls.folder.name}", "key_value.proto"], check=True)
        sys.path.insert(0, cls.folder.name)
        cls.messages = importlib.import_module("key_value_pb2")
        cls.store = cls.messages.DESCRIPTOR.services_by_name["Store"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    async def use(self, stub):
        m = self.messages
        await stub.Put(m.Pair(key="a", value=b"1"), timeout=20)
        self.assertEqual((await stub.Get(m.Key(key="a"), timeout=20)).value, b"1")
        with self.assertRaises(rrdma.RpcError) as caught:
            await stub.Get(m.Key(key="z"), timeout=20)
        self.assertEqual(caught.exception.code, rrdma.Code.NOT_FOUND)
        load = await stub.Load(timeout=20)
        for key in ("b", "c"):
            await load.write(m.Pair(key=key, value=b"2"))
        self.assertEqual((await load.finish()).pairs, 2)
        async with await stub.Scan(m.Key(key="b"), timeout=20) as pairs:
            self.assertEqual([pair.key async for pair in pairs], ["b", "c"])

    async def test_python_server(self):
        m = self.messages

        class Store:
            def __init__(self):
                self.pairs = {}

            async def Put(self, call, pair):
                self.pairs[pair.key] = pair.value
                return m.Nothing()

            async def Get(self, call, key):
                if key.key not in self.pairs:
                    raise rrdma.RpcError(rrdma.Code.NOT_FOUND, "no such key")
                return m.Pair(key=key.key, value=self.pairs[key.key])

            async def Scan(self, call, key):
                for name in sorted(self.pairs):
                    if name >= key.key:
                        await call.write(m.Pair(key=name, value=self.pairs[name]))

            async def Load(self, call):
                count = 0
                async for pair in call:
                    self.pairs[pair.key] = pair.value
                    count += 1
                return m.Count(pairs=count)

            async def Ask(self, call):
                pass

            Where = Ask

        async with rrdma.Context() as context:
            server = rrdma.Server(context)
            server.add_service(self.store, Store())
            channel = rrdma.Channel(context, f"{context.address}:{server.listen()}")
            await self.use(rrdma.Stub(channel, self.store))

    async def test_server_of_another_language(self):
        server = await asyncio.create_subprocess_exec(EXAMPLES / "key_value", "serve", ":7081", stdout=asyncio.subprocess.PIPE)
        try:
            await asyncio.wait_for(server.stdout.readline(), 20)
            async with rrdma.Context() as context:
                channel = rrdma.Channel(context, f"{context.address}:7081", wait_for_ready=True)
                await self.use(rrdma.Stub(channel, self.store))
        finally:
            server.terminate()
            await server.wait()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
