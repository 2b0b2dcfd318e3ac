#!/usr/bin/env python3
"""Writes invalid commands into the rdma_cm file. Each must return the kernel's errno, and the file must keep
working. Runs inside `rrdma run`; an assertion fails if an answer differs."""

import ctypes
import errno
import os
import random
import stat
import struct

CREATE_ID, DESTROY_ID, CONNECT, GET_EVENT, GET_OPTION = 0, 1, 6, 12, 13
RDMA_PS_IPOIB, RDMA_PS_TCP = 0x0002, 0x0106
ROOM = ctypes.create_string_buffer(1024)
ANSWER = ctypes.addressof(ROOM)
CHANNEL = os.open("/dev/infiniband/rdma_cm", os.O_RDWR | os.O_NONBLOCK)


def command(number, body=b"", room=0, size=None):
    return struct.pack("<IHH", number, len(body) if size is None else size, room) + body


def outcome(octets):
    """Returns the number of bytes accepted, or the name of the errno."""
    try:
        return os.write(CHANNEL, octets)
    except OSError as error:
        return errno.errorcode[error.errno]


def create(port_space=RDMA_PS_TCP, answer=ANSWER, room=4):
    return command(CREATE_ID, struct.pack("<QQHB5x", 7, answer, port_space, 2), room)


def destroy(number):
    return command(DESTROY_ID, struct.pack("<QII", ANSWER, number, 0), 4)


def expect(octets, wanted):
    got = outcome(octets)
    assert got == wanted, f"{octets[:16]!r}: {got}, not {wanted}"


def main():
    assert stat.S_ISCHR(os.fstat(CHANNEL).st_mode)
    expect(b"abc", "EINVAL")
    expect(command(99), "EINVAL")
    expect(command(CREATE_ID, size=100), "EINVAL")
    expect(command(CREATE_ID, bytes(2000)), "EINVAL")
    expect(command(CREATE_ID, bytes(8), 4), "EINVAL")
    expect(create(room=2), "ENOSPC")
    expect(create(answer=8), "EFAULT")
    expect(create(port_space=9), "EINVAL")
    expect(create(port_space=RDMA_PS_IPOIB), "EPROTONOSUPPORT")
    expect(create(), len(create()))
    number = struct.unpack_from("<I", ROOM)[0]
    expect(command(GET_EVENT, struct.pack("<Q", ANSWER), 336), "EAGAIN")
    expect(command(GET_OPTION), "ENOSYS")
    expect(destroy(555), "ENOENT")
    expect(command(CONNECT, bytes(264) + struct.pack("<II", number, 0) + bytes(8)), "EINVAL")
    chance = random.Random(7)
    for kind in set(range(23)) - {GET_EVENT}:
        for _ in range(50):
            got = outcome(command(kind, chance.randbytes(300), 300))
            assert got in ("EINVAL", "ENOENT", "ENOSYS"), f"command {kind}: {got}"
    expect(destroy(number), len(destroy(number)))
    expect(destroy(number), "ENOENT")
    os.close(CHANNEL)
    print("every answer right")


if __name__ == "__main__":
    main()
