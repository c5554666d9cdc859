# SPDX-License-Identifier: LGPL-2.1-or-later
"""What perf/run.sh shows of the timer: the bars that it has to reach, what is compared, and plots."""

from plots import Plot, colour_of, curves, name_of, rows_plot
from results import HWT, at_least, at_most, divided

ORDER = ["primitives", "hwt", "hwt_loop", "hierarchical", "heap", "netty", "stpe", "go", "tokio", "libuv", "libev",
         "libevent", "plain_heap"]
OURS = ("hwt", "hwt_loop")  # nobody's rivals
INTRODUCTION = ("What the workloads and metrics are is said in perf/README.md. The table `primitives` is what this "
                "processor takes for a locked operation, a reading of the clock, and a cache line to the other core. "
                "In rows of one thread, hwt is there with HWT_ONE_THREAD.")
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


def within(r, workload, options, over, under, contender=HWT):
    """Median of the ratio of two metrics of one run."""
    return r.paired((workload, options, contender, over), (workload, options, contender, under), divided)


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
        what = f"churn, P=1, window {name}"
        yield at_most(what, "producer time / Netty's at most 0.45",
                      r.ratio("churn", options, HWT, "netty", "producer_ns"), 0.45)
        yield at_most(what, "process CPU / Netty's at most 0.4", r.ratio("churn", options, HWT, "netty", "cpu_ns"), 0.4)
    for name, options in windows:
        yield at_least(f"churn, P=2, window {name}", "Mops/s / Netty's at least 3.5",
                       r.ratio("churn", f"--producers 2 {options}".strip(), HWT, "netty", "mops"), 3.5)
    yield at_least("churn, P=2", "Mops/s / those of P=1 at least 1.6",
                   r.paired(("churn", "--producers 2", HWT, "mops"), ("churn", "", HWT, "mops"), divided), 1.6)


def memory(r):
    yield at_most("churn, any window", "MB above what is pending at most 8",
                  of_all(max, r, "churn", lambda o: r.median("churn", o, HWT, "above_pending_mb")), 8)
    kinds = ("memory", "memory-blocked", "memory-undriven")
    for workload in kinds:
        for metric, what in (("above_pending_mb", "resident"), ("held_mb", "held")):
            yield at_most(workload, f"MB {what} above what is pending at most 8",
                          of_all(max, r, workload, lambda o, m=metric, w=workload: r.median(w, o, HWT, m)), 8)
    for workload in (*kinds, "churn-100ms"):
        yield at_least(workload, "speed at the end / at the start at least 0.8 (noise)",
                       of_all(min, r, workload, lambda o, w=workload: within(r, w, o, "mops_end", "mops_start")), 0.8)


def requests(r):
    for workload in ("requests", "requests-minute"):
        for metric, text, limit in (("wakeups_per_request", "wake-ups a request at most 0.02", 0.02),
                                    ("cpu_us_per_request", "us of CPU a request at most 0.25", 0.25)):
            yield at_most(f"{workload}, 1000 a second", text, r.median(workload, "--rate 1000", HWT, metric), limit)


def one_thread(r):
    for workload, options, text, metric, limit in (
            ("loop-churn", "", "time / libev's", "ns", 0.5),
            ("loop-reset", "", "time / ev_timer_again's", "ns", 0.5),
            ("loop-reset", MILLION, "time / ev_timer_again's", "ns", 0.5),
            ("loop-fire", "", "CPU / libev's", "cpu_ns", 0.4),
            ("loop-earlier", "", "time / libev's", "ns", 1)):
        yield at_most(named(workload, options), f"{text} at most {limit}",
                      r.ratio(workload, options, LOOP, "libev", metric), limit)
    yield at_most("loop-earlier", f"time / an add's at most {NOISE} (noise)",
                  within(r, "loop-earlier", "", "ns", "add_ns", LOOP), NOISE)
    yield at_most("http", "instructions a request at most 400",
                  r.median("http-instructions", "", LOOP, "instructions_per_request"), 400)


def firing(r):
    yield at_most("fire", "CPU / Netty's at most 0.33", r.ratio("fire", "", HWT, "netty", "cpu_ns"), 0.33)
    earliest = r.rounds("fire", "", HWT, "earliest_us").values()
    yield at_least("fire", "us late at least 0 (never early)", min(earliest, default=None), 0)
    yield at_most("fire", "us late at 99.9 % at most 1500", r.median("fire", "", HWT, "lateness_p999_us"), 1500)
    yield at_most("heartbeat", "CPU / Netty's at most 0.45",
                  r.ratio("heartbeat", "", HWT, "netty", "cpu_percent"), 0.45)
    drift = r.median("heartbeat", "", HWT, "drift_us")
    yield at_most("heartbeat", "us of drift a period at most 20 (noise)", None if drift is None else abs(drift), 20)
    yield at_most("burst", "ms from the deadline to the last run at most 60",
                  r.median("burst", "", HWT, "last_run_ms"), 60)
    yield at_most("burst", "adds at 99.9 %, meanwhile / before at most 2 (unharmed)",
                  within(r, "burst", "", "add_p999_us", "quiet_add_p999_us"), 2)
    yield at_most("first", "us of the longest of 1000 first arms at most 1000",
                  r.median("first", "--producers 1000", HWT, "first_arm_max_us"), 1000)


