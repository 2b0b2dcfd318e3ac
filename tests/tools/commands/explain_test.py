# Tests `rrdma explain`: every code is explained in both languages, and the errors of a process can be read while it
# runs and after it has ended. Arguments: the command, the source tree.
import ctypes
import errno
import os
import pathlib
import re
import subprocess
import sys
import unittest

import command
import surroundings
from command import RRDMA, run, run_json

SOURCE = pathlib.Path(sys.argv[2])
NOTES_MAX = 64  # kExplainFiles
CHINESE = re.compile("[\u4e00-\u9fff]")


def enumerators(path, name):
    """Names and values of an enum class in one of our headers."""
    body = re.search(rf"enum class {name} [^{{]*{{(.*?)}};", (SOURCE / path).read_text(), re.S)[1]
    return {int(value): word for word, value in re.findall(r"k(\w+) = (\d+)", body)}


def system_enumerators(path, prefix):
    """Names of an enum in a system header, in order from 0."""
    return re.findall(rf"^\s*({prefix}\w+)", pathlib.Path(path).read_text(), re.M)


def known(kind, language="en"):
    topics = run_json("explain", "--list", "--json", "--lang", language)
    return {topic["code"]: topic for topic in topics if topic["kind"] == kind}


LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Folders whose sentences reach the explain channel.
SPEAKERS = ("control/client", "host", "nic", "preload", "transport/qp")


def argument_of(text, begin):
    """The text from `begin`, behind an opening bracket, to its closing one."""
    depth, at = 1, begin
    while depth and at < len(text):
        if text[at] == '"':
            at = LITERAL.match(text, at).end() - 1
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[at], 0)
        at += 1
    return text[begin:at - 1]


def recorded_sentences():
    """Literals in the arguments of calls that explain something; adjacent ones are one."""
    for folder in SPEAKERS:
        for path in sorted((SOURCE / "src" / folder).rglob("*.cc")):
            text = path.read_text()
            for call in re.finditer(r"\b(?:fail|lacks|explain|problem)\(", text) if not path.name.endswith("_test.cc") else ():
                joined = re.sub(r'"\s*\n\s*"', "", argument_of(text, call.end()))
                for sentence in LITERAL.findall(joined):
                    if len(sentence) > 14 and " " in sentence:
                        yield path.name, re.sub(r"\{:[^}]*\}", "{}", sentence)


class Translation(unittest.TestCase):
    def test_no_sentence_is_missing(self):
        table = (SOURCE / "src/tools/explain/chinese_sentences.cc").read_text()
        pairs = ["".join(LITERAL.findall(pair)) for pair in re.findall(r'\{((?:\s*"(?:[^"\\]|\\.)*")+),', table)]
        sentences = list(recorded_sentences())
        self.assertGreater(len(sentences), 150)
        for file, sentence in sentences:
            self.assertTrue(any(sentence in pair for pair in pairs), f"{file}: {sentence}")

    def test_values_keep_their_places(self):
        table = (SOURCE / "src/tools/explain/chinese_sentences.cc").read_text()
        for english, chinese in re.findall(r'\{((?:\s*"(?:[^"\\]|\\.)*")+),((?:\s*"(?:[^"\\]|\\.)*")+)\}', table):
            self.assertEqual(english.count("{}"), len(re.findall(r"\{\d?\}", chinese)), english)


