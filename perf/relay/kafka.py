# SPDX-License-Identifier: LGPL-2.1-or-later
"""Replicas of hwt-relay on brokers of Kafka, producers of delayed messages there, and what has arrived of them."""

import collections
import random
import subprocess
import time

import confluent_kafka
from confluent_kafka import KafkaError, OFFSET_BEGINNING, TIMESTAMP_LOG_APPEND_TIME, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import load
from cluster import Cluster, SHARDS
from kafka_brokers import Servers

ANSWER = 60  # seconds within which brokers answer
# Errors of a consumer that do not mend themselves.
LASTING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._UNKNOWN_TOPIC,
           KafkaError._UNKNOWN_PARTITION, KafkaError._AUTO_OFFSET_RESET, KafkaError._FATAL)

Arrived = collections.namedtuple("Arrived", "payload")


class Brokers(Cluster):
    """Somebody else's, so only the replicas can be killed. Topics are called after the space, which is new in each
    run. `properties` are of librdkafka, each as NAME=VALUE."""

    def __init__(self, relay, out, brokers, properties, space, settings=lambda i: ""):
        self.delay, self.dead, self.target = f"hwt-{space}", f"hwt-{space}-dead", f"{space}.target"
        self.entries, self.places = f"{self.delay}-entries", f"{self.delay}-places"
        self.topics = {self.delay: SHARDS, self.entries: SHARDS, self.places: SHARDS, self.dead: 1, self.target: 3}
        own = f"kafka = {' '.join(properties)}" if properties else ""
        self.config = {"bootstrap.servers": brokers, "log_level": 2, **dict(word.split("=", 1) for word in properties)}
        super().__init__(relay, out, settings=lambda i: f"engine = kafka\n{own}\n{settings(i)}", space=space,
                         urls=brokers.split(","))

    def make_topics(self):
        """Each with as many copies as the brokers can have, up to three."""
        admin = AdminClient(self.config)
        copies = min(len(admin.list_topics(timeout=ANSWER).brokers), 3)
        config = {"min.insync.replicas": str(max(copies - 1, 1)), "message.timestamp.type": "LogAppendTime"}
        own = {self.delay: {"retention.ms": "-1"}, **{name: {"cleanup.policy": "compact"} for name in (self.entries, self.places)}}
        topics = [NewTopic(name, partitions, copies, config={**config, **own.get(name, {})})
                  for name, partitions in self.topics.items()]
        for name, made in admin.create_topics(topics).items():
            try:
                made.result(ANSWER)
            except confluent_kafka.KafkaException as error:
                raise RuntimeError(f"the topic {name} cannot be made: {error.args[0].str()}") from error

    def delete_topics(self):
        admin = AdminClient(self.config)
        for made in admin.delete_topics(list(self.topics)).values():
            made.result(ANSWER)

    def hide_what_is_taken_back(self):
        """Whether they do: a message in a transaction that is taken back does not come to who reads what is
        committed. Those of a mock cluster do not."""
        producer = confluent_kafka.Producer({**self.config, "transactional.id": f"{self.delay}-look"})
        producer.init_transactions(ANSWER)
        producer.begin_transaction()
        producer.produce(self.dead, "taken back")
        producer.flush(ANSWER)
        producer.abort_transaction(ANSWER)
        return self.count_dead() == 0

    def consumer(self, topic):
        consumer = confluent_kafka.Consumer({**self.config, "group.id": "none", "enable.auto.commit": False,
                                             "enable.partition.eof": True, "isolation.level": "read_committed"})
        partitions = consumer.list_topics(topic, timeout=ANSWER).topics[topic].partitions
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in partitions])
        return consumer

    def read(self, topic, add):
        """Calls add(message) for all that it has now."""
        consumer = self.consumer(topic)
        try:
            left, until = {place.partition for place in consumer.assignment()}, time.monotonic() + ANSWER
            while left:
                for message in consumer.consume(1000, 0.5):
                    until = time.monotonic() + ANSWER
                    if is_message(message):
                        add(message)
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
                if time.monotonic() > until:
                    raise RuntimeError(f"the brokers do not answer when {topic} is read")
        finally:
            consumer.close()

    def count_dead(self):
        found = []
        self.read(self.dead, found.append)
        return len(found)


