#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Drives delay_epoll.c, and kills it again and again.

    delay_epoll.py PROGRAM [--kills N] [--seed N]

In the end each name that was kept has been due, and none was before its time. After an end of the input
nothing that was due comes again. The exit status is 0, 1 if something of this does not hold, 2 for misuse.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 30  # seconds in which anything would have happened


def expect(condition, text):
    if not condition:
        sys.exit(f"delay_epoll.py: {text}")


class Run:
    """One process. A thread reads what it says, and when."""

    def __init__(self, story):
        self.story = story
        self.process = subprocess.Popen([story.program, story.store], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.dues = set()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if not line.endswith("\n"):
                break  # it was killed
            word, name = line.split()
            if word == "due":
                self.dues.add(name)
                if time.time() < self.story.not_before[name]:
                    self.story.early.append(name)
            elif word == "kept":
                self.story.kept.add(name)

    def put(self, ms, name):
        self.story.not_before[name] = time.time() + ms / 1000
        try:
            self.process.stdin.write(f"{ms} {name}\n")
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
        self.story.due |= self.dues
        return status


class Story:
    def __init__(self, program, store, seed):
        self.program, self.store = program, store
        self.random = random.Random(seed)
        self.not_before, self.kept, self.due, self.early = {}, set(), set(), []
        self.names = 0

    def name(self):
        self.names += 1
        return f"name-{self.names}"

    def killed(self):
        run = Run(self)
        killer = threading.Timer(self.random.random() * 0.4, run.process.kill)
        killer.start()
        while run.put(self.random.randrange(400), self.name()):
            pass
        killer.join()
        run.end()

    def drained(self):
        """A last run: until all is due that was kept."""
        run = Run(self)
        last = self.name()
        run.put(500, last)  # behind all others
        until = time.monotonic() + PATIENCE
        while not (last in run.dues and self.kept <= self.due | run.dues) and time.monotonic() < until:
            time.sleep(0.01)
        expect(run.end() == 0, "it does not end well")
        expect(not self.kept - self.due, f"lost: {sorted(self.kept - self.due)[:10]}")
        expect(last in self.kept, "it does not say that it keeps what it keeps")

    def after(self):
        run = Run(self)
        last = self.name()
        run.put(0, last)
        until = time.monotonic() + PATIENCE
        while last not in run.dues and time.monotonic() < until:
            time.sleep(0.01)
        expect(run.end() == 0, "it does not end well")
        expect(run.dues == {last}, f"due again: {sorted(run.dues - {last})[:10]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=6)
    chosen = os.environ.get("HWT_TEST_SEED") or time.time_ns() % 2**32
    parser.add_argument("--seed", type=int, default=int(chosen))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="hwt-delay-epoll-")
    try:
        story = Story(os.path.abspath(given.program), os.path.join(folder, "store"), given.seed)
        for _ in range(given.kills):
            story.killed()
        story.drained()
        story.after()
        expect(not story.early, f"early: {story.early[:10]}")
        print(f"{story.names} names, {len(story.kept)} kept, {len(story.due)} due")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
