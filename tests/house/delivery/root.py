"""A bare Debian root for the tests of the release: made by mmdebstrap, used as a random user, with everything read-only
but /tmp and /dev/shm, and under a seccomp filter that forbids what Docker's default profile forbids."""

import ctypes
import os
import pathlib
import platform
import shutil
import struct
import subprocess
import sys

PROGRAMS = "ibverbs-utils,rdmacm-utils,perftest,ucx-utils"
# Numbers of x86-64 and arm64: (name, x86-64, arm64). Docker's default profile refuses these without a capability.
FORBIDDEN = (("mount", 165, 40), ("umount2", 166, 39), ("pivot_root", 155, 41), ("unshare", 272, 97), ("setns", 308, 268), ("bpf", 321, 280),
             ("perf_event_open", 298, 241), ("keyctl", 250, 219), ("add_key", 248, 217), ("request_key", 249, 218), ("userfaultfd", 323, 282),
             ("io_uring_setup", 425, 425), ("io_uring_enter", 426, 426), ("io_uring_register", 427, 427), ("kcmp", 312, 272),
             ("process_vm_readv", 310, 270), ("process_vm_writev", 311, 271), ("open_by_handle_at", 304, 265), ("init_module", 175, 105),
             ("swapon", 167, 224), ("reboot", 169, 142), ("settimeofday", 164, 170), ("quotactl", 179, 60), ("personality", 135, 92))
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def seccomp_filter():
    """Refuses the forbidden calls with EPERM, for the calling process and all that it starts: returns the function."""
    load, jump, answer = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    numbers = [row[1 if platform.machine() == "x86_64" else 2] for row in FORBIDDEN]
    program = [(load, 0, 0, 4), (jump, 1, 0, AUDIT_ARCH[platform.machine()]), (answer, 0, 0, 0x7FFF0000), (load, 0, 0, 0)]
    for at, number in enumerate(numbers):
        program.append((jump, len(numbers) - at, 0, number))
    program += [(answer, 0, 0, 0x7FFF0000), (answer, 0, 0, 0x00050000 | 1)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)

    def apply():
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(head), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no seccomp filter")
    apply.code = code  # the head points to it
    return apply


class Root:
    """A root with the release unpacked in /opt/rrdma. Raises RuntimeError with the reason if none can be made."""

    def __init__(self, suite, archive, folder):
        self.path = pathlib.Path(folder, suite)
        ready = pathlib.Path(os.environ.get("RRDMA_ROOTS", "/nonexistent"), f"{suite}.tar")
        if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
            raise RuntimeError("needs root and mmdebstrap")
        if ready.exists():
            self.path.mkdir()
            made = subprocess.run(["tar", "-x", "-f", ready, "-C", self.path, "--exclude=./dev/*"], capture_output=True, text=True)
        else:
            made = subprocess.run(["mmdebstrap", "--variant=apt", f"--include={PROGRAMS}", suite, self.path], capture_output=True, text=True)
        if made.returncode != 0:
            raise RuntimeError("no root: " + (made.stderr.strip().splitlines() or ["?"])[-1])
        (self.path / "opt/rrdma").mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-x", "-J", "-f", archive, "-C", self.path / "opt/rrdma", "--strip-components=1"], check=True)

    def start(self, script, user=None, network=None, **environment):
        """Starts a shell script in the root; see enter(). `network` is a process whose network namespace it joins; by default
        it has one of its own, with loopback alone."""
        user = user or 1_000_000_000 + os.getpid()  # OpenShift gives numbers like this
        words = ["nsenter", "--net", f"--target={network}", "--"] if network else ["unshare", "--net", "--"]
        words += ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--propagation=private",
                  sys.executable, "-B", __file__, str(self.path), str(user), script, *(f"{name}={value}" for name, value in environment.items())]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
                                env={"PATH": "/opt/rrdma/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "TMPDIR": "/tmp", "LC_ALL": "C.UTF-8"})

    def run(self, script, seconds=60, **more):
        """The status and the output of a shell script."""
        child = self.start(script, **more)
        try:
            output = child.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            return 124, child.communicate()[0] + f"\nno end after {seconds} s"
        return child.returncode, output


def enter(root, user, script, *environment):
    """Becomes the shell in the root: a user without name, capabilities and writable files but /tmp and /dev/shm. REQUIRES:
    root, in mount and PID namespaces of its own."""
    def mount(*words):
        subprocess.run(["mount", *words], check=True, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    mount("--bind", root, root)
    mount("-t", "proc", "proc", f"{root}/proc")
    mount("-t", "sysfs", "-o", "ro", "sysfs", f"{root}/sys")
    for folder in ("dev", "tmp"):
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", f"{root}/{folder}")
    os.mkdir(f"{root}/dev/shm")
    os.chmod(f"{root}/dev/shm", 0o1777)
    for device in ("null", "zero", "urandom", "random"):
        pathlib.Path(f"{root}/dev/{device}").touch()
        mount("--bind", f"/dev/{device}", f"{root}/dev/{device}")
    mount("-o", "remount,bind,ro", root)
    forbid = seccomp_filter()
    os.chroot(root)
    os.chdir("/")
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    forbid()
    os.execve("/bin/sh", ["sh", "-c", script], os.environ | dict(value.split("=", 1) for value in environment))


if __name__ == "__main__":
    enter(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