class Catalogue(unittest.TestCase):
    def test_every_completion_status(self):
        library = ctypes.CDLL("libibverbs.so.1")
        library.ibv_wc_status_str.restype = ctypes.c_char_p
        statuses = []
        while (text := library.ibv_wc_status_str(len(statuses))) != b"unknown":
            statuses.append(text.decode())
        names = system_enumerators("/usr/include/infiniband/verbs.h", "IBV_WC_")[:len(statuses)]
        topics = known("wc")
        self.assertEqual(sorted(topics), list(range(len(statuses))))
        for code, (name, phrase) in enumerate(zip(names, statuses)):
            self.assertEqual(topics[code]["name"], name)
            (by_name,) = run_json("explain", "--json", name)
            (by_short_name,) = run_json("explain", "--json", name.removeprefix("IBV_WC_").lower())
            (by_phrase,) = run_json("explain", "--json", *phrase.split())
            self.assertEqual([by_name, by_short_name, by_phrase], [topics[code]] * 3)

    def test_every_errno_that_calls_return(self):
        used = set()
        for folder in ("base", "objects", "transport", "cm", "host", "preload", "nic", "daemon", "control"):
            for path in (SOURCE / "src" / folder).rglob("*.[ch]*"):
                if not path.name.endswith("_test.cc"):
                    code = re.sub(r"//.*", "", path.read_text())
                    used |= {word for word in re.findall(r"\bE[A-Z0-9]+\b", code) if hasattr(errno, word)}
        topics = {topic["name"]: topic["code"] for topic in known("errno").values()}
        self.assertEqual(used - set(topics), set(), "not in src/tools/explain/errno_topics.cc")
        self.assertGreater(len(used), 20)
        for name, code in topics.items():
            self.assertEqual(code, getattr(errno, name))

    def test_every_cause(self):
        self.assertEqual(set(known("vendor_err")), set(enumerators("src/objects/cause.h", "Cause")))

    def test_every_refusal_of_the_connection_manager(self):
        self.assertEqual(set(known("reject")), set(enumerators("src/wire/cm_reasons.h", "RejectReason")))
        self.assertEqual(set(known("sidr")), set(enumerators("src/wire/cm_reasons.h", "SidrStatus")))

    def test_every_event(self):
        names = system_enumerators("/usr/include/rdma/rdma_cma.h", "RDMA_CM_EVENT_")
        self.assertEqual([topic["name"] for _, topic in sorted(known("event").items())], names)

    def test_every_text_in_both_languages(self):
        for kind in ("wc", "vendor_err", "errno", "reject", "sidr", "event"):
            english, chinese = known(kind), known(kind, "zh")
            self.assertEqual(english.keys(), chinese.keys())
            for code, topic in english.items():
                other = chinese[code]
                self.assertNotRegex(topic["meaning"], CHINESE)
                self.assertRegex(other["meaning"], CHINESE)
                self.assertTrue(topic["checks"], topic["name"])
                for part in ("causes", "checks"):
                    self.assertEqual(len(topic[part]), len(other[part]), topic["name"])
                    for line, translation in zip(topic[part], other[part]):
                        self.assertRegex(line, r"[.?]$", topic["name"])
                        self.assertNotRegex(line, CHINESE)
                        self.assertRegex(translation, r"[。？]$", topic["name"])

    def test_commands_that_the_texts_name_exist(self):
        for topic in run_json("explain", "--list", "--json"):
            for words in re.findall(r"`rrdma ([^`]+)`", " ".join(topic["causes"] + topic["checks"])):
                helped, _ = run(words.split()[0], "--help")
                for option in re.findall(r"--[a-z-]+", words):
                    self.assertIn(option, helped, words)


