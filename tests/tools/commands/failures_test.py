# Tests `rrdma explain` for failed work requests and refused connections: record, sentence and remedy of every status
# that can be provoked. Arguments: the command, the program that provokes them.
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import command
import servers
import surroundings
from command import RRDMA, run, run_json

FAILURES = sys.argv[2]
SEND, RDMA_WRITE, RDMA_READ, BIND, RECEIVE = 0, 1, 2, 5, 128  # ibv_wc_opcode

# Name: status, kind, opcode, cause, bytes, NAK code, words of the sentence, words of the remedy.
WAYS = {
    "receive-too-small": (1, "receive", RECEIVE, 7, 1500, None, "longer than the receive request", "receive"),
    "reads-not-allowed": (2, "send", RDMA_READ, 8, 64, None, "not allowed on this QP", "max_rd_atomic"),
    "bad-lkey": (4, "send", RDMA_WRITE, 1, 64, None, "names no registered memory", "lkey"),
    "bad-receive-lkey": (4, "receive", RECEIVE, 1, 64, None, "names no registered memory", "lkey"),
    "bind-refused": (6, "send", BIND, 9, 0, None, "cannot be bound", "IBV_ACCESS_MW_BIND"),
    "write-with-immediate-refused": (8, "receive", RECEIVE, 64, 64, None, "names no registered memory or bound window", "rkey"),
    "message-too-long": (9, "send", SEND, 32, 3000, 1, "NAK: invalid request", "receives"),
    "bad-rkey": (10, "send", RDMA_WRITE, 33, 3000, 2, "NAK: remote access error", "rkey"),
    "not-writable": (10, "send", RDMA_WRITE, 33, 64, 2, "NAK: remote access error", "rkey"),
    "read-past-the-end": (10, "send", RDMA_READ, 33, 100, 2, "NAK: remote access error", "rkey"),
    "local-past-the-end": (4, "send", RDMA_WRITE, 3, 65537, None, "run 1 bytes past the end of MR", "sg_list"),
    "peer-cannot-receive": (11, "send", SEND, 34, 64, 3, "NAK: remote operational error", "receive"),
    "peer-silent": (12, "send", SEND, 36, 64, None, "did not acknowledge", "doctor"),
    "peer-not-ready": (13, "send", SEND, 35, 64, 1, "no receive request posted", "receives"),
}


def provoke(*names, options=()):
    """The output of the program by name, and its pid."""
    process = subprocess.Popen([RRDMA, "run", *options, "--", FAILURES, "1", *names], stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=120)
    if process.returncode != 0:
        raise AssertionError(f"{FAILURES} {' '.join(names)}: exit status {process.returncode}\n{output}")
    seen = {}
    for line in output.splitlines():
        name, *numbers = line.split()
        seen[name] = dict(zip(("status", "vendor_err", "wr_id", "qpn", "peer_qpn"), map(int, numbers)))
    return seen, process.pid


def failures(pid):
    (process,) = run_json("explain", "--json", "--pid", pid)
    return [said for said in process["sentences"] if "failure" in said]


