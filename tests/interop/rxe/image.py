"""Builds a guest's boot files: Debian's kernel, unpacked from its package and never installed, and an
initramfs with the modules that rxe needs and the host's own RDMA programs with their libraries.

    build/interop/images/VERSION/{vmlinuz,initrd.cpio,stamp}
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import machine

MODULES = """virtio_pci virtio_net virtio_console 9p 9pnet_virtio virtio_rng rdma_rxe rdma_ucm ib_uverbs
veth crc32_generic""".split()
OPTIONAL_MODULES = ["crc32_generic"]  # newer kernels have it in a library

# Only these files of the kernel package are unpacked: the whole package takes several times longer.
UNPACK = ["./boot/vmlinuz-*", "./lib/modules/*/modules.*"] + [
    f"./lib/modules/*/kernel/{folder}/*" for folder in
    ("drivers/infiniband", "drivers/virtio", "drivers/net", "drivers/char", "net", "fs/9p", "fs/netfs", "fs/fscache", "fs/configfs",
     "crypto", "lib", "arch")]

PROGRAMS = """ibv_devices ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong ibv_xsrq_pingpong
rping ucmatose udaddy mckey rstream riostream rdma_server rdma_client
ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat
rdma ip tc ss tcpdump kmod taskset bash dash sysctl setpriv timeout""".split()

SEARCH = "/usr/sbin:/usr/bin:/sbin:/bin"


def run(command, **more):
    return subprocess.run(command, check=True, text=True, capture_output=True, **more).stdout


class Image:
    def __init__(self, version, folder):
        self.version = version
        self.folder = Path(folder) / version
        self.kernel = self.folder / "vmlinuz"
        self.initrd = self.folder / "initrd.cpio"

    # --- the kernel package ---------------------------------------------------------------------------

    def package(self):
        meta = machine.here().kernel_packages[self.version]
        for attempt in (1, 2):
            try:
                for line in run(["apt-cache", "depends", meta]).splitlines():
                    kind, _, name = line.strip().partition(": ")
                    if kind == "Depends" and name.startswith("linux-image-"):
                        return name
            except subprocess.CalledProcessError:
                pass
            if attempt == 1:
                subprocess.run(["apt-get", "update", "-q"], check=False, capture_output=True)
        raise SystemExit(f"interop: apt knows no package {meta}; Debian 12 with bookworm-security has it")

    def download(self, package):
        debs = self.folder.parent / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        for attempt in (1, 2):
            found = sorted(debs.glob(package + "_*.deb"))
            if found:
                return found[-1]
            # apt's sandbox user could not write here.
            done = subprocess.run(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package], cwd=debs,
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0 and attempt == 1:
                subprocess.run(["apt-get", "update", "-q"], check=False, capture_output=True)
        found = sorted(debs.glob(package + "_*.deb"))
        if not found:
            raise SystemExit(f"interop: cannot download {package}: {done.stderr.strip()}")
        return found[-1]

    def unpack_kernel(self, deb):
        target = self.folder / "kernel"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        content = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE)
        # tar treats a pattern without a match as an error, and other architectures have fewer folders.
        subprocess.run(["tar", "-x", "-C", str(target), "--wildcards", *UNPACK], stdin=content.stdout, check=False,
                       capture_output=True)
        content.stdout.close()
        if content.wait() != 0:
            raise SystemExit(f"interop: {deb} is damaged")
        (release,) = [path.name for path in (target / "lib/modules").iterdir()]
        run(["depmod", "-b", str(target), release])
        shutil.copy(target / "boot" / f"vmlinuz-{release}", self.kernel)
        return target, release

    # --- the initramfs --------------------------------------------------------------------------------

    def add_modules(self, root, kernel, release):
        files = set()
        for module in MODULES:
            shown = subprocess.run(["modprobe", "-d", str(kernel), "-S", release, "--show-depends", module], text=True,
                                   capture_output=True, check=False)  # fails for modules that are built in or absent
            files.update(line.split()[1] for line in shown.stdout.splitlines() if line.startswith("insmod"))
            if shown.returncode != 0 and module not in OPTIONAL_MODULES:
                raise SystemExit(f"interop: kernel {release}: module {module}: {shown.stderr.strip()}")
        for name in sorted(files):
            target = root / Path(name).relative_to(kernel)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, target)
            if target.suffix == ".xz":
                run(["xz", "-d", str(target)])
        for path in (kernel / "lib/modules" / release).glob("modules.*"):
            if path.name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
                shutil.copy(path, root / "lib/modules" / release)
        run(["depmod", "-b", str(root), release])

    def add_libraries(self, root, program):
        shown = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
        for line in shown.splitlines():
            words = line.replace("=>", " ").split()
            for word in words:
                if word.startswith("/"):
                    self.add_file(root, word)
                    break

    def add_file(self, root, name):
        target = root / str(name).lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(name), target)

    def add_programs(self, root):
        shutil.copy("/bin/busybox", root / "bin/busybox")
        for applet in run(["/bin/busybox", "--list"]).split():
            if applet != "busybox":
                (root / "bin" / applet).symlink_to("busybox")
        for name in PROGRAMS:
            path = shutil.which(name, path=SEARCH)
            if path is None:
                raise SystemExit(f"interop: {name} is missing; scripts/install-packages interop")
            (root / "bin" / name).unlink(missing_ok=True)
            shutil.copy(os.path.realpath(path), root / "usr/bin" / name)
            self.add_libraries(root, path)
        for name in ("modprobe", "insmod", "lsmod"):
            (root / "bin" / name).unlink(missing_ok=True)
            (root / "usr/bin" / name).symlink_to("kmod")
        # The kernel itself runs this path: rxe requests the CRC-32 driver through it.
        (root / "sbin/modprobe").symlink_to("/usr/bin/kmod")
        # busybox's shell prefers its own applets (ip, ping) to those in PATH.
        (root / "bin/sh").unlink(missing_ok=True)
        (root / "bin/sh").symlink_to("/usr/bin/dash")
        (root / "bin/bash").symlink_to("/usr/bin/bash")

    def add_provider(self, root):
        (root / "etc/libibverbs.d").mkdir(parents=True)
        self.add_file(root, "/etc/libibverbs.d/rxe.driver")
        libraries = Path("/usr/lib", machine.here().triplet)
        (provider,) = libraries.glob("libibverbs/librxe-rdmav*.so")
        self.add_file(root, provider)
        self.add_libraries(root, provider)
        # Loaded by pthread_exit (rping exits with it), and by C++ programs.
        for name in ("libgcc_s.so.1", "libstdc++.so.6"):
            self.add_file(root, next(path for path in (Path("/lib", machine.here().triplet, name), libraries / name) if path.exists()))

    def add_settings(self, root):
        etc = root / "etc"
        (etc / "passwd").write_text("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        (etc / "group").write_text("root:x:0:\nnogroup:x:65534:\n")
        (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        (etc / "nsswitch.conf").write_text("hosts: files\n")
        for name in ("protocols", "services"):
            if Path("/etc", name).exists():
                shutil.copy(Path("/etc", name), etc)
        if Path("/etc/iproute2").is_dir():
            shutil.copytree("/etc/iproute2", etc / "iproute2")

    def build(self, say):
        package = self.package()
        stamp = self.folder / "stamp"
        # Updated programs or a changed recipe give a new image.
        recipe = hashlib.sha256("\n".join([package, Path(__file__).read_text(), (Path(__file__).parent / "guest_init").read_text(),
                                           run(["dpkg-query", "-W", "rdma-core", "perftest", "ibverbs-utils", "rdmacm-utils", "libc6"])]).encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == recipe and self.initrd.exists() and self.kernel.exists():
            return
        say(f"kernel {self.version}: {package}")
        deb = self.download(package)
        stamp.unlink(missing_ok=True)
        kernel, release = self.unpack_kernel(deb)
        root = self.folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        for name in ("bin", "sbin", "proc", "sys", "dev", "tmp", "run", "share", "etc", "usr/bin", "usr/sbin", f"lib/modules/{release}"):
            (root / name).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        self.add_programs(root)
        self.add_provider(root)
        self.add_modules(root, kernel, release)
        self.add_settings(root)
        shutil.copy(Path(__file__).parent / "guest_init", root / "init")
        (root / "init").chmod(0o755)
        names = subprocess.run(["find", ".", "-print0"], cwd=root, check=True, capture_output=True).stdout
        with open(self.initrd, "wb") as out:
            subprocess.run(["cpio", "-0", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=root, input=names, stdout=out, check=True)
        shutil.rmtree(root)
        shutil.rmtree(kernel)
        stamp.write_text(recipe)
