"""GPU memory without a GPU: gpu_exchange between two processes, with a stub libcuda.so.1 whose memory kills a CPU that
touches it. As an unprivileged user in a network namespace with only lo.

  gpu_test.py --rrdma FILE --daemon FILE --library FILE --program FILE --stub FILE --link udp|ring|shm
"""
import argparse
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../interop/programs"))
from arena import Arena, enter_namespace, skip  # noqa: E402

LINKS = {"udp": ("udp", {}), "ring": ("shm", {"RRDMA_DIRECT": "0"}), "shm": ("shm", {})}
PLACES = [("device", "device"), ("host", "device"), ("device", "host"), ("heap", "created"), ("created", "device"), ("managed", "async")]


def main():
    parser = argparse.ArgumentParser()
    for name in ("rrdma", "daemon", "library", "program", "stub"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--link", choices=LINKS, required=True)
    options = parser.parse_args()
    for tool in ("ip", "unshare"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    enter_namespace()
    products = {"rrdma": options.rrdma, "rrdmad": options.daemon, "librrdma.so.1": options.library,
                "exchange": options.program, "libcuda.so.1": options.stub}
    link, environment = LINKS[options.link]
    failed = []
    with Arena(products) as arena:
        program = os.path.join(arena.folder, "bin", "exchange")
        base = {**environment, "LD_LIBRARY_PATH": ":".join(filter(None, (os.path.join(arena.folder, "lib"), os.environ.get("LD_LIBRARY_PATH"))))}

        def run(what, words, wanted, extra=None, wanted_status=0, options=()):
            status, text = arena.run([program, *words], link=link, extra={**base, **(extra or {})}, timeout=100, options=options)
            good = status is not None and wanted_status in (status, None) and re.search(wanted, text)
            print(f"{what}: exit status {status}{'' if good else ', wrong'}", flush=True)
            if not good:
                print("\n".join(text.splitlines()[-20:]))
                failed.append(what)

        for near, far in PLACES:
            direct = options.link == "shm" and {near, far} & {"device", "created"}
            run(f"{near} and {far}", [f"--near={near}", f"--far={far}"], f"every byte right, {'[1-9][0-9]*' if direct else '0'} copies")
        if options.link == "udp":
            run("1 % loss", ["--rounds=2"], "every byte right", {"RRDMA_FAULT": "drop=1%"})
        if options.link == "shm":
            gate = os.path.join(arena.work, "gate")
            run("copies behind a kernel", [f"--gate={gate}"], "other requests went on", {"STUB_CUDA_GATE": gate, "RRDMA_LANES": "1"})
        for side in ("near", "far"):
            run(f"death of the {side} process", [f"--die={side}"], "survived after", wanted_status=None if side == "near" else 0)
            run(f"exit of the {side} process", [f"--exit={side}"], "survived after")
        # In a child, LeakSanitizer does not find what the other threads of the parent refer to.
        run("forks", ["--fork"], "forks did no harm", {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"})
        # Captured requests go as packets. Those whose payload came from the device are marked.
        trace = os.path.join(arena.work, "trace.pcapng")
        run("a capture", [], "every byte right, 0 copies", options=["--pcap", trace])
        with open(trace, "rb") as file:
            marks = file.read().count(b"payload from device memory")
        print(f"packets with a mark: {marks}")
        if marks == 0:
            failed.append("marks in a capture")
    sys.exit("failed: " + ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
