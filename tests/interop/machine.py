"""What differs between the processor architectures that the guest runs on: Debian's names for the kernel
packages, and how QEMU builds the machine. The guest always has the architecture of the host, because the
programs in it are copies of the host's."""

import os
import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    qemu: str
    qemu_package: str
    kernel_packages: dict  # version that people say: Debian's meta package
    triplet: str           # names the folder of its libraries
    machine: list
    console: str
    append: str


MACHINES = {
    # Pointer authentication of `-cpu max` makes emulation four times slower; neoverse-n1 has none.
    "aarch64": Machine(
        qemu="qemu-system-aarch64",
        qemu_package="qemu-system-arm",
        kernel_packages={"6.1": "linux-image-arm64", "6.12": "linux-image-6.12-arm64"},
        triplet="aarch64-linux-gnu",
        machine=["-M", "virt,gic-version=3", "-cpu", "neoverse-n1"],
        console="ttyAMA0",
        append="kpti=off",
    ),
    "x86_64": Machine(
        qemu="qemu-system-x86_64",
        qemu_package="qemu-system-x86",
        kernel_packages={"6.1": "linux-image-amd64", "6.12": "linux-image-6.12-amd64"},
        triplet="x86_64-linux-gnu",
        machine=["-M", "q35", "-cpu", "max"],
        console="ttyS0",
        append="nopti no_timer_check tsc=reliable",
    ),
}


def here():
    name = platform.machine()
    if name not in MACHINES:
        raise SystemExit(f"interop: no guest is known for {name}; known: {', '.join(MACHINES)}")
    return MACHINES[name]


def acceleration():
    """Software emulation, so that results are alike everywhere; RRDMA_INTEROP_ACCEL=kvm where that is there."""
    accel = os.environ.get("RRDMA_INTEROP_ACCEL", "tcg")
    return ["-accel", accel, "-cpu", "host"] if accel == "kvm" else ["-accel", accel]
