"""Programs that tests and benchmarks start: copies of the products that any user can read (the checkout may not be
readable to others), the running processes of a program, its listening ports, and its termination by pid."""

import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

_LISTENING = {"tcp": "0A", "udp": "07"}


def readable_copy(prefix, sources):
    """Creates a folder with copies of files ({path in it: source}) that every user can read and run."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    for name, source in sources.items():
        place = folder / name
        place.parent.mkdir(exist_ok=True)
        place.parent.chmod(0o755)
        shutil.copy(source, place)
        place.chmod(0o755)
    return folder


def writable_folder(path):
    """Creates a folder that every user may write to."""
    path = Path(path)
    path.mkdir()
    path.chmod(0o777)
    return path


@functools.cache
def ucx_perftest():
    """The words of ucx_perftest without MPI. Built with MPI (Debian 13), it otherwise expects both ends from mpirun."""
    told = subprocess.run(["ucx_perftest", "-h"], capture_output=True, text=True, check=False)
    return ["ucx_perftest", *(["-P", "0"] if "-P <0|1>" in told.stdout + told.stderr else [])]


def state_of(pid):
    """The state letter of /proc/PID/stat; None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def pids_of(executable):
    """The processes that run this very file, not others of the same name."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "exe").split(" ")[0] == str(executable):
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if state_of(pid) != "Z"]


def children_of(parent):
    """The pids of its children."""
    children = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            after_name = (folder / "stat").read_text().rsplit(")", 1)[1]
        except OSError:
            continue
        if int(after_name.split()[1]) == parent:
            children.add(int(folder.name))
    return children


def end_all_of(executable, seconds=3):
    """Sends SIGTERM to the processes of this file, and SIGKILL to those left after that time."""
    for sign, wait in ((signal.SIGTERM, seconds), (signal.SIGKILL, 1)):
        for pid in pids_of(executable):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                pass
        end = time.monotonic() + wait
        while pids_of(executable) and time.monotonic() < end:
            time.sleep(0.05)


def end_group(process):
    """Kills a program that was started in its own session, with any children that it left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def listening_ports(protocol="tcp"):
    ports = set()
    for table in (f"/proc/net/{protocol}", f"/proc/net/{protocol}6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == _LISTENING[protocol]:
                ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports
