#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What hwt-relay has to reach, measured on three NATS servers and three replicas on loopback.

    bars.py HWT-RELAY PENDING SEED DIR
"""

import math
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "suite"), os.path.join(HERE, "../../tests/recipes")]

import ledger  # noqa: E402
import reminders  # noqa: E402
from cluster import Cluster, NODES, SHARDS, SPACE, free_ports  # noqa: E402
from load import Client, Ledger, Producer, TARGET  # noqa: E402
from results import share, text_of  # noqa: E402

LEASE = 2  # seconds
PACE, PACE_SECONDS = 2000, 20  # messages a second
BURST, LEAD = 100000, 25  # messages due at once, and seconds in which they are put
BACKLOG = 300000  # messages that a replica has to read
FAULTS = 3  # of each kind
HOUR = 3600
UNACKED = 4000  # messages of a flood that are not acknowledged yet


class Bars:
    def __init__(self):
        self.rows = []

    def add(self, name, measured, limit, unit, least=False):
        met = measured >= limit if least else measured <= limit
        self.rows.append((name, f"{'>=' if least else '<='} {limit:g} {unit}", f"{measured:.4g} {unit}",
                          "yes" if met else "no"))
        print("{}: {} ({}): {}".format(*self.rows[-1][:1], self.rows[-1][2], self.rows[-1][1], self.rows[-1][3]),
              flush=True)

    def table(self):
        return text_of(["", "bar", "measured", "reached"], self.rows)


# ---- Many messages ----

def flood(urls, shard, count, due):
    """Puts as fast as they are acknowledged. Returns when all are."""
    nats = reminders.Nats(urls)
    head = f"NATS/1.0\r\nHwt-Due: {due}\r\nHwt-Target: {TARGET}\r\n\r\n".encode()
    sent = acked = 0
    rest = b""
    nats.socket.settimeout(30)
    while acked < count:
        batch = min(500, count - sent) if sent - acked < UNACKED else 0
        if batch > 0:
            lines = []
            for i in range(sent, sent + batch):
                payload = b"%d-%d" % (shard, i)
                lines.append(b"HPUB hwt.%s.%d %s.a %d %d\r\n%s%s\r\n" %
                             (SPACE.encode(), shard, nats.inbox.encode(), len(head), len(head) + len(payload), head,
                              payload))
            nats.socket.sendall(b"".join(lines))
            sent += batch
        if sent - acked >= UNACKED or sent == count:
            rest += nats.socket.recv(1 << 18)
            if b'"error"' in rest:
                raise RuntimeError("the broker refuses a message")
            if b"PING\r\n" in rest:
                nats.socket.sendall(b"PONG\r\n")
                rest = rest.replace(b"PING\r\n", b"")
            acked += rest.count(b'"seq":')
            rest = rest[-5:] if rest[-6:] != b'"seq":' else b""


def flood_all(urls, count, due):
    processes = [multiprocessing.Process(target=flood, args=(urls, shard, count // SHARDS, due))
                 for shard in range(SHARDS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            raise RuntimeError("the messages could not be put")


# ---- What a replica says of itself ----

def position(port):
    """Of all shards together; 0: it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as page:
            text = page.read().decode()
    except OSError:
        return 0
    return sum(int(found) for found in re.findall(r"^hwt_relay_position\{[^}]*\} (\d+)", text, re.M))


def last_positions(client):
    return sum(client.ask(f"STREAM.INFO.HWT-{SPACE}-{n}")["state"]["last_seq"] for n in range(SHARDS))


def wait_for_position(port, goal, seconds=600):
    """Samples of (time, position), the last one at the goal."""
    samples, until = [], time.monotonic() + seconds
    while not samples or samples[-1][1] < goal:
        samples.append((time.monotonic(), position(port)))
        if samples[-1][0] > until:
            raise RuntimeError(f"a replica reads up to {samples[-1][1]} of {goal} only")
        time.sleep(0.01)
    return samples


def resident_mib(relay):
    with open(f"/proc/{relay.process.pid}/status", encoding="utf-8") as status:
        return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) / 1024


# ---- The bars ----

def run_load(cluster, seed, rate, work, first=0):
    """The messages of so many a second while work() goes on, with what became of them. `first` is the number of the
    first producer, which no other one has had."""
    producers = [Producer(first + i, cluster.urls, seed, rate / 2) for i in range(2)]
    book = Ledger(cluster.urls, [None] * first + producers)
    book.client.read_up_to = book.client.ask("STREAM.INFO.TARGET")["state"]["last_seq"]
    for producer in producers:
        producer.start()
    time.sleep(1)
    work()
    for producer in producers:
        producer.stops.set()
        producer.join()
        if producer.failed:
            raise producer.failed
    messages = [message for producer in producers for message in producer.messages]
    time.sleep(max(max(m.due for m in messages if m.is_wanted()) / 1000 + 3 - time.time(), 0))
    book.client.read(book.add)
    missing = sum(not m.arrived for m in messages if m.is_wanted())
    if missing:
        raise RuntimeError(f"{missing} messages have not come")
    return [m for m in messages if m.is_wanted()]


