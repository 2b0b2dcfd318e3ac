"""Existing programs (ibverbs-utils, perftest), as pairs of server and client."""

import pathlib

from surroundings import wait_until

PORT = 18515


def listens(host, port):
    """Says whether any process in the host's network namespace listens on the TCP port."""
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{host.pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def run_pair(words, server_host, client_host=None, address="127.0.0.1", seconds=60, **options):
    """Runs both sides, which must exit with 0. Returns (server, client)."""
    server = server_host.start(*words, **options)
    if not wait_until(lambda: listens(server_host, PORT) or server.process.poll() is not None, 20):
        server.complain("does not listen")
    client = (client_host or server_host).start(*words, address, **options)
    client.succeed(seconds)
    server.succeed(20)
    return server, client


def last_figures(program):
    """Returns the last line that holds numbers: the measurement of such a program."""
    lines = [line.strip() for line in program.output().splitlines() if any(c.isdigit() for c in line)]
    return " ".join(lines[-1].split()) if lines else ""