class Arguments(unittest.TestCase):
    def test_a_number_may_mean_several_things(self):
        kinds = [topic["kind"] for topic in run_json("explain", "--json", "12")]
        self.assertEqual(kinds, ["wc", "errno", "reject", "event"])
        self.assertEqual([t["name"] for t in run_json("explain", "--json", "wc:12")], ["IBV_WC_RETRY_EXC_ERR"])
        self.assertEqual([t["name"] for t in run_json("explain", "--json", "errno:110")], ["ETIMEDOUT"])
        self.assertEqual([t["name"] for t in run_json("explain", "--json", "errno:-110")], ["ETIMEDOUT"])

    def test_vendor_err_has_cause_and_psn(self):
        (topic,) = run_json("explain", "--json", "vendor_err:0x24000010")
        self.assertEqual((topic["code"], topic["psn"]), (36, 16))
        self.assertEqual(run_json("explain", "--json", str(0x24000010)), [topic])

    def test_words_of_strerror(self):
        self.assertEqual([t["name"] for t in run_json("explain", "--json", "Invalid argument")], ["EINVAL"])

    def test_second_name_of_an_errno(self):
        for name, other in (("EAGAIN", "EWOULDBLOCK"), ("EOPNOTSUPP", "ENOTSUP")):
            self.assertEqual([t["name"] for t in run_json("explain", "--json", other)], [name])

    def test_several_codes(self):
        self.assertEqual([t["name"] for t in run_json("explain", "--json", "EINVAL", "ENODEV")], ["EINVAL", "ENODEV"])

    def test_unknown(self):
        for words in (["nosuch"], ["wc:99"], ["wc:x"], ["EINVAL", "nosuch"], ["\x1b[31m"]):
            output, error = run("explain", *words, status=2)
            self.assertEqual(output, "")
            self.assertIn("nothing is known", error)
            self.assertNotIn("\x1b", error)

    def test_language_by_the_environment(self):
        for variables, chinese in (({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, True), ({"LC_ALL": "zh_CN.UTF-8"}, True),
                                   ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, False), ({"LANG": "de_DE.UTF-8", "LC_ALL": ""}, False)):
            output, _ = run("explain", "EINVAL", environment=variables)
            self.assertEqual(bool(CHINESE.search(output)), chinese, variables)
        self.assertNotRegex(run("explain", "EINVAL", "--lang", "en", environment={"LC_ALL": "zh_CN.UTF-8"})[0], CHINESE)

    def test_text_is_in_order(self):
        output, _ = run("explain", "IBV_WC_RNR_RETRY_EXC_ERR")
        self.assertRegex(output, r"(?s)IBV_WC_RNR_RETRY_EXC_ERR \(completion status 13\)\n.*Usual causes.*1\. .*2\. .*What to check:.*- ")


class Processes(unittest.TestCase):
    # Opens the device and queries a port that does not exist.
    MISTAKE = """
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
device = verbs.ibv_get_device_list(None)[0]
context = verbs.ibv_open_device(ctypes.c_void_p(device))
assert verbs.ibv_query_port(ctypes.c_void_p(context), 99, ctypes.create_string_buffer(256)) != 0
"""

    def test_after_the_process_has_ended(self):
        # Without a GID index: a common mistake.
        server = subprocess.Popen([RRDMA, "run", "--", "ibv_rc_pingpong", "-p", "18620"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        def connected():
            return subprocess.run([RRDMA, "run", "--", "ibv_rc_pingpong", "-p", "18620", "localhost"], capture_output=True).returncode != 0 \
                and server.poll() is not None
        surroundings.wait_for(connected)
        self.assertNotEqual(server.returncode, 0)
        output, _ = run("explain", "--pid", server.pid)
        self.assertRegex(output, rf"ibv_rc_pingpong, process {server.pid} \(ended\)")
        self.assertIn("ibv_modify_qp", output)
        self.assertIn("GID index", output)
        (record,) = run_json("explain", "--json", "--pid", server.pid)
        self.assertEqual(record["pid"], server.pid)
        self.assertTrue(any("GID" in s["sentence"] for s in record["sentences"]))
        self.assertIn(str(server.pid), run("explain")[0])

    def test_old_notes_make_room(self):
        folder = pathlib.Path(os.environ["XDG_RUNTIME_DIR"]) / "rrdma"
        folder.mkdir(mode=0o700, exist_ok=True)
        ended = 4_000_000  # beyond the pids that the kernel assigns by default
        for age in range(100):
            note = folder / f"explain.{ended + age}"
            note.write_bytes(b"")
            os.utime(note, (1_000_000 - age, 1_000_000 - age))
        running = folder / f"explain.{os.getpid()}"
        running.write_bytes(b"")
        os.utime(running, (1, 1))
        self.addCleanup(running.unlink)
        subprocess.run([RRDMA, "run", "--", sys.executable, "-c", self.MISTAKE], capture_output=True, check=True)
        left = {path.name for path in folder.glob("explain.*")}
        self.assertEqual(len(left), NOTES_MAX)
        self.assertIn(running.name, left)
        self.assertIn(f"explain.{ended}", left)
        self.assertNotIn(f"explain.{ended + 99}", left)

    def test_nothing_to_say(self):
        self.assertIn("nothing to say", run("explain", "--pid", 1)[0])
        self.assertEqual(run_json("explain", "--json", "--pid", 1), [])


if __name__ == "__main__":
    surroundings.enter()
    surroundings.make_pair()
    command.main()
