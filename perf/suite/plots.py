# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plots, by gnuplot. Without it there are none, and nothing else is missing."""

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
    "netty": "#c00030", "stpe": "#e080a0", "go": "#00a0a0", "tokio": "#704000", "libuv": "#70a000",
    "libev": "#308030", "libevent": "#9040c0",
    "bare": "#808080", "beanstalkd": "#704000", "redis": "#c00030", "rocksdb": "#d07000", "lmdb": "#308030",
    "sqlite": "#9040c0",
}
NAMES = {
    "hwt_loop": "hwt, one thread", "plain_heap": "plain heap", "netty": "Netty",
    "stpe": "Java's executor", "go": "Go", "tokio": "Tokio",
}


def name_of(contender):
    return NAMES.get(contender, contender)


def colour_of(contender):
    return COLOURS.get(contender, "#000000")


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


def curves(results, plot, workload, points, metric, dashes=1, suffix=""):
    """Of those that were run at more than one x: a single point is in the tables."""
    names = {c: True for _, options in points for c in results.contenders_of(workload, options)}
    for name in names:
        found = [(x, results.median(workload, options, name, metric)) for x, options in points]
        if len({x for x, y in found if y is not None}) > 1:
            plot.add(name_of(name) + suffix, colour_of(name), found, dashes)


def run(script):
    """Whether there is a gnuplot to run it."""
    if not shutil.which("gnuplot"):
        return False
    subprocess.run(["gnuplot"], input=script, text=True, check=True)
    return True


def tell(script, path):
    """The same, for one picture, of which a person is told."""
    if run("\n".join(script) + "\n"):
        print(f"The picture is {path}.")
    else:
        print("There is no gnuplot, so there is no picture.")


def draw(plots, folder):
    """Returns [(file name, title)] of the plots that could be drawn; those of an earlier run go."""
    for name in os.listdir(folder):
        if name.endswith(".svg"):
            os.remove(os.path.join(folder, name))
    return [(plot.name, plot.title) for plot in plots if plot.shows_anything() and run(plot.script(folder))]