class EveryStatus(unittest.TestCase):
    def check(self, name, options=(), link="shm"):
        seen, pid = provoke(name, options=options)
        status, kind, opcode, cause, length, nak, words, remedy = WAYS[name]
        completion = seen[name]
        self.assertEqual((completion["status"], completion["vendor_err"] >> 24), (status, cause))
        (said,) = [s for s in failures(pid) if s["failure"]["kind"] == kind and s["failure"]["qpn"] == completion["qpn"]]
        self.assertEqual((said["severity"], said["times"]), ("error", 1))
        failure = said["failure"]
        for key, value in {"status": status, "opcode": opcode, "cause": cause, "wr_id": completion["wr_id"], "qpn": completion["qpn"],
                           "peer_qpn": completion["peer_qpn"], "peer": "10.9.0.1", "length": length, "link": link}.items():
            self.assertEqual(failure[key], value, key)
        self.assertEqual(failure.get("answer", {}).get("code"), nak)
        sentence = said["sentence"]
        self.assertIn(words, sentence)
        self.assertIn(f"status {status} (", sentence)
        self.assertIn(f"QP {completion['qpn']:#08x}", sentence)
        if name != "bind-refused":
            self.assertIn(f"QP {completion['peer_qpn']:#08x} at 10.9.0.1", sentence)
        self.assertIn(remedy, sentence.rsplit(". ", 1)[1], "the remedy in the sentence")
        self.assertTrue(failure["remedy"], "the remedies of the catalogue")
        shown, _ = run("explain", "--pid", pid)
        self.assertRegex(shown, rf"^failures, process {pid} \(ended\)\n")
        self.assertIn("What to check:", shown)
        chinese, _ = run("explain", "--pid", pid, "--lang", "zh")
        self.assertIn("检查要点", chinese)
        return failure, sentence

    def test_each(self):
        for name in WAYS:
            with self.subTest(name):
                self.check(name)

    def test_over_udp(self):
        for name in ("bad-rkey", "peer-silent", "receive-too-small"):
            with self.subTest(name):
                self.check(name, ("--link", "udp"), "udp")

    def test_retries_with_their_times(self):
        failure, sentence = self.check("peer-silent", ("--link", "udp"), "udp")
        self.assertEqual((failure["retries"], failure["retry_cnt"], failure["timeout"]), (2, 2, 12))
        times = [retry["after_us"] for retry in failure["last_retries"]]
        self.assertEqual([retry["why"] for retry in failure["last_retries"]], ["silence"] * 2)
        self.assertGreaterEqual(times[0], 16_000)  # 4.096 us * 2^12
        self.assertGreaterEqual(times[1] - times[0], 16_000)
        self.assertGreater(failure["gave_up_after_us"], times[1])
        self.assertIn("(timeout is 12: 16.8 ms; retry_cnt is 2)", sentence)
        self.assertRegex(sentence, r"PSN 100 was retransmitted 2 times \(after a timeout\), at [\d.]+, [\d.]+ ms, and given up at")
        failure, sentence = self.check("peer-not-ready")
        self.assertEqual((failure["retries"], failure["rnr_retry"], failure["answer"]["kind"]), (3, 3, "RNR NAK"))
        self.assertIn("RNR NAK with timer 1 (0.01 ms)", sentence)
        self.assertIn("rnr_retry times in a row (rnr_retry is 3)", sentence)

    def test_flushes_are_counted_not_told(self):
        seen, pid = provoke("not-writable")
        (said,) = [s for s in failures(pid) if s["failure"]["kind"] == "send"]
        self.assertEqual((said["failure"]["flushed_sends"], said["failure"]["flushed_receives"]), (3, 1))
        self.assertIn("Flushed behind it: 3 send requests, 1 receive request.", run("explain", "--pid", pid)[0])
        self.assertEqual(len(failures(pid)), 2)

    def test_who_refuses_says_why(self):
        seen, pid = provoke("not-writable")
        (said,) = [s for s in failures(pid) if s["failure"]["kind"] == "refused"]
        failure = said["failure"]
        self.assertEqual((failure["qpn"], failure["peer_qpn"]), (seen["not-writable"]["peer_qpn"], seen["not-writable"]["qpn"]))
        self.assertEqual((failure["status"], failure["cause"], failure["length"], failure["answer"]["code"]), (10, 68, 64, 2))
        self.assertIn("does not grant this kind of access", said["sentence"])
        self.assertIn("IBV_ACCESS_REMOTE_WRITE", said["sentence"])
        self.assertIn("has the rights REMOTE_READ, and the request needs REMOTE_WRITE", said["sentence"])
        self.assertEqual(failure["region"]["length"], 65536)

    def test_the_region_beside_the_address(self):
        for way, words in (("read-past-the-end", r"bytes \[\+65500, \+65600\) run 64 bytes past the end of MR 0x[0-9a-f]{8} \(65536 bytes at 0x"),
                           ("bad-rkey", r"the address lies in MR (0x[0-9a-f]{8}) \(65536 bytes at 0x[0-9a-f]+\), whose rkey is \1, not 0x")):
            _, pid = provoke(way)
            (refused,) = [s for s in failures(pid) if s["failure"]["kind"] == "refused"]
            self.assertRegex(refused["sentence"], words)
            # The sender's end names what the other end knows.
            (failed,) = [s for s in failures(pid) if s["failure"]["kind"] == "send"]
            self.assertEqual(run_json("explain", "--json", "--pid", pid)[0]["sentences"][0].get("other_end", {}).get("sentence")
                             or run_json("explain", "--json", "--pid", pid)[0]["sentences"][1]["other_end"]["sentence"], refused["sentence"])
            shown, _ = run("explain", "--pid", pid)
            self.assertIn("The other end (failures, process", shown)
            for advice in ("--pid PID", "there names the cause"):
                self.assertNotIn(advice, " ".join(shown.split()), "advice to ask the other end, which has answered")
            self.assertIn("rkey here, and address, length and rkey of the ibv_mr at the peer", " ".join(shown.split()))
            self.assertIn("NAK", failed["sentence"])

    def test_chinese_is_whole(self):
        for way in WAYS:
            _, pid = provoke(way)
            shown, _ = run("explain", "--pid", pid, "--lang", "zh")
            told = [line for line in shown.splitlines() if re.match(r"  \d\d:\d\d:\d\d", line)]
            self.assertTrue(told)
            for line in told:
                self.assertRegex(line, r"[\u4e00-\u9fff]")
            self.assertNotRegex(shown, r"[a-z]+ [a-z]+ [a-z]+ [a-z]+ [a-z]+", way)
            self.assertNotRegex(shown, r"（\n|） |[A-Z][\u4e00-\u9fff]| error | info |peer's", way)
            self.assertRegex(shown, rf"^failures，进程 {pid}（已结束）\n")

    def test_on_standard_error(self):
        done = subprocess.run([RRDMA, "run", "--log", "error", "--", FAILURES, "1", "bad-rkey"], capture_output=True, text=True, timeout=60)
        self.assertRegex(done.stderr, r"rrdma\[\d+\]: ibv_post_send: RDMA WRITE of 3000 bytes \(wr_id 77\) from QP 0x[0-9a-f]{6} to QP ")

    def test_the_newest_process_first_and_its_name(self):
        _, first = provoke("bad-rkey")
        _, second = provoke("bad-lkey")
        shown, _ = run("explain")
        self.assertLess(shown.index(f"failures, process {second}"), shown.index(f"failures, process {first}"))


