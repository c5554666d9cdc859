# SPDX-License-Identifier: LGPL-2.1-or-later
"""Figures of runs, and how they are written: for the timer, the store and the relay alike.

Ratios and differences are taken within a round, between runs that were neighbours in time;
what is shown is the median of those.
"""

import csv
import statistics

HWT = "hwt"


class Results:
    """Values by (workload, options, contender, metric), and in those by round."""

    def __init__(self, path, order):
        self.order = order
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

    def paired(self, key, other, calculate):
        """Median of calculate(value of key, value of other), of each round that has both; None: there is none."""
        a, b = self.rounds(*key), self.rounds(*other)
        found = [calculate(a[r], b[r]) for r in a if r in b]
        found = [value for value in found if value is not None]
        return statistics.median(found) if found else None

    def ratio(self, workload, options, contender, other, metric):
        """Median of contender / other within a round; None if either is missing."""
        return self.paired((workload, options, contender, metric), (workload, options, other, metric), divided)

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
        return sorted(found, key=lambda name: (self.rank(name), name))

    def rank(self, name):
        """Where a contender stands in a table."""
        return self.order.index(name) if name in self.order else len(self.order)

    def metrics_of(self, workload, options):
        found = {}
        for w, o, _, metric in self.values:
            if w == workload and without_seconds(o) == options:
                found[metric] = True
        return list(found)

    def sweep(self, workload, option, **others):
        """[(value of the option, options)] of the runs that have these other options."""
        found = []
        for options in self.options_of(workload):
            given = options_dict(options)
            if option in given and all(given.get(k) == v for k, v in others.items()):
                found.append((float(given[option]), options))
        return sorted(found)

    def workloads(self):
        return list({key[0]: True for key in self.values})


def divided(a, b):
    return a / b if b else None


def without_seconds(options):
    words = options.split()
    if "--seconds" in words:
        at = words.index("--seconds")
        del words[at:at + 2]
    return " ".join(words)


def options_dict(options):
    words = options.split()
    return {words[i][2:]: words[i + 1] for i in range(0, len(words), 2)}


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


def share(values, part):
    """The value below which this part of them is; 0: there are none."""
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] if values else 0


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"
    yield ""


def text_of(head, rows):
    return "\n".join(table(head, rows))


# ---- bars: rows of (what, bar, measured, verdict, at what size) ----

def verdict(value, met, small=False):
    if value is None:
        return "not measured"
    if not met:
        return "**not met**"
    return "met at this size" if small else "met"


def at_most(what, text, value, limit, size="", small=False):
    return what, text, value, verdict(value, value is not None and value <= limit, small), size


def at_least(what, text, value, limit, size="", small=False):
    return what, text, value, verdict(value, value is not None and value >= limit, small), size
