# SPDX-License-Identifier: LGPL-2.1-or-later
"""Plots, by gnuplot. Without it there are none, and nothing else is missing."""

import os
import shutil
import subprocess

HEIGHT = 460  # pixels; the width is one that a phone shows, too
STYLE = """\
set grid lc rgb '#dddddd'
set border 3
set tics nomirror
set key below horizontal maxcols 3 samplen 2
set autoscale xfix"""
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


def begin(path, title, x, y, height=HEIGHT):
    """Of a picture at this path: the lines before its own."""
    return [f"set terminal svg size 600,{height} dynamic noenhanced background '#ffffff' font 'sans-serif,14'", STYLE,
            f"set output {quoted(path)}", f"set title {quoted(title)}", f"set xlabel {quoted(x)}",
            f"set ylabel {quoted(y)}"]


class Plot:
    def __init__(self, name, title, x, y, logarithmic):
        self.name, self.title, self.axes, self.height = name, title, (x, y), HEIGHT
        self.settings = [f"set logscale {logarithmic}"] if logarithmic else []
        self.lines = []  # (label, colour, [(x, y)])
        self.mark = "linespoints lw 2 pt 7 ps 0.6"

    def add(self, label, colour, points, dashes=1):
        points = [(x, y) for x, y in points if y is not None]
        if points:
            self.lines.append((label, colour, points, dashes))

    def shows_anything(self):
        """Not if all there is stands at one x."""
        return len({x for _, _, points, _ in self.lines for x, _ in points}) > 1

    def style(self, colour, dashes):
        kind = f" dt {dashes}" if "lines" in self.mark else ""
        return f"with {self.mark}{kind} lc rgb '{colour}'"

    def script(self, folder):
        lines = begin(os.path.join(folder, self.name), self.title, *self.axes, self.height) + self.settings
        parts = []
        for i, (label, colour, points, dashes) in enumerate(self.lines):
            lines += [f"$data{i} << end", *(f"{x} {y}" for x, y in points), "end"]
            parts.append(f"$data{i} {self.style(colour, dashes)} title {quoted(label)}")
        lines.append("plot " + ", ".join(parts))
        return "\n".join(lines) + "\n"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def rows_plot(name, title, x, rows, *settings):
    """Points in rows, from above: (label, {contender: x})."""
    plot, count = Plot(name, title, x, "", ""), len(rows)
    plot.mark, plot.height = "points pt 7 ps 0.9", 200 + 28 * count
    tics = ", ".join(f"{quoted(label.replace('%', '%%'))} {count - i}" for i, (label, _) in enumerate(rows))
    plot.settings += [f"set ytics ({tics})", f"set yrange [0.4:{count + 0.6}]", "set bmargin 9",
                      "set key at screen 0.5,screen 0.01 center bottom horizontal maxcols 4 samplen 1", *settings]
    for contender in {name: True for _, values in rows for name in values}:
        plot.add(name_of(contender), colour_of(contender),
                 [(values[contender], count - i) for i, (_, values) in enumerate(rows) if contender in values])
    return plot


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
