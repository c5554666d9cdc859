#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The same delays by each rival, one after the other; a table and a picture of how late they come.

    compare.py HWT-RELAY SECONDS RATE SEED DIR NAME...
"""

import math
import multiprocessing
import os
import random
import shutil
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "suite"), os.path.join(HERE, "../../tests/recipes")]

import plots  # noqa: E402
import rivals  # noqa: E402
from results import share, text_of  # noqa: E402

LEAST, MOST = 1, 5  # seconds of delay
PATIENCE = 30  # seconds behind the last due time
PARTS = (0.5, 0.9, 0.99, 1)


def produce(rival, seconds, rate, seed, begin):
    """Each at its time, and with a delay that is the same for all rivals."""
    drawn = random.Random(seed)
    for i in range(seconds * rate):
        while (left := begin + i / rate - time.time()) > 0:
            rival.serve()
            time.sleep(min(left, 0.002))
        rival.put(time.time_ns() + int(drawn.uniform(LEAST, MOST) * 1e9))
    until = time.time() + MOST + PATIENCE
    while time.time() < until:
        rival.serve()
        time.sleep(0.01)


def consume(rival, count, end, ready, answers):
    """Sends the lateness of each that came, in ms; early is negative."""
    late = []
    rival.come(0.1)
    ready.set()
    while len(late) < count and time.time() < end:
        came = rival.come(0.05)
        now = time.time_ns()
        late += [(now - due) / 1e6 for due in came]
    answers.put(late)


def measure(make, out, relay, seconds, rate, seed):
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    rival = make(out, relay)
    processes = []
    try:
        rival.start()
        ready, answers = multiprocessing.Event(), multiprocessing.Queue()
        begin = time.time() + 3
        end = begin + seconds + MOST + PATIENCE
        consumer = multiprocessing.Process(target=consume, args=(rival, seconds * rate, end, ready, answers))
        consumer.start()
        processes.append(consumer)
        if not ready.wait(30):
            raise RuntimeError("its consumer does not begin")
        producer = multiprocessing.Process(target=produce, args=(rival, seconds, rate, seed, begin))
        producer.start()
        processes.append(producer)
        return answers.get(timeout=end - time.time() + 60)
    finally:
        for process in processes:
            process.kill()
        rival.end()


def table(found, count, base):
    rows = []
    for name, late in found.items():
        cells = [f"{share(late, part):.1f}" for part in PARTS]
        ratio = f"{share(late, 0.99) / share(base, 0.99):.1f}" if base else ""
        rows.append([name, f"{len(late)} of {count}",
                     *([sum(one < 0 for one in late), *cells, ratio] if late else [""] * 6)])
    return text_of(["", "came", "early", "p50 ms", "p90 ms", "p99 ms", "max ms", "p99 against hwt-relay"], rows)


def draw(found, title, out):
    """The share that is later than so much, as far as one in a thousand."""
    path = os.path.join(out, "lateness.svg")
    script = [*plots.begin(path, title, "late by ms", "share that is later"), "set logscale xy", "set xrange [0.1:*]",
              "set yrange [0.001:1]", "set key below vertical maxrows 5"]
    came = {name: sorted(late) for name, late in found.items() if late}
    script.append("plot " + ", ".join(f"'-' with lines lw 2 title {plots.quoted(name)}" for name in came))
    for late in came.values():
        for i in range(200):
            left = math.pow(10, -3 * i / 199)  # the share
            at = min(int(len(late) * (1 - left)), len(late) - 1)
            script.append(f"{max(late[at], 0.1):.3f} {left:.5f}")
        script.append("e")
    plots.tell(script, path)


def main():
    relay, (seconds, rate, seed), out, names = sys.argv[1], map(int, sys.argv[2:5]), sys.argv[5], sys.argv[6:]
    os.makedirs(out, exist_ok=True)
    found, failed = {}, False
    for make in rivals.ALL:
        if make.key not in names:
            continue
        print(f"{make.name}", flush=True)
        try:
            found[make.name] = measure(make, os.path.join(os.path.abspath(out), make.key), relay, seconds, rate, seed)
        except Exception as error:  # the others are measured all the same
            print(f"perf/relay_compare.sh: {make.name}: {error}; see {out}/{make.key}", file=sys.stderr)
            failed = True
    title = f"{rate} messages a second for {seconds} s, each delayed by {LEAST} to {MOST} s"
    text = table(found, seconds * rate, found.get(rivals.Relay.name))
    with open(os.path.join(out, "compare.md"), "w", encoding="utf-8") as file:
        file.write(f"# {title}\n\n{text}")
    print(f"\n{title}\n\n{text}", end="")
    if any(found.values()):
        draw(found, title, out)
    sys.exit(1 if failed or not all(found.values()) else 0)


if __name__ == "__main__":
    main()