def measure_lateness(bars, cluster, seed):
    late = [1000 * ledger.lateness(m) for m in run_load(cluster, seed, PACE, lambda: time.sleep(PACE_SECONDS))]
    bars.add(f"lateness at {PACE}/s, p50", share(late, 0.5), 3, "ms")
    bars.add(f"lateness at {PACE}/s, p99", share(late, 0.99), 50, "ms")


def measure_outages(bars, cluster, client, seed):
    """The latest message that was to come within some seconds of each fault."""
    faults = []

    def fault(kind, victim, end_by):
        faults.append((kind, time.time()))
        victim.end(end_by)
        time.sleep(6 if kind != "server" else 12)
        victim.start()
        time.sleep(3)
        client.wait_until_current(60)
        cluster.wait_for_owners()

    def work():
        for _ in range(FAULTS):
            fault("owner killed", cluster.owner(), signal.SIGKILL)
            fault("owner drained", cluster.owner(), signal.SIGTERM)
        leader = client.leader()
        fault("server", next(s for s in cluster.servers if s.name == leader), signal.SIGKILL)

    messages = run_load(cluster, seed, 300, work, first=2)
    ends = [at - 1 for _, at in faults[1:]] + [math.inf]  # then the next fault begins to matter
    for kind, name, limit in (("owner killed", "owner killed", LEASE + 0.3), ("owner drained", "owner drained", 0.2),
                              ("server", "NATS leader killed", 9)):
        outages = [max(ledger.lateness(m) for m in messages if at - 1 <= ledger.expected_at(m) < min(at + 12, end))
                   for (found, at), end in zip(faults, ends) if found == kind]
        bars.add(f"{name}, the longest of {len(outages)}", max(outages), limit, "s")


def measure_forwarding(bars, cluster, client):
    due = int((time.time() + LEAD) * 1000)
    first = client.ask("STREAM.INFO.TARGET")["state"]["last_seq"]
    flood_all(cluster.urls, BURST, due)
    if time.time() * 1000 > due:
        raise RuntimeError("the messages could not be put before they were due")
    until = time.monotonic() + 120
    while (state := client.ask("STREAM.INFO.TARGET")["state"])["last_seq"] < first + BURST:
        if time.monotonic() > until:
            raise RuntimeError(f"only {state['last_seq'] - first} of {BURST} have come")
        time.sleep(0.1)
    at = []
    client.read_stream("TARGET", first + BURST - 1, first + BURST, lambda _, ns: at.append(ns))
    bars.add(f"forwarding, {BURST} due at once", BURST / (at[-1] / 1e9 - due / 1000), 20000, "/s", least=True)


def measure_ingest(bars, cluster, client, ports):
    victim = NODES - 1
    cluster.relays[victim].end(signal.SIGTERM)
    flood_all(cluster.urls, BACKLOG, int((time.time() + HOUR) * 1000))
    cluster.relays[victim].start()
    samples = wait_for_position(ports[victim], last_positions(client))
    begin = next(i for i, (_, at) in enumerate(samples) if at > 0)
    (t1, p1), (t2, p2) = samples[begin], samples[-1]
    bars.add(f"ingest, {p2 - p1} messages", (p2 - p1) / (t2 - t1), 80000, "/s", least=True)


def measure_standing(bars, cluster, client, ports, pending):
    if pending > BACKLOG:
        flood_all(cluster.urls, pending - BACKLOG, int((time.time() + HOUR) * 1000))
    goal = last_positions(client)
    for port in ports:
        wait_for_position(port, goal)
    bars.add(f"memory of a replica, {pending} pending", max(map(resident_mib, cluster.relays)), 128, "MiB")
    slowest = 0
    for relay, port in zip(cluster.relays, ports):
        relay.end(signal.SIGTERM)
        begin = time.monotonic()
        relay.start()
        slowest = max(slowest, wait_for_position(port, goal)[-1][0] - begin)
    bars.add(f"restart, {pending} pending", slowest, 1, "s")


def measure(relay, pending, seed, out):
    ports = free_ports(NODES)
    cluster = Cluster(relay, out, settings=lambda i: f"metrics = 127.0.0.1:{ports[i]}")
    bars = Bars()
    try:
        cluster.start()
        client = Client(cluster.urls)
        client.change_target({}, make=True)
        cluster.start_relays()
        client.wait_until_current(60)
        measure_lateness(bars, cluster, seed)
        measure_forwarding(bars, cluster, client)
        measure_outages(bars, cluster, client, seed)
        measure_ingest(bars, cluster, client, ports)
        measure_standing(bars, cluster, client, ports, pending)
    finally:
        cluster.end()
        text = bars.table()
        with open(os.path.join(out, "../bars.md"), "w", encoding="utf-8") as file:
            file.write(text)
    return text, all(row[3] == "yes" for row in bars.rows)


def main():
    relay, (pending, seed), out = sys.argv[1], map(int, sys.argv[2:4]), os.path.join(sys.argv[4], "run")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    text, reached = measure(relay, pending, seed, os.path.abspath(out))
    print("\n" + text, end="")
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError) as error:
        sys.exit(f"perf/relay.sh: {error}; the logs are in {sys.argv[-1]}/run")
