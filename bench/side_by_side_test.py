"""Tests the parts of side_by_side.py that run nothing: parsing the output of each program (samples/ holds real
output), the bars, the table, the charts and the plan."""

import json
import sys
import tempfile
import unittest
import xml.dom.minidom
from pathlib import Path

import bars
import budget
import charts
import contestants
import figures
import history
import report
import stage

SAMPLES = Path(__file__).parent / "samples"
MACHINE = {"cpu": "a <CPU> & more", "architecture": "arm64", "kernel": "6.1", "cores": 2, "near_core": 0, "far_core": 1, "rounds": 3, "quick": True,
           "rmem_max": 212992, "load": 0.1, "time": "now"}


def sample(name):
    return (SAMPLES / name).read_text()


class Figures(unittest.TestCase):
    def test_perftest(self):
        self.assertAlmostEqual(figures.perftest_latency(sample("perftest_latency.txt"), 8), 0.96)
        bandwidth = sample("perftest_bandwidth.txt")
        self.assertAlmostEqual(figures.perftest_bandwidth(bandwidth, 65536), 6063.44 * 1048576 / 1e9)
        self.assertAlmostEqual(figures.perftest_rate(bandwidth, 65536), 97015)

    def test_a_figure_that_runs_into_a_message(self):
        text = sample("perftest_bandwidth.txt").replace("0.097015\n", "0.097015ethernet_read_keys: Couldn't read\n")
        self.assertAlmostEqual(figures.perftest_rate(text, 65536), 97015)

    def test_pingpong(self):
        self.assertAlmostEqual(figures.pingpong_iteration(sample("rc_pingpong.txt")), 40.23)

    def test_verbs_rates(self):
        self.assertEqual(figures.verbs_rate("messages 4899028\n", "messages"), 4899028)
        with self.assertRaises(ValueError):
            figures.verbs_rate("status 12\nqps 5\n", "messages")

    def test_sockperf(self):
        self.assertAlmostEqual(figures.sockperf_latency(sample("sockperf.txt")), 12.623)

    def test_iperf(self):
        self.assertAlmostEqual(figures.iperf_bandwidth(sample("iperf3.json")), 3982422104.7072377 / 8e9)

    def test_ucx(self):
        self.assertAlmostEqual(figures.ucx_latency(sample("ucx_latency.txt")), 430.487)
        self.assertAlmostEqual(figures.ucx_bandwidth(sample("ucx_bandwidth.txt")), 952.16 * 1048576 / 1e9)
        self.assertAlmostEqual(figures.ucx_rate(sample("ucx_bandwidth.txt")), 15235)

    def test_fabric(self):
        self.assertAlmostEqual(figures.fabric_latency(sample("fi_pingpong.txt"), 8), 470.41)
        self.assertAlmostEqual(figures.fabric_latency("64k     1k      =1k      125m        0.05s   2504.86      26.16       0.04", 65536), 26.16)

    def test_qperf(self):
        self.assertAlmostEqual(figures.qperf_value(sample("qperf.txt"), "latency"), 22.6)
        self.assertAlmostEqual(figures.qperf_value("tcp_bw:\n    bw  =  7.2 GB/sec\n", "bw"), 7.2)
        self.assertAlmostEqual(figures.qperf_value("tcp_bw:\n    bw  =  21.5 MB/sec\n", "bw"), 0.0215)

    def test_ours(self):
        self.assertEqual(figures.limits('{"crc_64": 9.5}'), {"crc_64": 9.5})
        self.assertAlmostEqual(figures.resident_mib("resident_kib 1024 2048\n"), 2)

    def test_nothing_becomes_a_figure(self):
        """Rejects empty output, another size, and truncated output."""
        readers = [lambda text: figures.perftest_latency(text, 8), lambda text: figures.perftest_bandwidth(text, 8),
                   lambda text: figures.perftest_rate(text, 8), figures.pingpong_iteration, figures.sockperf_latency, figures.iperf_bandwidth,
                   figures.ucx_latency, figures.ucx_rate, lambda text: figures.fabric_latency(text, 8),
                   lambda text: figures.qperf_value(text, "latency"), figures.limits, figures.resident_mib]
        for text in ("", "Couldn't connect to 127.0.0.1:21200\n", '{"error": "unable to connect"}'[:-1], sample("perftest_latency.txt")[:200]):
            for reader in readers:
                with self.assertRaises(ValueError):
                    reader(text)
        with self.assertRaises(ValueError):
            figures.perftest_latency(sample("perftest_latency.txt"), 16)
        with self.assertRaises(ValueError):
            figures.perftest_latency(sample("perftest_bandwidth.txt"), 65536)


def results_of(**values):
    results = bars.Results()
    for key, numbers in values.items():
        for number in numbers:
            results.add(key, number)
    return results


