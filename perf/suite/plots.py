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
set autoscale xfix
"""
COLOURS = {
    "hwt": "#0060c0", "hwt_loop": "#60a0f0", "hierarchical": "#d07000", "heap": "#808080",
    "netty": "#c00030",
    "stpe": "#e080a0", "go": "#00a0a0", "tokio": "#704000", "libuv": "#70a000",
    "libev": "#308030", "libevent": "#9040c0",
}
NAMES = {
    "hwt_loop": "hwt, one thread", "plain_heap": "plain heap", "netty": "Netty",
    "stpe": "Java's executor", "go": "Go", "tokio": "Tokio", "glib": "GLib", "sdevent": "sd-event",
    "asio": "Asio", "dpdk": "DPDK",
}
NOTES = (
    "hierarchical, heap: hwt with hierarchical wheels, and with a heap, in its wheel's place.   "
    "plain heap: a binary heap as a program would write it for itself.",
    "Netty: HashedWheelTimer.   Java's executor: ScheduledThreadPoolExecutor.   "
    "Those of one thread are beside hwt with HWT_ONE_THREAD.",
)


def name_of(contender):
    return NAMES.get(contender, contender)


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

    def style(self, colour, dashes):
        return f"with linespoints lw 2 pt 7 ps 0.6 dt {dashes} lc rgb '{colour}'"

    def script(self, folder):
        path = os.path.join(folder, self.name)
        lines = [STYLE, f"set output {quoted(path)}", *self.settings]
        parts = []
        for i, (label, colour, points, dashes) in enumerate(self.lines):
            lines += [f"$data{i} << end", *(f"{x} {y}" for x, y in points), "end"]
            parts.append(f"$data{i} {self.style(colour, dashes)} title {quoted(label)}")
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
    """Of those that were run at more than one x: a single point is in the tables."""
    names = {c: True for _, options in points for c in results.contenders_of(workload, options)}
    for name in names:
        found = [(x, results.median(workload, options, name, metric)) for x, options in points]
        if len({x for x, y in found if y is not None}) > 1:
            plot.add(name_of(name) + suffix, COLOURS.get(name, "#000000"), found, dashes)


def growth_plots(results):
    points = sweep(results, "growth", "--pending", set(), None)
    for metric, what in (("add_ns", "adding one"), ("cancel_ns", "cancelling one"),
                         ("reschedule_ns", "pushing a random one back"),
                         ("tick_ns", "a tick with one due")):
        plot = Plot(f"growth-{metric[:-3]}.svg", f"Cost of {what} while others stand there",
                    "timeouts pending", "ns", "xy")
        curves(results, plot, "growth", points, metric)
        yield plot


def producer_plots(results):
    plot = Plot("producers-churn.svg", "Churn: operations of all producers", "producers",
                "10^6 a second", "")
    curves(results, plot, "churn", sweep(results, "churn", "--producers", set(), 1), "mops")
    plot.settings += ["set xtics 1", "set yrange [0:*]"]
    yield plot
    plot = Plot("churn-window.svg", "Churn, one producer, by the timeouts that it has pending",
                "timeouts pending", "ns an operation", "x")
    points = sweep(results, "churn", "--window", set(), 1000)
    curves(results, plot, "churn", points, "producer_ns", 1, ", time of the producer")
    curves(results, plot, "churn", points, "cpu_ns", 2, ", CPU of the process")
    plot.settings += ["set yrange [0:*]"]
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
            plot.add(name_of(name), COLOURS.get(name, "#000000"), list(zip(range(1, 5), values)))
        yield plot


COLUMNS = 4
TIMES = (0.001, 0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100, 1000, 10000)
AHEAD, BEHIND = "#0060c0", "#c00030"


def shown(times):
    return f"{times:.0f}" if times >= 1000 else f"{times:.3g}"


class RatioPlot:
    """A panel a workload; in each, a row a contender, its name beside its point; hwt is the line."""

    name = "ratios.svg"
    title = "How many times better hwt is than each of the others"

    def __init__(self, advantages):
        self.panels = advantages

    def shows_anything(self):
        return bool(self.panels)

    @staticmethod
    def limits(others):
        """With room for the names: at the right of those ahead, at the left of those behind."""
        least, most = min(0.5, *others.values()), max(2, *others.values())
        room = (most / least) ** 0.85
        behind = min(others.values()) < 1
        return least / (room if behind else 1.3), most * room

    def panel(self, number, title, others):
        ordered = sorted(others.items(), key=lambda item: item[1])
        lines = []
        for colour, part in ((AHEAD, "ahead"), (BEHIND, "behind")):
            lines.append(f"${part}{number} << end")
            for row, (name, times) in enumerate(ordered):
                if (times >= 1) == (part == "ahead"):
                    lines.append(f'{times} {len(ordered) - row} '
                                 f'"{name_of(name)}  {shown(times)}"')
            lines.append("end")
        least, most = self.limits(others)
        marks = [t for t in TIMES if most / least < 200 or t not in (0.2, 0.5, 2, 5)]
        lines += ["set xtics (" + ", ".join(f"'{t:g}' {t}" for t in marks) + ")",
                  f"set title {quoted(title)}", f"set xrange [{least}:{most}]",
                  f"set yrange [0.2:{max(len(ordered), 3) + 0.8}]"]
        parts = [f"${part}{number} using 1:2:3 with labels point pt 7 ps 0.7 lc rgb '{colour}' "
                 f"tc rgb '{colour}' {side},0 notitle"
                 for colour, part, side in ((AHEAD, "ahead", "left offset char 0.8"),
                                            (BEHIND, "behind", "right offset char -0.8"))
                 if any((t >= 1) == (part == "ahead") for t in others.values())]
        lines.append("plot " + ", ".join(parts))
        return lines

    def script(self, folder):
        rows = -(-len(self.panels) // COLUMNS)
        lines = ["set terminal svg noenhanced size 1240,%d background '#ffffff' "
                 "font 'sans-serif,11'" % (100 + 200 * rows),
                 f"set output {quoted(os.path.join(folder, self.name))}",
                 f"set multiplot layout {rows},{COLUMNS} title "
                 f"{quoted(self.title + '  (1, the line: as good; left of it: hwt is behind)')} "
                 f"margins screen 0.01, screen 0.99, screen {0.07 + 0.02 / rows}, screen 0.92 "
                 "spacing screen 0.02, screen 0.07",
                 *(f"set label {i + 1} {quoted(note)} at screen 0.015, screen {0.04 - 0.022 * i}"
                   for i, note in enumerate(NOTES)),
                 "set border 1", "unset ytics", "set xtics nomirror", "set logscale x", "unset key",
                 "set grid xtics lc rgb '#e8e8e8'",
                 "set arrow from first 1, graph 0 to first 1, graph 1 nohead lw 2 lc rgb '#000000'"]
        for number, (title, others) in enumerate(self.panels):
            lines += [*self.panel(number, title, others), "unset label"]
        return "\n".join([*lines, "unset multiplot"]) + "\n"


class StandingPlot:
    """Two panels, a row a contender: what a million timeouts take while nothing happens."""

    name = "standing.svg"
    title = "A million timeouts pending, and nothing happens"
    options = "--pending 1000000"
    panels = (("cpu_percent", "CPU, % of a processor", "%.2f"),
              ("bytes_per_timeout", "memory, bytes a timeout", "%.0f"))

    def __init__(self, results):
        self.results = results
        self.contenders = results.contenders_of("standing", self.options)

    def shows_anything(self):
        return len(self.contenders) > 1

    def panel(self, number, metric, title, form):
        values = [(c, self.results.median("standing", self.options, c, metric))
                  for c in self.contenders]
        rows = [f'{max(value, 0)} {len(values) - row} "{form % max(value, 0)}" "{name_of(name)}" '
                f'{int(COLOURS.get(name, "#000000")[1:], 16)}'
                for row, (name, value) in enumerate(values) if value is not None]
        most = max(value for _, value in values if value is not None)
        return [f"$rows{number} << end", *rows, "end", f"set title {quoted(title)}",
                f"set xrange [0:{most * 1.2}]", f"set yrange [0.3:{len(values) + 0.7}]",
                f"plot $rows{number} using (0):2:(0):1:($2-0.3):($2+0.3):5:ytic(4) "
                "with boxxyerror fs solid noborder lc rgb variable notitle, "
                f"'' using 1:2:3 with labels left offset char 0.6,0 notitle"]

    def script(self, folder):
        lines = ["set terminal svg noenhanced size 900,%d background '#ffffff' font 'sans-serif,12'"
                 % (100 + 24 * len(self.contenders)),
                 f"set output {quoted(os.path.join(folder, self.name))}",
                 f"set multiplot layout 1,2 title {quoted(self.title)}",
                 "set border 1", "set tics nomirror", "set ytics scale 0", "unset key",
                 "set grid xtics lc rgb '#dddddd'"]
        for number, (metric, title, form) in enumerate(self.panels):
            lines += self.panel(number, metric, title, form)
        return "\n".join([*lines, "unset multiplot"]) + "\n"


def draw(results, advantages, folder):
    """Returns [(file name, title)] of the plots that could be drawn."""
    for name in os.listdir(folder):
        if name.endswith(".svg"):
            os.remove(os.path.join(folder, name))
    if not shutil.which("gnuplot"):
        return []
    plots = [*growth_plots(results), *producer_plots(results),
             *rounds_plots(results), *lateness_plots(results), StandingPlot(results),
             RatioPlot(advantages)]
    drawn = [plot for plot in plots if plot.shows_anything()]
    for plot in drawn:
        subprocess.run(["gnuplot"], input=plot.script(folder), text=True, check=True)
    return [(plot.name, plot.title) for plot in drawn]
