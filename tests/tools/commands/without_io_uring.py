# Runs a command in a sandbox that refuses io_uring, as the seccomp profile of containers does: without_io_uring.py
# COMMAND...
import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE_EPERM = 0x7FFF0000, 0x00050001
IO_URING_SETUP = 425  # the same number on every architecture


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


instructions = b"".join(struct.pack("HBBI", *step) for step in (
    (LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 1, IO_URING_SETUP), (RETURN, 0, 0, REFUSE_EPERM), (RETURN, 0, 0, ALLOW)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
        libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(4, instructions)), 0, 0) != 0:
    sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
