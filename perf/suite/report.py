#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads DIR/raw.csv, which perf/run.sh wrote, and writes results.csv, results.md and plots.

    python3 perf/suite/report.py DIR

Ratios and differences are taken within a round, between runs that were neighbours in time;
what is shown is the median of those.
"""

import csv
import os
import statistics
import sys

import bars
import plots

HWT = "hwt"


class Results:
    """Values by (workload, options, contender, metric), and in those by round."""

    def __init__(self, path):
        self.values = {}
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                key = (row["workload"], row["options"], row["contender"], row["metric"])
                self.values.setdefault(key, {})[int(row["round"])] = float(row["value"])

    def rounds(self, workload, options, contender, metric):
        """{round: value}; empty if it was not run. Options may leave out --seconds."""
        for (w, o, c, m), values in self.values.items():
            if (w, c, m) == (workload, contender, metric) and without_seconds(o) == options:
                return values
        return {}

    def median(self, *key):
        values = self.rounds(*key)
        return statistics.median(values.values()) if values else None

    def ratio(self, workload, options, contender, other, metric):
        """Median of contender / other within a round; None if either is missing."""
        ours = self.rounds(workload, options, contender, metric)
        theirs = self.rounds(workload, options, other, metric)
        ratios = [ours[r] / theirs[r] for r in ours if theirs.get(r)]
        return statistics.median(ratios) if ratios else None

    def options_of(self, workload):
        """The options with which a workload was run, without --seconds, in order."""
        found = {}
        for w, options, _, _ in self.values:
            if w == workload:
                found[without_seconds(options)] = True
        return list(found)

    def contenders_of(self, workload, options):
        found = {}
        for w, o, contender, _ in self.values:
            if w == workload and without_seconds(o) == options:
                found[contender] = True
        return sorted(found, key=lambda name: (contender_rank(name), name))

    def metrics_of(self, workload, options):
        found = {}
        for w, o, _, metric in self.values:
            if w == workload and without_seconds(o) == options:
                found[metric] = True
        return list(found)

    def workloads(self):
        return list({key[0]: True for key in self.values})


def contender_rank(name):
    order = ["primitives", "hwt", "hwt_loop", "hierarchical", "heap", "netty", "stpe", "go",
             "tokio", "libuv", "libev", "libevent", "glib", "sdevent", "asio", "dpdk",
             "plain_heap"]
    return order.index(name) if name in order else len(order)


def without_seconds(options):
    words = options.split()
    if "--seconds" in words:
        at = words.index("--seconds")
        del words[at:at + 2]
    return " ".join(words)


def number(value):
    if value is None:
        return ""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}"


def spread(values):
    """The median, with the least and the greatest in brackets."""
    if not values:
        return ""
    middle = number(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({number(min(values))} to {number(max(values))})"


def write_csv(results, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["workload", "options", "contender", "metric", "runs", "median", "min",
                         "max"])
        for (workload, options, contender, metric), values in results.values.items():
            v = list(values.values())
            writer.writerow([workload, options, contender, metric, len(v),
                             statistics.median(v), min(v), max(v)])


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def metrics_table(results, workload, options):
    """One row a contender, one column a metric."""
    metrics = results.metrics_of(workload, options)
    rows = []
    for contender in results.contenders_of(workload, options):
        cells = [contender]
        for metric in metrics:
            cells.append(spread(list(results.rounds(workload, options, contender,
                                                    metric).values())))
        rows.append(cells)
    return table(["", *metrics], rows)


def bars_rows(results):
    rows = []
    for what, text, value, met in bars.check(results):
        verdict = "not measured" if value is None else "met" if met else "**not met**"
        rows.append([what, text, number(value), verdict])
    return rows


def bars_count(rows):
    verdicts = [row[-1] for row in rows]
    return (f"{verdicts.count('met')} met, {verdicts.count('**not met**')} not met, "
            f"{verdicts.count('not measured')} not measured")


def bars_table(results):
    rows = bars_rows(results)
    yield f"{bars_count(rows)}.\n"
    yield from table(["workload", "bar", "measured", ""], rows)


def print_bars(results):
    rows = bars_rows(results)
    for what, text, value, verdict in rows:
        if verdict != "not measured":
            print(f"{verdict.strip('*'):8} {what}: {text}: {value}", file=sys.stderr)
    print(f"bars: {bars_count(rows)}", file=sys.stderr)


# Where peers are compared: (title, whose is 1, workload, options, metric, more is better)
COMPARED = [
    ("churn, a producer's time", "hwt", "churn", "", "producer_ns", False),
    ("churn, window 10^5", "hwt", "churn", "--window 100000", "producer_ns", False),
    ("churn, 2 producers, Mops/s", "hwt", "churn", "--producers 2", "mops", True),
    ("1000 requests a second, CPU", "hwt", "requests", "--rate 1000", "cpu_us_per_request", False),
    ("reset, time", "hwt", "reset", "--pending 100000", "reset_ns", False),
    ("fire, CPU", "hwt", "fire", "", "cpu_ns", False),
    ("fire, lateness at 99.9 %", "hwt", "fire", "", "lateness_p999_us", False),
    ("heartbeat, CPU", "hwt", "heartbeat", "", "cpu_percent", False),
    ("burst, time to the last run", "hwt", "burst", "", "last_run_ms", False),
    ("standing 10^6, memory", "hwt", "standing", "--pending 1000000", "bytes_per_timeout", False),
    ("rounds, CPU", "hwt", "rounds", "--wheel 512", "cpu_ns", False),
    ("one thread: churn, time", "hwt_loop", "loop-churn", "", "ns", False),
    ("one thread: reset, time", "hwt_loop", "loop-reset", "", "ns", False),
    ("one thread: to an earlier instant", "hwt_loop", "loop-earlier", "", "ns", False),
    ("one thread: fire, CPU", "hwt_loop", "loop-fire", "", "cpu_ns", False),
    ("one thread: an HTTP request", "hwt_loop", "http", "", "request_ns", False),
]


def advantage(results, compared, contender):
    """How many times better hwt is than the contender; None: unknown, or one of them is not above 0."""
    _, base, workload, options, metric, more_is_better = compared
    if more_is_better:
        times = results.ratio(workload, options, base, contender, metric)
    else:
        times = results.ratio(workload, options, contender, base, metric)
    return times if times is not None and times > 0 else None


def advantages(results):
    """[(title, {contender: times})] for all that was run."""
    found = []
    for compared in COMPARED:
        title, base, workload, options, _, _ = compared
        others = [c for c in results.contenders_of(workload, options) if c not in (base, HWT, "hwt_loop")]
        times = {c: advantage(results, compared, c) for c in others}
        times = {c: t for c, t in times.items() if t is not None}
        if times:
            found.append((title, times))
    return found


def advantages_table(results):
    found = advantages(results)
    names = sorted({c for _, times in found for c in times}, key=contender_rank)
    rows = [[label, *(number(times.get(c)) for c in names)] for label, times in found]
    return table(["", *names], rows)


def behind(results):
    """Sentences, the worst first."""
    found = [(times, title, name) for title, others in advantages(results)
             for name, times in others.items() if times < 1]
    return [f"{title}: {name} {number(1 / times)} times better"
            for times, title, name in sorted(found)]


def read_lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def listed(title, lines):
    if lines:
        yield f"## {title}\n"
        yield from (f"- {line}" for line in lines)
        yield ""


def markdown(results, folder, pictures):
    yield "# Results\n"
    yield from (f"- {line}" for line in read_lines(os.path.join(folder, "machine.txt")))
    yield "\nMedians, with the least and the greatest of the rounds. What the workloads and "
    yield "metrics are is said in perf/README.md. The table `primitives` is what this processor takes "
    yield "for a locked operation, a reading of the clock, and a cache line to the other core.\n"
    yield "## The bars\n"
    yield from bars_table(results)
    yield "## How many times better hwt is\n"
    yield "Medians of the ratios within a round; below 1, hwt is behind. In those of one thread, hwt "
    yield "is there with HWT_ONE_THREAD.\n"
    yield from advantages_table(results)
    yield from listed("Where hwt is behind", behind(results))
    for workload in results.workloads():
        for options in results.options_of(workload):
            yield f"## {workload} {options}\n"
            yield from metrics_table(results, workload, options)
    yield from listed("Skipped", read_lines(os.path.join(folder, "skipped.txt")))
    yield from listed("Not done by", read_lines(os.path.join(folder, "declined.txt")))
    yield from listed("Failed", read_lines(os.path.join(folder, "failed.txt")))
    if pictures:
        yield "## Plots\n"
        yield from (f"![{title}]({name})\n" for name, title in pictures)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: report.py DIR")
    folder = sys.argv[1]
    results = Results(os.path.join(folder, "raw.csv"))
    write_csv(results, os.path.join(folder, "results.csv"))
    pictures = plots.draw(results, advantages(results), folder)
    with open(os.path.join(folder, "results.md"), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in markdown(results, folder, pictures))
    print_bars(results)


if __name__ == "__main__":
    main()
