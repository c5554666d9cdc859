#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs perf/relay.sh's cluster with its faults, and settles the ledger.

    run.py HWT-RELAY SECONDS RATE FAULTS SEED DIR
"""

import os
import random
import shutil
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "suite"), os.path.join(HERE, "../../tests/recipes")]

from cluster import Cluster  # noqa: E402
from faults import Faults  # noqa: E402
from load import Client, Producer  # noqa: E402
import ledger  # noqa: E402

PRODUCERS = 2
PATIENCE = 120  # seconds behind the last due time in which anything would have come


def expect_alive(threads):
    for thread in threads:
        if thread.failed:
            raise thread.failed


def wait_for_all(client, producers):
    """Reads until each message has come that is to come, and each that is cancelled would have."""
    by_name = {f"{p.number}-{n}": message for p in producers for n, message in enumerate(p.messages)}
    strangers = []

    def add(name, seconds):
        if name in by_name:
            by_name[name].arrived.append(seconds)
        else:
            strangers.append(name)

    messages = list(by_name.values())
    last_due = max(message.due for message in messages) / 1000
    while True:
        client.read(add)
        has_all = all(m.arrived for m in messages if m.acked and not m.cancelled)
        if (has_all and time.time() > last_due + 3) or time.time() > last_due + PATIENCE:
            return messages, strangers
        time.sleep(0.5)


def run(relay, seconds, rate, count, seed, out):
    cluster = Cluster(relay, out)
    try:
        cluster.start()
        client = Client(cluster.urls)
        client.make_target()
        cluster.start_relays()
        client.wait_until_current()
        producers = [Producer(i, cluster.urls, seed, rate / PRODUCERS, seconds)
                     for i in range(PRODUCERS)]
        faults = Faults(cluster, client, random.Random(f"{seed} faults"), seconds, count)
        begin = time.time()
        for thread in producers + [faults]:
            thread.start()
        for thread in producers + [faults]:
            thread.join()
        expect_alive(producers + [faults])
        messages, strangers = wait_for_all(client, producers)
        for child in cluster.relays:
            child.end(15)
        return begin, messages, strangers, client.count_dead(), faults.done
    finally:
        cluster.end()


def main():
    relay, (seconds, rate, count, seed), out = sys.argv[1], map(int, sys.argv[2:6]), sys.argv[6]
    shutil.rmtree(os.path.join(out, "run"), ignore_errors=True)
    os.makedirs(os.path.join(out, "run"))
    print(f"{rate} messages a second for {seconds} s, {count} faults, seed {seed}", flush=True)
    begin, messages, strangers, dead, faults = run(relay, seconds, rate, count, seed,
                                                   os.path.abspath(os.path.join(out, "run")))
    text, is_fine = ledger.settle(begin, messages, strangers, dead, faults)
    title = f"{rate} messages a second for {seconds} s, seed {seed}"
    with open(os.path.join(out, "ledger.md"), "w", encoding="utf-8") as file:
        file.write(f"# {title}\n\n{text}")
    print(text, end="")
    ledger.draw(begin, messages, faults, title, out)
    print(f"The logs are in {out}/run.")
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError) as error:
        sys.exit(f"perf/relay.sh: {error}; the logs are in {sys.argv[-1]}/run")
