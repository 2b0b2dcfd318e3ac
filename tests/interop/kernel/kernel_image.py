"""The guest's boot files for the kernel module: those of the rxe guest (../rxe/image.py), with the modules of the
kernel's own users of RDMA, their tools, and the libraries of our daemon. rrdma.ko and rrdmad come through the shared
folder, so that a rebuild needs no new image."""

import hashlib
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rxe"))
import image  # noqa: E402

MODULES = """ib_umad ib_cm rdma_cm iw_cm nvme_rdma nvmet nvmet_rdma nvme_core null_blk loop ext4 brd nfs nfsd nfsv4 rpcrdma
auth_rpcgss""".split()
# The rxe guest has no use for these folders of the kernel package.
FOLDERS = ("drivers/nvme", "drivers/block", "fs", "block")
PROGRAMS = "ibstat nvme fio mount mkfs.ext4 exportfs mount.nfs rpc.nfsd rpc.mountd rpcbind strace".split()


def unique(names):
    return list(dict.fromkeys(names))


class KernelImage(image.Image):
    """`daemon`: its libraries become part of the image."""

    def __init__(self, version, folder, daemon):
        programs = [name for name in PROGRAMS if shutil.which(name, path=image.SEARCH)]
        # A changed recipe gets another folder.
        recipe = hashlib.sha256((Path(__file__).read_text() + " ".join(programs)).encode()).hexdigest()
        super().__init__(version, Path(folder) / recipe[:12])
        self.daemon = daemon
        image.MODULES = unique(image.MODULES + MODULES)
        image.OPTIONAL_MODULES = unique(image.OPTIONAL_MODULES + MODULES)
        image.UNPACK = unique(image.UNPACK + [f"./lib/modules/*/kernel/{name}/*" for name in FOLDERS])
        image.PROGRAMS = unique(image.PROGRAMS + programs)

    def release(self):
        return self.package().removeprefix("linux-image-")

    def add_programs(self, root):
        super().add_programs(root)
        self.add_libraries(root, str(self.daemon))
