"""Attacks on `rrdma lab` as root: another user makes a lab of its own in the place of root's. A process that joins a lab
runs programs in its namespaces, with files of its mounts. Arguments: the command. Needs root of the machine."""

import contextlib
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import time
import traceback
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "harness"))
import namespaces  # noqa: E402

CLONE_NEWUTS = 0x04000000
MS_REC_PRIVATE = 0x4000 | 1 << 18
LAB = "/mnt/rrdma-lab"


def make_lab():
    """Namespaces of the caller's with the files of a lab, whose one host is called evil. The first process of the lab; it ends with the caller."""
    reader, writer = os.pipe()
    uid = os.geteuid()
    maker = os.fork()
    if maker != 0:
        os.close(writer)
        first = struct.unpack("i", os.read(reader, 4))[0]
        os.close(reader)
        return first
    namespaces.call("prctl", namespaces.PR_SET_PDEATHSIG, 9)
    namespaces.call("unshare", namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS | namespaces.CLONE_NEWPID | namespaces.CLONE_NEWNET | CLONE_NEWUTS)
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"0 {uid} 1")
    namespaces.call("mount", None, b"/", None, MS_REC_PRIVATE, None)
    namespaces.call("mount", b"evil", b"/mnt", b"tmpfs", 0, None)
    os.mkdir(LAB)
    for name, text in (("topology", "node evil 1\n"), ("holders", "1 "), ("links", "kernel"), ("cuts", "")):
        pathlib.Path(LAB, name).write_text(text)
    up, said_up = os.pipe()
    first = os.fork()
    if first == 0:
        namespaces.call("prctl", namespaces.PR_SET_PDEATHSIG, 9)
        namespaces.call("mount", b"proc", b"/proc", b"proc", 0, None)
        os.write(said_up, b"1")
        time.sleep(600)
        os._exit(0)
    os.read(up, 1)
    os.write(writer, struct.pack("i", first))
    os.waitpid(first, 0)
    os._exit(0)


def answer_at(address, first):
    """Says that number to everybody that connects."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    if address[0] != "\0":
        os.chmod(address, 0o777)
    listener.listen(8)
    while True:
        caller, _ = listener.accept()
        with caller, contextlib.suppress(OSError):  # a caller that has looked who answers is gone
            caller.send(struct.pack("i", first))
            time.sleep(0.2)


def become_nobody():
    os.setgroups([])
    os.setgid(namespaces.NOBODY)
    os.setuid(namespaces.NOBODY)
    namespaces.call("prctl", 4, 1)  # PR_SET_DUMPABLE: an attacker shows its namespaces


@contextlib.contextmanager
def attacker(prepare, addresses):
    """Another user with a lab, that answers at those addresses."""
    pids = []
    for address in addresses:
        pid = os.fork()
        if pid == 0:
            try:
                namespaces.call("prctl", namespaces.PR_SET_PDEATHSIG, 9)
                prepare()
                become_nobody()
                answer_at(address, make_lab())
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        pids.append(pid)
    time.sleep(2.5)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


class LabAttack(unittest.TestCase):
    def show(self):
        done = subprocess.run([sys.argv[1], "lab", "show"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def refuses(self):
        status, said = self.show()
        self.assertNotIn("evil", said, "root has entered another user's lab")
        self.assertEqual(status, 2, said)
        self.assertIn("this user has no lab", said)

    def test_a_squatted_name(self):
        with attacker(lambda: None, ["\0rrdma-lab-0"]):
            self.refuses()

    def test_a_squatted_folder(self):
        """Both the folder's owner and that of the socket are another user; nor is a right folder with a wrong socket believed."""
        path = f"/tmp/rrdma-0/lab-{'-'.join(str(os.stat(f'/proc/self/ns/{kind}').st_ino) for kind in ('net', 'pid', 'user'))}.sock"
        for owner in (namespaces.NOBODY, 0):
            def prepare(owner=owner):
                os.mkdir("/tmp/rrdma-0", 0o777)
                os.chmod("/tmp/rrdma-0", 0o777)
                os.chown("/tmp/rrdma-0", owner, owner)
            with attacker(prepare, [path]):
                if owner == 0:
                    os.chmod("/tmp/rrdma-0", 0o700)
                self.assertTrue(os.path.exists(path))
                self.refuses()
            shutil.rmtree("/tmp/rrdma-0")

    def test_files_of_a_lab_that_are_none(self):
        """A medium of another user's at /mnt does not put root into a lab."""
        os.makedirs(LAB)
        for name, text in (("topology", "node evil 1\n"), ("holders", "1 "), ("links", "kernel"), ("cuts", "")):
            pathlib.Path(LAB, name).write_text(text)
        for place in (LAB, *(os.path.join(LAB, name) for name in os.listdir(LAB))):
            os.chown(place, namespaces.NOBODY, namespaces.NOBODY)
        self.refuses()
        shutil.rmtree(LAB)


if __name__ == "__main__":
    if not namespaces.is_real_root():
        print("needs root of the machine")
        sys.exit(namespaces.SKIPPED)
    if not namespaces.enter("net", "mount"):
        sys.exit(namespaces.SKIPPED)
    program = pathlib.Path(sys.argv[1]).read_bytes()
    for folder in ("/tmp", "/run", "/mnt"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "test", folder], check=True)
    copy = pathlib.Path("/tmp/rrdma")
    copy.write_bytes(program)
    copy.chmod(0o755)
    sys.argv[1] = str(copy)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
