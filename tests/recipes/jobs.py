#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Drives jobs.c, and kills it again and again.

    jobs.py PROGRAM [--kills N] [--seed N]

While the service is killed at chosen moments, jobs are given to it and cancelled. Some of them fail
each time, and some end the service itself. In the end, of each job whose ticket was received:

    it has run, or is a dead letter; one that fails, or ends the service, is a dead letter
    it has not run more often than RUNS_MAX times
    it has never run, if its cancel was received

The exit status is 0, 1 if something of this does not hold, 2 for misuse.
"""

import argparse
import collections
import http.client
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

RUNS_MAX = 3
JOBS_MAX = 120  # in each life
PATIENCE = 60  # seconds in which anything would have happened

WORKER = """
printf '%s\\n' "$JOB" >> "$1"
case $JOB in
    bad*) exit 1 ;;
    poison*) kill -9 $PPID; sleep 10 ;;
    slow*) sleep 0.05 ;;
    long*) while [ -e "$1" ] && ! [ -e "$1.enough" ]; do sleep 0.05; done ;;
esac
"""


class Gone(Exception):
    """The service has been killed before it answered."""


class Service:
    def __init__(self, program, folder):
        with socket.socket() as chosen:
            chosen.bind(("127.0.0.1", 0))
            self.port = chosen.getsockname()[1]
        self.runs = os.path.join(folder, "runs")
        worker = os.path.join(folder, "worker.sh")
        with open(worker, "w") as file:
            file.write(WORKER)
        open(self.runs, "w").close()
        store = os.path.join(folder, "store")
        self.command = [program, store, str(self.port), "sh", worker, self.runs]
        self.process = None
        self.starts = 0

    def start(self):
        """Until it listens. A child of one that was killed may have the store for an instant."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if self.process is None or self.process.poll() is not None:
                self.process = subprocess.Popen(self.command)
                self.starts += 1
            try:
                self.ask("GET", "/")
                return
            except Gone:
                time.sleep(0.005)
        sys.exit("jobs.py: it does not start")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, body=""):
        """A busy store is the service's own affair: it tries again, and the client waits."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            raise Gone from None
        finally:
            connection.close()
        expect(answer.status != 503, f"{method} {path}: 503, {text}")
        return answer.status, text


class Story:
    def __init__(self, service, seed):
        self.service = service
        self.random = random.Random(seed)
        self.tickets = {}  # name: ticket
        self.cancelled = set()
        self.doubtful = set()  # of whose put or cancel there was no answer
        self.names = 0

    def put(self, kind, delay):
        self.names += 1
        name = f"{kind}-{self.names}"
        try:
            status, text = self.service.ask("POST", f"/jobs?in={delay}", name)
        except Gone:
            self.doubtful.add(name)
            raise
        if status == 200:
            self.tickets[name] = text.strip()
            return name
        return None

    def cancel(self, name):
        try:
            status, _ = self.service.ask("POST", "/cancel?ticket=" + self.tickets[name])
        except Gone:
            self.doubtful.add(name)
            raise
        if status == 200:
            self.cancelled.add(name)
        return status

    def go_on(self, poison):
        """Gives jobs until the service is gone: so many that its page shows all dead letters."""
        try:
            if poison:
                self.put("poison", 0)
            last = self.names + JOBS_MAX
            while True:
                if self.names >= last:
                    self.service.ask("GET", "/")
                    time.sleep(0.01)
                    continue
                chance = self.random.random()
                if chance < 0.01:
                    self.put("bad", self.random.randrange(200))
                elif chance < 0.2:
                    name = self.put("good", 2000)
                    if name:
                        self.cancel(name)
                else:
                    self.put(self.random.choice(["good", "slow"]), self.random.randrange(300))
        except Gone:
            pass

    def dead(self):
        """The names of the dead letters, with their tickets; and how much waits besides."""
        status, page = self.service.ask("GET", "/")
        expect(status == 200, f"there is no page, but {status}")
        dead = {}
        waits = 0
        for line in page.splitlines():
            words = line.split()
            if words[0] == "dead":
                dead[words[2]] = words[1]
            waits += words[0] in ("waits", "runs")
        return dead, waits

    def drain(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                dead, waits = self.dead()
                if waits == 0:
                    return dead
            except Gone:
                self.service.start()  # a job has ended it
            time.sleep(0.05)
        sys.exit("jobs.py: jobs wait for ever")

    def runs(self):
        with open(self.service.runs) as file:
            return collections.Counter(file.read().split())


def expect(condition, text):
    if not condition:
        sys.exit(f"jobs.py: {text}")


def check(story, dead):
    runs = story.runs()
    for name, count in runs.items():
        expect(count <= RUNS_MAX, f"{name} has run {count} times")
    for name in story.tickets:
        if name in story.cancelled:
            expect(runs[name] == 0 and name not in dead, f"{name} was cancelled, and ran")
        elif name in story.doubtful:
            continue
        elif name.startswith(("bad", "poison")):
            expect(name in dead, f"{name} is no dead letter")
        else:
            expect(runs[name] > 0 or name in dead, f"{name} is lost")
    for name in dead:
        expect(name not in story.cancelled, f"{name} was cancelled")
    return runs


def check_page(story):
    """By people's hands: cancels of what runs, of a dead letter, of what is not there."""
    story.put("bad", 0)
    dead = story.drain()
    name = story.put("long", 0)
    until = time.monotonic() + PATIENCE
    while story.runs()[name] == 0 and time.monotonic() < until:
        time.sleep(0.01)
    expect(story.cancel(name) == 409, "what runs can be cancelled")
    open(story.service.runs + ".enough", "w").close()
    expect(story.service.ask("POST", "/cancel?ticket=7-none")[0] == 404, "what is not there can be")
    expect(story.service.ask("POST", "/cancel?ticket=7")[0] == 400, "that was a ticket")
    expect(story.service.ask("POST", "/jobs", "x" * 5000)[0] == 413, "so long a job is taken")
    expect(story.service.ask("GET", "/nothing")[0] == 404, "there is something")
    first = sorted(dead)[0]
    if first in story.tickets:
        expect(dead[first] == story.tickets[first], "a dead letter has lost its ticket")
    status, _ = story.service.ask("POST", "/cancel?ticket=" + dead[first])
    expect(status == 200, "a dead letter cannot be cancelled")
    expect(first not in story.dead()[0], "a dead letter that was cancelled is there")
    story.drain()


def live(service, kills, seed):
    story = Story(service, seed)
    for i in range(kills):
        service.start()
        threading.Timer(story.random.random() * 0.5, service.kill).start()
        story.go_on(i % 8 == 3)
        service.process.wait()
    service.start()
    dead = story.drain()
    runs = check(story, dead)
    check_page(story)
    again = sum(count > 1 for name, count in runs.items() if name.startswith(("good", "slow")))
    print(
        f"{len(story.tickets)} tickets, {sum(runs.values())} runs,"
        f" {again} jobs ran again because of a kill, {len(story.cancelled)} cancelled,"
        f" {len(dead)} dead letters, {service.starts} starts"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=12)
    chosen = os.environ.get("HWT_TEST_SEED") or time.time_ns() % 2**32
    parser.add_argument("--seed", type=int, default=int(chosen))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="hwt-jobs-")
    service = Service(os.path.abspath(given.program), folder)
    try:
        live(service, given.kills, given.seed)
    except Gone:
        sys.exit("jobs.py: the service ended, or does not answer")
    finally:
        if service.process:
            service.kill()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
