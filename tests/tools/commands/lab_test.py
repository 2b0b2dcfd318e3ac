# Tests `rrdma lab` as an ordinary user. Arguments: the command.
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "harness"))
import namespaces  # noqa: E402
import programs  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve().parent.parent
FOLDER = programs.readable_copy("rrdma-lab-test.", {"bin/rrdma": BUILD / "bin/rrdma", "bin/rrdmad": BUILD / "bin/rrdmad",
                                                    "lib/librrdma.so.1": BUILD / "lib/librrdma.so.1"})
RRDMA = FOLDER / "bin/rrdma"


def as_nobody():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(namespaces.NOBODY)
        os.setuid(namespaces.NOBODY)


def start(*words, **rest):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RRDMA_", "XDG_"))}
    environment.update({"PATH": f"{FOLDER}/bin:{os.environ['PATH']}", "HOME": "/tmp", "RRDMA_DAEMON_LINGER": "0.2"})
    return subprocess.Popen([str(RRDMA), *map(str, words)], preexec_fn=as_nobody, env=environment, cwd="/", text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **rest)


def lab(*words, status=0, seconds=100):
    process = start("lab", *words)
    try:
        text = process.communicate(timeout=seconds)[0]
    finally:
        process.kill()
    assert process.returncode == status, (words, process.returncode, text)
    return text


# Nothing listens on port 1: a refused connection has reached the host.
REACH = """
reach() {
  rrdma lab run $1 -- python3 -c 'import errno, socket, sys
s = socket.socket(socket.AF_INET6 if sys.argv[2] == "6" else socket.AF_INET)
s.settimeout(3)
sys.exit(s.connect_ex((sys.argv[1], 1)) != errno.ECONNREFUSED)' $2 $3
}
"""


def script(topology, text, **rest):
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        os.chmod(file.name, 0o644)
        file.write("set -e\n" + REACH + text)
        file.flush()
        return lab(*topology, "--", "bash", file.name, **rest)


def hide_other_labs():
    """A user has one lab at a time. Another run of this test has the same user, so the folder of its socket is private."""
    folder = f"/tmp/rrdma-{namespaces.NOBODY}"
    os.makedirs(folder, 0o700, exist_ok=True)
    os.chown(folder, namespaces.NOBODY, namespaces.NOBODY)
    namespaces.call("unshare", namespaces.CLONE_NEWNS)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=700,uid={namespaces.NOBODY},gid={namespaces.NOBODY}", "none", folder], check=True)


