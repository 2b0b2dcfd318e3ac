"""RRDMA's answers to the questions of the probe, beside those that rxe gave in a guest (rxe-VERSION.txt; `make interop` asks
rxe again). A difference without a row in docs/conformance.md, or a row without a difference, is a failure.

  answers_test.py --rrdma FILE --daemon FILE --library FILE --probe FILE verbs|routes|router
"""
import argparse
import os
import re
import shutil
import socket
import subprocess
import time
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "interop/programs"))
import comparing  # noqa: E402
from arena import Arena, enter_namespace, namespaces, skip  # noqa: E402

OUR4, PEER4, OUR6, PEER6 = "10.77.0.2", "10.77.0.1", "fd77::2", "fd77::1"


def ip(*words):
    subprocess.run(["ip", *words], check=True, timeout=20)


def no_duplicate_detection(interface):
    Path(f"/proc/sys/net/ipv6/conf/{interface}/accept_dad").write_text("0")


def plug_in_peer():
    """eth0 here, its other end in a namespace that answers for the peer's addresses."""
    peer = namespaces.NetworkNamespace()
    ip("link", "add", "eth0", "mtu", "4500", "type", "veth", "peer", "name", "far", "mtu", "4500", "netns", str(peer.pid))
    no_duplicate_detection("eth0")
    peer.configure("sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/far/accept_dad")
    peer.ip("addr", "add", f"{PEER4}/24", "dev", "far")
    peer.ip("addr", "add", f"{PEER6}/64", "dev", "far", "nodad")
    peer.ip("link", "set", "far", "up")
    ip("addr", "add", f"{OUR4}/24", "dev", "eth0")
    ip("addr", "add", f"{OUR6}/64", "dev", "eth0", "nodad")
    ip("link", "set", "eth0", "up")
    return peer


def ask(arena, command, *options):
    status, text = arena.run(command, timeout=150, options=("--netdev", "eth0", "--only", *options))
    if status != 0:
        sys.exit(f"{command}: exit status {status}\n{text}")
    return comparing.parse(text)


def compare(ours, is_asked):
    theirs = {kernel: {question: answer for question, answer in comparing.recorded(kernel).items() if is_asked(question)}
              for kernel in comparing.KERNELS}
    text = comparing.DOCUMENT.read_text()
    # The rows of the other case are its own.
    others = "\n".join(line for line in text.splitlines() if not (found := re.match(r"\| `([^`]+)` \|", line)) or is_asked(found.group(1)))
    print("\n".join(comparing.table(ours, theirs)))
    found = comparing.troubles(ours, theirs, others)
    if found:
        sys.exit("\n".join(found))


def ask_verbs(arena, probe):
    plug_in_peer()
    compare(ask(arena, [probe, "rrdma0"]), lambda question: not question.startswith("route."))


def ask_routes(arena, probe):
    plug_in_peer()
    script = str(HERE / "routes.sh")
    subprocess.run(["sh", script, "set-up"], check=True, timeout=60)
    shutil.copy(script, arena.folder)
    compare(ask(arena, ["sh", os.path.join(arena.folder, "routes.sh"), "ask", probe], "--devices", "2"),
            lambda question: question.startswith("route."))


def start_in(arena, place, command):
    """A program under `rrdma run` in another network namespace."""
    who = ["setpriv", f"--reuid={namespaces.NOBODY}", f"--regid={namespaces.NOBODY}", "--clear-groups", "--"] if namespaces.is_real_root() else []
    process = subprocess.Popen([*who, os.path.join(arena.folder, "bin", "rrdma"), "run", "--netdev", "eth0", "--", *command],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               env={"PATH": os.environ["PATH"], "HOME": arena.work, "TMPDIR": arena.work}, cwd=arena.work,
                               start_new_session=True, preexec_fn=place.enter)
    arena.started.append(process)
    return process


def await_host(address):
    """Until the host answers: a new link forwards nothing before its link-local addresses are known to be unique."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for _ in range(100):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.2)
            try:
                probe.connect((address, 9))
                probe.send(b"?")
                probe.recv(1)
            except ConnectionRefusedError:
                return
            except OSError:
                time.sleep(0.05)
    raise AssertionError(f"{address} does not answer")


def cross_router(arena, _):
    """ibv_rc_pingpong sets a hop limit of 1 and must reach a peer behind a router, with IPv4 and IPv6."""
    router, far = namespaces.NetworkNamespace(), namespaces.NetworkNamespace()
    ip("link", "add", "eth0", "type", "veth", "peer", "name", "near", "netns", str(router.pid))
    router.ip("link", "add", "away", "type", "veth", "peer", "name", "eth0", "netns", str(far.pid))
    router.configure("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
    ends = ((ip, "eth0", "10.1.0.2", "fd01::2"), (router.ip, "near", "10.1.0.1", "fd01::1"),
            (router.ip, "away", "10.2.0.1", "fd02::1"), (far.ip, "eth0", "10.2.0.2", "fd02::2"))
    for configure, interface, address4, address6 in ends:
        configure("addr", "add", f"{address4}/24", "dev", interface)
        configure("addr", "add", f"{address6}/64", "dev", interface, "nodad")
        configure("link", "set", interface, "up")
    for configure, gateway in ((ip, 1), (far.ip, 2)):
        configure("route", "add", "default", "via", f"10.{gateway}.0.1")
        configure("-6", "route", "add", "default", "via", f"fd0{gateway}::1")
    await_host("10.2.0.2")
    await_host("fd02::2")
    for address in ("::ffff:10.1.0.2", "fd01::2"):
        status, text = arena.run(["ibv_devinfo", "-v", "-d", "rrdma0"], options=("--netdev", "eth0"))
        index = re.search(rf"GID\[\s*(\d+)\]:\s*{re.escape(address)}, RoCE v2", text)
        assert index, text
        ping = ["ibv_rc_pingpong", "-d", "rrdma0", "-g", index.group(1), "-n", "20"]
        server = start_in(arena, far, ping)
        far.configure("sh", "-c", "for i in $(seq 100); do grep -q :4853 /proc/net/tcp /proc/net/tcp6 && exit; sleep 0.1; done; exit 1")
        status, text = arena.run([*ping, "10.2.0.2"], timeout=40, options=("--netdev", "eth0"))
        assert status == 0 and "20 iters" in text, f"{address}: exit status {status}\n{text}\n{arena.finish(server, 2)[1]}"
        arena.finish(server, 10)


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library", "probe"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("case", choices=("verbs", "routes", "router"))
    options = parser.parse_args()
    for tool in ("ip", "unshare"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    enter_namespace()
    products = {"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library, "probe": options.probe}
    with Arena(products) as arena:
        case = {"verbs": ask_verbs, "routes": ask_routes, "router": cross_router}[options.case]
        case(arena, os.path.join(arena.folder, "bin", "probe"))
    print("ok")


if __name__ == "__main__":
    main()
