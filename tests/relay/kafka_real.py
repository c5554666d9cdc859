#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What breaks hwt-relay on three real brokers of Kafka, one case after the other.

    kafka_real.py RELAY FOLDER [CASE]...

Each case has topics of its own. It ends with what was missing, early and double, of messages that were to come
once, as a consumer sees them that reads what is committed. The brokers are started for all of them together; or
KAFKA_BROKERS has those of somebody else. The exit status is 1 if a case fails, and 77 where there are no brokers.
"""

import collections
import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../perf", name) for name in ("relay", "suite")] + [
    os.path.join(HERE, "../recipes")]

import confluent_kafka  # noqa: E402

import kafka  # noqa: E402
from kafka_brokers import Servers, Skipped  # noqa: E402

COMES = 120  # seconds within which what is to come has come, on a busy machine


class Space(kafka.Brokers):
    """Topics and three replicas for a case."""

    def __init__(self, relay, folder, brokers, name, settings=""):
        os.makedirs(folder)
        super().__init__(relay, folder, brokers, [], f"{name}-{int(time.time())}", lambda i: settings)
        self.put_count, self.due = 0, {}

    def producer(self, **config):
        return confluent_kafka.Producer({**self.config, **{k.replace("_", "."): v for k, v in config.items()}})

    def put(self, count, begin, rate, target=None, partition=None):
        """So many a second are due from `begin` on. Those for the space's own target are to come."""
        client = self.producer(linger_ms=5)
        for i in range(count):
            name, due = f"m{self.put_count}", int((begin + i / rate) * 1000)
            self.put_count += 1
            if target is None:
                self.due[name] = due
            where = {} if partition is None else {"partition": partition}
            client.produce(self.delay, name, key=name, **where,
                           headers=[("Hwt-Due", str(due)), ("Hwt-Target", target or self.target)])
            client.poll(0)
        if client.flush(COMES) > 0:
            raise RuntimeError("messages are not stored")

    def arrived(self):
        """When each has come, in ms."""
        found = collections.defaultdict(list)
        self.read(self.target, lambda message: found[message.value().decode()].append(message.timestamp()[1]))
        return found

    def check(self, leave_out=0):
        """Waits until all have come, and counts."""
        until = time.monotonic() + COMES
        while len(self.arrived()) < len(self.due) and time.monotonic() < until:
            time.sleep(1)
        time.sleep(2)
        found = self.arrived()
        missing = sum(name not in found for name in self.due)
        early = sum(min(times) < self.due[name] for name, times in found.items())
        double = sum(len(times) > 1 for times in found.values())
        late = sorted(max(0, times[0] - self.due[name]) for name, times in found.items())
        print(f"    {len(self.due)} messages: {missing} missing, {early} early, {double} double;"
              f" late p50 {late[len(late) // 2] if late else 0} ms, most {late[-1] if late else 0} ms", flush=True)
        if missing or early or double:
            raise AssertionError("not each message has come once, and not early")

    def log(self):
        text = ""
        for relay in self.relays:
            if os.path.exists(relay.log):
                with open(relay.log, encoding="utf-8", errors="replace") as file:
                    text += file.read()
        return text

    def wait_for_log(self, words):
        until = time.monotonic() + COMES
        while words not in self.log():
            if time.monotonic() > until:
                raise AssertionError(f"no relay says: {words}")
            time.sleep(0.2)

    def drain_owner(self, shard=0):
        owner = self.owner(shard)
        if owner:
            status = owner.end(signal.SIGTERM)
            if status != 0:
                raise AssertionError(f"{owner.name} was drained, and exits with {status}")
            owner.start()


def unknown_topic(space):
    """Beside good messages some for a topic that is not there, and relays that are drained."""
    space.make_topics()
    space.start_relays()
    begin = time.time() + 5
    space.put(2000, begin, 100)
    space.put(400, begin, 20, f"{space.space}.nobody")
    while time.time() < begin + 20:
        time.sleep(4)
        space.drain_owner(0)
        space.drain_owner(1)
    space.check()


CASES = [unknown_topic]


def run(case, relay, folder, brokers):
    print(f"{case.__name__}: {case.__doc__}", flush=True)
    space = Space(relay, os.path.join(folder, case.__name__), brokers, case.__name__.replace("_", "-"))
    try:
        case(space)
        return True
    except (AssertionError, RuntimeError, OSError, confluent_kafka.KafkaException) as error:
        print(f"FAILED: {case.__name__}: {error}; the logs are in {folder}/{case.__name__}", flush=True)
        return False
    finally:
        space.end()


def main():
    relay, folder, names = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    cases = [case for case in CASES if not names or case.__name__ in names]
    servers, brokers = None, os.environ.get("KAFKA_BROKERS")
    try:
        if not brokers:
            servers = Servers(f"{folder}/brokers")
            servers.start()
            brokers = ",".join(servers.urls)
        fine = [run(case, relay, folder, brokers) for case in cases]
    except Skipped as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    finally:
        if servers:
            servers.end()
    sys.exit(0 if all(fine) and fine else 1)


if __name__ == "__main__":
    main()
