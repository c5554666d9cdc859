#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs perf/relay.sh's cluster with its faults, and settles the ledger.

    run.py HWT-RELAY CLOCK SECONDS RATE FAULTS SEED CANCELS DIR

CLOCK is clock.c as a library, or "" where there are no namespaces. CANCELS is yes or no.
"""

import faulthandler
import os
import random
import shutil
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "suite"), os.path.join(HERE, "../../tests/recipes")]

from cluster import Cluster  # noqa: E402
from faults import Faults  # noqa: E402
from load import Client, Ledger, Producer  # noqa: E402
import ledger  # noqa: E402

PRODUCERS = 2
PATIENCE = 180  # seconds behind the last due time in which anything would have come
SAYS = 10  # seconds; then it says what it waits for
LONGEST = 300  # seconds that a fault takes at most, with servers that are started again, and so does the end


def wait_for_all(messages, book):
    """Until each message has come that is to come, and each that is cancelled would have."""
    last_due = max(message.due for message in messages) / 1000
    said = time.time()
    while time.time() < last_due + PATIENCE:
        lacking = sum(not (m.arrived or m.lost) for m in messages if m.is_wanted())
        if lacking == 0 and time.time() > last_due + 3:
            return
        if time.time() > max(last_due, said) + SAYS:
            said = time.time()
            print(f"{time.strftime('%H:%M:%S')} waits for {lacking} messages", flush=True)
            book.reads_anew.set()
        time.sleep(0.5)


class Watch(threading.Thread):
    """Ends the program, and says where each thread is, if it has not ended itself within some seconds."""

    def __init__(self, seconds, cluster):
        super().__init__(name="watch", daemon=True)
        self.seconds, self.cluster = seconds, cluster

    def run(self):
        time.sleep(self.seconds)
        print(f"perf/relay.sh: not at its end after {self.seconds} s. It waits here:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback()
        for child in self.cluster.relays + self.cluster.servers:
            if child.process:
                child.process.kill()
        os._exit(1)


def produce(producers, book, faults, seconds):
    """With the faults, for so long, or until there were as many."""
    threads = producers + [book, faults]
    begin = time.time()
    for thread in threads:
        thread.start()
    while (faults.is_alive() or time.time() < begin + seconds) and not any(thread.failed for thread in threads):
        time.sleep(0.1)
    for producer in producers:
        producer.stops.set()
        producer.join()
    messages = [message for producer in producers for message in producer.messages]
    if messages and not book.failed:
        wait_for_all(messages, book)
    book.stops.set()
    book.join()
    for thread in threads:
        if thread.failed:
            raise thread.failed
    book.read_to_the_end()
    return begin, messages, book.strangers, faults.done


def run(relay, clock, seconds, rate, count, seed, cancels, out):
    cluster = Cluster(relay, out, clock)
    Watch(seconds + (count + 2) * LONGEST, cluster).start()
    try:
        cluster.start()
        client = Client(cluster.urls)
        client.change_target({}, make=True)
        producers = [Producer(i, cluster.urls, seed, rate / PRODUCERS, cancels) for i in range(PRODUCERS)]
        book = Ledger(cluster.urls, producers)
        faults = Faults(cluster, client, random.Random(f"{seed} faults"), seconds, count,
                        book.note_what_the_broker_has_lost)
        client.put_fillers(faults.fillers())
        cluster.start_relays()
        client.wait_until_current(60)
        found = produce(producers, book, faults, seconds)
        for child in cluster.relays:
            child.end(15)
        return found, client.count_dead()
    finally:
        cluster.end()


def tell(title, found, dead, out, may_be_double=False):
    """Writes and prints the ledger. Returns whether nothing is wrong."""
    begin, messages, strangers, faults = found
    text, each, is_fine = ledger.settle(begin, messages, strangers, dead, faults, may_be_double)
    with open(os.path.join(out, "ledger.md"), "w", encoding="utf-8") as file:
        file.write(f"# {title}\n\n{text}\n{each}")
    with open(os.path.join(out, "run", "wrong"), "w", encoding="utf-8") as file:
        file.write(ledger.list_wrong(begin, messages))
    print(text, end="")
    ledger.draw(begin, messages, faults, title, out)
    print(f"Each fault is in {out}/ledger.md, and the logs are in {out}/run.")
    return is_fine


def make_folder(out):
    """For the logs; what is there of an earlier run goes."""
    folder = os.path.join(os.path.abspath(out), "run")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def main():
    (relay, clock), out, cancels = sys.argv[1:3], sys.argv[8], sys.argv[7] == "yes"
    seconds, rate, count, seed = map(int, sys.argv[3:7])
    folder = make_folder(out)
    if not clock:
        print("Without namespaces nobody is cut off, no clock is stepped, and no disk is full.")
    title = (f"{rate} messages a second for {seconds} s, {'19 of 20 cancelled, ' * cancels}{count} faults,"
             f" seed {seed}")
    print(title, flush=True)
    found, dead = run(relay, clock, seconds, rate, count, seed, cancels, folder)
    sys.exit(0 if tell(title, found, dead, os.path.abspath(out)) else 1)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError) as error:
        sys.exit(f"perf/relay.sh: {error}; the logs are in {sys.argv[-1]}/run")
