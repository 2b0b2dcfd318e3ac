#!/usr/bin/env python3
"""Interoperability with the Linux kernel's rxe: boots Debian's kernels in a small virtual machine, runs
existing programs between them and RRDMA, and checks every packet of both ends.

    interop.py [--quick] [--build FOLDER] [--kernel 6.1,6.12] [--only TEXT] ...

Writes OUTPUT/report.md and report.json. Exit code 77: this machine cannot run it. Uses the standard
library only."""

import argparse
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import answers
import beside
import guest as guest_module
import host
import image
import libraries
import machine
import ratios
import recovery
import report
import rows
from pass_runner import PassRunner

ROOT = Path(__file__).resolve().parents[3]
LINK_MTU = 4500


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one kernel, IPv4, without loss: a few minutes")
    parser.add_argument("--build", default=ROOT / "build", type=Path, help="where RRDMA was built")
    parser.add_argument("--output", default=None, type=Path, help="for the report and captures of what failed (default: BUILD/interop)")
    parser.add_argument("--kernel", default=None, help="comma-separated: 6.1,6.12")
    parser.add_argument("--pass", dest="passes", default=None, help="comma-separated: plain,beside,answers,libraries,loss,recovery,ratios")
    parser.add_argument("--only", default="", help="only rows whose name matches this regular expression")
    parser.add_argument("--keep", action="store_true", help="keep all captures")
    parser.add_argument("--processors", type=int, default=1, help="of the guest")
    parser.add_argument("--list", action="store_true", help="only list the rows")
    options = parser.parse_args()
    options.kernels = (options.kernel or ("6.1" if options.quick else "6.1,6.12")).split(",")
    options.passes = (options.passes or ("plain,beside,answers,libraries" if options.quick else "plain,beside,answers,libraries,loss,recovery,ratios")).split(",")
    options.build = options.build.resolve()
    options.output = (options.output or options.build / "interop").resolve()
    return options


def say(text):
    print(text, flush=True)


def chosen_rows(options, kind):
    wanted = rows.quick() if options.quick else rows.under_loss() if kind == "loss" else rows.full()
    return [row for row in wanted if re.search(options.only, row.key)]


@contextlib.contextmanager
def booted(options, version, folder, processors):
    """Boots a guest; returns it, its image and its kernel's release. Gives both ends of its link the same
    MTU, because the rows of an earlier guest may have changed ours."""
    host.set_mtu(LINK_MTU)
    picture = image.Image(version, options.output / "images")
    guest = guest_module.Guest(picture, folder / "guest", host.TAP, host.GUEST4, host.GUEST6, LINK_MTU, processors)
    try:
        yield guest, picture, guest.start()
    finally:
        guest.stop()


def run_matrix(options, rrdma, version, folder, results):
    with booted(options, version, folder, options.processors) as (guest, _, release):
        say(f"kernel {release}: rxe0 is up after {guest.boot_seconds:.1f} s")
        shutil.copy(rrdma.add_program(options.build / "tests/bin/exchange"), guest.share)
        for kind in ("plain", "loss"):
            if kind not in options.passes:
                continue
            captures = folder / f"{version}-{kind}"
            captures.mkdir()
            os.chmod(captures, 0o755)
            say(f"-- kernel {version}, {'1 % loss at our end' if kind == 'loss' else 'no loss'}")
            runner = PassRunner(guest, rrdma, captures, release, "drop=1%" if kind == "loss" else "", options.keep, say)
            results += runner.run(chosen_rows(options, kind))
            keep_captures(options, captures)


def run_recovery(options, rrdma, version, folder, results):
    with booted(options, version, folder, options.processors) as (guest, _, release):
        say(f"-- kernel {release}: 1 % lost in both directions at our end, with and without what repairs it")
        captures = folder / f"{version}-recovery"
        captures.mkdir()
        runner = PassRunner(guest, rrdma, captures, release, recovery.LOSS, options.keep, say)
        gains, rows_of_it = recovery.run(runner, say, lambda name: re.search(options.only, name))
        results += rows_of_it
        keep_captures(options, captures)
        return release, gains


