"""Runs existing programs that move storage, or whole machines, over RDMA: fio's engine rdma with all its verbs, uDAPL (dapltest,
and dtest, which checks what it wrote), and the migration of a QEMU guest, whose memory must arrive. As an unprivileged user, in
a network namespace with only lo.

  storage_test.py --rrdma FILE --daemon FILE --library FILE --link shm|udp --group NAME
"""
import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import time

from arena import Arena, enter_namespace, skip

PORT = 19700
# Without an operating system: its firmware is the memory that must arrive.
GUEST = ["-M", "pc", "-accel", "tcg", "-m", "32", "-nodefaults", "-display", "none", "-no-user-config"]
PAGE = "xp /64xw 0xf0000"  # the monitor's words for a part of it
DAT_CONF = 'rrdma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "lo 0" ""\n'


def report(name, start, ends, problem=None):
    for end, (status, output) in ends.items():
        if status != 0:
            problem = problem or f"{end}: " + ("still running after the time limit" if status is None else f"exit status {status}")
    print(f"{'ok  ' if problem is None else 'FAIL'} {time.monotonic() - start:5.1f} s  {name}", flush=True)
    if problem:
        print(f"  {problem}")
        for end, (_, output) in ends.items():
            print(f"  --- {end}\n" + "\n".join("  " + line for line in output.splitlines()[-25:]))
    return problem is None


def both(arena, link, server, client, extra=None, pause=1.0):
    """Their ends, by name. These servers print nothing when they listen, and a socket of rdma_cm is not in /proc."""
    first = arena.start(server, link=link, extra=extra)
    time.sleep(pause)
    second = arena.run(client, link=link, extra=extra, timeout=60)
    return {"client": second, "server": arena.finish(first, 10 if second[0] == 0 else 2)}


def run_fio(arena, link):
    job = ["--ioengine=rdma", f"--port={PORT}", "--bs=64k", "--size=16m", "--iodepth=16", "--name=test"]
    good = True
    for verb in ("write", "read", "send"):
        # fio asks for no RNR retries. With a receive for each message, a server that gets no processor loses none.
        receives = ["--iodepth=256"] if verb == "send" else []
        start = time.monotonic()
        ends = both(arena, link, ["fio", *job, f"--verb={verb}", "--rw=read", *receives],
                    ["fio", *job, f"--verb={verb}", "--rw=write", "--hostname=127.0.0.1", "--iodepth_batch_complete=4"])
        wanted = re.search(r"err= 0.*io=16\.0MiB", ends["client"][1], re.S)
        good &= report(f"fio --verb={verb}", start, ends, None if wanted else "client: no result")
    return good


def run_dapl(arena, link):
    place = os.path.join(arena.work, "dat.conf")
    with open(place, "w", encoding="ascii") as file:
        file.write(DAT_CONF)
    os.chmod(place, 0o644)
    extra = {"DAT_OVERRIDE": place}
    start = time.monotonic()
    ends = both(arena, link, ["dtest", "-P", "rrdma", "-b", "65536"], ["dtest", "-P", "rrdma", "-b", "65536", "-h", "127.0.0.1"], extra)
    passed = all("Test Complete. PASSED" in output for _, output in ends.values())
    good = report("dtest", start, ends, None if passed else "not passed")
    start = time.monotonic()
    server = arena.start(["dapltest", "-T", "S", "-D", "rrdma"], link=link, extra=extra)
    time.sleep(1)
    exchanges = [word for side in ("client", "server") for kind in ("SR", "RW", "RR") for word in (side, kind, "4096", "2")]
    client = arena.run(["dapltest", "-T", "T", "-D", "rrdma", "-s", "127.0.0.1", "-i", "50", "-t", "2", "-w", "2", *exchanges],
                       link=link, extra=extra, timeout=60)
    finished = "Total RDMA Read" in client[1] and "End of Work" in client[1]
    arena.run(["dapltest", "-T", "Q", "-D", "rrdma", "-s", "127.0.0.1"], link=link, extra=extra)
    return report("dapltest", start, {"client": client, "server": arena.finish(server, 10)}, None if finished else "no result") and good


def ask(path, *commands):
    """The answers of a QEMU monitor."""
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.settimeout(10)
        monitor.connect(path)
        answers = []
        for command in ("", *commands):
            if command:
                monitor.sendall(command.encode() + b"\n")
            text = ""
            while not text.endswith("(qemu) "):
                text += monitor.recv(65536).decode(errors="replace")
            answers.append(text)
        return answers[1:]


def run_migration(arena, link):
    start = time.monotonic()
    qemu = shutil.which("qemu-system-x86_64")
    paths = {name: os.path.join(arena.work, name) for name in ("from", "to")}
    machines = {}
    for name, more in (("to", ["-incoming", f"rdma:127.0.0.1:{PORT}"]), ("from", [])):
        machines[name] = arena.start([qemu, *GUEST, *more, "-monitor", f"unix:{paths[name]},server,nowait"], link=link)
        deadline = time.monotonic() + 20
        while not os.path.exists(paths[name]) and time.monotonic() < deadline:
            time.sleep(0.05)
    time.sleep(0.5)  # the firmware comes to rest
    said = "the monitor did not answer"
    try:
        _, before, _ = ask(paths["from"], "stop", PAGE, f"migrate -d rdma:127.0.0.1:{PORT}")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            (said,) = ask(paths["from"], "info migrate")
            if re.search("Migration status: (completed|failed)", said):
                break
            time.sleep(0.2)
        (after,) = ask(paths["to"], PAGE)
        words = [re.findall(r"0x[0-9a-f]{8}", text.split("\n", 1)[-1]) for text in (before, after)]
        problem = None if "status: completed" in said and words[0] == words[1] and len(set(words[0])) > 8 else f"not migrated: {said}"
    except (OSError, TimeoutError) as trouble:
        problem = f"{trouble}; {said}"
    for path in paths.values():
        try:
            with socket.socket(socket.AF_UNIX) as monitor:
                monitor.connect(path)
                monitor.sendall(b"quit\n")
                time.sleep(0.2)
        except OSError:
            pass
    return report("qemu: migrate rdma", start, {name: arena.finish(machine, 10) for name, machine in machines.items()}, problem)


GROUPS = {"fio": (run_fio, "fio"), "dapl": (run_dapl, "dapltest"), "migration": (run_migration, "qemu-system-x86_64")}


def has_rdma(tool):
    """Whether this build of the tool can do it at all."""
    if tool == "fio":
        return "rdma" in subprocess.run(["fio", "--enghelp"], capture_output=True, text=True, check=False).stdout.split()
    if tool.startswith("qemu"):
        return "librdmacm" in subprocess.run(["ldd", shutil.which(tool)], capture_output=True, text=True, check=False).stdout
    return True


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--link", choices=("auto", "shm", "udp"), required=True)
    parser.add_argument("--group", choices=GROUPS, required=True)
    options = parser.parse_args()
    run, tool = GROUPS[options.group]
    if shutil.which(tool) is None or not has_rdma(tool):
        skip(f"{tool} is not installed, or is built without RDMA")
    enter_namespace()
    with Arena({"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library}) as arena:
        good = run(arena, options.link)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
