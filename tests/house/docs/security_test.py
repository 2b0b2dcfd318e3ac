# Each promise of SECURITY.md names tests that exist: ctest names (tests/house/ci/tests.txt), files, test classes in files,
# rules of tidy and targets of make. Each attacker has a group of promises in the table. The table of sockets, files and names has
# a row for each source that creates one. Argument: the source tree.
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1])
PAGE = (SOURCE / "SECURITY.md").read_text(encoding="utf-8")
KNOWN = set((SOURCE / "tests/house/ci/tests.txt").read_text(encoding="utf-8").split())
ROW = re.compile(r"^\| (.+?) \| (.*?) ?\|$", re.M)
# A reference, with the classes or cases that it names in parentheses.
REFERENCE = re.compile(r"`([^`]+)`(?: \(((?:`[^`]+`(?:, )?)+)\))?")
# The sources of tests by ctest name.
FILES = {"hostile": "tests/programs/hostile/hostile_test.py", "process.unmapped": "tests/programs/process/unmapped_test.py"}
RULES = (SOURCE / "tests/house/tidy/rules.toml").read_text(encoding="utf-8")

CREATES = re.compile(r"raw::bind\(|(?<!\w)::bind\(|rdma_bind_addr\(|evhttp_bind\w*\(|\bmemfd_create\(|shm_open\(|mkfifo\(|::mkdir\(|mkdtemp\("
                     r"|mkstemps?\(|\| O_CREAT\b|std::ofstream \w+\(")
# The sources that create one, with the text that names it in the table; None: no other process can reach it.
CREATED = {
    "lib/comm/datagram.cc": "a port of the connection manager",
    "lib/comm/listener.cc": "a port of the connection manager",
    "lib/comm/pool.cc": "`rrdma-comm`",
    "lib/rpc/spans.cc": "`SpanFile`",
    "src/control/names.cc": "`net-N-P-U.sock`",
    "src/control/process_page.cc": "`rrdma-process`",
    "src/daemon/log.cc": "`RRDMA_DAEMON_LOG`",
    "src/daemon/slots/slot_ledger.cc": "`rrdma-ledger`",
    "src/daemon/slots/slot_socket.cc": "UDP port 4791",
    "src/host/device_links.cc": "`rrdma link add`",
    "src/host/explain_log.cc": "`explain.PID`",
    "src/host/interfaces.cc": None,  # netlink
    "src/inspect/browser.cc": "`rrdma-inspect-*.html`",
    "src/inspect/inspect_command.cc": "reports",
    "src/inspect/orders/capture_desk.cc": "`rrdma-inspect.*`",
    "src/inspect/server.cc": "127.0.0.1 only",
    "src/inspect/trace_command.cc": "traces",
    "src/lab/lab_command.cc": "reports",
    "src/lab/lab_space.cc": "`/mnt/rrdma-lab`",
    "src/link/capture_sink.cc": "capture files",
    "src/link/shm/channel.cc": "`rrdma-channel`",
    "src/link/shm/direct_table.cc": "`rrdma-direct`",
    "src/link/udp/private_network.h": None,  # of tests and benchmarks
    "src/link/udp/send_ports.cc": "UDP source ports",
    "src/preload/files/counter_files.cc": "`files.*`",
    "src/preload/files/folders.cc": "`files.*`",
    "src/preload/files/tree_store.cc": "`files.*`",
    "src/preload/netlink/rdma_socket.cc": "`NETLINK_USERSOCK`",
    "src/preload/verbs/device/context.cc": "the command file of a verbs context",
    "src/sharing/arena.cc": "`rrdma-shared`",
    "src/tools/doctor/host_checks.cc": "UDP port 4791",
    "src/tools/sim/sim_command.cc": "reports",
    "src/tools/sim/sim_report.cc": "traces",
}


