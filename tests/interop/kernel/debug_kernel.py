"""A kernel that looks for mistakes: KASAN, lockdep (PROVE_LOCKING), DEBUG_ATOMIC_SLEEP, DEBUG_OBJECTS, kmemleak, full preemption.
Debian has no such kernel, so it is built from Debian's sources (linux-source-6.1) with `make tinyconfig` and debug.config.
Needs flex, bison, bc, libelf-dev. 13 minutes of processor time, once; 2 GB.

    IMAGES/debug/source     the sources, where the kernel is built
"""

import hashlib
import os
import subprocess
from pathlib import Path

import image
import kernel_image

PACKAGE = "linux-source-6.1"
CONFIG = Path(__file__).resolve().parent / "debug.config"
SLOWNESS = 5
JOBS = str(os.cpu_count())


def run(command, folder=None):
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"kernel-test: {' '.join(map(str, command))}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class DebugImage(kernel_image.KernelImage):
    def __init__(self, version, folder, daemon):
        super().__init__(version, folder, daemon)
        image.OPTIONAL_MODULES = [*image.OPTIONAL_MODULES, "veth"]
        self.source = Path(folder).resolve() / "debug/source"

    def package(self):
        return f"{PACKAGE} {hashlib.sha256(CONFIG.read_bytes()).hexdigest()[:12]}"  # part of the stamp

    def headers(self):
        return self.source

    def release(self):
        return run(["make", "-s", "kernelrelease"], self.source).strip()

    def download(self, package):
        return super().download(PACKAGE)

    def unpack_kernel(self, deb):
        self.compile(deb)
        target = self.folder / "kernel"
        run(["make", "-s", "modules_install", f"INSTALL_MOD_PATH={target}", "INSTALL_MOD_STRIP=1"], self.source)
        self.kernel.write_bytes((self.source / "arch/x86/boot/bzImage").read_bytes())
        return target, self.release()

    def compile(self, deb):
        if not (self.source / "Makefile").exists():
            self.source.mkdir(parents=True, exist_ok=True)
            content = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE)
            packed = subprocess.Popen(["tar", "-xO", "--wildcards", "./usr/src/*.tar.xz"], stdin=content.stdout, stdout=subprocess.PIPE)
            subprocess.run(["tar", "-xJ", "-C", str(self.source), "--strip-components=1"], stdin=packed.stdout, check=True)
        run(["make", "-s", "tinyconfig"], self.source)
        run(["scripts/kconfig/merge_config.sh", "-m", ".config", str(CONFIG)], self.source)
        run(["make", "-s", "olddefconfig"], self.source)
        self.check_config()
        run(["make", "-s", f"-j{JOBS}", "bzImage", "modules"], self.source)

    def check_config(self):
        """An option whose own needs are not met goes away silently."""
        have = set((self.source / ".config").read_text().splitlines())
        lost = [line for line in CONFIG.read_text().splitlines() if line.startswith("CONFIG_") and line not in have]
        if lost:
            raise SystemExit(f"kernel-test: {PACKAGE} does not take {', '.join(lost)}")