def reset(r):
    for options in r.options_of("reset"):
        if "--producers" not in options:
            yield at_most(named("reset", options), "ns above touch_ns at most 10",
                          r.paired(("reset", options, HWT, "reset_ns"), ("reset", options, HWT, "touch_ns"),
                                   lambda a, b: a - b), 10)


def standing(r):
    yield at_most("standing", "wake-ups a second 0",
                  of_all(max, r, "standing", lambda o: r.median("standing", o, HWT, "wakeups_per_s")), 0)
    for options in r.options_of("standing"):
        ours, theirs = (r.median("standing", options, name, "cpu_percent") for name in (HWT, "hierarchical"))
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
    for number, kind, what, slack in ((0, "instructions", "instructions", 0), (1, "locked", "locked operations", SHARE)):
        for path, limits in PATHS.items():
            if limits[number] is not None:
                yield at_most(f"path {path}", f"{what} at most {limits[number]}",
                              r.median("instructions", "", HWT, f"{path}_{kind}"), limits[number] + slack)


def bars(results):
    for family in (churn, memory, requests, one_thread, firing, reset, standing, long_lives, paths):
        yield from family(results)


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


def compared(_):
    return COMPARED


# ---- plots ----

def option(options, name, default):
    words = options.split()
    return float(words[words.index(name) + 1]) if name in words else default


def sweep(results, workload, name, others, default):
    """[(value of the option, options)] where nothing but this option, and `others`, is given."""
    found = []
    for options in results.options_of(workload):
        names = {w for w in options.split() if w.startswith("--")}
        if names == {name} | others or (default is not None and names == others):
            found.append((option(options, name, default), options))
    return sorted(found)


def growth_plots(results):
    points = sweep(results, "growth", "--pending", set(), None)
    for metric, what in (("add_ns", "adding one"), ("cancel_ns", "cancelling one"),
                         ("reschedule_ns", "pushing a random one back"),
                         ("tick_ns", "a tick with one due")):
        plot = Plot(f"growth-{metric[:-3]}.svg", f"Cost of {what} while others stand there",
                    "timeouts pending", "ns", "xy")
        curves(results, plot, "growth", points, metric)
        yield plot


def from_zero(plot, *settings):
    plot.settings += ["set yrange [0:*]", *settings]
    return plot


def producer_plots(results):
    plot = Plot("producers-churn.svg", "Churn: operations of all producers", "producers", "10^6 a second", "")
    curves(results, plot, "churn", sweep(results, "churn", "--producers", set(), 1), "mops")
    yield from_zero(plot, "set xtics 1")
    plot = Plot("churn-window.svg", "Churn, one producer, by the timeouts that it has pending", "timeouts pending",
                "ns an operation", "x")
    points = sweep(results, "churn", "--window", set(), 1000)
    curves(results, plot, "churn", points, "producer_ns", 1, ", time of the producer")
    curves(results, plot, "churn", points, "cpu_ns", 2, ", CPU of the process")
    yield from_zero(plot)
    plot = Plot("producers-growth.svg", "One operation, by the number of producers (2 processors)", "producers", "ns", "")
    points = [(1, "--pending 100000"), *sweep(results, "growth", "--producers", set(), None)]
    curves(results, plot, "growth", points, "add_ns", 1, ", add")
    curves(results, plot, "growth", points, "cancel_ns", 2, ", cancel")
    yield from_zero(plot)


def rounds_plots(results):
    points = sweep(results, "rounds", "--rounds", {"--wheel"}, 1000)
    plot = Plot("rounds-delay.svg", "A million timeouts from add to run, wheel of 512 ticks",
                "longest delay / wheel length", "CPU ns a timeout", "x")
    curves(results, plot, "rounds", [(x, o) for x, o in points if option(o, "--wheel", 512) == 512], "cpu_ns")
    yield from_zero(plot)
    plot = Plot("rounds-wheel.svg", "A million timeouts of 1 to 1000 wheel lengths", "ticks in the wheel",
                "CPU ns a timeout", "x")
    curves(results, plot, "rounds", sweep(results, "rounds", "--wheel", set(), None), "cpu_ns")
    yield from_zero(plot)


def lateness_plots(results):
    for workload in ("fire", "heartbeat"):
        plot = Plot(f"lateness-{workload}.svg", f"How late: {workload}", "of all runs",
                    "us after the deadline", "y")
        plot.settings.append("set xtics ('50 %%' 1, '99 %%' 2, '99.9 %%' 3, 'all' 4)")
        metrics = ["lateness_p50_us", "lateness_p99_us", "lateness_p999_us", "lateness_max_us"]
        for name in results.contenders_of(workload, ""):
            values = [results.median(workload, "", name, m) for m in metrics]
            plot.add(name_of(name), colour_of(name), list(zip(range(1, 5), values)))
        yield plot


def standing_plot(results):
    options = "--pending 1000000"
    found = {c: results.median("standing", options, c, "bytes_per_timeout")
             for c in results.contenders_of("standing", options)}
    return rows_plot("standing.svg", "A million timeouts pending: memory of each", "bytes",
                     [(name_of(c), {c: value}) for c, value in found.items()], "set xrange [0:*]", "unset key")


def ratio_plot(advantages):
    return rows_plot("ratios.svg", "How many times better hwt is", "times (left of 1: hwt is behind)", advantages,
                     "set logscale x", "set arrow from 1, graph 0 to 1, graph 1 nohead lw 2")


def plots(results, advantages, _):
    return [*growth_plots(results), *producer_plots(results), *rounds_plots(results), *lateness_plots(results),
            standing_plot(results), ratio_plot(advantages)]