def run_ratios(options, version, folder):
    """Runs in a guest of its own with two processors: on one processor, polling programs would wait for each
    other."""
    with booted(options, version, folder, 2) as (guest, picture, release):
        say(f"-- kernel {release}: rxe against rxe, RRDMA against RRDMA in the same guest")
        return release, ratios.RatioRunner(guest, options.build, picture, say).run()


def run_beside(options, version, folder):
    with booted(options, version, folder, 2) as (guest, picture, release):
        say(f"-- kernel {release}: RRDMA beside the kernel's own devices in the same guest")
        return release, beside.BesideRunner(guest, options.build, picture, say).run()


def run_answers(options, version, folder):
    with booted(options, version, folder, 2) as (guest, picture, release):
        say(f"-- kernel {release}: the same questions to rxe and to RRDMA")
        return release, answers.AnswersRunner(guest, options.build, picture, version, options.output, say).run()


def run_libraries(options, rrdma, version, folder):
    with booted(options, version, folder, 2) as (guest, picture, release):
        say(f"-- kernel {release}: rrdma::comm and rrdma::rpc on rxe, and between rxe and RRDMA")
        return release, libraries.LibraryRunner(guest, rrdma, options.build, picture, options.quick, say).run()


def keep_captures(options, captures):
    for path in captures.glob("*.pcap"):
        target = options.output / "captures" / captures.name
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def main():
    options = parse()
    # make(1) passes no exit codes on; its caller reads the reason from this file.
    reason = options.output / "cannot-run"
    reason.unlink(missing_ok=True)
    try:
        return run(options)
    except host.CannotRun as cannot:
        options.output.mkdir(parents=True, exist_ok=True)
        reason.write_text(f"{cannot}\n")
        return host.CANNOT


def run(options):
    if options.list:
        for row in chosen_rows(options, "plain"):
            print(row.key)
        return 0
    if shutil.which(machine.here().qemu) is None:
        host.cannot(f"{machine.here().qemu} is missing: install {machine.here().qemu_package}")
    if not host.namespaces.is_inside():
        options.output.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(options.output / "captures", ignore_errors=True)
        for version in options.kernels:
            image.Image(version, options.output / "images").build(say)
    host.enter()
    # The first process of a namespace ignores SIGTERM by default, but an interrupted run must clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interop: ended by a signal"))
    begin = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="rrdma-interop."))
    folder.chmod(0o755)
    # rows; (kernel, findings), twice; (kernel, ratios); (kernel, gains)
    results, together, by_library, measured, gained = [], [], [], [], []
    try:
        host.set_up_network(LINK_MTU)
        rrdma = host.Rrdma(options.build, folder / "stage")
        for version in options.kernels:
            if {"plain", "loss"} & set(options.passes):
                run_matrix(options, rrdma, version, folder, results)
            if "recovery" in options.passes:
                gained.append(run_recovery(options, rrdma, version, folder, results))
            if "beside" in options.passes:
                together.append(run_beside(options, version, folder))
            if "answers" in options.passes:
                together.append(run_answers(options, version, folder))
            if "libraries" in options.passes:
                by_library.append(run_libraries(options, rrdma, version, folder))
            if "ratios" in options.passes:
                measured.append(run_ratios(options, version, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if results or together or by_library or measured:
            report.write(options.output, results, time.monotonic() - begin, together, measured, by_library, gained)
    judged = results + [finding for _, findings in together + by_library for finding in findings]
    failed = [one for one in judged if not one.passed]
    say(f"interop: {len(judged) - len(failed)} of {len(judged)} passed in {time.monotonic() - begin:.0f} s; {options.output / 'report.md'}")
    return 1 if failed or not (judged or measured) else 0


if __name__ == "__main__":
    sys.exit(main())
