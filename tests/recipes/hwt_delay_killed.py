#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Drives hwt_delay.py as a program, and kills it again and again.

    hwt_delay_killed.py PROGRAM [--kills N] [--seed N]

In the end each message whose line was answered has come. The exit status is 0, 1 if that does not hold, 2
for misuse.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 30  # seconds in which anything would have happened


def expect(condition, text):
    if not condition:
        sys.exit(f"hwt_delay_killed.py: {text}")


class Run:
    """One process. A thread reads what it says."""

    def __init__(self, program, store, said):
        self.process = subprocess.Popen([sys.executable, program, store], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.said = said
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.endswith("\n"):
                word, name = line.split()[:2]
                self.said[word].add(name)

    def put(self, seconds, name):
        try:
            self.process.stdin.write(f"{seconds} {name} text of {name}\n")
            self.process.stdin.flush()
            return True
        except BrokenPipeError:
            return False

    def end(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        return status


def wait_for(names, name):
    until = time.monotonic() + PATIENCE
    while name not in names and time.monotonic() < until:
        time.sleep(0.01)
    expect(name in names, f"{name} never comes")


def live(program, store, kills, rng):
    said, names = {"kept": set(), "due": set()}, 0
    for _ in range(kills):
        run = Run(program, store, said)
        run.put(0, f"name-{names}")
        wait_for(said["kept"], f"name-{names}")
        names += 1
        killer = threading.Timer(rng.random() * 0.4, run.process.kill)
        killer.start()
        while run.put(rng.random() / 5, f"name-{names}"):
            names += 1
        names += 1
        killer.join()
        run.end()
    run = Run(program, store, said)
    run.put(0.3, "last")  # behind all others
    wait_for(said["due"], "last")
    expect(run.end() == 0, "it does not end well")
    lost = said["kept"] - said["due"]
    expect(not lost, f"kept, and never due: {sorted(lost)[:10]}")
    print(f"{len(said['kept'])} kept, {len(said['due'])} due", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=6)
    chosen = os.environ.get("HWT_TEST_SEED") or time.time_ns() % 2**32
    parser.add_argument("--seed", type=int, default=int(chosen))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="hwt-python-") as folder:
        live(os.path.abspath(given.program), os.path.join(folder, "store"), given.kills, random.Random(given.seed))


main()
