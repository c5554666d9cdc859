# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ends of the messages, in all and after each fault, and a picture of their lateness."""

import os
import shutil
import subprocess

import plots

LATE = 1.0  # seconds


def expected_at(message):
    """A message that was acknowledged after its due time could not come before."""
    return max(message.due / 1000, message.acked)


def lateness(message):
    return max(message.arrived[0] - expected_at(message), 0)


def met_at(message):
    """When it was under way last: a fault counts for what was not there yet."""
    return message.arrived[0] if message.arrived else message.due / 1000


def share(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] if values else 0


class Account:
    """The ends of some messages."""

    def __init__(self, messages):
        asked = [m for m in messages if m.acked and not m.cancelled]
        self.late_by = [lateness(m) for m in asked if m.arrived]
        self.missing = sum(not m.arrived for m in asked)
        self.early = sum(at * 1000 < m.due for m in messages for at in m.arrived)
        self.double = sum(len(m.arrived) > 1 for m in messages)
        self.late = sum(late > LATE for late in self.late_by)
        # One whose cancel was acknowledged only at its due time may come.
        self.revived = sum(1 for m in messages if m.cancelled and m.arrived and m.cancel_acked
                           and m.cancel_acked < m.due / 1000 - 5)
        self.count = len(messages)

    def cells(self):
        ms = [f"{1000 * share(self.late_by, part):.1f}" for part in (0.5, 0.99, 1)]
        return [self.count, self.missing, self.early, self.double, self.revived, self.late] + ms

    def is_fine(self):
        return self.missing + self.early + self.double + self.revived == 0


HEAD = ["", "messages", "missing", "early", "double", "cancelled, and came", "late by more than 1 s",
        "p50 ms", "p99 ms", "max ms"]


def settle(begin, messages, strangers, dead, faults):
    """A table, and whether nothing is wrong."""
    whole = Account(messages)
    rows = [["all"] + whole.cells()]
    ends = [fault.at for fault in faults[1:]] + [float("inf")]
    before = [m for m in messages if not faults or met_at(m) < faults[0].at]
    rows.append(["before any fault"] + Account(before).cells())
    for fault, end in zip(faults, ends):
        due = [m for m in messages if fault.at <= met_at(m) < end]
        rows.append([f"{fault.at - begin:.0f} s: {fault.kind}, {fault.victim}"] + Account(due).cells())
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in [HEAD] + rows]
    lines.insert(1, "|---" * len(HEAD) + "|")
    silent = sum(m.acked is None for m in messages)
    lines += ["", f"{sum(m.cancelled for m in messages)} were cancelled. {silent} were never acknowledged"
              f" to the producer. {dead} are dead letters. {len(strangers)} came that nobody has put."]
    return "\n".join(lines) + "\n", whole.is_fine() and dead == 0 and not strangers


def draw(begin, messages, faults, title, out):
    """lateness.svg: by the second at which messages were to come."""
    if not shutil.which("gnuplot"):
        print("There is no gnuplot, so there is no picture.")
        return
    seconds = {}
    for message in messages:
        if message.acked and message.arrived and not message.cancelled:
            seconds.setdefault(int(expected_at(message) - begin), []).append(1000 * lateness(message))
    script = [plots.STYLE, f"set output {plots.quoted(os.path.join(out, 'lateness.svg'))}",
              f"set title {plots.quoted(title)}", "set xlabel 's'", "set ylabel 'late by ms'",
              "set logscale y", f"set yrange [0.1:{40 * max(map(max, seconds.values())) + 1:.0f}]",
              "set key outside bottom center horizontal"]
    for i, fault in enumerate(faults):
        at = f"{fault.at - begin:.2f}"
        script.append(f"set arrow {i + 1} from {at},graph 0 to {at},graph 1 nohead lc rgb '#c00030' dt 2")
        script.append(f"set label {i + 1} {plots.quoted(fault.kind + ', ' + fault.victim)} at {at},graph 0.99"
                      " right rotate by 90 offset 0.8,0 font ',10'")
    lines = [("median", 0.5, "#0060c0"), ("p99", 0.99, "#d07000"), ("latest", 1, "#808080")]
    script.append("plot " + ", ".join(f"'-' with lines lw 1.5 lc rgb '{colour}' title '{name}'"
                                      for name, _, colour in lines))
    for _, part, _ in lines:
        script += [f"{second + 0.5} {max(share(found, part), 0.1):.3f}"
                   for second, found in sorted(seconds.items())] + ["e"]
    subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)
    print(f"The picture is {out}/lateness.svg.")
