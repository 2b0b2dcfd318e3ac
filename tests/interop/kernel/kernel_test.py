#!/usr/bin/env python3
"""make kernel-test: a guest with Debian's kernel, rrdma.ko and `rrdmad --kernel`, and what runs on the device. Each stage
is a script of stages/ that runs in the guest and prints a line for each thing that it shows.

    kernel_test.py [--quick | --soak] [--poison] [--kernel 6.1|6.12|debug] [--build build] [--set NAME=VALUE] [STAGE...]

--soak: loads of the kernel's users, hostile programs and a hostile daemon for ten minutes each.
--kernel debug: a kernel of 6.1 that debug_kernel.py builds, with KASAN and lockdep. Its default stages are those of --quick,
nvme, rogue and hostile.
--poison: the guest's kernel poisons freed memory and checks it (slub_debug; KFENCE where it has it). Slower.

In the stage `rxe` a second guest with the kernel's rxe is the peer (rxe_peer.py).
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "rxe"))
import debug_kernel  # noqa: E402
import guest  # noqa: E402
import kernel_image  # noqa: E402
import machine as image_machine  # noqa: E402
import rxe_peer  # noqa: E402

QUICK = ["device", "programs", "static", "kill", "dying", "full", "remove"]
ALL = ["device", "programs", "static", "kill", "dying", "full", "nvme", "nfs", "iser", "rogue", "hostile", "rxe", "remove", "pyverbs", "figures"]
DEBUG = ["device", "programs", "static", "kill", "dying", "full", "nvme", "rogue", "hostile", "remove"]
SOAK = ["device", "nvme", "nfs", "iser", "rogue", "hostile", "remove"]
STAGE_SECONDS = 1200
POISON = " slub_debug=FZPU page_poison=1 kfence.sample_interval=20"


class KernelGuest(guest.Guest):
    """A guest with our device. Its only neighbour is the peer of the stage `rxe`, if that runs."""

    settings = " rxe=0"
    own_end, other_end = "ours", "peers"

    def netdev(self):
        ends = self.folder.parent
        return (f"dgram,id=net,local.type=unix,local.path={ends / self.own_end},"
                f"remote.type=unix,remote.path={ends / self.other_end}")

    def command(self):
        command = super().command()
        command[command.index("-netdev") + 1] = self.netdev()
        command[command.index("-append") + 1] += self.settings
        command[command.index("-m") + 1] = "2G"
        return command


class PeerGuest(KernelGuest):
    """The peer: the same boot files, with rxe."""

    settings = ""
    own_end, other_end = "peers", "ours"


class CannotRun(Exception):
    """This machine lacks something; no test has failed."""


def find_tools():
    for name in (image_machine.here().qemu, "gcc", "musl-gcc", "go", "make"):
        if shutil.which(name) is None:
            raise CannotRun(f"{name} is missing")


def build_module(boot, folder):
    headers = boot.headers()
    if not headers.exists():
        raise CannotRun(f"no headers of {boot.release()}")
    done = subprocess.run(["make", "-C", str(ROOT / "kernel"), f"HEADERS={headers}", f"OUT={folder}"], text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"kernel-test: the module does not build for {boot.release()}:\n{done.stdout}{done.stderr}")
    return folder / "rrdma.ko"


def build_static(folder):
    """Programs of this folder that are linked statically."""
    headers = ["-idirafter", "/usr/include", "-idirafter", f"/usr/include/{image_machine.here().triplet}"]
    libraries = ["-Wl,--start-group", "-lrdmacm", "-libverbs", "-lrxe-rdmav34", "-lnl-route-3", "-lnl-3", "-lpthread", "-Wl,--end-group"]
    with_rxe = ["gcc", "-O1", "-static", "-DRDMA_STATIC_PROVIDERS=rxe", "-o"]
    for command in ([*with_rxe, str(folder / "exchange"), str(HERE / "exchange.c"), *libraries],
                    [*with_rxe, str(folder / "cm_exchange"), str(HERE / "cm_exchange.c"), *libraries],
                    [*with_rxe, str(folder / "hog"), str(HERE / "hog.c"), *libraries],
                    ["gcc", "-O1", "-static", "-DRDMA_STATIC_PROVIDERS=rxe", f"-I{ROOT / 'kernel'}", "-o", str(folder / "dying"),
                     str(HERE / "dying.c"), *libraries],
                    ["musl-gcc", "-O1", "-static", *headers, "-o", str(folder / "bare"), str(HERE / "bare.c")],
                    ["musl-gcc", "-O1", "-static", f"-I{ROOT / 'kernel'}", *headers, "-o", str(folder / "hostile"),
                     str(HERE / "hostile.c")],
                    ["musl-gcc", "-O1", "-static", *headers, "-o", str(folder / "rogue"), str(HERE / "rogue.c")]):
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"kernel-test: {' '.join(command)}:\n{done.stderr}")
    return [folder / name for name in ("exchange", "cm_exchange", "hog", "dying", "bare", "hostile", "rogue", *build_go(folder))]


def build_go(folder):
    environment = dict(os.environ, GO111MODULE="off", GOCACHE=str(folder / "go"), CGO_ENABLED="1")
    command = ["go", "build", "-buildvcs=false", "-ldflags", '-linkmode external -extldflags "-static"', "-o",
               str(folder / "exchange_go"), "exchange.go"]
    done = subprocess.run(command, cwd=HERE, env=environment, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"kernel-test: {' '.join(command)}:\n{done.stderr}")
    return ["exchange_go"]


def share_pyverbs(share):
    programs = HERE.parent / "programs"
    sys.path.insert(0, str(programs))
    import pyverbs_suite
    if not Path(pyverbs_suite.TESTS).is_dir():
        raise CannotRun("python3-pyverbs is not installed")
    pyverbs_suite.copy_tests(str(share / "pyverbs_tests"))
    shutil.copy(programs / "pyverbs_runner.py", share)
    shutil.copy(HERE / "pyverbs_compare.py", share)


def run_stage(machine, name, settings):
    """Returns the lines that are not ok."""
    text = settings + (HERE / "stages/lib.sh").read_text() + (HERE / "stages" / f"{name}.sh").read_text()
    request = machine.start_script(text)
    code = request.wait(STAGE_SECONDS)
    for line in request.output.splitlines():
        print(f"  {line}", flush=True)
    if code == 0:
        return []
    print(f"  stage {name}: exit code {code}", flush=True)
    return [line for line in request.output.splitlines() if line.startswith("FAILED")] or [f"FAILED stage {name}"]


def parse():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--soak", action="store_true")
    arguments.add_argument("--poison", action="store_true")
    arguments.add_argument("--kernel", default="6.1", choices=["6.1", "6.12", "debug"])
    arguments.add_argument("--build", default=str(ROOT / "build"))
    arguments.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of the stages, as RUNS=1")
    arguments.add_argument("stages", nargs="*", metavar="STAGE")
    options = arguments.parse_args()
    if unknown := set(options.stages) - set(ALL):
        arguments.error(f"no stage {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    # In their order: `device` loads the module, `remove` unloads it, and `pyverbs` loads its own.
    options.stages = [stage for stage in ALL if stage in options.stages]
    return options


def main():
    options = parse()
    folder = Path(options.build, "kernel-test").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # make(1) passes no exit codes on; its caller reads the reason from this file.
    reason = folder / "cannot-run"
    reason.unlink(missing_ok=True)
    try:
        find_tools()
        return run(options, folder)
    except CannotRun as cannot:
        reason.write_text(f"{cannot}\n")
        print(f"kernel-test: cannot run here: {cannot}")
        return 77


def default_stages(options):
    if options.quick:
        return QUICK
    if options.soak:
        return SOAK
    return DEBUG if options.kernel == "debug" else ALL


def prepare(options, folder, daemon):
    """The boot files, and the module."""
    kind = debug_kernel.DebugImage if options.kernel == "debug" else kernel_image.KernelImage
    boot = kind(options.kernel, folder / "images", daemon)
    boot.folder.mkdir(parents=True, exist_ok=True)
    try:
        boot.build(lambda line: print(f"kernel-test: {line}", flush=True))
    except SystemExit as no_package:
        raise CannotRun(str(no_package)) from no_package
    return boot, build_module(boot, folder / f"module-{options.kernel}")


def run(options, folder):
    daemon = Path(options.build, "bin/rrdmad").resolve()
    boot, module = prepare(options, folder, daemon)
    machine = KernelGuest(boot, folder / "guest", "none", "10.77.0.2", "fd77::2", 4500, processors=2)
    if options.kernel == "debug":
        guest.BOOT_SECONDS *= debug_kernel.SLOWNESS
    if options.poison:
        machine.settings += POISON
    release = machine.start()
    print(f"kernel-test: {release}, booted in {machine.boot_seconds:.0f} s", flush=True)
    if options.poison:
        machine.run("grep -qx 1 /sys/kernel/slab/kmalloc-512/poison")
    failed = []
    try:
        for name in [module, daemon, *build_static(folder)]:
            shutil.copy(name, machine.share)
        share_pyverbs(machine.share)
        settings = "".join(f"{line}\n" for line in options.set)
        if options.soak:
            settings += "SECONDS_OF_MALICE=600\nSECONDS_OF_LOAD=600\n"
        for stage in options.stages or default_stages(options):
            print(stage, flush=True)
            failed += rxe_peer.run(machine, PeerGuest) if stage == "rxe" else run_stage(machine, stage, settings)
    except guest.GuestDied as died:
        failed.append(f"FAILED the guest: {died}")
    finally:
        console = (machine.folder / "console.log").read_text(errors="replace")
        machine.stop()
    for line in failed:
        print(line)
    if failed:
        print("The end of the console:\n" + console[-2000:])
    print("kernel-test: " + (f"{len(failed)} FAILED" if failed else "passed"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
