#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Drives outbox.c, and kills it again and again.

    outbox.py PROGRAM [--kills N] [--seed N]

In the end each order of the database has been reminded of, those included that it did not answer to.
Rows that were put and not deleted are put again, and are not delivered twice. The exit status is 0, 1 if
something of this does not hold, 2 for misuse.
"""

import argparse
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 30  # seconds in which anything would have happened


def expect(condition, text):
    if not condition:
        sys.exit(f"outbox.py: {text}")


class Run:
    """One process. A thread reads what it says."""

    def __init__(self, program, folder):
        command = [program, os.path.join(folder, "orders.db"), os.path.join(folder, "store")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = {"ordered": [], "known": [], "remind": [], "again": []}
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.endswith("\n"):
                word, name = line.split()
                self.said[word].append(name)

    def order(self, ms, name):
        try:
            self.process.stdin.write(f"{ms} {name}\n")
            self.process.stdin.flush()
            return True
        except BrokenPipeError:
            return False

    def wait_for(self, word, name):
        until = time.monotonic() + PATIENCE
        while name not in self.said[word] and time.monotonic() < until:
            time.sleep(0.01)
        expect(name in self.said[word], f"it never says {word} {name}")

    def end(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        return status


def ask(folder, sql):
    database = sqlite3.connect(os.path.join(folder, "orders.db"))
    with database:
        rows = database.execute(sql).fetchall()
    database.close()
    return rows


def live(program, folder, kills, rng):
    names, answered = 0, set()
    for _ in range(kills):
        run = Run(program, folder)
        killer = threading.Timer(0.05 + rng.random() * 0.4, run.process.kill)
        killer.start()
        while run.order(rng.randrange(300), f"name-{names}"):
            names += 1
        names += 1
        killer.join()
        run.end()
        answered.update(run.said["ordered"])
    run = Run(program, folder)
    run.order(500, "last")  # behind all others
    run.wait_for("remind", "last")
    expect(run.end() == 0, "it does not end well")
    orders = dict(ask(folder, "SELECT name, reminded FROM orders"))
    expect(answered <= orders.keys(), "an order is lost")
    lost = [name for name, reminded in orders.items() if not reminded]
    expect(not lost, f"never reminded of: {lost[:10]}")
    expect(not ask(folder, "SELECT * FROM outbox"), "something is left in the outbox")
    print(f"{len(orders)} orders, {len(answered)} of them answered", flush=True)


def put_twice(program, folder):
    """As a kill between the put and the delete leaves it: in the store, and in the outbox."""
    for ms in (500, 2000, 8000, 32000):  # longer where the machine is so slow that it is due before the end
        run = Run(program, folder)
        name = f"twice-{ms}"
        run.order(ms, name)
        run.wait_for("ordered", name)
        expect(run.end() == 0, "it does not end well")
        if not run.said["remind"]:
            break
    expect(not ask(folder, "SELECT * FROM outbox"), "it ends with rows in the outbox")
    ask(folder, "INSERT INTO outbox (name, due) SELECT name, due FROM orders WHERE reminded = 0")
    run = Run(program, folder)
    run.wait_for("remind", name)
    run.order(0, name)  # it is there
    run.order(0, "behind")
    run.wait_for("remind", "behind")
    expect(run.end() == 0, "it does not end well")
    expect(run.said["known"] == [name], "one order is made twice")
    expect(not run.said["again"], f"delivered twice: {run.said['again']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=6)
    chosen = os.environ.get("HWT_TEST_SEED") or time.time_ns() % 2**32
    parser.add_argument("--seed", type=int, default=int(chosen))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="hwt-outbox-")
    try:
        live(os.path.abspath(given.program), folder, given.kills, random.Random(given.seed))
        put_twice(os.path.abspath(given.program), folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
