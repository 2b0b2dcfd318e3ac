"""pytest plugin: software RDMA devices for tests, several if needed, with injected faults.

Programs that a test starts get their device from the fixture:

    @pytest.mark.rrdma(devices=2, faults=["port=down device=rrdma1 after=2s"])
    def test_failover(rrdma):
        assert rrdma.run("./my_program").returncode == 0

A test that is itself an RDMA program (pyverbs) runs under `pytest --rrdma-devices 2 --rrdma-faults plan.toml`: pytest
then restarts itself inside `rrdma run`. The command is searched on the PATH, or set with --rrdma-command or
RRDMA_COMMAND.

A failed test shows what `rrdma explain` and `rrdma stat` say. With --rrdma-report FOLDER, or RRDMA_REPORT, the packets
of its programs are captured, and the inspector's report is left there.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

_INSIDE = "RRDMA_PYTEST_INSIDE"


def pytest_addoption(parser):
    group = parser.getgroup("rrdma", "RDMA devices made of software")
    group.addoption("--rrdma-command", default=os.environ.get("RRDMA_COMMAND", "rrdma"), help="the rrdma command (default: on the PATH)")
    group.addoption("--rrdma-devices", type=int, default=0, help="run pytest itself with so many devices")
    group.addoption("--rrdma-faults", action="append", default=[], help="and with these faults: a plan, or one such as verb=ibv_reg_mr:ENOMEM")
    group.addoption("--rrdma-report", default=os.environ.get("RRDMA_REPORT"), metavar="FOLDER", help="capture the programs of each test, and leave the report of a failed one in this folder")
    group.addoption("--rrdma-private", action="store_true", help="and in a network namespace of its own")


def pytest_configure(config):
    config.addinivalue_line("markers", "rrdma(devices=1, faults=(), private=False, options=()): devices and faults of the fixture `rrdma`")
    option = config.option
    wanted = option.rrdma_devices or option.rrdma_faults or option.rrdma_private
    if wanted and _INSIDE not in os.environ:
        words = _words(option.rrdma_command, option.rrdma_devices, option.rrdma_faults, option.rrdma_private)
        os.environ[_INSIDE] = "1"
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend(in_=True)
        arguments = [*words, "--", sys.executable, "-m", "pytest", *config.invocation_params.args]
        os.execvp(arguments[0], arguments)


def _words(command, devices, faults, private, options=()):
    words = [command, "run"]
    if devices:
        words += ["--devices", str(devices)]
    for fault in faults:
        words += ["--faults", str(fault)]
    return words + (["--private"] if private else []) + list(options)


class Rrdma:
    """The interface of RRDMA for a test. Programs still running at the end of the test are stopped."""

    def __init__(self, command, devices=0, faults=(), private=False, options=(), capture=None):
        self.command = command
        self.capture = capture
        if capture is not None:
            capture.unlink(missing_ok=True)
            options = [*options, "--pcap", str(capture), "--append"]
        self.prefix = [*_words(command, devices, faults, private, options), "--"]
        self._started = []

    def run(self, *words, timeout=60, **rest):
        """Runs a program with its devices and faults. Returns a subprocess.CompletedProcess with text."""
        rest.setdefault("capture_output", True)
        return subprocess.run([*self.prefix, *map(str, words)], text=True, timeout=timeout, check=False, **rest)

    def start(self, *words, **rest):
        """Starts a program in the background. Returns a subprocess.Popen."""
        rest.setdefault("stdout", subprocess.PIPE)
        process = subprocess.Popen([*self.prefix, *map(str, words)], text=True, **rest)
        self._started.append(process)
        return process

    def _tool(self, *words):
        done = subprocess.run([self.command, *map(str, words)], text=True, capture_output=True, timeout=30, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"rrdma {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def fault(self, what, **selectors):
        """Injects a fault into running programs: fault("port=down", device="rrdma1", for_="500ms"). Returns its
        number."""
        options = [word for name, value in selectors.items() for word in (f"--{name.rstrip('_')}", value)]
        return int(self._tool("fault", "set", what, *options).split()[1])

    def clear(self, number="all"):
        self._tool("fault", "clear", number)

    def faults(self):
        """[{"number": 1, "fault": "port=down", "injected": 1}]"""
        return json.loads(self._tool("fault", "list", "--json"))

    def explain(self):
        """The output of `rrdma explain` for this user's programs, including injected faults."""
        return self._tool("explain")

    def report(self):
        """The sections that a failed test shows: [(title, text)]. Also writes the inspector's page, if packets were captured."""
        sections = []
        for words in (["explain"], ["stat", "--qps"]):
            done = subprocess.run([self.command, *words], text=True, capture_output=True, timeout=30, check=False)
            if done.stdout.strip():
                sections.append((f"rrdma {words[0]}", done.stdout.rstrip()))
        if self.capture is None or not self.capture.exists() or self.capture.stat().st_size == 0:
            return sections
        page = self.capture.with_suffix(".html")
        done = subprocess.run([self.command, "inspect", "--export", str(page), str(self.capture)], text=True, capture_output=True, timeout=120, check=False)
        if done.returncode == 0:
            sections.append(("rrdma inspect", f"packets: {self.capture}\nreport:  {page}"))
        for title, text in sections:
            self.capture.with_suffix(f".{title.split()[1]}.txt").write_text(text + "\n")
        return sections

    def close(self):
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def rrdma(request):
    command = request.config.option.rrdma_command
    if shutil.which(command) is None:
        pytest.skip(f"there is no '{command}': install RRDMA or set RRDMA_COMMAND")
    marker = request.node.get_closest_marker("rrdma")
    made = Rrdma(command, **(marker.kwargs if marker is not None else {}), capture=_capture_of(request))
    yield made
    made.close()
    # The packets of a test that passed tell nobody anything.
    if made.capture is not None and not getattr(request.node, "rrdma_failed", False):
        made.capture.unlink(missing_ok=True)


def _capture_of(request):
    folder = request.config.option.rrdma_report
    if not folder:
        return None
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    return pathlib.Path(folder).resolve() / (re.sub(r"[^\w.-]+", "_", request.node.nodeid).strip("_") + ".pcapng")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    made = getattr(item, "funcargs", {}).get("rrdma")
    if report.when != "call" or not report.failed or not isinstance(made, Rrdma):
        return
    item.rrdma_failed = True
    report.sections.extend(made.report())
