#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads DIR/raw.csv, which perf/delay_compare.sh wrote; writes results.csv, results.md and plots.

    python3 perf/delay/report.py DIR

What is shown are medians of the rounds; ratios are taken within a round.
"""

import csv
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "suite"))

import plots  # noqa: E402
import report  # noqa: E402
from report import number  # noqa: E402

HWT = "hwt"
COLOURS = {"hwt": "#0060c0", "bare": "#808080", "beanstalkd": "#704000", "redis": "#c00030",
           "rocksdb": "#d07000", "lmdb": "#308030", "sqlite": "#9040c0"}


class Results(report.Results):
    def contenders_of(self, workload, options):
        order = list(COLOURS)
        found = super().contenders_of(workload, options)
        return sorted(found, key=lambda name: (order.index(name) if name in order else 99, name))

    def sweep(self, workload, option, **others):
        """[(value of the option, options)] of the runs that have these other options."""
        found = []
        for options in self.options_of(workload):
            given = options_dict(options)
            if option in given and all(given.get(k) == v for k, v in others.items()):
                found.append((float(given[option]), options))
        return sorted(found)


def options_dict(options):
    words = options.split()
    return {words[i][2:]: words[i + 1] for i in range(0, len(words), 2)}


# ---- bars: (what, bar, measured, verdict, at what size) ----

def verdict(value, met, small):
    if value is None:
        return "not measured"
    if not met:
        return "**not met**"
    return "met at this size" if small else "met"


def at_least(what, text, value, limit, size, small=False):
    return what, text, value, verdict(value, value is not None and value >= limit, small), size


def at_most(what, text, value, limit, size, small=False):
    return what, text, value, verdict(value, value is not None and value <= limit, small), size


def largest(results, workload, option, contender, **others):
    """(size, options) of the run with most messages that this contender did."""
    runs = [(x, o) for x, o in results.sweep(workload, option, **others)
            if contender in results.contenders_of(workload, o)]
    return runs[-1] if runs else (None, "")


def put_bars(r):
    size = "64 producers, 200 bytes"
    for other, times in (("beanstalkd", 15), ("redis", 2.5), ("rocksdb", 2.5), ("sqlite", 4),
                         ("lmdb", 5)):
        yield at_least("synced put", f"at least {times} x {other}",
                       r.ratio("put", "--producers 64", HWT, other, "puts_s"), times, size)
    yield at_least("synced put, one producer", "at least 0.9 of a bare write and fdatasync",
                   r.ratio("put", "--producers 1", HWT, "bare", "puts_s"), 0.9, "200 bytes")


def life_bars(r):
    count, options = largest(r, "life", "messages", HWT, delay="864000")
    size = f"{count:.0f} messages, delays up to ten days" if count else ""
    yield at_most("bytes to the device for a payload byte, whole life", "at most 2.3",
                  r.median("life", options, HWT, "device_per_byte"), 2.3, size)
    count, options = largest(r, "life", "messages", "rocksdb", delay="864000")
    yield at_most("the same", "at most a quarter of RocksDB's",
                  r.ratio("life", options, HWT, "rocksdb", "device_per_byte"), 0.25,
                  f"{count:.0f} messages" if count else "")


def standing_bars(r):
    count, options = largest(r, "standing", "messages", HWT)
    size = f"{count:.0f} pending; see the plots for how it grows" if count else ""
    small = count is None or count < 1e8
    yield at_most("resident memory", "at most 256 MiB (at 10^8)",
                  r.median("standing", options, HWT, "rss_mb"), 256 * 1.048576, size, small)
    yield at_most("open after kill -9", "at most 1 s (at 10^8)",
                  in_seconds(r.median("standing", options, HWT, "open_ms")), 1, size, small)
    runs = [o for n, o in r.sweep("standing", "messages") if n == 1000000]
    yield at_most("open after kill -9", "at 10^6 the same: at most 1 s",
                  in_seconds(r.median("standing", runs[0], HWT, "open_ms")) if runs else None, 1,
                  "1000000 pending")


def in_seconds(ms):
    return None if ms is None else ms / 1000


def time_bars(r):
    count, options = largest(r, "burst", "messages", HWT)
    size = f"{count:.0f} due in one second" if count else ""
    small = count is None or count < 1e6
    yield at_least("burst", "at least 500000 a second taken",
                   r.median("burst", options, HWT, "taken_s"), 500000, size, small)
    yield at_most("burst", "memory bounded: at most 256 MiB",
                  r.median("burst", options, HWT, "peak_mb"), 256 * 1.048576, size, small)
    rate, options = largest(r, "pace", "rate", HWT)
    size = f"{rate:.0f} a second in and out" if rate else ""
    yield at_most("lateness at 50000 a second", "ms at 99 %: at most 5",
                  r.median("pace", options, HWT, "late_p99_ms"), 5, size,
                  rate is None or rate < 50000)
    counts = r.rounds("pace", options, HWT, "checkpoints").values()
    yield at_least("the same", "with checkpoints meanwhile: at least 1",
                   min(counts, default=None), 1, size)


def backlog_bars(r):
    def of(metric):
        return r.median("backlog", "", HWT, metric)

    for slots in (400, 4000):
        yield at_most("backlog with 1 MiB of memory", "bytes read a byte: at most 1.5",
                      of(f"backlog_{slots}_per_byte"), 1.5, f"{slots} slots")
    for metric, size in (("visit_per_byte", "in one run"), ("visit_runs_per_byte", "in 8 runs")):
        yield at_most("visit of 46 MB with 1 MiB of memory", "bytes read a byte: at most 3",
                      of(metric), 3, size)
    size = "8000 slot files"
    yield at_most("open", "at most 0.2 s", of("files_open_s"), 0.2, size)
    yield at_least("puts", "at least 0.8 of those beside 10 files", of("files_puts_times"), 0.8, size)
    yield at_least("takes with done", "at least 0.8 of those beside 10 files",
                   of("files_takes_times"), 0.8, size)
    yield at_most("disk when nine of ten were cancelled", "bytes a byte pending: at most 2",
                  of("cancelled_disk_per_byte"), 2, "200000 put")


def calls_bars(r):
    def of(metric):
        return r.median("calls", "", HWT, metric)

    for op in ("done", "retry", "cancel"):
        yield at_least(f"{op} in batches", "at least 500000 a second", of(f"batch_{op}_s"), 500000,
                       "1000 a batch, one thread")
    gap = in_seconds(of("nowait_gap_us"))
    yield at_most("put_async that does not wait, flat out", "the longest: at most 1 ms",
                  in_seconds(of("nowait_max_us")), 1,
                  "three seconds" + ("" if gap is None else f"; reading the clock: {number(gap)}"))
    yield at_most("the same, calls during which the thread was not preempted",
                  "the longest: at most 1 ms", in_seconds(of("nowait_kept_max_us")), 1,
                  "three seconds")
    yield at_most("100 stores in a process", "at most 8 threads", of("stores_threads"), 8, "empty")
    yield at_most("the same", "at most 100 MB of disk", of("stores_disk_mb"), 100, "empty")


def bars_table(r):
    rows = []
    for family in (put_bars, life_bars, standing_bars, time_bars, backlog_bars, calls_bars):
        for what, text, value, answer, size in family(r):
            rows.append([what, text, number(value), answer, size])
    return report.table(["what", "bar", "measured", "", "at"], rows)


# ---- plots ----

def curves(results, plot, workload, points, metric):
    names = {c: True for _, o in points for c in results.contenders_of(workload, o)}
    for name in names:
        plot.add(name, COLOURS.get(name, "#000000"),
                 [(x, results.median(workload, o, name, metric)) for x, o in points])


def result_plots(results):
    plot = plots.Plot("put-producers.svg", "Synced puts of 200 bytes", "producers", "a second",
                      "xy")
    points = [(x, o) for x, o in results.sweep("put", "producers") if "--batch" not in o]
    curves(results, plot, "put", points, "puts_s")
    yield plot
    plot = plots.Plot("life-written.svg", "Bytes to the device for one payload byte",
                      "delays up to so many seconds", "bytes", "xy")
    curves(results, plot, "life", results.sweep("life", "delay", messages="1000000"),
           "device_per_byte")
    yield plot
    for metric, text, unit in (("rss_mb", "Resident memory", "MB"),
                               ("open_ms", "Opening after kill -9", "ms")):
        plot = plots.Plot(f"standing-{metric.split('_')[0]}.svg", text, "messages pending", unit,
                          "xy")
        curves(results, plot, "standing", results.sweep("standing", "messages"), metric)
        yield plot


class Timeline(plots.Plot):
    """Lateness over time: dots, for it goes up and down; checkpoints are dashed lines."""

    def __init__(self, path):
        super().__init__("pace-lateness.svg",
                         "How late, every tenth of a second (dashed lines: checkpoints)",
                         "seconds", "ms", "y")
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for column, label, colour in (("max_ms", "the latest", "#e09030"),
                                      ("p99_ms", "at 99 %", "#0060c0")):
            self.add(label, colour, [(float(row["seconds"]), max(float(row[column]), 0.001))
                                     for row in rows])
        self.settings += ["set autoscale fix", "set key horizontal outside center bottom"]
        for row in rows:
            if int(row["checkpoints"]) > 0:
                self.settings.append(f"set arrow from {row['seconds']}, graph 0 to "
                                     f"{row['seconds']}, graph 1 nohead dt 2 lc rgb '#c00030'")

    def style(self, colour, dashes):
        return f"with points pt 7 ps 0.5 lc rgb '{colour}'"


def draw(results, folder):
    """Returns [(file name, title)] of the plots that could be drawn."""
    for name in os.listdir(folder):
        if name.endswith(".svg"):
            os.remove(os.path.join(folder, name))
    if not shutil.which("gnuplot"):
        return []
    drawn = list(result_plots(results))
    timeline = os.path.join(folder, "timeline.csv")
    if os.path.exists(timeline):
        drawn.append(Timeline(timeline))
    drawn = [plot for plot in drawn if plot.shows_anything()]
    for plot in drawn:
        subprocess.run(["gnuplot"], input=plot.script(folder), text=True, check=True)
    return [(plot.name, plot.title) for plot in drawn]


# ---- the page ----

def times_table(results):
    """How many times what the others do in a second hwt does."""
    rows = []
    names = [n for n in COLOURS if n not in (HWT, "bare")]
    for workload, metric in (("put", "puts_s"), ("life", "messages_s"), ("burst", "taken_s")):
        for options in results.options_of(workload):
            times = {n: results.ratio(workload, options, HWT, n, metric) for n in names}
            if any(times.values()):
                rows.append([f"{workload} {options}", *(number(times[n]) for n in names)])
    return report.table(["", *names], rows)


def metrics_table(results, workload, options):
    metrics = results.metrics_of(workload, options)
    rows = []
    for contender in results.contenders_of(workload, options):
        values = (results.rounds(workload, options, contender, m).values() for m in metrics)
        rows.append([contender, *(report.spread(list(v)) for v in values)])
    return report.table(["", *metrics], rows)


def markdown(results, folder, pictures):
    yield "# Results\n"
    yield from (f"- {line}" for line in report.read_lines(os.path.join(folder, "machine.txt")))
    yield "\nMedians, with the least and the greatest of the rounds. perf/delay/README.md says what "
    yield "the workloads and metrics are.\n"
    yield "## The bars\n"
    yield from bars_table(results)
    yield "## How many times what the others do in a second\n"
    yield "Below 1, hwt is behind.\n"
    yield from times_table(results)
    for workload in results.workloads():
        for options in results.options_of(workload):
            yield f"## {workload} {options}\n"
            yield from metrics_table(results, workload, options)
    for title, name in (("Skipped", "skipped"), ("Not done by", "declined"), ("Failed", "failed")):
        yield from report.listed(title, report.read_lines(os.path.join(folder, name + ".txt")))
    if pictures:
        yield "## Plots\n"
        yield from (f"![{title}]({name})\n" for name, title in pictures)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: report.py DIR")
    folder = sys.argv[1]
    results = Results(os.path.join(folder, "raw.csv"))
    report.write_csv(results, os.path.join(folder, "results.csv"))
    pictures = draw(results, folder)
    with open(os.path.join(folder, "results.md"), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in markdown(results, folder, pictures))


if __name__ == "__main__":
    main()
