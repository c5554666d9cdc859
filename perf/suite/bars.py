# SPDX-License-Identifier: LGPL-2.1-or-later
"""The bars that hwt has to reach. Each is a row (workload, text, measured value, met)."""

import statistics

HWT = "hwt"
NOISE = 1.1  # runs of one program differ by so much on a shared machine


def at_most(workload, text, value, limit):
    return workload, text, value, value is not None and value <= limit


def at_least(workload, text, value, limit):
    return workload, text, value, value is not None and value >= limit


def above_clock(results, workload, options, metric):
    """Nanoseconds above one reading of the clock in the same round."""
    clock = results.rounds("clock", "", HWT, "clock_ns")
    ours = results.rounds(workload, options, HWT, metric)
    found = [ours[r] - clock[r] for r in ours if r in clock]
    return statistics.median(found) if found else None


def within(results, workload, options, over, under):
    """Median of the ratio of two metrics of one run of hwt."""
    a = results.rounds(workload, options, HWT, over)
    b = results.rounds(workload, options, HWT, under)
    found = [a[r] / b[r] for r in a if b.get(r)]
    return statistics.median(found) if found else None


def between(results, metric, workload, options, base):
    """Median of the ratio of hwt with some options to hwt with others."""
    a = results.rounds(workload, options, HWT, metric)
    b = results.rounds(workload, base, HWT, metric)
    found = [a[r] / b[r] for r in a if b.get(r)]
    return statistics.median(found) if found else None


def churn(r):
    two = "--producers 2"
    yield at_most("churn, P=1", "producer time / Netty's at most 0.5",
                  r.ratio("churn", "", HWT, "netty", "producer_ns"), 0.5)
    yield at_most("churn, P=1", "ns above the clock at most 20",
                  above_clock(r, "churn", "", "producer_ns"), 20)
    yield at_least("churn, P=2", "Mops/s / Netty's at least 3",
                   r.ratio("churn", two, HWT, "netty", "mops"), 3)
    yield at_least("churn, P=2", "Mops/s / those of P=1 at least 1.4",
                   between(r, "mops", "churn", two, ""), 1.4)
    yield at_most("churn-100ms", "MB at the peak at most 64",
                  r.median("churn-100ms", two, HWT, "peak_rss_mb"), 64)
    yield at_least("churn-100ms", "speed at the end / at the start at least 0.9",
                   within(r, "churn-100ms", two, "mops_end", "mops_start"), 0.9)


def fire(r):
    yield at_most("fire", "CPU / Netty's at most 0.2",
                  r.ratio("fire", "", HWT, "netty", "cpu_ns"), 0.2)
    earliest = r.rounds("fire", "", HWT, "earliest_us").values()
    yield at_least("fire", "us late at least 0 (never early)", min(earliest, default=None), 0)
    yield at_most("fire", "us late at 99.9 % at most 1500",
                  r.median("fire", "", HWT, "lateness_p999_us"), 1500)


def standing(r):
    million = "--pending 1000000"
    yield at_most("standing 10^6", "% CPU at most 0.1",
                  r.median("standing", million, HWT, "cpu_percent"), 0.1)
    yield at_most("standing 10^6", "wake-ups a second at most 20",
                  r.median("standing", million, HWT, "wakeups_per_s"), 20)
    for options in r.options_of("standing"):
        ours = r.median("standing", options, HWT, "cpu_percent")
        theirs = r.median("standing", options, "hierarchical", "cpu_percent")
        more = None if ours is None or theirs is None else ours - theirs
        yield at_most("standing " + options, "% CPU above hierarchical at most 0.05", more, 0.05)
    yield at_most("standing 10^7", "bytes a timeout at most 64 (48 is the aim)",
                  r.median("standing", "--pending 10000000", HWT, "bytes_per_timeout"), 64)
    yield at_most("idle", "wake-ups a second 0", r.median("idle", "", HWT, "wakeups_per_s"), 0)


def reset(r):
    million = "--pending 1000000"
    yield at_most("reset", "ns above the clock at most 10",
                  above_clock(r, "reset", "", "reset_ns"), 10)
    yield at_most("reset 10^6", "time / libev's at most 1/3",
                  r.ratio("reset", million, HWT, "libev", "reset_ns"), 1 / 3)


def firing_together(r):
    yield at_most("heartbeat", "CPU / Netty's at most 0.2",
                  r.ratio("heartbeat", "", HWT, "netty", "cpu_percent"), 0.2)
    drift = r.median("heartbeat", "", HWT, "drift_us")
    yield at_most("heartbeat", "us of drift a period at most 20 (noise)",
                  None if drift is None else abs(drift), 20)
    yield at_most("burst", "ms from the deadline to the last run at most 100",
                  r.median("burst", "", HWT, "last_run_ms"), 100)
    yield at_most("burst", "adds at 99.9 %, meanwhile / before at most 2 (unharmed)",
                  within(r, "burst", "", "add_p999_us", "quiet_add_p999_us"), 2)


def long_lives(r):
    for options in r.options_of("rounds"):
        yield at_most("rounds " + options, f"CPU / hierarchical's at most {NOISE} (noise)",
                      r.ratio("rounds", options, HWT, "hierarchical", "cpu_ns"), NOISE)
    yield at_most("leap", "ms to catch up at most 100",
                  r.median("leap", "", HWT, "catch_up_ms"), 100)
    least, most = "--pending 1000", "--pending 10000000"
    for metric in ("add_ns", "cancel_ns", "tick_ns"):
        yield at_most("growth", f"{metric} at 10^7 / at 10^3 at most 2 (flat)",
                      between(r, metric, "growth", most, least), 2)


def check(results):
    for family in (churn, fire, standing, reset, firing_together, long_lives):
        yield from family(results)
