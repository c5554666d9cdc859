# SPDX-License-Identifier: LGPL-2.1-or-later
"""The plots, by gnuplot. Without it there are none, and nothing else is missing."""

import os
import shutil
import subprocess

STYLE = """\
set terminal svg noenhanced size 760,460 background '#ffffff' font 'sans-serif,12'
set grid lc rgb '#dddddd'
set border 3
set tics nomirror
set key outside right top
"""
COLOURS = {
    "hwt": "#0060c0", "hierarchical": "#d07000", "heap": "#808080", "netty": "#c00030",
    "stpe": "#e080a0", "go": "#00a0a0", "tokio": "#704000", "libuv": "#70a000",
    "libev": "#308030", "libevent": "#9040c0",
}


class Plot:
    def __init__(self, name, title, x, y, logarithmic):
        self.name = name
        self.title = title
        self.settings = [f"set title {quoted(title)}", f"set xlabel {quoted(x)}",
                         f"set ylabel {quoted(y)}"]
        if logarithmic:
            self.settings.append(f"set logscale {logarithmic}")
        self.lines = []  # (label, colour, [(x, y)])

    def add(self, label, colour, points, dashes=1):
        points = [(x, y) for x, y in points if y is not None]
        if points:
            self.lines.append((label, colour, points, dashes))

    def shows_anything(self):
        """Not if all there is stands at one x."""
        return len({x for _, _, points, _ in self.lines for x, _ in points}) > 1

    def script(self, folder):
        path = os.path.join(folder, self.name)
        lines = [STYLE, f"set output {quoted(path)}", *self.settings]
        parts = []
        for i, (label, colour, points, dashes) in enumerate(self.lines):
            lines += [f"$data{i} << end", *(f"{x} {y}" for x, y in points), "end"]
            parts.append(f"$data{i} with linespoints lw 2 pt 7 ps 0.6 dt {dashes} "
                         f"lc rgb '{colour}' title {quoted(label)}")
        lines.append("plot " + ", ".join(parts))
        return "\n".join(lines) + "\n"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


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


def curves(results, plot, workload, points, metric, dashes=1, suffix=""):
    names = {c: True for _, options in points for c in results.contenders_of(workload, options)}
    for name in names:
        plot.add(name + suffix, COLOURS.get(name, "#000000"),
                 [(x, results.median(workload, options, name, metric)) for x, options in points],
                 dashes)


def growth_plots(results):
    points = sweep(results, "growth", "--pending", set(), None)
    for metric, what in (("add_ns", "adding one"), ("cancel_ns", "cancelling one"),
                         ("reschedule_ns", "pushing a random one back"),
                         ("tick_ns", "a tick with one due")):
        plot = Plot(f"growth-{metric[:-3]}.svg", f"Cost of {what} while others stand there",
                    "timeouts pending", "ns", "xy")
        curves(results, plot, "growth", points, metric)
        yield plot


def memory_plot(results):
    plot = Plot("standing-cpu.svg", "CPU while nothing happens", "timeouts pending",
                "% of a processor", "x")
    curves(results, plot, "standing", sweep(results, "standing", "--pending", set(), None),
           "cpu_percent")
    yield plot


def producer_plots(results):
    plot = Plot("producers-churn.svg", "Churn: operations of all producers", "producers",
                "10^6 a second", "")
    curves(results, plot, "churn", sweep(results, "churn", "--producers", set(), 1), "mops")
    plot.settings += ["set xtics 1", "set yrange [0:*]"]
    yield plot
    plot = Plot("producers-growth.svg", "One operation, by the number of producers (2 processors)",
                "producers", "ns", "")
    points = sweep(results, "growth", "--producers", set(), None)
    points = [(1, "--pending 100000"), *points]
    curves(results, plot, "growth", points, "add_ns", 1, ", add")
    curves(results, plot, "growth", points, "cancel_ns", 2, ", cancel")
    plot.settings += ["set yrange [0:*]"]
    yield plot


def rounds_plots(results):
    points = sweep(results, "rounds", "--rounds", {"--wheel"}, 1000)
    points = [(x, o) for x, o in points if option(o, "--wheel", 512) == 512]
    plot = Plot("rounds-delay.svg", "A million timeouts from add to run, wheel of 512 ticks",
                "longest delay / wheel length", "CPU ns a timeout", "x")
    curves(results, plot, "rounds", points, "cpu_ns")
    plot.settings += ["set yrange [0:*]"]
    yield plot
    plot = Plot("rounds-wheel.svg", "A million timeouts of 1 to 1000 wheel lengths",
                "ticks in the wheel", "CPU ns a timeout", "x")
    curves(results, plot, "rounds", sweep(results, "rounds", "--wheel", set(), None), "cpu_ns")
    plot.settings += ["set yrange [0:*]"]
    yield plot


def lateness_plots(results):
    for workload in ("fire", "heartbeat"):
        plot = Plot(f"lateness-{workload}.svg", f"How late: {workload}", "of all runs",
                    "us after the deadline", "y")
        plot.settings.append("set xtics ('50 %%' 1, '99 %%' 2, '99.9 %%' 3, 'all' 4)")
        metrics = ["lateness_p50_us", "lateness_p99_us", "lateness_p999_us", "lateness_max_us"]
        for name in results.contenders_of(workload, ""):
            values = [results.median(workload, "", name, m) for m in metrics]
            plot.add(name, COLOURS.get(name, "#000000"), list(zip(range(1, 5), values)))
        yield plot


def ratio_plot(advantages):
    """One cluster of points a comparison, one colour a contender."""
    plot = Plot("ratios.svg", "How many times better hwt is (below 1: worse)", "", "times", "y")
    ticks = [f"{quoted(label)} {i}" for i, (label, _) in enumerate(advantages)]
    plot.settings += [f"set xtics rotate by -35 ({', '.join(ticks)})",
                      f"set xrange [-0.5:{len(advantages) - 0.5}]",
                      "set terminal svg noenhanced size 980,560",
                      "set arrow from graph 0, first 1 to graph 1, first 1 nohead lc rgb '#000000'"]
    for name in {c: True for _, times in advantages for c in times}:
        plot.add(name, COLOURS.get(name, "#000000"),
                 [(i, times.get(name)) for i, (_, times) in enumerate(advantages)])
    script = plot.script
    plot.script = lambda folder: script(folder).replace("linespoints lw 2", "points").replace(
        "ps 0.6", "ps 1.2")
    return plot


def draw(results, advantages, folder):
    """Returns [(file name, title)] of the plots that could be drawn."""
    for name in os.listdir(folder):
        if name.endswith(".svg"):
            os.remove(os.path.join(folder, name))
    if not shutil.which("gnuplot"):
        return []
    plots = [*growth_plots(results), *memory_plot(results), *producer_plots(results),
             *rounds_plots(results), *lateness_plots(results), ratio_plot(advantages)]
    drawn = [plot for plot in plots if plot.shows_anything()]
    for plot in drawn:
        subprocess.run(["gnuplot"], input=plot.script(folder), text=True, check=True)
    return [(plot.name, plot.title) for plot in drawn]
