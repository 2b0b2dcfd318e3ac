# Tests the Debian package: builds it with `make deb` (no lintian errors), installs it into a clean root, and removes
# it without a trace. Arguments: the command (unused), the source tree. Label soak: it builds the package from
# scratch.
#
# The clean root is an empty folder with its own package database: dpkg --root writes nowhere else. If mmdebstrap
# finds a mirror, a complete Debian 12 with every dependency is tested as well, set up as in the Dockerfile.
# RRDMA_DEB=FILE uses an existing package.
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[2])
SHARE = "usr/share"
UNITS = {"system": "lib/systemd/system/rrdmad.service", "user": "usr/lib/systemd/user/rrdmad.service"}
EXPECTED = ["usr/bin/rrdma", "usr/bin/rrdmad", *UNITS.values(), f"{SHARE}/bash-completion/completions/rrdma", f"{SHARE}/man/man1/rrdma.1.gz",
            f"{SHARE}/man/man8/rrdmad.8.gz", f"{SHARE}/doc/rrdma/copyright", f"{SHARE}/doc/rrdma/inspector/LICENSES.md"]


def files_of(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rrdma-deb."))
        ready = os.environ.get("RRDMA_DEB")
        if ready:
            cls.package = pathlib.Path(ready)
            return
        done = subprocess.run([SOURCE / "scripts/make-deb"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        (cls.package,) = (path for path in (SOURCE / "build-deb").glob("rrdma_*.deb"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_lintian(self):
        done = subprocess.run(["lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error", self.package], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_content(self):
        listed = subprocess.run(["dpkg-deb", "--contents", self.package], capture_output=True, text=True, check=True).stdout
        paths = {words[5].removeprefix("./") for words in (line.split() for line in listed.splitlines()) if not words[5].endswith("/")}
        for path in EXPECTED:
            self.assertIn(path, paths)
        self.assertTrue(any(re.fullmatch(r"usr/lib(/[\w-]+)?/librrdma\.so\.1", path) for path in paths), paths)
        # Every user may run it, and every command has its page.
        for line in listed.splitlines():
            if re.match(r"\./usr/bin/.", line.split()[5]):
                self.assertTrue(line.startswith("-rwxr-xr-x root/root"), line)
        pages = {path.name for path in (SOURCE / "docs/man").glob("*.1")}
        self.assertEqual({f"{SHARE}/man/man1/{page}.gz" for page in pages} - paths, set())

    def test_maintainer_scripts(self):
        control = self.folder / "control"
        subprocess.run(["dpkg-deb", "--control", self.package, control], check=True)
        # The package stops a daemon that an administrator started, and does not start one.
        self.assertIn("stop rrdmad.service", (control / "prerm").read_text())
        self.assertIn("purge 'rrdmad.service'", (control / "postrm").read_text())
        installed = (control / "postinst").read_text()
        self.assertIn("try-restart", installed)
        self.assertNotIn("so new installations run enable", installed)

    def verify_unit(self, root, scope):
        """Checks a unit with systemd, with the path of its program below the root."""
        text = (root / UNITS[scope]).read_text()
        self.assertIn("ExecStart=/usr/bin/rrdmad ", text)
        unit = self.folder / "units" / scope / "rrdmad.service"
        unit.parent.mkdir(parents=True)
        unit.write_text(text.replace("ExecStart=", f"ExecStart={root}"))
        done = subprocess.run(["systemd-analyze", f"--{scope}", "--man=no", "verify", unit], capture_output=True, text=True,
                              env={**os.environ, "XDG_RUNTIME_DIR": str(self.folder)})
        self.assertEqual((done.returncode, [line for line in done.stderr.splitlines() if "rrdmad" in line]), (0, []), done.stderr)

    def dpkg(self, root, *words):
        done = subprocess.run(["dpkg", f"--root={root}", "--force-not-root,depends,script-chrootless", f"--log={root}/dpkg.log", *words],
                              capture_output=True, text=True, env={**os.environ, "DPKG_ROOT": str(root)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_install_and_remove(self):
        root = self.folder / "root"
        for path in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "etc"):
            (root / path).mkdir(parents=True)
        for name in ("status", "available"):
            (root / "var/lib/dpkg" / name).touch()
        before = {path for path in files_of(root) if not path.startswith("var/lib/dpkg")}
        self.dpkg(root, "--install", self.package)
        for path in EXPECTED:
            self.assertTrue((root / path).exists(), path)
        # It runs from its location, with its library beside it.
        shown = subprocess.run([root / "usr/bin/rrdma", "--version"], capture_output=True, text=True)
        self.assertRegex(shown.stdout, r"^rrdma \d+\.\d+\.\d+\n")
        found = subprocess.run([root / "usr/bin/rrdma", "doctor", "--json"], capture_output=True, text=True).stdout
        self.assertRegex(found, re.escape(str(root)) + r"/usr/lib(/[\w-]+)?/librrdma\.so\.1")
        if shutil.which("systemd-analyze"):
            for scope in UNITS:
                self.verify_unit(root, scope)
        if shutil.which("systemctl"):
            # An administrator enables one daemon for all users; removing the package must undo it.
            subprocess.run(["systemctl", f"--root={root}", "enable", "rrdmad"], check=True, capture_output=True)
            self.assertTrue((root / "etc/systemd/system/multi-user.target.wants/rrdmad.service").is_symlink())
        self.dpkg(root, "--purge", "rrdma")
        left = {path for path in files_of(root) if not path.startswith("var/lib/dpkg") and path != "dpkg.log"} - before
        self.assertEqual(left, set())
        self.assertNotIn("Package: rrdma", (root / "var/lib/dpkg/status").read_text())

    def image(self):
        """From the Dockerfile's last stage: additional packages, user and command; and the commands of
        docs/containers.md for it."""
        stage = (SOURCE / "Dockerfile").read_text().split("\nFROM ")[-1]
        installed = re.search(r"apt-get install -y --no-install-recommends (.*) \\$", stage, re.M)[1].split()
        self.assertEqual(installed[0], "/tmp/rrdma_*.deb")
        (user,) = re.findall(r"^USER (\w+)$", stage, re.M)
        self.assertIn(f"useradd --create-home {user}\n", stage)
        (started,) = re.findall(r"^CMD (\[.*\])$", stage, re.M)
        (shown,) = re.findall(r"^docker run --rm rrdma (.*)$", (SOURCE / "docs/containers.md").read_text(), re.M)
        return installed[1:], user, [" ".join(json.loads(started)), shown]

    def test_in_a_whole_system(self):
        if shutil.which("mmdebstrap") is None:
            self.skipTest("mmdebstrap is not installed")
        root = self.folder / "system"
        needed = re.findall(r"(?:^|, )([a-z0-9.+-]+)", subprocess.run(["dpkg-deb", "--field", self.package, "Depends"], capture_output=True, text=True).stdout)
        packages, user, commands = self.image()
        made = subprocess.run(["mmdebstrap", "--variant=apt", "--include=" + ",".join([*packages, *needed]), "bookworm", root],
                              capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest("mmdebstrap made no system here: " + made.stderr.strip().splitlines()[-1])
        subprocess.run(["chroot", root, "useradd", "--create-home", user], check=True)
        shutil.copy(self.package, root / "tmp/rrdma.deb")
        before = files_of(root)
        # A private network namespace: a system daemon would take this machine's port. Mounts disappear with it.
        inside = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
                  "sh", "-ec", 'mount -t proc proc "$1/proc"; exec chroot "$1" sh -ec "$2"', "sh", root]
        apt = ["chroot", root, "apt-get", "-o", "APT::Sandbox::User=root", "-y"]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}

        def manage(*words):
            done = subprocess.run([*apt, *words], capture_output=True, text=True, env=environment)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

        manage("install", "/tmp/rrdma.deb")
        script = """
            ip link set lo up
            as() { su "$1" -s /bin/sh -c "cd / && export RRDMA_DAEMON_LINGER=0.2; $2"; }
            listens() { for i in $(seq 300); do if ss -ltn | grep -q :18515; then return 0; fi; sleep 0.1; done; return 1; }
            as nobody 'rrdma devices'
            as nobody 'rrdma doctor'
            as nobody 'timeout 60 rrdma run -- ibv_rc_pingpong -g 0' &
            listens
            as nobody 'timeout 60 rrdma run -- ibv_rc_pingpong -g 0 127.0.0.1'
            wait $!
            as nobody 'rrdma stat'
            sleep 1
            """ + "\n".join(f"as {user} '{words}'" for words in commands) + "\nsleep 1\n"
        done = subprocess.run([*inside, script], capture_output=True, text=True, env=environment, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for words in (r"rrdma0 +lo +active", r"(?s)(All is well|RRDMA works here).*(All is well|RRDMA works here)", "1000 iters in", r"hca_id:\s+rrdma0"):
            self.assertRegex(done.stdout, words)
        manage("purge", "rrdma")
        # Files of users in /tmp may stay.
        left = {path for path in files_of(root) - before if not re.match(r"var/(lib/(apt|dpkg)|cache|log)/|tmp/rrdma-[0-9]+/", path)}
        self.assertEqual(left, set())


if __name__ == "__main__":
    for tool in ("dpkg", "dpkg-buildpackage", "lintian"):
        if shutil.which(tool) is None:
            print(f"{tool} is not installed")
            sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
