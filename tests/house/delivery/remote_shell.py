#!/usr/bin/env python3
"""A remote shell for mpirun between containers that have no ssh: `remote_shell.py serve` runs what other containers of the
test ask for, `remote_shell.py HOST COMMAND...` asks. It trusts everybody who can reach it: for the network of a test alone."""

import socket
import subprocess
import sys

PORT = 2222


def serve():
    listener = socket.create_server(("", PORT))
    while True:
        connection = listener.accept()[0]
        command = connection.makefile().readline()
        subprocess.Popen(["/bin/sh", "-c", f'{command.strip()} 2>&1; echo "status $?"'], stdin=subprocess.DEVNULL, stdout=connection, stderr=connection)
        connection.close()


def ask(host, *words):
    with socket.create_connection((host, PORT), timeout=30) as connection:
        connection.settimeout(None)
        connection.sendall((" ".join(words) + "\n").encode())
        lines = connection.makefile().read().splitlines()
    print("\n".join(lines[:-1]))
    return int(lines[-1].removeprefix("status ")) if lines else 255


sys.exit(serve() if sys.argv[1:] == ["serve"] else ask(*sys.argv[1:]))
