"""The same questions to both NICs in one guest: the probe (tests/interop/answers) on rxe, and then under `rrdma run`. rxe must answer
as recorded, and every difference must have its row in docs/conformance.md. The whole comparison goes to OUTPUT/answers-KERNEL.md."""

import shutil
import subprocess
import sys
from pathlib import Path

from beside import Finding
from ratios import RatioRunner

ANSWERS = Path(__file__).resolve().parents[2] / "interop/answers"
sys.path.insert(0, str(ANSWERS))
import comparing  # noqa: E402

SECONDS = 500
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups --"


class AnswersRunner(RatioRunner):
    def __init__(self, guest, build, picture, version, output, say):  # pylint: disable=super-init-not-called
        self.guest, self.version, self.output, self.say = guest, version, output, say
        self.install(Path(build), picture)
        probe = Path(build) / "tests/interop/answers/probe"
        subprocess.run(["strip", "-o", str(guest.share / "probe"), str(probe)], check=True)
        shutil.copy(ANSWERS / "routes.sh", guest.share)
        guest.run("cp /share/probe /share/routes.sh /run && chmod a+rx /run/probe /run/routes.sh")

    def ask(self, device, prefix="", routes=""):
        """The second prefix is for the questions about routes."""
        return comparing.parse(self.guest.run(f"{prefix} /run/probe {device}", SECONDS) +
                               self.guest.run(f"{routes} sh /run/routes.sh ask /run/probe", SECONDS))

    def run(self):
        self.guest.run("sh /run/routes.sh set-up && rdma link add rxx type rxe netdev vx", SECONDS)
        theirs = self.ask("rxe0")
        # The module holds UDP port 4791 as long as it is loaded.
        self.guest.run("rdma link del rxx && rdma link del rxe0 && modprobe -r rdma_rxe", SECONDS)
        options = f"{NOBODY} /run/rrdma/bin/rrdma run --only --netdev eth0"
        run = f"{options} --"
        # The daemon starts slowly on an emulated processor, and the first program may give up on it.
        self.guest.run(f"for try in 1 2 3; do {run} ibv_devinfo -d rrdma0 >/dev/null && break; done", SECONDS)
        ours = self.ask("rrdma0", run, f"{options} --devices 2 --")  # the second one on vx, as rxe has it
        (self.output / f"answers-{self.version}.md").write_text("\n".join(comparing.table(ours, {self.version: theirs})) + "\n")
        return [self.judge(f"rxe {self.version} answers {len(theirs)} questions as recorded", self.changed(theirs)),
                self.judge(f"RRDMA answers otherwise only where docs/conformance.md says so ({sum(ours.get(key) != theirs[key] for key in theirs)} times)",
                           self.undocumented(ours))]

    def changed(self, theirs):
        recorded = comparing.recorded(self.version)
        return [f"{key}: {theirs.get(key, 'not answered')}; recorded: {recorded.get(key, 'nothing')}"
                for key in sorted(set(theirs) | set(recorded)) if theirs.get(key) != recorded.get(key)]

    def undocumented(self, ours):
        theirs = {kernel: comparing.recorded(kernel) for kernel in comparing.KERNELS}
        return comparing.troubles(ours, theirs, comparing.DOCUMENT.read_text())

    def judge(self, name, troubles):
        finding = Finding(name, troubles)
        self.say(f"{'pass' if finding.passed else 'FAIL'}  {finding.name}" + "".join(f"\n      {line}" for line in finding.troubles))
        return finding
