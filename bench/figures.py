"""Parses the figures from the output of each program. The units are fixed: microseconds of half a round trip
(ibv_rc_pingpong: of an iteration), GB/s of 10^9 bytes, messages per second, MiB. Raises ValueError if the figure is
missing, so that a failed program never yields a number."""

import json
import re

MIB = 1 << 20
GB = 1e9


def perftest_line(text, size):
    """The words of the last line of figures for this size."""
    found = None
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and words[0] == str(size) and words[1].isdigit():
            found = words
    if found is None:
        raise ValueError("perftest printed no figures")
    return found


def perftest_latency(text, size):
    """t_typical: #bytes #iterations t_min t_max t_typical t_avg ..."""
    words = perftest_line(text, size)
    if "t_typical" not in text:
        raise ValueError("no latency in what perftest printed")
    return float(words[4])


def perftest_bandwidth(text, size):
    """The average, which perftest prints in MiB per second."""
    words = perftest_line(text, size)
    if "BW average[MB/sec]" not in text:
        raise ValueError("no bandwidth in what perftest printed")
    return float(words[3]) * MIB / GB


def perftest_rate(text, size):
    # A message may follow the figure without a space.
    words = perftest_line(text, size)
    number = re.match(r"[0-9.]+", words[4])
    if "MsgRate[Mpps]" not in text or not number:
        raise ValueError("no message rate in what perftest printed")
    return float(number.group()) * 1e6


def pingpong_iteration(text):
    """ibv_rc_pingpong: `1000 iters in 0.01 seconds = 12.34 usec/iter`"""
    found = re.search(r"= *([0-9.]+) usec/iter", text)
    if not found:
        raise ValueError("ibv_rc_pingpong printed no figures")
    return float(found.group(1))


def sockperf_latency(text):
    """The median; sockperf already halves the round trip."""
    found = re.search(r"percentile 50\.0+ = +([0-9.]+)", text)
    if not found:
        raise ValueError("sockperf printed no median")
    return float(found.group(1))


def iperf_bandwidth(text):
    """The received bandwidth, from iperf3 -J."""
    try:
        received = json.loads(text)["end"]["sum_received"]["bits_per_second"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError("iperf3 printed no result") from error
    return received / 8 / GB


def verbs_rate(text, name):
    """bench/verbs_rates.cc: `messages 1234567` or `qps 23456`"""
    found = re.search(rf"^{name} ([0-9]+)$", text, re.MULTILINE)
    if not found:
        raise ValueError("verbs_rates printed no figures")
    return float(found.group(1))


def ucx_final(text):
    for line in text.splitlines():
        if line.startswith("Final:"):
            return line.split()[1:]
    raise ValueError("ucx_perftest printed no final line")


def ucx_latency(text):
    return float(ucx_final(text)[1])


def ucx_bandwidth(text):
    """The overall bandwidth; ucx_perftest prints MiB per second."""
    return float(ucx_final(text)[5]) * MIB / GB


def ucx_rate(text):
    return float(ucx_final(text)[7])


def fabric_latency(text, size):
    """fi_pingpong: bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec"""
    short = {1 << 20: "1m"}.get(size, f"{size >> 10}k" if size >= 1024 else str(size))
    for line in text.splitlines():
        words = line.split()
        if len(words) == 8 and words[0] in (short, str(size)):
            return float(words[6])
    raise ValueError("fi_pingpong printed no figures")


QPERF_UNITS = {"ns": 1e-3, "us": 1, "ms": 1e3, "sec": 1e6, "KB/sec": 1e-6, "MB/sec": 1e-3, "GB/sec": 1, "bytes/sec": 1e-9}


def qperf_value(text, name):
    found = re.search(rf"{name} += +([0-9.,]+) +(\S+)", text)
    if not found or found.group(2) not in QPERF_UNITS:
        raise ValueError(f"qperf printed no {name}")
    return float(found.group(1).replace(",", "")) * QPERF_UNITS[found.group(2)]


def limits(text):
    """{name: value} as printed by bench/limits.cc."""
    try:
        return {name: float(value) for name, value in json.loads(text).items()}
    except (json.JSONDecodeError, AttributeError) as error:
        raise ValueError("limits printed no JSON") from error


def resident_mib(text):
    """The larger side of bench/many_qps.cc."""
    found = re.search(r"resident_kib (\d+) (\d+)", text)
    if not found:
        raise ValueError("many_qps printed no figures")
    return max(int(found.group(1)), int(found.group(2))) / 1024