class Bars(unittest.TestCase):
    def test_held_against_another_figure(self):
        row = bars.Row("x", "ours", bars.LATENCY, "<=", 1.4, "theirs", "sockets")
        self.assertEqual(row.verdict(results_of(ours=[2.7, 2.9, 2.8], theirs=[2.0])), bars.OK)
        self.assertEqual(row.verdict(results_of(ours=[2.7, 2.9, 2.81], theirs=[2.0])), bars.MISSED)
        self.assertEqual(row.verdict(results_of(ours=[2.7])), bars.NOT_MEASURED)
        self.assertEqual(row.verdict(results_of(theirs=[2.7])), bars.NOT_MEASURED)
        self.assertEqual(row.bar_text(), "≤ 1.4 × sockets")
        self.assertAlmostEqual(row.ratio(results_of(ours=[3.0], theirs=[2.0])), 1.5)

    def test_held_against_a_number(self):
        row = bars.Row("x", "ours", bars.RATE, ">=", 4e6)
        self.assertEqual(row.verdict(results_of(ours=[4e6])), bars.OK)
        self.assertEqual(row.verdict(results_of(ours=[3.9e6])), bars.MISSED)
        self.assertEqual(row.bar_text(), "≥ 4.00 M/s")

    def test_only_reported(self):
        row = bars.Row("x", "ours", bars.BANDWIDTH, "", 1, "theirs", "no loss")
        self.assertEqual(row.verdict(results_of(ours=[1.0])), bars.REPORTED)

    def test_every_row_names_measurements_that_are_made_in_every_round(self):
        needed = {one.key for one in contestants.plan() if one.needed}
        for row in bars.rows():
            self.assertIn(row.ours, needed)
            if row.against:
                self.assertIn(row.against, needed)

    def test_keys_are_unique_and_ours_stand_first(self):
        plan = contestants.plan()
        self.assertEqual(len({one.key for one in plan}), len(plan))
        flags = [one.needed for one in plan]
        self.assertEqual(flags, sorted(flags, reverse=True))


class Report(unittest.TestCase):
    def setUp(self):
        self.plan = contestants.plan()
        self.results = bars.Results()
        for place, one in enumerate(self.plan):
            for turn in (1, 2, 3):
                self.results.add(one.key, (place + 1) * turn)
        self.results.add_trouble("udp/rate", "exit status 1: <&>")

    def test_tables(self):
        rows = report.cells(self.results, self.plan)
        text, markdown = report.text_table(rows), report.markdown_table(rows)
        for row in bars.rows():
            self.assertIn(row.what, text)
            self.assertIn(row.what, markdown)
        for what, _ in contestants.LIMITS.values():
            self.assertIn(what, text)
        self.assertEqual({line.count("|") for line in markdown.splitlines()}, {len(report.TITLES) + 1})

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            report.write(Path(folder), self.results, self.plan, MACHINE)
            data = json.loads((Path(folder) / "results.json").read_text())
            self.assertEqual(len(data["measurements"]), len(self.plan))
            self.assertEqual(len(data["rows"]), len(bars.rows()))
            self.assertIn("exit status 1", (Path(folder) / "table.txt").read_text())
            for name, kind, _, _ in report.CHARTS:
                drawn = xml.dom.minidom.parse(str(Path(folder) / f"{name}.svg")).toxml()
                for who in {one.who for one in self.plan if one.kind == kind and one.chart}:
                    self.assertIn(who, drawn)

    def test_a_run_without_figures(self):
        with tempfile.TemporaryDirectory() as folder:
            report.write(Path(folder), bars.Results(), self.plan, MACHINE)
            for name, *_ in report.CHARTS:
                xml.dom.minidom.parse(str(Path(folder) / f"{name}.svg"))
            self.assertIn("not measured", (Path(folder) / "table.md").read_text())

    def test_a_busy_machine_is_said(self):
        self.assertIn("mean little", report.machine_text({**MACHINE, "load": 7.9}))
        self.assertNotIn("mean little", report.machine_text(MACHINE))


class Budgets(unittest.TestCase):
    def test_parts_add_up(self):
        results = bars.Results()
        for one in contestants.plan():
            results.add(one.key, 3.0)
        made = budget.budgets(results)
        self.assertEqual(len(made), 4)
        for one in made:
            self.assertAlmostEqual(sum(value for _, value in one.parts), one.total)
        # 3 GB/s is a third of a nanosecond for each byte.
        self.assertAlmostEqual(made[1].total, (1 << 20) / 3)
        self.assertAlmostEqual(made[0].total, 3000)

    def test_without_figures_there_is_no_budget(self):
        self.assertEqual(budget.budgets(bars.Results()), [])


class Reasons(unittest.TestCase):
    def test_the_telling_lines(self):
        text = " Completion with error at client\n Failed status 12: wr_id 0\n" + sample("perftest_latency.txt")
        self.assertEqual(stage.reason(text), "Completion with error at client / Failed status 12: wr_id 0")
        self.assertEqual(stage.reason("just this\n"), "just this")
        self.assertEqual(stage.reason(""), "said nothing")