def creators():
    """The sources of programs and libraries that create a socket, a file or a name."""
    for path in sorted([*(SOURCE / "src").rglob("*"), *(SOURCE / "lib").rglob("*")]):
        if path.suffix not in (".cc", ".h") or "test" in path.name or path.name == "raw_syscall.h":
            continue
        if CREATES.search(re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))):
            yield str(path.relative_to(SOURCE))


def table():
    """[(group, promise, tests)]"""
    part = PAGE.split("## Tests\n", 1)[1]
    rows, group = [], ""
    for promise, tests in ROW.findall(part):
        if promise.startswith("**"):
            group = promise.strip("*")
        elif promise != "promise" and not promise.startswith("---"):
            rows.append((group, promise, tests))
    return rows


def files_of(name):
    """The sources that a reference names; None if it names none."""
    if name in FILES:
        return [SOURCE / FILES[name]]
    if "/" in name:
        return [path for path in SOURCE.glob(name.rstrip("/")) if path.is_file() or path.is_dir()]
    return None


def exists(name):
    if name.startswith("make "):
        return re.search(rf"^{name[5:]}:", (SOURCE / "Makefile").read_text(encoding="utf-8"), re.M) is not None
    files = files_of(name)
    if files is not None:
        return bool(files)
    if name.endswith(".*"):
        return any(known.startswith(name[:-1]) for known in KNOWN)
    return name in KNOWN or (name.startswith(".") and f"fuzz.replay{name}" in KNOWN)


def missing(tests):
    """The names in a cell that the tree does not have."""
    for rule in re.findall(r"the rule `(\w+)` of `tidy`", tests):
        if rule not in RULES:
            yield rule
    tests = re.sub(r"the rule `\w+` of `tidy`", "", tests)
    for name, inside in REFERENCE.findall(tests):
        if not exists(name):
            yield name
            continue
        texts = [path.read_text(encoding="utf-8") for path in files_of(name) or [] if path.is_file()]
        for part in re.findall(r"`([^`]+)`", inside):
            if not any(re.search(rf"\b{part}\b", text) for text in texts):
                yield f"{part} in {name}"


class Security(unittest.TestCase):
    def test_each_promise_has_tests_that_exist(self):
        rows = table()
        self.assertGreater(len(rows), 30)
        for group, promise, tests in rows:
            with self.subTest(group=group, promise=promise):
                self.assertRegex(tests, "`[^`]+`", "a promise without a test")
                self.assertEqual(list(missing(tests)), [])

    def test_each_attacker_has_promises(self):
        groups = {group for group, _, _ in table()}
        attackers = PAGE.split("## Attackers\n", 1)[1].split("\n## ", 1)[0]
        for part in attackers.split("\n### ")[1:]:
            name, _, text = part.partition("\n")
            promised = re.split(r"\n+Not promised:", text)[0].count("\n- ")
            if "Promised:" in text:
                rows = [row for row in table() if row[0] == name.strip()]
                self.assertGreaterEqual(len(rows), min(promised, 4), name)  # some rows hold several promises
        self.assertGreaterEqual(len(groups), 4)

    def test_each_hostile_test_holds_a_promise(self):
        told = PAGE.split("## Tests\n", 1)[1]
        for name in sorted(KNOWN):
            if name.startswith("hostile.") and name != "hostile.soak":
                self.assertIn(f"`{name}`", told, name)

    def test_each_socket_file_and_name_is_in_the_table(self):
        self.assertEqual(sorted(set(creators()) ^ set(CREATED)), [])
        rows = PAGE.split("## Sockets, files and names\n", 1)[1].split("\n## ", 1)[0]
        names = [row.split(" | ")[0] for row in rows.splitlines() if row.startswith("| ")]
        for source, name in CREATED.items():
            with self.subTest(source=source):
                self.assertTrue(name is None or any(name in row for row in names), name)

    def test_it_can_fail(self):
        self.assertEqual(list(missing("`hostile.nothing`, `src/none_test.cc`, `hostile` (`Nobody`)")),
                         ["hostile.nothing", "src/none_test.cc", "Nobody in hostile"])


if __name__ == "__main__":
    del sys.argv[1:]
    unittest.main()
