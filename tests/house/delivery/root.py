"""A bare Debian root for the tests of the release, and containers in it, without a container engine. A container is a
script that runs as a random user without capabilities, in mount and PID namespaces of its own, with everything read-only
but /tmp and /dev/shm, and under a seccomp filter that refuses what Docker's default profile refuses. A pod is what several
containers share: the network, IPC and host name, and for a rootless pod the user namespace."""

import ctypes
import os
import pathlib
import platform
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

PROGRAMS = "ibverbs-utils,rdmacm-utils,perftest,ucx-utils,openmpi-bin,python3-mpi4py"
OPENSHIFT_UID = 1_000_650_000  # numbers like this have no name
# Numbers of x86-64 and arm64, None if the architecture has no such call. Docker's default profile refuses them with EPERM
# to a container without capabilities. It permits process_vm_readv, process_vm_writev and ptrace on newer kernels; older
# engines do not.
FORBIDDEN = (
    ("_sysctl", 156, None), ("acct", 163, 89), ("add_key", 248, 217), ("bpf", 321, 280), ("chroot", 161, 51), ("clock_adjtime", 305, 266),
    ("clock_settime", 227, 112), ("create_module", 174, None), ("delete_module", 176, 106), ("fanotify_init", 300, 262), ("finit_module", 313, 273),
    ("fsconfig", 431, 431), ("fsmount", 432, 432), ("fsopen", 430, 430), ("fspick", 433, 433), ("get_mempolicy", 239, 236), ("init_module", 175, 105),
    ("io_uring_enter", 426, 426), ("io_uring_register", 427, 427), ("io_uring_setup", 425, 425), ("ioperm", 173, None), ("iopl", 172, None),
    ("kcmp", 312, 272), ("kexec_file_load", 320, 294), ("kexec_load", 246, 104), ("keyctl", 250, 219), ("lookup_dcookie", 212, 18),
    ("mbind", 237, 235), ("migrate_pages", 256, 238), ("mount", 165, 40), ("mount_setattr", 442, 442), ("move_mount", 429, 429),
    ("move_pages", 279, 239), ("open_by_handle_at", 304, 265), ("open_tree", 428, 428), ("perf_event_open", 298, 241), ("personality", 135, 92),
    ("pidfd_getfd", 438, 438), ("pivot_root", 155, 41), ("process_vm_readv", 310, 270), ("process_vm_writev", 311, 271), ("ptrace", 101, 117),
    ("quotactl", 179, 60), ("quotactl_fd", 443, 443), ("reboot", 169, 142), ("request_key", 249, 218), ("set_mempolicy", 238, 237),
    ("setdomainname", 171, 162), ("sethostname", 170, 161), ("setns", 308, 268), ("settimeofday", 164, 170), ("swapoff", 168, 225),
    ("swapon", 167, 224), ("sysfs", 139, None), ("syslog", 103, 116), ("umount2", 166, 39), ("unshare", 272, 97), ("uselib", 134, None),
    ("userfaultfd", 323, 282), ("ustat", 136, None), ("vhangup", 153, 58))
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE, CLONE3, SOCKET = {"x86_64": (56, 435, 41), "aarch64": (220, 435, 198)}.get(platform.machine(), (0, 0, 0))
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW*
NEW_MOUNTS, NEW_PROCESSES = 0x20000, 0x20000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name, *words):
    """A function of the C library that fails with errno."""
    if getattr(LIBC, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def seccomp_program():
    """The filter, as struct sock_filter: refused calls answer EPERM, clone3 answers ENOSYS so that the C library uses clone."""
    load, equal, overlap, answer = 0x20, 0x15, 0x45, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_JMP|JSET|K, BPF_RET|K
    allow, refuse, unknown = 0x7FFF0000, 0x00050001, 0x00050026
    program = [(load, 0, 0, 4), (equal, 1, 0, AUDIT_ARCH[platform.machine()]), (answer, 0, 0, refuse), (load, 0, 0, 0)]
    for row in FORBIDDEN:
        number = row[1 if platform.machine() == "x86_64" else 2]
        if number is not None:
            program += [(equal, 0, 1, number), (answer, 0, 0, refuse)]
    program += [(equal, 0, 1, CLONE3), (answer, 0, 0, unknown)]
    program += [(equal, 0, 4, CLONE), (load, 0, 0, 16), (overlap, 0, 1, NEW_NAMESPACES), (answer, 0, 0, refuse), (answer, 0, 0, allow)]
    program += [(equal, 0, 4, SOCKET), (load, 0, 0, 16), (equal, 0, 1, socket.AF_VSOCK), (answer, 0, 0, refuse), (answer, 0, 0, allow)]
    program += [(answer, 0, 0, allow)]
    return b"".join(struct.pack("HBBI", *step) for step in program)


class Pod:
    """Network, IPC and UTS namespaces, held by a process that only waits. With `rootless`, they belong to a user namespace of
    their own, whose users are no users of the host."""

    def __init__(self, name="pod", rootless=False):
        self.rootless = rootless
        words = ["unshare", "--net", "--ipc", "--uts", *(["--user"] if rootless else []), "sleep", "infinity"]
        self.keeper = subprocess.Popen(words)
        while os.readlink(f"/proc/{self.pid}/ns/uts") == os.readlink("/proc/self/ns/uts") or self.keeper.poll() is not None:
            if self.keeper.poll() is not None:
                raise RuntimeError("no namespaces can be made here")
            time.sleep(0.01)
        for kind in ("uid", "gid") if rootless else ():
            pathlib.Path(f"/proc/{self.pid}/{kind}_map").write_text(f"0 {3_000_000_000} 65536\n{OPENSHIFT_UID} {3_000_065_536} 65536\n")
        self.inside(f"hostname {name}; ip link set lo up")

    @property
    def pid(self):
        return self.keeper.pid

    def inside(self, script):
        subprocess.run(["nsenter", f"--target={self.pid}", "--net", "--uts", "sh", "-ec", script], check=True)

    def end(self):
        self.keeper.kill()
        self.keeper.wait()


def connect(first, second):
    """A cable between two pods: 10.88.0.1 and 10.88.0.2. A default route, as container networks have, chooses the interface."""
    ends = [f"rr{first.pid}{end}" for end in "ab"]
    subprocess.run(["ip", "link", "add", ends[0], "netns", str(first.pid), "type", "veth", "peer", "name", ends[1], "netns", str(second.pid)], check=True)
    for number, (pod, end) in enumerate(zip((first, second), ends), 1):
        pod.inside(f"ip link set {end} name eth0; ip address add 10.88.0.{number}/24 dev eth0; ip link set eth0 up; ip route add default dev eth0")


class Root:
    """A root with the release unpacked in /opt/rrdma. Raises RuntimeError with the reason if none can be made."""

    def __init__(self, suite, archive, folder):
        self.path = pathlib.Path(folder, suite)
        os.chmod(folder, 0o755)  # users of other namespaces go through it
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
        os.chmod(self.path, 0o755)
        # Container engines write both files.
        (self.path / "etc/hosts").write_text("127.0.0.1 localhost\n10.88.0.1 first\n10.88.0.2 second\n")
        (self.path / "etc/resolv.conf").write_text("")
        (self.path / "opt/rrdma").mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-x", "-J", "-f", archive, "-C", self.path / "opt/rrdma", "--strip-components=1"], check=True)

    def start(self, script, pod, user=None, **environment):
        """Starts a shell script in a container of the pod."""
        words = [sys.executable, "-B", __file__, str(self.path), str(pod.pid), "1" if pod.rootless else "0", str(user or OPENSHIFT_UID + os.getpid() % 60000), script]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, cwd="/",
                                env={"PATH": "/opt/rrdma/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "TMPDIR": "/tmp", "LC_ALL": "C.UTF-8", **environment})

    def run(self, script, pod=None, seconds=60, **more):
        """The status and the output of a shell script. Without a pod, it has one of its own, with loopback alone."""
        own = pod or Pod()
        child = self.start(script, own, **more)
        try:
            return finish(child, seconds)
        finally:
            if pod is None:
                own.end()


def finish(child, seconds):
    """The status and the output of a container, which ends after that time at the latest."""
    try:
        output = child.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        return 124, child.communicate()[0] + f"\nno end after {seconds} s"
    return child.returncode, output


def join(pod, rootless):
    """Enters the namespaces of the pod, and becomes their root."""
    spaces = [os.open(f"/proc/{pod}/ns/{name}", os.O_RDONLY) for name in (*(["user"] if rootless else []), "net", "ipc", "uts")]
    for space in spaces:
        call("setns", space, 0)
        os.close(space)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def mount(source, target, kind, flags, options=""):
    call("mount", source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())


def arrange(root):
    """The file systems of a container: the root read-only, its own /proc, /dev, /tmp and /dev/shm."""
    mount("none", "/", "", RECURSIVE | PRIVATE)
    mount(root, root, "", BIND)
    mount("proc", f"{root}/proc", "proc", NO_SUID | NO_DEVICES | NO_EXEC)
    mount("sysfs", f"{root}/sys", "sysfs", READ_ONLY | NO_SUID | NO_DEVICES | NO_EXEC)
    for folder, mode in (("dev", "755"), ("tmp", "1777")):
        mount("tmpfs", f"{root}/{folder}", "tmpfs", NO_SUID, f"mode={mode}")
    os.mkdir(f"{root}/dev/shm")
    os.chmod(f"{root}/dev/shm", 0o1777)
    for device in ("null", "zero", "urandom", "random"):
        pathlib.Path(f"{root}/dev/{device}").touch()
        mount(f"/dev/{device}", f"{root}/dev/{device}", "", BIND)
    kept = os.statvfs(root).f_flag & (NO_SUID | NO_DEVICES | NO_EXEC)  # a user namespace may not clear them
    mount("none", root, "", REMOUNT | BIND | READ_ONLY | kept)


def restrict(user):
    """A user without name and capabilities, under the filter."""
    program = ctypes.create_string_buffer(seccomp_program())
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", (len(program) - 1) // 8, ctypes.addressof(program)))
    for capability in range(64):
        LIBC.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; fails for those that the kernel does not know
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    call("prctl", 1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: end with the test; a change of the user clears it
    call("prctl", 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    call("prctl", 22, 2, ctypes.byref(head), 0, 0)  # PR_SET_SECCOMP


def enter(root, pod, rootless, user, script):
    """Runs the shell script as the first process of a container, and exits with its status. REQUIRES: root."""
    join(int(pod), rootless == "1")
    call("unshare", NEW_MOUNTS | NEW_PROCESSES)
    child = os.fork()
    if child != 0:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
    arrange(root)
    os.chroot(root)
    os.chdir("/")
    restrict(int(user))
    os.execv("/bin/sh", ["sh", "-c", script])


if __name__ == "__main__":
    enter(*sys.argv[1:])
