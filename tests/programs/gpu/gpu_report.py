"""RRDMA with a real GPU: checks and figures. docs/gpu.md describes it.

  gpu_report.py --rrdma FILE --exchange FILE [--out FOLDER] [--only exchange,speed,death,nccl] [--match REGEX] [--mps] [--debugger FILE]

--rrdma is the command of a build or an installation. --exchange is the test program gpu_exchange. NCCL is reached
through PyTorch; without PyTorch its part is left out. All ranks share one GPU: NCCL takes each for a host of its own.
Without --mps (NVIDIA's Multi-Process Service) the GPU runs the kernels of one rank at a time, in turns of milliseconds.
--match leaves out the jobs whose name does not match.
--debugger names a gdb that prints the stacks of a job that hangs.

Every job has a time limit. A job that fails does not end the report: the table at the end lists all. The parts
exchange, speed and death take less than three minutes together, and nccl less than six. --out gets two files: the table,
and the output of all jobs.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LINKS = {"shm": ("shm", {}), "ring": ("shm", {"RRDMA_DIRECT": "0"}), "udp": ("udp", {})}
MIB = 1 << 20
SIZES = [8, 1000, 65536, MIB, 64 * MIB, 256 * MIB]
BUDGETS = {"exchange": 60, "speed": 55, "death": 60, "nccl": 350}  # seconds; a job that does not fit is left out
JOB_LIMIT = 60
FAILURE = re.compile(r"ncclRemoteError|DistBackendError")  # as PyTorch reports it to the program
# NCCL 2.28 fails to start with a device that has no mlx5 interface unless GIN is off.
NCCL = {"NCCL_DEBUG": "INFO", "NCCL_GIN_TYPE": "2", "NCCL_IB_HCA": "rrdma0", "NCCL_SOCKET_IFNAME": "lo", "TORCH_NCCL_ENABLE_MONITORING": "0",
        "PYTHONUNBUFFERED": "1"}


def end(process):
    """The process and its children. It leads a session of its own."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()


