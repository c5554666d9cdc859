#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ledger of replicas on brokers of Kafka, or how much they forward there.

    kafka_run.py ledger HWT-RELAY MOCK SECONDS RATE FAULTS SEED DIR BROKERS [PROPERTY]...
    kafka_run.py bars HWT-RELAY MOCK DIR BROKERS [PROPERTY]...

BROKERS is as librdkafka has it; or `mock` for those of MOCK, the program of tests/relay/kafka_mock.c; or `start`
for three that are started here, which meet faults, too. A PROPERTY is NAME=VALUE. The exit status is 77 where they cannot
be had.
"""

import os
import random
import re
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "suite"), os.path.join(HERE, "../../tests/recipes")]

import confluent_kafka  # noqa: E402

import kafka  # noqa: E402
from bars import Bars  # noqa: E402
from cluster import NODES, SHARDS, free_ports  # noqa: E402
from faults import Faults  # noqa: E402
from kafka_brokers import Skipped  # noqa: E402
from run import LONGEST, PRODUCERS, Watch, make_folder, produce, tell  # noqa: E402

BURST, LEAD = 100000, 40  # messages due at once, and seconds in which they are put and read
SIZE = 256  # bytes of each one
UNREAD = 10000  # messages that not all have read: a mock cluster keeps 5 MB of a partition


def make_brokers(relay, mock, folder, brokers, properties, settings=lambda i: ""):
    space = f"load-{int(time.time())}"
    if brokers == "mock":
        return kafka.Mock(mock, relay, folder, properties, space, settings)
    if brokers == "start":
        return kafka.Started(relay, folder, properties, space, settings)
    return kafka.Brokers(relay, folder, brokers, properties, space, settings)


def run(brokers, seconds, rate, count, seed):
    """What was found, as run.tell() takes it, how many dead letters there are, and whether what was taken back is
    hidden."""
    Watch(seconds + (count + 2) * LONGEST, brokers).start()
    try:
        brokers.make_topics()
        hides = brokers.hide_what_is_taken_back()
        dead = brokers.count_dead()
        if not hides:
            print("These brokers do not hide what was taken back. So a message may be there twice, which is no"
                  " mistake.")
        brokers.start_relays()
        producers = [kafka.Producer(i, brokers, seed, rate / PRODUCERS) for i in range(PRODUCERS)]
        book = kafka.Ledger(brokers, producers)
        faults = Faults(brokers, brokers if brokers.servers else None, random.Random(f"{seed} faults"), seconds,
                        count, lambda: None)
        found = produce(producers, book, faults, seconds)
        if any(m.is_wanted() and not m.arrived for m in found[1]):
            book.note_what_the_broker_has_lost()
        for child in brokers.relays:
            child.end(15)
        return found, brokers.count_dead() - dead, hides
    finally:
        brokers.end()


# ---- How much they forward ----

def count(ports, name):
    """Of all replicas and shards together."""
    found = 0
    for port in ports:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
                found += sum(int(n) for n in re.findall(rf"^{name}{{[^}}]*}} (\d+)", page.read().decode(), re.M))
        except OSError:
            pass  # it does not run yet
    return found


def wait_for(ports, name, goal, seconds):
    until = time.monotonic() + seconds
    while (found := count(ports, name)) < goal:
        if time.monotonic() > until:
            raise RuntimeError(f"{name} comes to {found} only, and not to {goal}")
        time.sleep(0.02)


def flood(brokers, ports, due):
    """Puts into each shard as many as into the others, and returns when all replicas have read them."""
    client = confluent_kafka.Producer({**brokers.config, "linger.ms": 20})
    headers = [("Hwt-Due", str(due)), ("Hwt-Target", brokers.target)]
    for i in range(BURST):
        client.produce(brokers.delay, bytes(SIZE), partition=i % SHARDS, headers=headers)
        if (i + 1) % UNREAD == 0:
            client.flush(LEAD)
            wait_for(ports, "hwt_relay_position", NODES * (i + 1), LEAD)


def measure(brokers, ports):
    bars = Bars()
    try:
        brokers.make_topics()
        brokers.relays[0].start()
        brokers.wait_for_owners()  # alone, since a mock cluster fences nobody
        for relay in brokers.relays[1:]:
            relay.start()
        due = int((time.time() + LEAD) * 1000)
        flood(brokers, ports, due)
        if time.time() * 1000 > due - 1000:
            raise RuntimeError("the messages were not read before they were due")
        time.sleep(due / 1000 - time.time())
        wait_for(ports, "hwt_relay_forwarded_total", BURST, 120)
        bars.add(f"forwarding, {BURST} of {SIZE} bytes due at once", BURST / (time.time() - due / 1000), 50000, "/s",
                 least=True)
        brokers.delete_topics()
        return bars
    finally:
        brokers.end()


# ---- The two ----

def tell_ledger(relay, mock, seconds, rate, faults, seed, out, brokers, *properties):
    title = f"{rate} messages a second for {seconds} s, {faults} faults, seed {seed}, on Kafka"
    print(title, flush=True)
    made = make_brokers(relay, mock, make_folder(out), brokers, properties)
    found, dead, hides = run(made, *map(int, (seconds, rate, faults, seed)))
    fine = tell(title, found, dead, os.path.abspath(out), may_be_double=not hides)
    if fine:
        made.delete_topics()
    return fine


def tell_bars(relay, mock, out, brokers, *properties):
    ports = free_ports(NODES)
    made = make_brokers(relay, mock, make_folder(out), brokers, properties, lambda i: f"metrics = 127.0.0.1:{ports[i]}")
    bars = measure(made, ports)
    with open(os.path.join(out, "bars.md"), "w", encoding="utf-8") as file:
        file.write(bars.table())
    print("\n" + bars.table(), end="")
    return all(row[3] == "yes" for row in bars.rows)


def main():
    words = sys.argv[2:]
    try:
        fine = tell_ledger(*words) if sys.argv[1] == "ledger" else tell_bars(*words)
    except confluent_kafka.KafkaException as error:
        sys.exit(f"perf/relay.sh: {error.args[0].str()}")
    except Skipped as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    except (OSError, RuntimeError) as error:
        sys.exit(f"perf/relay.sh: {error}")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
