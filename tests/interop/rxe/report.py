"""Writes the result as a table for people (report.md) and for programs (report.json)."""

import json

import beside
import ratios
import recovery


def as_data(result):
    row, verdict = result.row, result.verdict
    return {
        "kernel": result.kernel, "loss": result.loss, "name": row.name, "program": row.program, "service": row.service,
        "family": row.family, "mtu": row.mtu, "rrdma": row.rrdma, "passed": result.passed, "failures": result.failures,
        "notes": result.notes, "seconds": round(result.seconds, 2),
        "packets": {"ours": verdict.ours, "theirs": verdict.theirs, "bad_icrc": verdict.bad_icrc, "resent": verdict.resent,
                    "resent_asked_for": verdict.asked, "resent_after_timeout": verdict.timed_out, "probes": verdict.probes, "repaired": verdict.repaired, "resent_by_peer": verdict.resent_theirs},
        "opcodes": {f"0x{opcode:02x}": count for opcode, count in sorted(verdict.opcodes.items())},
        "rxe_counters": result.counters,
        "client_output": result.client_output[-2000:] if not result.passed else "",
        "server_output": result.server_output[-2000:] if not result.passed else "",
    }


def table(results):
    yield "| program | service | IP, MTU | RRDMA is | result | s | packets ours/theirs | sent again ours/theirs |"
    yield "|---|---|---|---|---|---|---|---|"
    for result in results:
        row, verdict = result.row, result.verdict
        words = "pass" if result.passed else "**FAIL**: " + "; ".join(result.failures)
        if result.notes:
            words += " (" + "; ".join(result.notes) + ")"
        words = " ".join(words.split()).replace("|", "\\|")[:400]
        yield (f"| `{row.name}` | {row.service}{' by CM' if row.style == 'cm' else ''} | IPv{row.family} {row.mtu} | {row.rrdma} | {words} | "
               f"{result.seconds:.1f} | {verdict.ours}/{verdict.theirs} | {verdict.resent}/{verdict.resent_theirs} |")


def write(folder, results, seconds, together=(), measured=(), by_library=(), gained=()):
    """For each kernel, writes its release and the findings: `together` of both NICs beside each other,
    `by_library` of the libraries on rxe, `measured` the ratios in its guest, `gained` the gains of loss
    recovery."""
    groups = {}
    for result in results:
        groups.setdefault((result.kernel, result.loss), []).append(result)
    lines = ["# RRDMA and the Linux kernel's rxe", ""]
    passed = sum(result.passed for result in results)
    packets = sum(result.verdict.packets for result in results)
    bad = sum(result.verdict.bad_icrc for result in results)
    lines += [f"{passed} of {len(results)} rows passed in {seconds:.0f} s. {packets} packets captured, {bad} ICRCs wrong.", ""]
    for (kernel, loss), members in groups.items():
        good = sum(result.passed for result in members)
        lines += [f"## Linux {kernel}, {loss + ' at our end' if loss else 'no loss'}: {good} of {len(members)}", "", *table(members), ""]
    for kernel, findings in together:
        lines += [f"## Inside a guest with Linux {kernel}: RRDMA beside the kernel's own devices", "", *beside.table(findings), ""]
    for kernel, findings in by_library:
        lines += [f"## rrdma::comm and rrdma::rpc on rxe of Linux {kernel}, and between rxe and RRDMA", "", *beside.table(findings), ""]
    for kernel, ratio_results in measured:
        lines += [f"## Inside a guest with Linux {kernel}: rxe against rxe, RRDMA against RRDMA", "", *ratios.table(ratio_results), ""]
    for kernel, gains in gained:
        total = recovery.whole(gains)
        lines += [f"## Linux {kernel}, {recovery.LOSS} at our end: what recovery gains" + (f", {total:.1f} times over all" if total else ""), "",
                  *recovery.table(gains), ""]
    (folder / "report.md").write_text("\n".join(lines) + "\n")
    (folder / "report.json").write_text(json.dumps({"seconds": round(seconds), "rows": [as_data(result) for result in results],
                                                    "beside": [{"kernel": kernel, "name": finding.name, "passed": finding.passed, "troubles": finding.troubles}
                                                               for kernel, findings in together for finding in findings],
                                                    "libraries": [{"kernel": kernel, "name": finding.name, "passed": finding.passed, "troubles": finding.troubles}
                                                                  for kernel, findings in by_library for finding in findings],
                                                    "ratios": [ratio.as_data(kernel) for kernel, ratio_results in measured for ratio in ratio_results],
                                                    "recovery": [gain.as_data(kernel) for kernel, gains in gained for gain in gains]}, indent=1) + "\n")
