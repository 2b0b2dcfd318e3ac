"""The differences between the processor architectures of the guest: Debian's names for the kernel packages,
and QEMU's machine options. The guest always has the architecture of the host, because its programs are
copies of the host's."""

import os
import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    qemu: str
    qemu_package: str
    kernel_packages: dict  # by the usual version number: Debian's meta package
    triplet: str           # the name of the folder of its libraries
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
    """Software emulation by default, so that results are comparable everywhere; RRDMA_INTEROP_ACCEL=kvm uses
    KVM."""
    accel = os.environ.get("RRDMA_INTEROP_ACCEL", "tcg")
    return ["-accel", accel, "-cpu", "host"] if accel == "kvm" else ["-accel", accel]
