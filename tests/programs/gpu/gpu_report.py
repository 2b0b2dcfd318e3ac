"""RRDMA with a real GPU: checks and figures, in about six minutes. docs/gpu.md describes it.

  gpu_report.py --rrdma FILE --exchange FILE [--out FOLDER] [--seconds N] [--only exchange,speed,death,nccl]

--rrdma is the command of a build or an installation. --exchange is the test program gpu_exchange. NCCL is reached
through PyTorch; without PyTorch its part is left out. All ranks share one GPU: NCCL takes each for a host of its own.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LINKS = {"shm": ("shm", {}), "ring": ("shm", {"RRDMA_DIRECT": "0"}), "udp": ("udp", {})}
SIZES = "8,1000,65536,1048576,67108864,268435456"
# NCCL 2.28 fails to start with a device that has no mlx5 interface unless GIN is off.
NCCL = {"NCCL_DEBUG": "INFO", "NCCL_GIN_TYPE": "2", "NCCL_IB_HCA": "rrdma0", "NCCL_SOCKET_IFNAME": "lo"}


class Report:
    def __init__(self, options):
        self.options = options
        self.failed = []
        self.begin = time.monotonic()

    def say(self, text):
        print(f"[{time.monotonic() - self.begin:6.1f} s] {text}", flush=True)

    def rrdma(self, link, words, extra=None, timeout=60):
        """Returns (exit status, None after the timeout; output)."""
        name, environment = LINKS[link]
        line = [self.options.rrdma, "run", "--netdev", "lo", "--link", name, "--", *words]
        return self.run(line, {**environment, **(extra or {})}, timeout)

    @staticmethod
    def run(line, extra, timeout):
        process = subprocess.Popen(line, env={**os.environ, **extra}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            return None, output

    def judge(self, what, status, output):
        if status == 0:
            self.say(f"ok      {what}")
        else:
            self.failed.append(what)
            self.say(f"FAILED  {what}: exit status {status}")
            print("\n".join("    " + line for line in output.splitlines()[-15:]), flush=True)

    # ---- two processes ----

    def exchange(self):
        for link in LINKS:
            for near, far in (("device", "device"), ("host", "device"), ("managed", "async")):
                status, output = self.rrdma(link, [self.options.exchange, f"--near={near}", f"--far={far}"], timeout=60)
                self.judge(f"exchange over {link}, {near} and {far}", status, output)
        status, output = self.rrdma("udp", [self.options.exchange], {"RRDMA_FAULT": "drop=1%"}, timeout=60)
        self.judge("exchange over udp with 1 % loss", status, output)

    def speed(self):
        for link in LINKS:
            for near, far in (("device", "device"), ("host", "device"), ("device", "host")):
                status, output = self.rrdma(link, [self.options.exchange, "--speed", f"--near={near}", f"--far={far}"], timeout=60)
                self.judge(f"speed over {link}, {near} to {far}", status, output)
                print("\n".join("    " + line for line in output.splitlines() if "bytes:" in line), flush=True)

    # ---- NCCL ----

    def job(self, ranks, link, extra, sizes=SIZES, flags=(), timeout=100):
        """Runs the ranks. Returns (worst exit status, output of all, figures)."""
        folder = tempfile.mkdtemp(prefix="rrdma-nccl-")
        processes = []
        for rank in range(ranks):
            environment = {**os.environ, **NCCL, "NCCL_HOSTID": f"host{rank}", **extra}
            words = [sys.executable, os.path.join(HERE, "nccl_rank.py"), str(rank), str(ranks), os.path.join(folder, "store"),
                     os.path.join(folder, "figures"), sizes, *flags]
            if link is not None:
                name, more = LINKS[link]
                environment.update(more)
                words = [self.options.rrdma, "run", "--netdev", "lo", "--link", name, "--", *words]
            log = open(os.path.join(folder, f"log{rank}"), "w+", encoding="utf-8", errors="replace")
            processes.append((subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True), log))
        until = time.monotonic() + timeout
        worst, text = 0, ""
        for process, log in processes:
            try:
                status = process.wait(max(1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
                status = None
            worst = worst or status if status is not None else None
            log.seek(0)
            text += log.read()
        figures = {}
        if os.path.exists(os.path.join(folder, "figures")):
            with open(os.path.join(folder, "figures"), encoding="utf-8") as file:
                figures = {int(size): seconds for size, seconds in json.load(file).items()}
        if self.options.out:
            os.makedirs(self.options.out, exist_ok=True)
            with open(os.path.join(self.options.out, f"nccl-{ranks}-{link}-{extra.get('NCCL_NET_GDR_LEVEL', 'none')}.log"), "w", encoding="utf-8") as file:
                file.write(text)
        return worst, text, figures

    def nccl(self):
        try:
            import torch  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
        except ImportError:
            self.say("skipped NCCL: PyTorch is not installed")
            return
        cases = [(2, None, {"NCCL_NET": "Socket"}, "NCCL's sockets")]
        for ranks in (2, 4):
            for link in ("shm", "udp"):
                for level, name in (("LOC", "GDR off"), ("SYS", "GDR on")):
                    cases.append((ranks, link, {"NCCL_NET": "IB", "NCCL_NET_GDR_LEVEL": level}, f"{link}, {name}"))
        for ranks, link, extra, name in cases:
            what = f"NCCL, {ranks} ranks, {name}"
            left = self.options.seconds - (time.monotonic() - self.begin)
            if left < 20:
                self.say(f"left out for lack of time: {what}")
                continue
            status, text, figures = self.job(ranks, link, extra, timeout=min(100, left))
            with_gdr = bool(re.search(r"GDR 1|/GDRDMA", text))
            if status == 0 and link is not None and with_gdr != (extra["NCCL_NET_GDR_LEVEL"] == "SYS"):
                self.failed.append(what + ": GDR")
                self.say(f"FAILED  {what}: NCCL {'used' if with_gdr else 'did not use'} GDR")
            self.judge(what, status, text)
            for line in sorted(set(re.findall(r"GPU Direct RDMA.*|NET/IB/.*GDRDMA|.*DMA-BUF is.*", text)))[:4]:
                print("    " + line, flush=True)
            for octets, seconds in figures.items():
                print(f"    all_reduce {octets:>10} bytes: {seconds * 1e6:10.1f} us  {octets / seconds * 1e-9:7.2f} GB/s", flush=True)

    def death(self):
        for side in ("near", "far"):
            status, output = self.rrdma("shm", [self.options.exchange, f"--die={side}"], timeout=40)
            self.judge(f"death of the {side} process", 0 if "survived after" in output else status or "?", output)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rrdma", required=True)
    parser.add_argument("--exchange", required=True)
    parser.add_argument("--out", default="")
    parser.add_argument("--seconds", type=float, default=450, help="no job of NCCL begins after this time")
    parser.add_argument("--only", default="exchange,speed,death,nccl")
    options = parser.parse_args()
    report = Report(options)
    for part in options.only.split(","):
        getattr(report, part)()
    report.say("all is well" if not report.failed else "failed: " + "; ".join(report.failed))
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