class Started(Brokers):
    """Three of its own, which can be killed, too. For the faults it is what tells which of them leads."""

    def __init__(self, relay, out, properties, space, settings=lambda i: ""):
        self.own = Servers(f"{out}/brokers")
        try:
            self.own.start()
        except BaseException:
            self.own.end()
            raise
        super().__init__(relay, out, ",".join(self.own.urls), properties, space, settings)
        self.servers = self.own.children

    def leader(self):
        """The broker that has one of the partitions on which the relays depend, or that of their transactions."""
        topic = random.choice([*self.topics, "__transaction_state"])
        found = self.own.leader(topic, random.randrange(self.topics.get(topic, 5)))
        return found and found.name

    def delete_topics(self):
        pass  # they go with the brokers

    def wait_until_current(self, patience):
        try:
            self.own.wait_until_whole(patience)
        except RuntimeError:
            return False
        return True


class Mock(Brokers):
    """Brokers of librdkafka's mock cluster, by the program of tests/relay/kafka_mock.c, which makes the topics, since
    they cannot."""

    def __init__(self, program, relay, out, properties, space, settings=lambda i: ""):
        names = [f"hwt-{space}{part}:{SHARDS}" for part in ("", "-entries", "-places")]
        names += [f"hwt-{space}-dead:1", f"{space}.target:3"]
        self.mock = subprocess.Popen([program, "3", *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        super().__init__(relay, out, self.mock.stdout.readline().strip(), properties, space, settings)

    def make_topics(self):
        pass

    def delete_topics(self):
        pass

    def end(self):
        super().end()
        self.mock.communicate()


def is_message(message):
    if message.error() and message.error().code() in LASTING:
        raise RuntimeError(f"{message.topic() or 'a topic'} cannot be read: {message.error().str()}")
    return not message.error()


class Producer(load.Producer):
    """The library sends again by itself what is not acknowledged."""

    def __init__(self, number, brokers, seed, rate):
        super().__init__(number, [], seed, rate)
        self.brokers = brokers

    def run(self):
        try:
            self.client = confluent_kafka.Producer({
                **self.brokers.config, "enable.idempotence": True, "message.timeout.ms": 1000 * load.PATIENCE,
                "linger.ms": 5})
            self.produce()
        except Exception as error:  # told by the main thread
            self.failed = error

    def send(self, n, op):
        self.waiting[n, op] = time.monotonic()
        name = f"{self.number}-{n}"
        headers = [("Hwt-Op", op), ("Hwt-Due", str(self.messages[n].due)), ("Hwt-Key", name)]
        if op == "put":
            headers.append(("Hwt-Target", self.brokers.target))
        while True:
            try:
                return self.client.produce(self.brokers.delay, name if op == "put" else "", key=name,
                                           headers=headers,
                                           on_delivery=lambda error, message: self.answer(n, op, error, message))
            except BufferError:
                self.client.poll(0.1)

    def answer(self, n, op, error, message):
        if error:
            raise RuntimeError(f"a message was not acknowledged: {error.str()}")
        if self.waiting.pop((n, op), None) is not None:
            self.note(n, op, (message.partition(), message.offset()))

    def listen(self):
        self.client.poll(0.005)


class Ledger(load.Ledger):
    """Reads the target all the while, as a consumer does that sees no more than what was committed."""

    def __init__(self, brokers, producers):
        super().__init__(None, producers)
        self.brokers = brokers

    def run(self):
        try:
            consumer = self.brokers.consumer(self.brokers.target)
            while not self.stops.is_set():
                for message in consumer.consume(1000, 0.05):
                    if is_message(message):
                        self.add(self.arrived(message), self.time_of(message))
            consumer.close()
        except Exception as error:  # told by the main thread
            self.failed = error

    @staticmethod
    def arrived(message):
        return Arrived(message.value() or b"")

    @staticmethod
    def time_of(message):
        """In ns: when the broker had it; if it goes by the clocks of producers, now."""
        kind, at = message.timestamp()
        return at * 10**6 if kind == TIMESTAMP_LOG_APPEND_TIME else time.time_ns()

    def read_to_the_end(self):
        """Once more from the beginning: what is double there has come twice."""
        self.brokers.read(self.brokers.target, lambda message: self.count(self.arrived(message)))

    def count(self, arrived):
        found = self.message(arrived.payload.decode(errors="replace"))
        if found:
            found.there += 1

    def note_what_the_broker_has_lost(self):
        """Of what it has acknowledged. What is before a partition's beginning was deleted when all replicas had it."""
        there, first = set(), {}

        def add(message):
            place = message.partition(), message.offset()
            there.add(place)
            first[place[0]] = min(place[1], first.get(place[0], place[1]))

        self.brokers.read(self.brokers.delay, add)
        for producer in self.producers:
            for message in producer.messages:
                message.lost = self.is_gone(message.acked, message.position, there, first)
                message.cancel_lost = self.is_gone(message.cancel_acked, message.cancel_position, there, first)

    @staticmethod
    def is_gone(acked, place, there, first):
        return bool(acked) and place[0] in first and place[1] >= first[place[0]] and place not in there
