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
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../perf", name) for name in ("relay", "suite")] + [
    os.path.join(HERE, "../recipes")]

import confluent_kafka  # noqa: E402
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions  # noqa: E402

import kafka  # noqa: E402
from kafka_brokers import Servers, Skipped  # noqa: E402

NEVER = 2**63  # what was not to come at all is early
COMES = 120  # seconds within which what is to come has come, on a busy machine


class Space(kafka.Brokers):
    """Topics and three replicas for a case."""

    def __init__(self, relay, folder, own, brokers, name):
        os.makedirs(folder)
        super().__init__(relay, folder, brokers, [], f"{name}-{int(time.time())}")
        self.own = own  # the brokers, if they were started here
        self.put_count, self.due, self.altered = 0, {}, {}

    def producer(self, **config):
        return confluent_kafka.Producer({**self.config, **{k.replace("_", "."): v for k, v in config.items()}})

    def put(self, count, begin, rate, target=None, **config):
        """So many a second are due from `begin` on. Those for the space's own target are to come."""
        client = self.producer(linger_ms=5, **config)
        for i in range(count):
            name, due = f"m{self.put_count}", int((begin + i / rate) * 1000)
            self.put_count += 1
            if target is None:
                self.due[name] = due
            client.produce(self.delay, name, key=name,
                           headers=[("Hwt-Due", str(due)), ("Hwt-Target", target or self.target), ("Hwt-Key", name)])
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
        early = sum(min(times) < self.due.get(name, NEVER) for name, times in found.items())
        double = sum(len(times) > 1 for times in found.values())
        late = sorted(max(0, times[0] - self.due[name]) for name, times in found.items() if name in self.due)
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

    def settle(self):
        """Until no claim has fenced anybody for four seconds: at the start several replicas may claim at once."""
        self.wait_for_owners()
        before = None
        while (now := self.log().count("fenced")) != before:
            before = now
            time.sleep(4)

    def alter(self, topic, name, value):
        """Of all that are altered, the others have to be given, too."""
        self.altered.setdefault(topic, dict(GOOD if topic == self.delay else {**GOOD, "cleanup.policy": "compact"}))
        self.altered[topic][name] = value
        resource = ConfigResource("topic", topic, set_config=self.altered[topic])
        admin = AdminClient(self.config)
        admin.alter_configs([resource])[resource].result(COMES)
        time.sleep(0.5)  # until all brokers know

    def command(self, *words):
        done = subprocess.run([self.relay, "-c", self.path("relay-0.conf"), *words], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

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


def foreign_transaction(space):
    """Somebody else's transaction is open on the entries of a shard for six leases: its owner goes on."""
    space.make_topics()
    space.start_relays()
    space.settle()
    space.put(1500, time.time() + 3, 100)
    producer = space.producer(transactional_id=f"{space.space}-foreign")
    producer.init_transactions(COMES)
    before = space.log().count("fenced")
    producer.begin_transaction()
    producer.produce(space.entries, "text", key="strange", partition=0)
    producer.flush(COMES)
    time.sleep(12)
    after = space.log().count("fenced")
    producer.abort_transaction(COMES)
    space.check()
    if after != before:
        raise AssertionError(f"owners were fenced, by {after - before} lines")


def transaction_left_open(space):
    """An owner has died with its transaction open, for ten minutes if nobody ends it: who claims the shard does."""
    space.make_topics()
    for shard in range(2):
        producer = space.producer(transactional_id=f"{space.space}-{shard}", transaction_timeout_ms="600000")
        producer.init_transactions(COMES)
        producer.begin_transaction()
        producer.produce(space.entries, "text", key=f"shard.{shard}", partition=shard)
        producer.produce(space.target, "never committed")
        producer.flush(COMES)
        KEPT.append(producer)
    space.start_relays()
    space.put(200, time.time() + 2, 100)
    space.check()


def foreign_transaction_at_the_start(space):
    """Nobody can own a shard whose entry may be hidden by somebody else's transaction, and that is said."""
    space.make_topics()
    producer = space.producer(transactional_id=f"{space.space}-foreign")
    producer.init_transactions(COMES)
    producer.begin_transaction()
    producer.produce(space.entries, "text", key="strange", partition=0)
    producer.flush(COMES)
    for relay in space.relays:
        relay.start()
    space.wait_for_log("is none of its owners")
    producer.abort_transaction(COMES)
    space.wait_for_owners()
    space.put(200, time.time() + 2, 100)
    space.check()


def entries_as_a_target(space):
    """A message for the topic of entries is a dead letter, and nobody believes it, though all targets are allowed."""
    space.make_topics()
    for i in range(len(space.relays)):
        with open(space.path(f"relay-{i}.conf"), "r+", encoding="utf-8") as file:
            text = file.read().replace(f"targets = {space.space}.>", "targets = >")
            file.seek(0)
            file.write(text)
            file.truncate()
    space.start_relays()
    client = space.producer()
    place = "incarnation=1 position=99999999 timestamp=18000000000000000000 due=18000000000000000000"
    for shard in range(2):
        client.produce(space.delay, f"owner=- life=1 {place}", key=f"shard.{1 - shard}", partition=shard,
                       headers=[("Hwt-Delay", "1"), ("Hwt-Target", space.entries)])
    client.flush(COMES)
    space.put(200, time.time() + 3, 100)
    space.check()
    if space.count_dead() != 2:
        raise AssertionError(f"{space.count_dead()} dead letters, and not 2")


def followers_killed(space):
    """Replicas are killed again and again in the middle of what they report."""
    space.make_topics()
    space.start_relays()
    begin = time.time() + 5
    space.put(2500, begin, 100)
    for i in range(50):
        relay = space.relays[i % 3]
        if relay is space.owner(0) or relay is space.owner(1):
            continue
        relay.end()
        relay.start()
        time.sleep(0.3 + i % 7 / 10)
    space.check()


def all_killed(space):
    """All replicas are killed at once, in the middle of transactions."""
    space.make_topics()
    space.start_relays()
    begin = time.time() + 5
    space.put(2000, begin, 100)
    for _ in range(3):
        time.sleep(6)
        for relay in space.relays:
            relay.send(signal.SIGKILL)
        for relay in space.relays:
            relay.end()
            relay.start()
    space.check()


def many_unknown_topics(space):
    """Beside good messages as many for a hundred topics that are not there: no transaction is taken back for them."""
    space.make_topics()
    space.start_relays()
    space.settle()
    begin = time.time() + 4
    before = space.log().count("the transaction of")
    space.put(2000, begin, 100)
    for i in range(100):
        space.put(10, begin + i / 100, 1, f"{space.space}.nobody-{i}")
    space.check()
    lost = space.log().count("the transaction of") - before
    if lost > 5:
        raise AssertionError(f"{lost} transactions were taken back")


def coordinators_killed(space):
    """The brokers that have the shards' transactions die: that costs a healthy target's messages no attempt."""
    space.make_topics()
    space.start_relays()
    space.settle()
    space.put(3000, time.time() + 4, 100)
    for i in range(3):
        time.sleep(6)
        victim = space.own.leader("__transaction_state", i)
        if victim is None:
            continue
        victim.end()
        time.sleep(8)
        victim.start()
        space.own.wait_until_whole()
    space.check()
    tried = []
    space.read(space.delay, lambda message: tried.extend(
        1 for name, _ in message.headers() or [] if name == "Hwt-Attempt"))
    print(f"    {len(tried)} attempts", flush=True)
    if tried:
        raise AssertionError(f"{len(tried)} attempts count, and the target was there")


def transaction_on_the_delay_topic(space):
    """A producer leaves its transaction open: that is said, and what is behind it comes when it has ended."""
    space.make_topics()
    space.start_relays()
    producer = space.producer(transactional_id=f"{space.space}-producer")
    producer.init_transactions(COMES)
    producer.begin_transaction()
    producer.produce(space.delay, "taken back", partition=0)
    producer.flush(COMES)
    space.put(200, time.time() + 2, 100)
    space.wait_for_log("a producer's transaction is open at offset")
    producer.abort_transaction(COMES)
    space.wait_for_log("the transaction has ended, and its partition is read on")
    space.check()


def cancels_by_command(space):
    """Messages whose producer goes by another partitioner are cancelled and replaced by the command line."""
    space.make_topics()
    space.start_relays()
    space.put(12, time.time() + 3600, 1000, partitioner="consistent_random")
    put, space.due = sorted(space.due.items()), {}
    for i, (name, due) in enumerate(put):
        if i % 2:
            space.command("cancel", "--due", str(due), "--key", name)
        else:
            space.due[f"{name}-new"] = now = int(time.time() * 1000)
            space.command("replace", "--due-old", str(due), "--due", str(now), "--key", name, space.target,
                          f"{name}-new")
    space.check()
    until = time.monotonic() + COMES
    while left := space.command("dump"):
        if time.monotonic() > until:
            raise AssertionError(f"cancelled or replaced, and still there:\n{left}")
        time.sleep(0.5)


def topics_that_lose(space):
    """Topics by whose properties messages are lost are said, by name."""
    delay, entries = space.delay, space.entries
    cases = [(delay, "retention.ms", "86400000"), (delay, "retention.bytes", "1000000"),
             (delay, "cleanup.policy", "compact"), (entries, "cleanup.policy", "delete"),
             (delay, "message.timestamp.type", "CreateTime"), (delay, "min.insync.replicas", "1"),
             (entries, "unclean.leader.election.enable", "true")]
    space.make_topics()
    if "may be lost" in space.command("status"):
        raise AssertionError("good topics are said to lose messages")
    space.relays[0].start()
    for topic, name, value in cases:
        space.alter(topic, name, value)
        said = space.command("status")
        if f"may be lost: the topic {topic} has {name}={value}" not in said:
            raise AssertionError(f"{name}={value} of {topic} is not said: {said}")
        space.alter(topic, name, GOOD[name] if topic == delay else {**GOOD, "cleanup.policy": "compact"}[name])
    admin = AdminClient(space.config)
    admin.create_partitions([NewPartitions(delay, 3)])[delay].result(COMES)
    time.sleep(1)
    if "has 3 partitions, and there are 2 shards" not in space.command("status"):
        raise AssertionError("a partition of no shard is not said")


GOOD = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false"}
KEPT = []  # producers whose transactions stay open
CASES = [unknown_topic, foreign_transaction, transaction_left_open, foreign_transaction_at_the_start,
         entries_as_a_target, followers_killed, all_killed, topics_that_lose, many_unknown_topics,
         transaction_on_the_delay_topic, cancels_by_command, coordinators_killed]


def run(case, relay, folder, own, brokers):
    print(f"{case.__name__}: {case.__doc__}", flush=True)
    space = Space(relay, os.path.join(folder, case.__name__), own, brokers, case.__name__.replace("_", "-"))
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
        fine = [run(case, relay, folder, servers, brokers) for case in cases]
    except Skipped as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    finally:
        if servers:
            servers.end()
    sys.exit(0 if all(fine) and fine else 1)


if __name__ == "__main__":
    main()
