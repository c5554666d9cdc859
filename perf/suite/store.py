# SPDX-License-Identifier: LGPL-2.1-or-later
"""What perf/delay_compare.sh shows of the store: the bars that it has to reach, what is compared, and plots."""

import csv
import os

from plots import Plot, curves
from results import HWT, at_least, at_most, number

ORDER = ["hwt", "bare", "beanstalkd", "redis", "rocksdb", "lmdb", "sqlite"]
OURS = ("bare",)  # is no store
INTRODUCTION = "perf/delay/README.md says what the workloads and metrics are."


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


def bars(r):
    for family in (put_bars, life_bars, standing_bars, time_bars, backlog_bars, calls_bars):
        yield from family(r)


def compared(results):
    return [(f"{workload} {options}", HWT, workload, options, metric, True)
            for workload, metric in (("put", "puts_s"), ("life", "messages_s"), ("burst", "taken_s"))
            for options in results.options_of(workload)]


# ---- plots ----

def result_plots(results):
    plot = Plot("put-producers.svg", "Synced puts of 200 bytes", "producers", "a second",
                      "xy")
    points = [(x, o) for x, o in results.sweep("put", "producers") if "--batch" not in o]
    curves(results, plot, "put", points, "puts_s")
    yield plot
    plot = Plot("life-written.svg", "Bytes to the device for one payload byte",
                      "delays up to so many seconds", "bytes", "xy")
    curves(results, plot, "life", results.sweep("life", "delay", messages="1000000"),
           "device_per_byte")
    yield plot
    for metric, text, unit in (("rss_mb", "Resident memory", "MB"),
                               ("open_ms", "Opening after kill -9", "ms")):
        plot = Plot(f"standing-{metric.split('_')[0]}.svg", text, "messages pending", unit,
                          "xy")
        curves(results, plot, "standing", results.sweep("standing", "messages"), metric)
        yield plot


class Timeline(Plot):
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
        self.mark = "points pt 7 ps 0.5"
        self.settings.append("set autoscale fix")
        for row in rows:
            if int(row["checkpoints"]) > 0:
                self.settings.append(f"set arrow from {row['seconds']}, graph 0 to "
                                     f"{row['seconds']}, graph 1 nohead dt 2 lc rgb '#c00030'")


def plots(results, _, folder):
    timeline = os.path.join(folder, "timeline.csv")
    return [*result_plots(results), *([Timeline(timeline)] if os.path.exists(timeline) else [])]