def used_memory():
    """MiB in use on the first GPU; None without nvidia-smi."""
    try:
        text = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True,
                              text=True, timeout=20, check=True).stdout
        return int(text.split()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


class Report:
    def __init__(self, options):
        self.options = options
        self.rows = []  # (verdict, seconds, what, figures)
        self.begin = self.part_begin = time.monotonic()
        self.part = ""
        self.log = None
        if options.out:
            os.makedirs(options.out, exist_ok=True)
            self.log = open(os.path.join(options.out, "gpu_report.log"), "w", encoding="utf-8", errors="replace")

    # ---- the table ----

    def row(self, verdict, what, seconds=None, figures="", output=""):
        self.rows.append((verdict, seconds, what, figures))
        print(f"[{time.monotonic() - self.begin:6.1f} s] {self.text_of(self.rows[-1])}", flush=True)
        if verdict == "FAIL":
            print("\n".join("      " + line for line in output.splitlines()[-20:]), flush=True)

    @staticmethod
    def text_of(row):
        verdict, seconds, what, figures = row
        spent = f"{seconds:5.1f} s" if seconds is not None else "       "
        return f"{verdict:<8} {spent}  {what:<44} {figures}".rstrip()

    def compare(self, what, figure, bar, unit, at_least=True):
        """A row for a figure that must reach a bar; None: it was not measured."""
        if figure is None:
            self.row("FAIL", what, figures="not measured")
            return
        good = figure >= bar if at_least else figure <= bar
        self.row("PASS" if good else "FAIL", what, figures=f"{figure:.2f} {unit}, bar {'>=' if at_least else '<='} {bar} {unit}")

    def table(self):
        lines = [self.text_of(row) for row in self.rows]
        failed = sum(row[0] != "PASS" for row in self.rows)
        lines.append(f"{len(self.rows) - failed} of {len(self.rows)} rows pass, in {time.monotonic() - self.begin:.0f} s")
        text = "\n".join(lines)
        print("\n" + text, flush=True)
        if self.options.out:
            with open(os.path.join(self.options.out, "gpu_report.txt"), "w", encoding="utf-8") as file:
                file.write(text + "\n")
        return failed

    def record(self, what, output):
        if self.log is not None:
            self.log.write(f"\n==== {what}\n{output}\n")
            self.log.flush()

    # ---- time ----

    def start_part(self, part):
        self.part, self.part_begin = part, time.monotonic()

    def limit(self, wanted, what):
        """The seconds that a job may take; None if it is not wanted, or, with a row, if the part has too little time left."""
        if not re.search(self.options.match, what):
            return None
        left = BUDGETS[self.part] - (time.monotonic() - self.part_begin)
        if left >= min(wanted, 8):
            return min(wanted, left)
        self.row("LEFT OUT", what, figures="no time left")
        return None

    # ---- two processes ----

    def pair(self, what, link, words, limit, extra=None, wanted=None):
        """Runs gpu_exchange and adds a row. Returns its output, empty if it was left out."""
        limit = self.limit(limit, what)
        if limit is None:
            return ""
        name, environment = LINKS[link]
        line = [self.options.rrdma, "run", "--netdev", "lo", "--link", name, "--", self.options.exchange, *words]
        begin = time.monotonic()
        process = subprocess.Popen(line, env={**os.environ, **environment, **(extra or {})}, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=limit)
            status = f"exit status {process.returncode}"
            good = wanted in output if wanted else process.returncode == 0
        except subprocess.TimeoutExpired:
            end(process)
            output, _ = process.communicate()
            status, good = f"killed after {limit:.0f} s", False
        self.record(f"{what}: {status}", output)
        self.row("PASS" if good else "FAIL", what, time.monotonic() - begin, "" if good else status, output)
        return output

    def exchange(self):
        for link in LINKS:
            for near, far in (("device", "device"), ("created", "device"), ("heap", "created"), ("host", "device"), ("managed", "async")):
                self.pair(f"exchange, {link}, {near} and {far}", link, [f"--near={near}", f"--far={far}"], 20)
        self.pair("exchange, udp, 1 % loss", "udp", [], 20, {"RRDMA_FAULT": "drop=1%"})

    def speed(self):
        found = {}  # (link, near, far, operation, bytes): (us, GB/s)
        for link in LINKS:
            pairs = [("device", "device"), ("host", "device"), ("device", "host")]
            if link == "shm":
                pairs += [("created", "created"), ("heap", "device")]
            for near, far in pairs:
                output = self.pair(f"speed, {link}, {near} to {far}", link, ["--speed", f"--near={near}", f"--far={far}"], 20)
                for operation, octets, us, rate in re.findall(r"^(\w+) +(\d+) bytes: +([\d.]+) us +([\d.]+) GB/s", output, re.M):
                    found[link, near, far, operation, int(octets)] = (float(us), float(rate))
                    print(f"      {operation:<6} {octets:>9} bytes: {us:>9} us {rate:>9} GB/s", flush=True)
        nothing = (None, None)
        for operation in ("WRITE", "READ"):
            self.compare(f"{operation} device to device, 64 MiB", found.get(("shm", "device", "device", operation, 64 * MIB), nothing)[1], 1000, "GB/s")
            self.compare(f"{operation} device to device, 8 B", found.get(("shm", "device", "device", operation, 8), nothing)[0], 12, "us", at_least=False)
            self.compare(f"{operation} host to device, 64 MiB", found.get(("shm", "host", "device", operation, 64 * MIB), nothing)[1], 40, "GB/s")

    def death(self):
        for link in ("shm", "udp"):
            for side in ("near", "far"):
                self.pair(f"death of the {side} process, {link}", link, [f"--die={side}"], 10, wanted="survived after")
                self.pair(f"exit of the {side} process, {link}", link, [f"--exit={side}"], 10, wanted="survived after")
            self.pair(f"forks, {link}", link, ["--fork"], 15, wanted="forks did no harm")

    # ---- NCCL ----

    def explain_hang(self, processes, link):
        """Describes ranks that still run: their threads, stacks if there is a debugger, RRDMA's counters."""
        text = ""
        for rank, (process, _) in enumerate(processes):
            if process.poll() is not None:
                continue
            text += f"-- rank {rank}, threads: name, state, user and system ticks\n"
            try:
                for task in sorted(os.listdir(f"/proc/{process.pid}/task"), key=int):
                    with open(f"/proc/{process.pid}/task/{task}/stat", encoding="utf-8") as file:
                        name, fields = file.read().split("(", 1)[1].rsplit(")", 1)
                    text += f"   {task} {name} {fields.split()[0]} {fields.split()[11]} {fields.split()[12]}\n"
            except OSError:
                pass
            if self.options.debugger and rank < 2:
                text += self.answer([self.options.debugger, "-p", str(process.pid), "-batch", "-ex", "thread apply all bt 12"], 15)
        if link is not None:
            text += self.answer([self.options.rrdma, "stat"], 5) + self.answer([self.options.rrdma, "explain"], 5)
        return text

    @staticmethod
    def answer(words, timeout):
        try:
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout,
                                  stdin=subprocess.DEVNULL, check=False)
            return f"-- {' '.join(words)}\n{done.stdout}\n"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"-- {' '.join(words)}: {error}\n"

    def start_ranks(self, folder, ranks, link, extra, sizes, flags, limit):
        """The processes of a job and their open log files."""
        processes = []
        for rank in range(ranks):
            environment = {**os.environ, **NCCL, "NCCL_HOSTID": f"host{rank}", **extra}
            words = [sys.executable, os.path.join(HERE, "nccl_rank.py"), f"--rank={rank}", f"--ranks={ranks}", f"--store={folder}/store",
                     f"--result={folder}/figures", f"--sizes={','.join(map(str, sizes))}", f"--limit={limit}", *flags]
            if link is not None:
                name, more = LINKS[link]
                environment.update(more)
                words = [self.options.rrdma, "run", "--netdev", "lo", "--link", name, "--", *words]
            log = open(f"{folder}/log{rank}", "w+", encoding="utf-8", errors="replace")
            processes.append((subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True), log))
        return processes

    def job(self, what, ranks, link, extra, sizes, limit, flags=()):
        """Runs the ranks. Returns (exit statuses, None for a rank that was killed; output; figures)."""
        with tempfile.TemporaryDirectory(prefix="rrdma-nccl-") as folder:
            processes = self.start_ranks(folder, ranks, link, extra, sizes, flags, limit - 3)
            until = time.monotonic() + limit
            failed_at = None
            while time.monotonic() < until and any(process.poll() is None for process, _ in processes):
                # After a failure the other ranks can only wait. With --die the report of rank 0 is the result. Its process
                # does not end by itself: a kernel of NCCL waits for the dead rank.
                failed = self.reports_failure(f"{folder}/log0") if flags else any(process.poll() for process, _ in processes)
                if failed_at is None and failed:
                    failed_at = time.monotonic()
                if failed_at is not None and time.monotonic() > failed_at + 3:
                    break
                time.sleep(0.05)
            hang = ""
            if any(process.poll() is None for process, _ in processes) and not (flags and failed_at is not None):
                hang = self.explain_hang(processes, link)
            statuses = [process.poll() for process, _ in processes]
            text = ""
            for rank, (process, log) in enumerate(processes):
                end(process)
                log.seek(0)
                text += f"-- rank {rank}, exit status {statuses[rank]}\n{log.read()}"
                log.close()
            figures = {}
            if os.path.exists(f"{folder}/figures"):
                with open(f"{folder}/figures", encoding="utf-8") as file:
                    figures = {int(size): seconds for size, seconds in json.load(file).items()}
        self.record(f"{what}: exit statuses {statuses}", text + hang)
        return statuses, text, figures

    @staticmethod
    def reports_failure(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return FAILURE.search(file.read()) is not None

    def collectives(self, ranks, link, extra, name):
        """One job, its row, and its figures. Returns GB/s of all_reduce by size."""
        what = f"NCCL, {ranks} ranks, {name}"
        limit = self.limit(JOB_LIMIT, what)
        if limit is None:
            return {}
        begin = time.monotonic()
        statuses, text, figures = self.job(what, ranks, link, extra, SIZES, limit)
        spent = time.monotonic() - begin
        channels = len(re.findall(r"via NET/", text))
        with_gdr = len(re.findall(r"via NET/\S*/GDRDMA", text))
        wanted_gdr = extra.get("NCCL_NET_GDR_LEVEL") == "SYS"
        notes = [f"{len(figures)} of {len(SIZES)} sizes"]
        if link is not None:
            notes.append(f"GDR on {with_gdr} of {channels} channel ends")
        good = all(status == 0 for status in statuses) and len(figures) == len(SIZES)
        if link is not None and (with_gdr != 0) != wanted_gdr:
            good = False
        if any(statuses) or None in statuses:
            notes.append(f"exit statuses {statuses}")
        steps = [line for line in text.splitlines() if line.startswith("[rank ")]
        last = [next((line for line in reversed(steps) if line.startswith(f"[rank {rank} ")), f"rank {rank}: nothing") for rank in range(ranks)]
        warnings = [line for line in text.splitlines() if re.search(r" NCCL WARN |Error|values are wrong", line)]
        self.row("PASS" if good else "FAIL", what, spent, "; ".join(notes), "\n".join(warnings[:10] + last))
        for octets, seconds in figures.items():
            print(f"      all_reduce {octets:>10} bytes: {seconds * 1e6:10.1f} us  {octets / seconds * 1e-9:7.2f} GB/s", flush=True)
        return {octets: octets / seconds * 1e-9 for octets, seconds in figures.items()}

    def dead_rank(self):
        what = "NCCL, rank 1 of 2 is killed, shm, GDR on"
        limit = self.limit(45, what)
        if limit is None:
            return
        begin = time.monotonic()
        # 16: eight tries take two seconds, not 34 as NCCL asks for by default.
        statuses, text, _ = self.job(what, 2, "shm", {"NCCL_NET": "IB", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_IB_TIMEOUT": "16"}, [MIB], limit,
                                     ["--die"])
        good = statuses[1] in (-9, 137) and FAILURE.search(text) is not None and "IBV_WC_RETRY_EXC_ERR" in text
        self.row("PASS" if good else "FAIL", what, time.monotonic() - begin, "rank 0 reports the error" if good else f"exit statuses {statuses}", text)

    def nccl(self):
        try:
            import torch  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
        except ImportError:
            self.row("LEFT OUT", "NCCL", figures="PyTorch is not installed")
            return
        rates = {}
        rates["sockets"] = self.collectives(2, None, {"NCCL_NET": "Socket"}, "NCCL's sockets")
        for ranks in (2, 4):
            for link in ("shm", "udp"):
                for level, name in (("SYS", "GDR on"), ("LOC", "GDR off")):
                    rates[ranks, link, level] = self.collectives(ranks, link, {"NCCL_NET": "IB", "NCCL_NET_GDR_LEVEL": level}, f"{link}, {name}")
        self.dead_rank()  # the last one: the Multi-Process Service refuses new processes for a while after it
        ours, sockets = rates[2, "shm", "SYS"].get(64 * MIB), rates["sockets"].get(64 * MIB)
        if re.search(self.options.match, "2 ranks, shm, GDR on") and not self.options.mps:
            figure = f"{ours / sockets:.2f} times" if ours and sockets else "not measured"
            self.row("LEFT OUT", "all_reduce of 64 MiB, shm with GDR, by sockets", figures=f"{figure}; the bar is for --mps, without it ranks take turns")
        elif re.search(self.options.match, "2 ranks, shm, GDR on"):
            self.compare("all_reduce of 64 MiB, shm with GDR, by sockets", ours / sockets if ours and sockets else None, 3, "times")

    def leaks(self, used):
        """All processes have ended. `used` as used_memory() told before the first one."""
        if used is None:
            return
        now = used_memory()
        for _ in range(10):
            if now is not None and now <= used + 16:
                break
            time.sleep(1)
            now = used_memory()
        self.row("PASS" if now is not None and now <= used + 16 else "FAIL", "no device memory leaks", figures=f"{used} MiB in use before, {now} MiB after")

    # ---- the Multi-Process Service ----

    def run(self):
        """All parts. Returns how many rows do not pass."""
        control = shutil.which("nvidia-cuda-mps-control") if self.options.mps else None
        folder = tempfile.mkdtemp(prefix="rrdma-mps-")
        used = used_memory()
        if self.options.mps:
            os.environ.update({"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder})
            # By default a process has two queues, and a copy may be queued behind a kernel that waits for it (docs/gpu.md).
            os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "8")
            started = control is not None and subprocess.run([control, "-d"], timeout=20, check=False).returncode == 0
            self.row("PASS" if started else "FAIL", "Multi-Process Service", figures="" if control else "no nvidia-cuda-mps-control")
            if not started:
                os.environ.pop("CUDA_MPS_PIPE_DIRECTORY")
        try:
            for part in self.options.only.split(","):
                self.start_part(part)
                getattr(self, part)()
        finally:
            if control is not None:
                subprocess.run([control], input="quit\n", text=True, timeout=20, check=False)
            shutil.rmtree(folder, ignore_errors=True)
        self.leaks(used)
        return self.table()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rrdma", required=True)
    parser.add_argument("--exchange", required=True)
    parser.add_argument("--out", default="")
    parser.add_argument("--only", default="exchange,speed,death,nccl")
    parser.add_argument("--match", default="")
    parser.add_argument("--mps", action="store_true")
    parser.add_argument("--debugger", default="")
    options = parser.parse_args()
    unknown = set(options.only.split(",")) - set(BUDGETS)
    if unknown:
        parser.error("no such part: " + ", ".join(sorted(unknown)))
    sys.exit(1 if Report(options).run() else 0)


if __name__ == "__main__":
    main()
