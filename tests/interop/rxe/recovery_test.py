"""Tests how perftest's table is read and how the gain is computed."""

import unittest

import recovery

TABLE = """---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      160              12.50              10.00              0.000160
---------------------------------------------------------------------------------------
"""


class Recovery(unittest.TestCase):
    def test_average_is_the_fourth_column_in_millions_of_octets(self):
        self.assertAlmostEqual(recovery.average(TABLE, 65536), 10.48576)

    def test_no_table_is_no_figure(self):
        self.assertIsNone(recovery.average("Couldn't connect\n", 65536))
        self.assertIsNone(recovery.average(TABLE, 1 << 20))

    def test_gain_is_the_ratio_of_medians(self):
        gain = recovery.Gain("ib_write_bw", 65536)
        self.assertIsNone(gain.factor())
        gain.goodput.update({recovery.NOW: [9.0, 6.0, 30.0], recovery.BEFORE: [3.0, 1.0, 4.0], recovery.WHOLE: [20.0]})
        self.assertEqual(gain.factor(), 3.0)
        self.assertAlmostEqual(recovery.whole([gain, recovery.Gain("ib_read_bw", 65536)]), 3.0)

    def test_only_what_is_compared_differs(self):
        now, before = (recovery.row_of("ib_write_bw", 65536, 10, how) for how in (recovery.NOW, recovery.BEFORE))
        self.assertEqual((now.options, before.options), ([], ["--strict"]))
        self.assertEqual(now.arguments, before.arguments)


if __name__ == "__main__":
    unittest.main()