class Charts(unittest.TestCase):
    def test_labels_do_not_overlap(self):
        places = sorted(charts.apart({"a": 10, "b": 11, "c": 12, "d": 100}, 15).values())
        self.assertTrue(all(b - a >= 15 for a, b in zip(places, places[1:])))

    def test_names_are_escaped(self):
        drawn = charts.line_chart("a < b", "c & d", "µs", [charts.Series("x < y & z", [(8, 1.0), (64, 2.0)], True)])
        self.assertIn("x < y & z", xml.dom.minidom.parseString(drawn).getElementsByTagName("polyline")[0].parentNode.toxml()
                      .replace("&lt;", "<").replace("&amp;", "&"))

    def test_one_point(self):
        xml.dom.minidom.parseString(charts.line_chart("t", "s", "u", [charts.Series("x", [(8, 1.0)])]))
        self.assertEqual(charts.ticks(0.8, 12), [1, 2, 5, 10])


def history_run(send_us, rate, rates=None):
    """A run as in results.json, with two figures."""
    measurement = lambda key, kind, median, values=None: {"key": key, "kind": kind, "median": median, "values": values or [median] * 3}
    return {"machine": MACHINE,
            "measurements": [measurement("shm/ib_send_lat/8", contestants.LATENCY, send_us),
                             measurement("ucx_sm/tag_lat/8", contestants.LATENCY, 0.5),
                             measurement("udp/rate", contestants.RATE, rate, rates),
                             measurement("ucx_tcp/rate", contestants.RATE, 1e6),
                             measurement("shm/pingpong", contestants.LATENCY, 4.0),
                             measurement("limit/cache_line_us", contestants.LATENCY, 0.2)],
            "rows": [{"what": "shm: ib_send_lat, 8 B", "ours": "shm/ib_send_lat/8", "figure": send_us, "against": "ucx_sm/tag_lat/8", "reference": 0.5},
                     {"what": "UDP: messages", "ours": "udp/rate", "figure": rate, "against": "ucx_tcp/rate", "reference": 1e6},
                     {"what": "UDP: messages", "ours": "udp/rate", "figure": rate, "against": "", "reference": None}]}


class History(unittest.TestCase):
    def test_more_is_better_whatever_is_measured(self):
        ratios = history.ratios_of(history_run(send_us=1.0, rate=2e6))
        self.assertEqual(ratios, {"shm: ib_send_lat, 8 B / ucx_sm/tag_lat/8": 0.5, "UDP: messages / ucx_tcp/rate": 2.0,
                                  "shm: ibv_rc_pingpong / a cache line": 0.05})

    def test_whole_runs_are_refused(self):
        self.assertEqual(history.reason_to_refuse(history_run(1.0, 2e6)), "")
        for machine in ({**MACHINE, "quick": False}, {key: value for key, value in MACHINE.items() if key != "quick"}):
            self.assertIn("make bench QUICK=1", history.reason_to_refuse({"machine": machine}))

    def test_long_names_end_on_the_chart(self):
        name = "UDP: ib_write_bw, 64 KiB, two others compute"
        drawn = xml.dom.minidom.parseString(charts.history_chart("t", "s", ["a", "b"], [charts.Series(name, [(1, 1.0), (2, 1.2)])]))
        (label,) = [text for text in drawn.getElementsByTagName("text") if text.firstChild.data == name]
        self.assertLess(float(label.getAttribute("x")) + 6 * len(name), charts.WIDTH)

    def test_what_was_not_measured_is_no_loss(self):
        self.assertEqual(history.losses({"a": 1.0, "b": 1.0}, {"a": 0.9}, {}), [])
        self.assertEqual(history.losses({"a": 1.0, "b": 1.0}, {"a": 0.9, "b": 0.84}, {}), [("b", 1.0, 0.84)])

    def test_a_loss_shows_in_every_round(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            history.add(history_run(1.0, 2e6), "c0ffee", folder)
            self.assertTrue(history.check(history_run(1.0, 1.5e6, [1.4e6, 1.5e6, 1.8e6]), folder)[1])
            self.assertFalse(history.check(history_run(1.0, 1.5e6, [1.4e6, 1.5e6, 1.6e6]), folder)[1])

    def test_a_loss_fails_and_is_named(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.assertTrue(history.check(history_run(1.0, 2e6), folder)[1], "nothing to compare with yet")
            history.add(history_run(1.0, 2e6), "c0ffee", folder)
            self.assertTrue(history.check(history_run(1.1, 1.9e6), folder)[1])
            text, holds = history.check(history_run(1.0, 1.5e6), folder)
            self.assertFalse(holds)
            self.assertIn("UDP: messages / ucx_tcp/rate: 2.00 -> 1.50 (-25%)", text)
            self.assertNotIn("ib_send_lat", text)

    def test_a_commit_has_one_line_and_the_chart_is_drawn(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for commit, rate in (("c0ffee", 2e6), ("c0ffee", 3e6), ("<bad>", 4e6)):
                history.add(history_run(1.0, rate), commit, folder)
            lines = history.lines_of(MACHINE["architecture"], folder)
            self.assertEqual([line["commit"] for line in lines], ["c0ffee", "<bad>"])
            self.assertEqual(lines[0]["ratios"]["UDP: messages / ucx_tcp/rate"], 3.0)
            xml.dom.minidom.parse(str(folder / f"{MACHINE['architecture']}.svg"))


if __name__ == "__main__":
    sys.exit(unittest.main())
