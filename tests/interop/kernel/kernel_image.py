"""The guest's boot files for the kernel module: those of the rxe guest (../rxe/image.py), with the modules of the
kernel's own users of RDMA, their tools, and the libraries of our daemon. rrdma.ko and rrdmad come through the shared
folder, so that a rebuild needs no new image."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rxe"))
import image  # noqa: E402

MODULES = """ib_umad ib_cm rdma_cm iw_cm nvme_rdma nvmet nvmet_rdma nvme_core null_blk loop ext4 brd nfs nfsd nfsv4 rpcrdma
auth_rpcgss ib_iser ib_isert target_core_mod iscsi_target_mod sd_mod""".split()
# The rxe guest has no use for these folders of the kernel package.
FOLDERS = ("drivers/nvme", "drivers/block", "drivers/scsi", "drivers/target", "fs", "block")
PROGRAMS = "python3 ibstat nvme iscsid iscsiadm fio mount mkfs.ext4 exportfs mount.nfs rpc.nfsd rpc.mountd rpcbind strace".split()


# For rdma-core's Python tests.
PYTHON = ("/usr/lib/python3.11", "/usr/lib/python3/dist-packages/pyverbs")
PYTHON_WITHOUT = shutil.ignore_patterns("__pycache__", "test", "idlelib", "lib2to3", "ensurepip", "tkinter", "pydoc_data",
                                        "dist-packages")


def unique(names):
    return list(dict.fromkeys(names))


class KernelImage(image.Image):
    """`daemon`: its libraries become part of the image."""

    def __init__(self, version, folder, daemon):
        programs = [name for name in PROGRAMS if shutil.which(name, path=image.SEARCH)]
        # A changed recipe gets another folder. So does a daemon with other libraries.
        parts = [Path(__file__).read_text(), *programs, *self.libraries_of(daemon)]
        recipe = hashlib.sha256(" ".join(parts).encode()).hexdigest()
        super().__init__(version, Path(folder) / recipe[:12])
        self.daemon = daemon
        image.MODULES = unique(image.MODULES + MODULES)
        image.OPTIONAL_MODULES = unique(image.OPTIONAL_MODULES + MODULES)
        image.UNPACK = unique(image.UNPACK + [f"./lib/modules/*/kernel/{name}/*" for name in FOLDERS])
        image.PROGRAMS = unique(image.PROGRAMS + programs)

    @staticmethod
    def libraries_of(program):
        shown = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
        return [line.split()[0] for line in shown.splitlines() if "=>" in line]

    def release(self):
        return self.package().removeprefix("linux-image-")

    def headers(self):
        """Modules are built here."""
        return Path("/lib/modules", self.release(), "build")

    def add_programs(self, root):
        super().add_programs(root)
        self.add_libraries(root, str(self.daemon))
        for folder in map(Path, PYTHON):
            shutil.copytree(folder, root / str(folder).lstrip("/"), ignore=PYTHON_WITHOUT)
            for library in folder.rglob("*.so"):
                self.add_libraries(root, str(library))
        self.add_file(root, "/etc/iscsi/iscsid.conf")
