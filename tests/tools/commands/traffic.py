# A pair of programs that communicate through RRDMA as long as a test needs them.
import signal
import subprocess

import servers
from command import RRDMA


class PingPong:
    """ibv_rc_pingpong against itself; the pair ends with the `with` block."""

    def __init__(self, *run_options, iterations=100_000_000, port=18600, gid=1, words=(), both=True):
        program = ["--", "ibv_rc_pingpong", "-g", str(gid), "-n", str(iterations), "-p", str(port), *words]
        self.commands = [RRDMA, "run", *run_options, *program]
        self.client_commands = [RRDMA, "run", *(run_options if both else ()), *program, "localhost"]

    def __enter__(self):
        before = servers.open_ports()
        self.server = subprocess.Popen(self.commands, stdout=subprocess.DEVNULL)
        servers.await_server(self.server, before, self.commands)
        self.client = subprocess.Popen(self.client_commands, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        # Stop both first: a program that sees the other one die would print an error.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in (self.client, self.server):
                process.send_signal(number)
        for process in (self.client, self.server):
            process.wait()

    def pids(self):
        return {self.server.pid, self.client.pid}
