"""rdma-core's Python tests, as Debian ships them."""
import gzip
import os
import shutil

TESTS = "/usr/share/doc/rdma-core/tests"


def copy_tests(folder):
    """Copies the tests; Debian ships some of them compressed."""
    shutil.copytree(TESTS, folder)
    for name in os.listdir(folder):
        if name.endswith(".gz"):
            with gzip.open(os.path.join(folder, name)) as packed, open(os.path.join(folder, name[:-3]), "wb") as plain:
                plain.write(packed.read())
    os.chmod(folder, 0o755)
