#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads DIR/raw.csv, which perf/rounds.sh wrote, and writes results.csv, results.md and plots.

    python3 perf/suite/report.py timer|store DIR

timer.py and store.py say what is shown of each: ORDER and COMPARED, bars(results), plots(results, folder), INTRODUCTION.
"""

import csv
import os
import statistics
import sys

import plots
import store
import timer
from results import Results, number, spread, table

SUBJECTS = {"timer": timer, "store": store}


def write_csv(results, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["workload", "options", "contender", "metric", "runs", "median", "min",
                         "max"])
        for (workload, options, contender, metric), values in results.values.items():
            v = list(values.values())
            writer.writerow([workload, options, contender, metric, len(v),
                             statistics.median(v), min(v), max(v)])


def metrics_table(results, workload, options):
    """One row a contender, one column a metric."""
    metrics = results.metrics_of(workload, options)
    rows = []
    for contender in results.contenders_of(workload, options):
        values = (results.rounds(workload, options, contender, m).values() for m in metrics)
        rows.append([contender, *(spread(list(v)) for v in values)])
    return table(["", *metrics], rows)


# ---- bars ----

def bars_count(rows):
    verdicts = [row[3] for row in rows]
    met = sum(verdict.startswith("met") for verdict in verdicts)
    return (f"{met} met, {verdicts.count('**not met**')} not met, "
            f"{verdicts.count('not measured')} not measured")


def bars_table(rows):
    yield f"{bars_count(rows)}.\n"
    sized = any(row[4] for row in rows)
    cells = [[what, text, number(value), verdict, size][:4 + sized] for what, text, value, verdict, size in rows]
    yield from table(["what", "bar", "measured", "", "at"][:4 + sized], cells)


def print_bars(rows):
    for what, text, value, verdict, _ in rows:
        if verdict != "not measured":
            print(f"{verdict.strip('*'):8} {what}: {text}: {value}", file=sys.stderr)
    print(f"bars: {bars_count(rows)}", file=sys.stderr)


# ---- beside the others ----

def advantage(results, compared, contender):
    """How many times better hwt is than the contender; None: unknown, or one of them is not above 0."""
    _, base, workload, options, metric, more_is_better = compared
    if more_is_better:
        times = results.ratio(workload, options, base, contender, metric)
    else:
        times = results.ratio(workload, options, contender, base, metric)
    return times if times is not None and times > 0 else None


def advantages(results, subject):
    """[(title, {contender: times})] for all that was run."""
    found = []
    for compared in subject.compared(results):
        title, base, workload, options, _, _ = compared
        others = [c for c in results.contenders_of(workload, options) if c not in (base, *subject.OURS)]
        times = {c: advantage(results, compared, c) for c in others}
        times = {c: t for c, t in times.items() if t is not None}
        if times:
            found.append((title, times))
    return found


def advantages_table(results, found):
    names = sorted({c for _, times in found for c in times}, key=results.rank)
    return table(["", *names], [[label, *(number(times.get(c)) for c in names)] for label, times in found])


def behind(found):
    """Sentences, the worst first."""
    worse = sorted((times, title, name) for title, others in found for name, times in others.items() if times < 1)
    return [f"{title}: {name} {number(1 / times)} times better" for times, title, name in worse]


# ---- the page ----

def read_lines(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def listed(title, lines):
    if lines:
        yield f"## {title}\n"
        yield from (f"- {line}" for line in lines)
        yield ""


def markdown(results, subject, folder, rows, found, pictures):
    yield "# Results\n"
    yield from (f"- {line}" for line in read_lines(folder, "machine.txt"))
    yield f"\nMedians, with the least and the greatest of the rounds. {subject.INTRODUCTION}\n"
    yield "## The bars\n"
    yield from bars_table(rows)
    yield "## How many times better hwt is\n"
    yield "Medians of the ratios within a round; below 1, hwt is behind.\n"
    yield from advantages_table(results, found)
    yield from listed("Where hwt is behind", behind(found))
    for workload in results.workloads():
        for options in results.options_of(workload):
            yield f"## {workload} {options}\n"
            yield from metrics_table(results, workload, options)
    for title, name in (("Skipped", "skipped"), ("Not done by", "declined"), ("Failed", "failed")):
        yield from listed(title, read_lines(folder, name + ".txt"))
    if pictures:
        yield "## Plots\n"
        yield from (f"![{title}]({name})\n" for name, title in pictures)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in SUBJECTS:
        sys.exit("usage: report.py timer|store DIR")
    subject, folder = SUBJECTS[sys.argv[1]], sys.argv[2]
    results = Results(os.path.join(folder, "raw.csv"), subject.ORDER)
    write_csv(results, os.path.join(folder, "results.csv"))
    rows, found = list(subject.bars(results)), advantages(results, subject)
    pictures = plots.draw(subject.plots(results, found, folder), folder)
    with open(os.path.join(folder, "results.md"), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in markdown(results, subject, folder, rows, found, pictures))
    print_bars(rows)


if __name__ == "__main__":
    main()
