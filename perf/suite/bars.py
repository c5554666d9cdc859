# SPDX-License-Identifier: LGPL-2.1-or-later
"""The bars that hwt has to reach. Each is a row (workload, text, measured value, met)."""

import statistics

HWT = "hwt"
LOOP = "hwt_loop"  # with HWT_ONE_THREAD
NOISE = 1.1  # runs of one program differ by so much on a shared machine
SHARE = 0.1  # what happens once for many calls is not an operation of each
MILLION, TEN_MILLION = "--pending 1000000", "--pending 10000000"
# {path: (instructions, locked operations)}; what a change may not make worse is in instructions.txt
PATHS = {
    "add": (100, 0), "drain": (120, None), "reschedule": (54, 1), "refile": (320, None),
    "cancel": (50, 1), "reap": (60, None), "add_cancel": (145, 1), "drain_cancelled": (200, None),
    "fire": (360, 2), "one_add": (None, 0), "one_reschedule": (None, 0), "one_cancel": (None, 0),
    "one_file": (None, 0), "one_reap": (None, 0), "one_fire": (None, 0),
}


def at_most(workload, text, value, limit):
    return workload, text, value, value is not None and value <= limit


def at_least(workload, text, value, limit):
    return workload, text, value, value is not None and value >= limit


def within(results, workload, options, over, under, contender=HWT):
    """Median of the ratio of two metrics of one run."""
    a = results.rounds(workload, options, contender, over)
    b = results.rounds(workload, options, contender, under)
    found = [a[r] / b[r] for r in a if b.get(r)]
    return statistics.median(found) if found else None


def above(results, workload, options, metric, base):
    """Median of the difference of two metrics of one run of hwt."""
    a = results.rounds(workload, options, HWT, metric)
    b = results.rounds(workload, options, HWT, base)
    found = [a[r] - b[r] for r in a if r in b]
    return statistics.median(found) if found else None


def between(results, metric, workload, options, base):
    """Median of the ratio of hwt with some options to hwt with others."""
    a = results.rounds(workload, options, HWT, metric)
    b = results.rounds(workload, base, HWT, metric)
    found = [a[r] / b[r] for r in a if b.get(r)]
    return statistics.median(found) if found else None


def of_all(choose, results, workload, value):
    """The worst, by `choose`, over all options with which a workload was run."""
    found = [value(options) for options in results.options_of(workload)]
    found = [v for v in found if v is not None]
    return choose(found) if found else None


def named(workload, options):
    words = options.replace("--", "").split()
    words = [f"10^{len(w) - 1}" if len(w) > 4 and w == "1" + "0" * (len(w) - 1) else w
             for w in words]
    return f"{workload}, {' '.join(words)}" if words else workload


def churn(r):
    windows = [("1000", ""), ("10^4", "--window 10000"), ("10^5", "--window 100000")]
    for name, options in windows:
        yield at_most(f"churn, P=1, window {name}", "producer time / Netty's at most 0.45",
                      r.ratio("churn", options, HWT, "netty", "producer_ns"), 0.45)
        yield at_most(f"churn, P=1, window {name}", "process CPU / Netty's at most 0.4",
                      r.ratio("churn", options, HWT, "netty", "cpu_ns"), 0.4)
    for name, options in windows:
        two = f"--producers 2 {options}".strip()
        yield at_least(f"churn, P=2, window {name}", "Mops/s / Netty's at least 3.5",
                       r.ratio("churn", two, HWT, "netty", "mops"), 3.5)
    yield at_least("churn, P=2", "Mops/s / those of P=1 at least 1.6",
                   between(r, "mops", "churn", "--producers 2", ""), 1.6)


def memory(r):
    yield at_most("churn, any window", "MB above what is pending at most 8",
                  of_all(max, r, "churn",
                         lambda o: r.median("churn", o, HWT, "above_pending_mb")), 8)
    for workload in ("memory", "memory-blocked", "memory-undriven"):
        for metric, what in (("above_pending_mb", "resident"), ("held_mb", "held")):
            yield at_most(workload, f"MB {what} above what is pending at most 8",
                          of_all(max, r, workload,
                                 lambda o, m=metric, w=workload: r.median(w, o, HWT, m)), 8)
    for workload in ("memory", "memory-blocked", "memory-undriven", "churn-100ms"):
        yield at_least(workload, "speed at the end / at the start at least 0.8 (noise)",
                       of_all(min, r, workload,
                              lambda o, w=workload: within(r, w, o, "mops_end", "mops_start")), 0.8)