class Lab(unittest.TestCase):
    def test_hosts_reach_each_other_by_name_and_by_rdma(self):
        said = script(("leaf-spine", "--hosts", "4"), """
rrdma lab run h1 -- hostname
reach h1 h4 4 && echo ping4
reach h1 h4 6 && echo ping6
rrdma lab run h1 -- ibv_devinfo | grep -c PORT_ACTIVE
address=$(rrdma lab run h4 -- getent ahostsv4 h4 | head -1 | cut -d' ' -f1)
rrdma lab run h4 -- rping -s -a $address -C 3 & server=$!
for try in 1 2 3 4 5 6 7 8 9 10; do rrdma lab run h1 -- rping -c -a $address -C 3 >/dev/null 2>&1 && break; sleep 0.3; done
wait $server && echo rang
""")
        for word in ("h1\n", "ping4", "ping6", "1\n", "rang"):
            self.assertIn(word, said)

    def test_documented_programs_by_name(self):
        """ibv_rc_pingpong through a router, and rping, whose server binds to any IPv4 address."""
        for topology in (("star", "--hosts", "2"), ("pair",)):
            with self.subTest(topology):
                said = script(topology, """
retry() { for try in $(seq 20); do "$@" >/dev/null 2>&1 && return; sleep 0.3; done; exit 1; }
rrdma lab run h1 -- ibv_rc_pingpong -g 1 -n 20 >/dev/null & server=$!
retry rrdma lab run h2 -- ibv_rc_pingpong -g 1 -n 20 h1
wait $server && echo pingpong
rrdma lab run h1 -- rping -s -C 3 >/dev/null 2>&1 & server=$!
retry rrdma lab run h2 -- rping -c -a h1 -C 3
wait $server && echo rang
""")
                self.assertEqual(said.split(), ["pingpong", "rang"], said)

    def test_a_packet_that_dies_of_ttl_is_named(self):
        """The packets of a running program get TTL 1: the switch, which routes, drops them and says so."""
        said = script(("star", "--hosts", "2"), """
rrdma lab run h1 -- ib_send_bw -x 1 -F -D 30 >/dev/null 2>&1 & server=$!
sleep 1
rrdma lab run h2 -- ib_send_bw -x 1 -F -D 30 h1 >/dev/null 2>&1 & client=$!
for try in $(seq 50); do rrdma lab run h2 -- rrdma stat 2>/dev/null | grep -q RTS && break; sleep 0.1; done
address=$(rrdma lab run h2 -- getent ahostsv4 h1 | head -1 | cut -d' ' -f1)
gateway=$(rrdma lab run h2 -- ip -4 route get $address | grep -o 'via [^ ]*' | cut -d' ' -f2)
echo gateway $gateway
rrdma lab run h2 -- ip route add $address/32 via $gateway hoplimit 1
for try in $(seq 100); do rrdma lab run h2 -- rrdma explain | grep -q TTL && break; sleep 0.1; done
rrdma lab run h2 -- rrdma explain | tr -s ' \n' ' '
echo
rrdma lab run h2 -- rrdma explain --lang zh | tr -d ' \n' | grep -o "TTL已耗尽"
kill $server $client 2>/dev/null || true
""")
        gateway = re.search(r"gateway (\S+)", said)[1]
        self.assertIn(f"{gateway} dropped our packets because their TTL ran out (ICMP time exceeded)", said)
        self.assertIn("TTL已耗尽", said)
        self.assertIn("Look for a routing loop, and at net.ipv4.ip_default_ttl or the hoplimit of the route. ", said)
        self.assertNotIn("Compare destination QPN", said, "the reason is known")

    def test_down(self):
        process = start("lab", "star")
        for line in process.stdout:
            if "The lab is up" in line:
                break
        self.assertIn("`rrdma lab down` ends it", lab("star", status=2))
        lab("down")
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0)
        self.assertIn("this user has no lab", lab("down", status=2))

    def test_the_picture(self):
        said = script(("leaf-spine", "--hosts", "2", "--leaves", "2", "--rate", "1G"), """
rrdma lab cut h2
rrdma lab show
rrdma lab heal h2
rrdma lab run h2 -- ibv_rc_pingpong -g 1 -n 100000000 >/dev/null 2>&1 &
for try in $(seq 20); do rrdma lab run h1 -- timeout 4 ibv_rc_pingpong -g 1 -n 100000000 h2 >/dev/null 2>&1; [ $? = 124 ] && break; sleep 0.2; done &
for try in $(seq 40); do shown=$(rrdma lab show); grep -q "h1 .*down [1-9]" <<<"$shown" && break; sleep 0.5; done
echo "$shown"
kill %1 || true
""")
        tree = re.sub(r"  +10\.90.*", "", "".join(said.splitlines(True)[:8]))
        self.assertEqual(tree, "  spine1\n  ├── leaf1\n  │  └── h1\n  └── leaf2\n     └-x- h2\n  spine2\n  ├── leaf1\n  └── leaf2\n", said)
        self.assertRegex(said, r"h2 +10\.90\.\d+\.\d+ +10\.90\.\d+\.\d+ +1G +cut")
        self.assertRegex(said, r"h1 .* down \d+\.?\d*[kM] \(\d+ %\) up ")

    def test_the_help_names_its_arguments(self):
        self.assertIn("NODE [NODE]", lab("cut", "--help"))

    def test_a_spine_is_cut_and_healed(self):
        said = script(("leaf-spine", "--hosts", "4"), """
rrdma lab cut spine1
rrdma lab show | grep -c -- -x-
reach h1 h4 4 && echo around
rrdma lab cut spine2
reach h1 h4 4 || echo apart
rrdma lab heal spine1
rrdma lab heal spine2
reach h1 h4 4 && echo together
reach h1 h4 6 && echo six
""")
        self.assertEqual(said.split(), ["2", "around", "apart", "together", "six"])

    def test_a_fault_on_one_host(self):
        said = script(("star", "--hosts", "2"), """
seen=$(mktemp)
rrdma lab run h1 -- ibv_asyncwatch -d rrdma0 > $seen 2>&1 & watch=$!
await() { for try in $(seq 100); do grep -q "$1" $seen && return; sleep 0.1; done; cat $seen; exit 1; }
await "async event"
rrdma lab fault h1 set port=down
await PORT_ERR && echo down
rrdma lab fault h2 list || echo apart
rrdma lab fault h1 clear all
await PORT_ACTIVE && echo up
kill $watch
rm $seen
""")
        for word in ("down", "apart", "up"):
            self.assertIn(word + "\n", said)

    def test_it_is_joined_from_outside_and_nothing_is_left(self):
        holder = start("lab", "star", "--hosts", "3")
        try:
            while "The lab is up" not in holder.stdout.readline():
                self.assertIsNone(holder.poll())
            self.assertEqual(lab("run", "h2", "--", "hostname"), "h2\n")
            self.assertIn("there is a lab of this user already", lab("star", status=2))
            self.assertIn("no node 'h9'", lab("run", "h9", "--", "true", status=2))
            self.assertEqual(lab("run", "h2", "--", "sh", "-c", "exit 7", status=7), "")
            sleeper = start("lab", "run", "h1", "--", "sleep", "1000")
            time.sleep(0.5)
            self.assertGreater(len(programs.pids_of(RRDMA)), 3)
        finally:
            os.kill(holder.pid, signal.SIGKILL)
            holder.wait()
            holder.stdout.close()
        sleeper.wait(20)
        sleeper.stdout.close()
        end = time.monotonic() + 10
        while programs.pids_of(RRDMA) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(programs.pids_of(RRDMA), [])
        self.assertIn("this user has no lab", lab("show", status=2))

    def test_32_hosts(self):
        begin = time.monotonic()
        said = script(("leaf-spine", "--hosts", "32", "--leaves", "4"), "reach h1 h32 4 && echo far\n")
        self.assertIn("far", said)
        print(f"32 hosts, a packet and the end: {time.monotonic() - begin:.1f} s")

    def test_files_and_mistakes(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        file = folder / "topology.toml"
        file.write_text('[defaults]\nrate = "1gbit"\n[[host]]\nname = "a"\n[[host]]\nname = "b"\n[[link]]\nbetween = ["a", "b"]\nqueue = 100\n')
        self.assertIn("there", script((file,), "reach a b 4 && echo there\n"))
        for text, sentence in (("[[host]\n", "topology.toml:1"), ('[[host]]\nname = "a b"\n', "a host needs a name"),
                               ('preset = "torus"\n', "'torus' is no preset"), ("[defaults]\n", "has no host"),
                               ('[[host]]\nname = "a"\n[[link]]\nbetween = ["a", "z"]\n', "no node 'z'"),
                               ('preset = "star"\n[defaults]\nrate = "; reboot"\n', "'; reboot' is no rate"),
                               ('preset = "star"\n[defaults]\ndelay = 5\n', "'5' is no time"),
                               ('preset = "star"\nrate = "1G"\n', "'rate' is no word of a topology"),
                               ('preset = "star"\n[defaults]\necn = true\n', "'ecn' marks packets in the place of losing them")):
            file.write_text(text)
            self.assertIn(sentence, lab(file, status=2))

        self.assertIn("--rate is for presets", lab(file, "--rate", "1G", status=2))
        self.assertIn("'stra' is neither a preset nor a file", lab("stra", status=2))

    def test_rates_in_the_words_of_the_field(self):
        for words, shown, shape in ((("--rate", "100M"), "100M", "rate 100Mbit"), (("--rate", "40Gbit", "--queue", "50"), "40G queue 50", "rate 40Gbit"),
                                    (("--queue", "50"), "queue 50", "pfifo"), (("--rate", "100k"), "100K", "rate 100Kbit")):
            said = script(("star", "--hosts", "2", *words), "rrdma lab show\nrrdma lab run h1 -- tc qdisc show dev eth0\n")
            self.assertIn(shown, said)
            self.assertIn(shape, said)
        for words, sentence in ((("--rate", "100Mbps"), "'100Mbps' is no rate"), (("--delay", "5"), "'5' is no time"),
                                (("--loss", "3"), "'3' is no chance"), (("--queue", "0"), "'0' is no queue"), (("--ecn",), "'ecn' marks")):
            self.assertIn(sentence, lab("star", *words, "--", "true", status=2))

    def test_delay_and_loss_of_links(self):
        """With netem, or with RRDMA's own faults if the kernel lacks it: two links of 2 ms in each direction, for
        each of 50 pings."""
        said = script(("star", "--hosts", "2", "--delay", "2ms", "--loss", "0.1%"), """
rrdma lab run h2 -- timeout 60 rping -s -C 50 & server=$!
for try in $(seq 50); do
  begin=$(date +%s%N)
  rrdma lab run h1 -- rping -c -a 10.90.0.4 -C 50 >/dev/null 2>&1 && break
  sleep 0.2
done
echo took $((($(date +%s%N) - begin) / 1000000)) ms
wait $server
""")
        self.assertGreater(int(re.search(r"took (\d+) ms", said)[1]), 50 * 8, said)

    def test_pictures(self):
        target = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, target)
        target.chmod(0o777)
        script(("dumbbell",), f"rrdma lab show --svg {target}/lab.svg\n")
        text = (target / "lab.svg").read_text()
        self.assertIn("<svg", text)
        self.assertEqual(text.count("<line"), 5)

    @unittest.skipUnless(shutil.which("mpirun"), "no Open MPI")
    def test_mpirun_starts_on_every_host(self):
        said = script(("star", "--hosts", "2"), "rrdma lab mpirun -np 2 --map-by node hostname\n", seconds=200)
        self.assertEqual(sorted(line for line in said.split() if line in ("h1", "h2")), ["h1", "h2"], said)

    @unittest.skipUnless(shutil.which("mpirun") and shutil.which("mpicc"), "no Open MPI")
    def test_all_to_all_while_a_spine_is_cut_and_healed(self):
        program = FOLDER / "bin/alltoall"
        subprocess.run(["mpicc", "-O1", "-o", program, pathlib.Path(__file__).with_name("alltoall.c")], check=True)
        program.chmod(0o755)
        said = script(("leaf-spine", "--hosts", "8"), f"""
rrdma lab mpirun -np 8 --map-by node -x UCX_TLS=rc,self {program} 100 & all=$!
sleep 2
rrdma lab cut spine1
sleep 0.5
rrdma lab heal spine1
wait $all
""", seconds=200)
        self.assertIn("8 processes, 100 rounds, 0 wrong values", said)


if __name__ == "__main__":
    try:
        if namespaces.unshare("net", "mount", "pid") is None:
            print("namespaces of one's own are not allowed here")
            sys.exit(namespaces.SKIPPED)
        if namespaces.is_real_root():
            hide_other_labs()
        unittest.main(argv=sys.argv[:1], verbosity=2)
    finally:
        shutil.rmtree(FOLDER)