class RefusedCalls(unittest.TestCase):
    def sentences(self, pid, *words):
        (process,) = run_json("explain", "--json", "--pid", pid, *words)
        return " ".join(said["sentence"] for said in process["sentences"])

    def test_values(self):
        seen, pid = provoke("wrong-state")
        self.assertRegex(self.sentences(pid), r"QP 0x[0-9a-f]{6} is in state RESET: sends need RTS; call ibv_modify_qp for INIT, RTR and RTS before you post\.")
        self.assertRegex(self.sentences(pid, "--lang", "zh"), r"QP 0x[0-9a-f]{6} 处于 RESET 状态：发送需要 RTS；请先用 ibv_modify_qp 依次转到 INIT、RTR、RTS，再投递请求。")
        seen, pid = provoke("full-queue")
        self.assertIn("a completion queue of 16 entries overflowed and takes no more completions: 16 were waiting to be polled when the next one came. "
                      "Its QPs hold up to 16 requests.", self.sentences(pid))
        self.assertIn("16 项的完成队列溢出，不再接收完成项：新的完成项到来时，已有 16 个尚未被轮询取走。它的 QP 最多容纳 16 个请求。", self.sentences(pid, "--lang", "zh"))

    def test_mtu(self):
        words = [RRDMA, "run", "--", "ibv_rc_pingpong", "-g", "1", "-m", "4096", "-p", "18633"]
        before = servers.open_ports()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        servers.await_server(process, before, words)
        client = subprocess.Popen([*words, "localhost"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(client.kill)
        surroundings.wait_for(lambda: process.poll() is not None)
        said = self.sentences(process.pid)
        self.assertIn("path_mtu is 4096, larger than active_mtu 1024 (eth0 has an MTU of 1500 bytes); use IBV_MTU_1024 or less", said)


class SourceLines(unittest.TestCase):
    """The line of the program's call, if the program has debug information and addr2line is installed."""
    SOURCE = pathlib.Path(__file__).parent / "lines.c"

    def setUp(self):
        if shutil.which("cc") is None or shutil.which("addr2line") is None:
            self.skipTest("no compiler or no addr2line")
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def told(self, *options):
        """Records of explain about the program, compiled with these options: the source of each call."""
        program = f"{self.folder}/lines"
        subprocess.run(["cc", *options, "-o", program, self.SOURCE, "-libverbs"], check=True)
        process = subprocess.Popen([RRDMA, "run", "--", program, "1"])
        self.assertEqual(process.wait(60), 0)
        (seen,) = run_json("explain", "--json", "--pid", process.pid)
        return {(said["call"], said["severity"]): said.get("source") for said in seen["sentences"]}, process.pid, program

    def line_of(self, mark):
        (found,) = [number for number, line in enumerate(self.SOURCE.read_text().splitlines(), 1) if line.endswith(f"// {mark}")]
        return f"{self.SOURCE}:{found}"

    def test_with_debug_information(self):
        for level in ("-O0", "-O2"):
            with self.subTest(level):
                sources, pid, _ = self.told("-g", level)
                self.assertEqual(sources["ibv_create_qp", "info"]["line"], self.line_of("refused: ibv_create_qp"))
                self.assertEqual(sources["ibv_post_send", "info"]["line"], self.line_of("refused: ibv_post_send"))
                self.assertEqual((sources["ibv_post_send", "error"]["line"], sources["ibv_post_send", "error"]["function"]), (self.line_of("failed"), "main"))
                shown = " ".join(run("explain", "--pid", pid)[0].split())
                self.assertIn(f"Posted at {self.line_of('failed')} (main).", shown)
                self.assertIn(f"Called at {self.line_of('refused: ibv_create_qp')} (main).", shown)
                self.assertIn(f"投递位置：{self.line_of('failed')}", run("explain", "--pid", pid, "--lang", "zh")[0].replace("\n    ", ""))

    def test_without(self):
        sources, pid, program = self.told("-O2", "-s")
        for source in sources.values():
            if source is not None:
                self.assertEqual((source["module"], source["line"]), (program, ""))
        self.assertRegex(run("explain", "--pid", pid)[0], rf"Posted at {program}\+0x[0-9a-f]+\.")
        # A program that was built anew since has other lines.
        subprocess.run(["cc", "-g", "-o", program, self.SOURCE, "-libverbs"], check=True)
        self.assertNotIn("lines.c", run("explain", "--pid", pid)[0])

    def test_no_line_where_the_program_did_not_call(self):
        _, pid = provoke("not-writable")
        (refused,) = [said for said in failures(pid) if said["failure"]["kind"] == "refused"]
        self.assertNotIn("source", refused)


class WrongGidIndex(unittest.TestCase):
    def told(self, *words):
        process = subprocess.Popen([RRDMA, "run", "--", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process.wait(60)
        (seen,) = run_json("explain", "--json", "--pid", process.pid)
        return " ".join(said["sentence"] for said in seen["sentences"]), process.pid

    def test_program_with_its_own_choice(self):
        sentence, pid = self.told(FAILURES, "7", "bad-lkey")
        self.assertIn("GID index 7 is empty on rrdma0; use 1 (10.9.0.1).", sentence)
        self.assertIn("sgid_index 7 is empty on rrdma0; use ", sentence)
        self.assertIn("rrdma0 的 GID 索引 7 为空；请用 1（10.9.0.1）。", run("explain", "--pid", pid, "--lang", "zh")[0])

    def test_perftest(self):
        words = ["ib_write_bw", "-x", "9", "-d", "rrdma0", "-p", "18634"]
        before = servers.open_ports()
        server = subprocess.Popen([RRDMA, "run", "--", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.kill)
        servers.await_server(server, before, words)
        sentence, _ = self.told(*words, "10.9.0.1")
        self.assertIn("GID index 9 is empty on rrdma0; use 1 (10.9.0.1).", sentence)

    def test_a_search_of_the_table_is_no_mistake(self):
        self.assertEqual(subprocess.run([RRDMA, "run", "--explain", "--", "ibv_devinfo", "-v"], capture_output=True, text=True, timeout=60).stderr, "")


class KilledPeer(unittest.TestCase):
    def test_pid_program_and_fate(self):
        for link in ("shm", "udp"):
            with self.subTest(link):
                server = subprocess.Popen([RRDMA, "run", "--link", link, "--", "ib_write_bw", "-D", "30", "-x", "1", "-p", "18610"],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                surroundings.wait_for(lambda: subprocess.run(["ss", "-Hltn", "sport = :18610"], capture_output=True, text=True).stdout)
                client = subprocess.Popen([RRDMA, "run", "--link", link, "--", "ib_write_bw", "-D", "30", "-x", "1", "-u", "12", "-p", "18610", "10.9.0.1"],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

                def flowing():
                    qps = [qp for p in run_json("stat", "--json")["processes"] if p["pid"] == client.pid for qp in p["queue_pairs"]]
                    return any(qp["state"] == "RTS" for qp in qps)
                surroundings.wait_for(flowing)
                server.kill()
                server.wait(30)
                client.wait(60)
                (seen,) = run_json("explain", "--json", "--pid", client.pid)
                told = f"process {server.pid} (ib_write_bw), which"
                self.assertTrue(any(said["call"] == "peer" and told in said["sentence"] for said in seen["sentences"]), seen)
                (failed,) = [said for said in seen["sentences"] if said.get("failure", {}).get("kind") == "send"]
                self.assertIn(f"the peer was process {server.pid} (ib_write_bw), which was killed or crashed", failed["sentence"])
                self.assertIn("Look why it ended", failed["failure"]["remedy"][0])
                self.assertTrue(failed["sentence"].endswith("Look at why the peer's process has ended."), "and no other possibilities")
                self.assertEqual(failed["failure"]["peer_process"], {"pid": server.pid, "program": "ib_write_bw", "fate": "killed"})


class TheEndOfAProgram(unittest.TestCase):
    """One line on standard error, only if asked or on a terminal."""

    def error_of(self, *options, way="bad-rkey", environment=None):
        done = subprocess.run([RRDMA, "run", *options, "--", FAILURES, "1", way], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **(environment or {})})
        self.assertNotIn("rrdma:", done.stdout)
        return done.stderr

    def on_a_terminal(self, *options):
        master, slave = pty.openpty()
        process = subprocess.Popen([RRDMA, "run", *options, "--", FAILURES, "1", "bad-rkey"], stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        process.communicate(timeout=60)
        os.set_blocking(master, False)
        try:
            return os.read(master, 4096).decode(), process.pid
        except (BlockingIOError, OSError):
            return "", process.pid
        finally:
            os.close(master)

    def test_asked_for(self):
        self.assertRegex(self.error_of("--explain"), r"^rrdma: 1 request failed, 1 request of a peer refused: .* remote access error\. "
                         r"See `rrdma explain --pid \d+`\.\n$")

    def test_on_a_terminal(self):
        text, pid = self.on_a_terminal()
        self.assertEqual(text.count("\n"), 1, text)
        self.assertIn(f"See `rrdma explain --pid {pid}`.", text)
        self.assertEqual(self.on_a_terminal("--quiet")[0], "")

    def test_silence(self):
        self.assertEqual(self.error_of(), "")
        self.assertEqual(self.error_of("--quiet"), "")
        done = subprocess.run([RRDMA, "run", "--explain", "--", "ibv_devinfo"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Refusals(unittest.TestCase):
    def client(self, address="10.9.0.1", port="18699"):
        process = subprocess.Popen([RRDMA, "run", "--", "rping", "-c", "-a", address, "-p", port, "-C", "1"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process.wait(60)
        self.assertNotEqual(process.returncode, 0)
        return process.pid

    def test_nobody_listens(self):
        pid = self.client()
        (said,) = failures(pid)
        self.assertEqual((said["failure"]["kind"], said["failure"]["reason"], said["failure"]["peer"]), ("rejected", 8, "10.9.0.1"))
        self.assertIn("10.9.0.1 port 18699 rejected the connection with reason 8: invalid service ID: nobody listens there.", said["sentence"])
        self.assertRegex(said["sentence"], r"Start the server there, .*\.$")
        self.assertTrue(said["failure"]["remedy"])
        self.assertIn("10.9.0.1 端口 18699 拒绝了连接，原因 8：", run("explain", "--pid", pid, "--lang", "zh")[0])

    # IBTA 12.6.7.2: every reason that a peer may give.
    def test_every_reason(self):
        with ForeignPeer() as peer:
            for reason in (*range(1, 34), 35):
                with self.subTest(reason):
                    peer.tell("reject", reason)
                    (said,) = failures(self.client(peer.ADDRESS))
                    self.assertEqual((said["failure"]["kind"], said["failure"]["reason"], said["failure"]["peer"]), ("rejected", reason, peer.ADDRESS))
                    (topic,) = [topic for topic in run_json("explain", "--json", f"reject:{reason}")]
                    self.assertIn(f"{peer.ADDRESS} port 18699 rejected the connection with reason {reason}: {topic['name']}", said["sentence"])
                    self.assertEqual(said["failure"]["remedy"], topic["checks"])


class BrokenPeer(unittest.TestCase):
    def test_bad_response(self):
        """Status 7: the responder answers a READ of 64 bytes with 32."""
        with ForeignPeer() as peer:
            process = subprocess.Popen([RRDMA, "run", "--", FAILURES, "1", "bad-response"], stdout=subprocess.PIPE, text=True)

            def qpn():
                qps = [qp for p in run_json("stat", "--json")["processes"] if p["pid"] == process.pid for qp in p["queue_pairs"]]
                return next((qp["qpn"] for qp in qps if qp["peer_qpn"] == 0x77), None)
            number = surroundings.wait_for(qpn)

            def answered():
                peer.tell("respond", number)
                return process.poll() is not None
            surroundings.wait_for(answered)
            output, _ = process.communicate(timeout=60)
        name, status, vendor, _, qpn, _ = output.split()
        self.assertEqual((name, int(status), int(vendor) >> 24, int(qpn)), ("bad-response", 7, 37, number))
        (said,) = failures(process.pid)
        failure = said["failure"]
        self.assertEqual((failure["status"], failure["cause"], failure["opcode"], failure["peer"], failure["peer_qpn"], failure["length"]),
                         (7, 37, RDMA_READ, peer.ADDRESS, 0x77, 64))
        self.assertIn("the peer's response does not fit the request", said["sentence"])
        self.assertIn("rrdma capture", said["sentence"])


class ForeignPeer:
    """foreign_peer.py at the far end of the cable."""

    ADDRESS = "10.9.0.2"

    def __enter__(self):
        script = pathlib.Path(__file__).with_name("foreign_peer.py")
        self.process = subprocess.Popen(["unshare", "--net", sys.executable, "-B", script, "eth1", self.ADDRESS, "10.9.0.1"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        here = os.readlink("/proc/self/ns/net")
        surroundings.wait_for(lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != here)
        surroundings.ip("link", "set", "eth1", "netns", str(self.process.pid))
        self.expect("ready")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()
        surroundings.ip("link", "set", "eth1", "up")

    def expect(self, word):
        line = self.process.stdout.readline().strip()
        if line != word:
            raise AssertionError(f"the foreign peer said '{line}' and not '{word}'")

    def tell(self, order, number):
        self.process.stdin.write(f"{order} {number}\n")
        self.process.stdin.flush()
        self.expect("understood")


class Namespaces(unittest.TestCase):
    def test_one_at_a_time(self):
        elsewhere = ["unshare", "--net", "sh", "-c", f"ip link set lo up; {RRDMA} run -- {FAILURES} 1 bad-lkey; {RRDMA} run -- {FAILURES} 0 bad-lkey"]
        subprocess.run(elsewhere, capture_output=True, timeout=60)
        _, pid = provoke("bad-rkey")
        here = run_json("explain", "--json")
        self.assertEqual(len({process["net_namespace"] for process in here}), 1)
        self.assertIn(pid, [process["pid"] for process in here])
        everywhere = run_json("explain", "--json", "--all")
        self.assertEqual(len({process["net_namespace"] for process in everywhere}), 2)
        self.assertRegex(run("explain")[0], r"\d+ process(es)? of other network namespaces: `rrdma explain --all`")


class Probes(unittest.TestCase):
    # Probes of libraries that must not be logged: ECE, and the limit of inline data.
    PROBE = """
import ctypes, struct
verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_create_cq", "ibv_create_qp"):
    getattr(verbs, name).restype = ctypes.c_void_p
devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
context = ctypes.c_void_p(verbs.ibv_open_device(ctypes.c_void_p(devices[0])))
pd = ctypes.c_void_p(verbs.ibv_alloc_pd(context))
cq = verbs.ibv_create_cq(context, 4, None, None, 0)
def create(inline):
    attributes = struct.pack("QQQQ5IiI", 0, cq, cq, 0, 1, 1, 1, 1, inline, 2, 0)
    return verbs.ibv_create_qp(pd, ctypes.create_string_buffer(attributes, 128))
qp = create(64)
assert qp and not create(4096) and not create(2048)
assert verbs.ibv_query_ece(ctypes.c_void_p(qp), ctypes.create_string_buffer(64)) != 0
"""
    MISTAKE = PROBE.replace("qp = create(64)", "assert not create(4096); raise SystemExit")

    def explained(self, program):
        process = subprocess.Popen([RRDMA, "run", "--", sys.executable, "-c", program])
        self.assertEqual(process.wait(60), 0)
        return run_json("explain", "--json", "--pid", process.pid), run_json("explain", "--json", "--debug", "--pid", process.pid)

    def test_leave_nothing_above_debug(self):
        said, debug = self.explained(self.PROBE)
        self.assertEqual(said, [])
        sentences = {s["call"]: s for s in debug[0]["sentences"]}
        self.assertEqual(sentences["ibv_create_qp"]["times"], 2)
        self.assertIn("ibv_query_ece", sentences)

    def test_a_real_mistake_is_told(self):
        said, _ = self.explained(self.MISTAKE)
        self.assertIn("max_inline_data", said[0]["sentences"][0]["sentence"])


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