def requests(r):
    for workload in ("requests", "requests-minute"):
        for metric, text, limit in (
                ("wakeups_per_request", "wake-ups a request at most 0.02", 0.02),
                ("cpu_us_per_request", "us of CPU a request at most 0.25", 0.25)):
            yield at_most(f"{workload}, 1000 a second", text,
                          r.median(workload, "--rate 1000", HWT, metric), limit)


def one_thread(r):
    yield at_most("loop-churn", "time / libev's at most 0.5",
                  r.ratio("loop-churn", "", LOOP, "libev", "ns"), 0.5)
    for options in ("", MILLION):
        yield at_most(named("loop-reset", options), "time / ev_timer_again's at most 0.5",
                      r.ratio("loop-reset", options, LOOP, "libev", "ns"), 0.5)
    yield at_most("loop-fire", "CPU / libev's at most 0.4",
                  r.ratio("loop-fire", "", LOOP, "libev", "cpu_ns"), 0.4)
    yield at_most("loop-earlier", "time / libev's at most 1",
                  r.ratio("loop-earlier", "", LOOP, "libev", "ns"), 1)
    yield at_most("loop-earlier", f"time / an add's at most {NOISE} (noise)",
                  within(r, "loop-earlier", "", "ns", "add_ns", LOOP), NOISE)
    yield at_most("http", "instructions a request at most 400",
                  r.median("http-instructions", "", LOOP, "instructions_per_request"), 400)


def firing(r):
    yield at_most("fire", "CPU / Netty's at most 0.33",
                  r.ratio("fire", "", HWT, "netty", "cpu_ns"), 0.33)
    earliest = r.rounds("fire", "", HWT, "earliest_us").values()
    yield at_least("fire", "us late at least 0 (never early)", min(earliest, default=None), 0)
    yield at_most("fire", "us late at 99.9 % at most 1500",
                  r.median("fire", "", HWT, "lateness_p999_us"), 1500)
    yield at_most("heartbeat", "CPU / Netty's at most 0.45",
                  r.ratio("heartbeat", "", HWT, "netty", "cpu_percent"), 0.45)
    drift = r.median("heartbeat", "", HWT, "drift_us")
    yield at_most("heartbeat", "us of drift a period at most 20 (noise)",
                  None if drift is None else abs(drift), 20)
    yield at_most("burst", "ms from the deadline to the last run at most 60",
                  r.median("burst", "", HWT, "last_run_ms"), 60)
    yield at_most("burst", "adds at 99.9 %, meanwhile / before at most 2 (unharmed)",
                  within(r, "burst", "", "add_p999_us", "quiet_add_p999_us"), 2)


def reset(r):
    for options in r.options_of("reset"):
        if "--producers" not in options:
            yield at_most(named("reset", options), "ns above touch_ns at most 10",
                          above(r, "reset", options, "reset_ns", "touch_ns"), 10)


def standing(r):
    yield at_most("standing", "wake-ups a second 0",
                  of_all(max, r, "standing",
                         lambda o: r.median("standing", o, HWT, "wakeups_per_s")), 0)
    for options in r.options_of("standing"):
        ours = r.median("standing", options, HWT, "cpu_percent")
        theirs = r.median("standing", options, "hierarchical", "cpu_percent")
        if theirs is not None:
            yield at_most(named("standing", options), "% CPU above hierarchical at most 0.05",
                          None if ours is None else ours - theirs, 0.05)
    yield at_most("standing, 10^7", "bytes a timeout, all included, at most 56",
                  r.median("standing", TEN_MILLION, HWT, "bytes_per_timeout"), 56)
    yield at_most("idle", "wake-ups a second 0", r.median("idle", "", HWT, "wakeups_per_s"), 0)


def long_lives(r):
    for options in r.options_of("rounds"):
        yield at_most(named("rounds", options), "CPU / hierarchical's at most 1",
                      r.ratio("rounds", options, HWT, "hierarchical", "cpu_ns"), 1)
    for options in r.options_of("leap"):
        for span, what in (("hour", "an hour"), ("year", "a year"), ("century", "a century")):
            yield at_most(named("leap", options), f"ms to catch up with {what} at most 100",
                          r.median("leap", options, HWT, f"{span}_ms"), 100)
    yield at_most("peak", "ms of CPU that the longest pass takes at most 5",
                  r.median("peak", "", HWT, "longest_pass_ms"), 5)


def paths(r):
    for number, kind, slack in ((0, "instructions", 0), (1, "locked", SHARE)):
        what = "locked operations" if number else kind
        for path, bars in PATHS.items():
            if bars[number] is not None:
                yield at_most(f"path {path}", f"{what} at most {bars[number]}",
                              r.median("instructions", "", HWT, f"{path}_{kind}"),
                              bars[number] + slack)


def check(results):
    for family in (churn, memory, requests, one_thread, firing, reset, standing, long_lives, paths):
        yield from family(results)
