# SPDX-License-Identifier: LGPL-2.1-or-later
"""Producers of delayed messages, and what has arrived of them."""

import heapq
import json
import random
import threading
import time

import reminders  # the recipe: a client of NATS
from cluster import SHARDS, SPACE

TARGET, STREAM = f"{SPACE}.target", "TARGET"
WINDOW = 120  # seconds for which the target's stream knows an id: longer than any outage here
CANCELLED_DELAY = 30  # seconds: longer than any fail-over, so that a cancel is in time
IN_TIME = 5  # seconds: two leases and clock_bound; a cancel that is acknowledged so long before the due time holds
BEFORE = 3  # seconds: with cancels alone each is sent up to so long before it has to be acknowledged
ANSWER = 3  # seconds; then it is sent again
SILENCE = 6  # seconds; then another server is asked
PATIENCE = 60  # seconds for what is to be acknowledged yet when no more is made
TRIES = 10  # to read the target, a second apart
COPY = 60  # seconds in which something more comes of one of its copies
SETTLED = 1  # seconds in which all servers have a new configuration, and a stream's copies what was published
FILLER = "filler"  # the payload of the target's oldest messages, which may go
SPARE = 1000  # fillers for each time when the target is full; copies differ by fewer messages


class Message:
    __slots__ = ("name", "due", "cancelled", "acked", "position", "cancel_acked", "cancel_position", "arrived",
                 "there", "ids", "lost", "cancel_lost")

    def __init__(self, name, due, cancelled):
        self.name, self.due, self.cancelled = name, due, cancelled  # due: ms
        self.acked = self.cancel_acked = None  # when, in s
        self.position = self.cancel_position = 0  # in the delay stream, as the broker has said
        self.arrived = ()  # when the target's stream had it, in ns
        self.there = 0  # how often it is there in the end
        self.ids = ()  # with these ids; each is of one put that the delay stream has
        self.lost = self.cancel_lost = False  # by the broker, after it was acknowledged

    def is_wanted(self):
        return self.acked and not self.cancelled


class Producer(threading.Thread):
    """Publishes at a rate until it is told to stop, and what is not acknowledged in time once more."""

    def __init__(self, number, urls, seed, rate, cancels=False):
        super().__init__(name=f"producer {number}")
        self.number, self.rate = number, rate
        self.cancels, self.later = cancels, []  # nearly all are cancelled: a heap of when, and which
        self.random = random.Random(f"{seed} {number}")
        self.urls = urls
        self.messages, self.waiting = [], {}
        self.heard = 0
        self.stops, self.failed = threading.Event(), None

    def run(self):
        try:
            first = self.number % len(self.urls)
            self.nats = reminders.Nats(self.urls[first:] + self.urls[:first])
            self.produce()
        except Exception as error:  # told by the main thread
            self.failed = error

    def produce(self):
        begin = self.heard = time.monotonic()
        made = 0
        until = None
        while not until or ((self.waiting or self.later) and time.monotonic() < until):
            if not until and self.stops.is_set():
                until = time.monotonic() + PATIENCE
            try:
                passed = time.monotonic() - begin
                if made < passed * self.rate - 5 * self.rate:
                    made = int(passed * self.rate)  # what was not made while nobody answered is left out
                while not until and made < passed * self.rate:
                    made += 1
                    self.make()
                while self.later and self.later[0][0] < time.time():
                    self.send(heapq.heappop(self.later)[1], "cancel")
                self.listen()
            except OSError:
                self.nats.urls.append(self.nats.urls.pop(0))
                self.nats.connect()
                self.heard = time.monotonic()
                for what in list(self.waiting):
                    self.send(*what)

    def make(self):
        n = len(self.messages)
        cancelled = (n % 20 == 7) != self.cancels
        delay = self.random.uniform(0.2, 6)
        if cancelled:
            delay = delay + IN_TIME + BEFORE if self.cancels else CANCELLED_DELAY
        self.messages.append(Message(f"{self.number}-{n}", int((time.time() + delay) * 1000), cancelled))
        self.send(n, "put")

    def send(self, n, op):
        self.waiting[n, op] = time.monotonic()
        name = self.messages[n].name
        headers = [("Hwt-Op", op), ("Hwt-Due", self.messages[n].due), ("Hwt-Key", name),
                   ("Nats-Msg-Id", f"{name}-{op}")]
        if op == "put":
            headers.append(("Hwt-Target", TARGET))
        self.nats.send(f"hwt.{SPACE}.{n % SHARDS}", name.encode() if op == "put" else b"", headers,
                       f"{self.nats.inbox}.{n}-{op}")

    def listen(self):
        while (answer := self.nats.receive(0.005)) is not None:
            self.heard = time.monotonic()
            n, op = answer.subject.rsplit(".", 1)[1].split("-")
            if answer.status or b'"error"' in answer.payload:
                continue  # sent again in a while
            if self.waiting.pop((int(n), op), None) is not None:
                self.note(int(n), op, json.loads(answer.payload)["seq"])
        now = time.monotonic()
        if self.waiting and now - self.heard > SILENCE:
            raise ConnectionError("the server does not answer")
        for what in [what for what, sent in self.waiting.items() if now - sent > ANSWER]:
            self.send(*what)

    def note(self, n, op, position):
        """A cancel follows its put, because one that the stream has before it does nothing."""
        message = self.messages[n]
        if op == "put":
            message.acked, message.position = time.time(), position
            if message.cancelled and self.cancels:
                before = IN_TIME + self.random.uniform(0, BEFORE)
                heapq.heappush(self.later, (message.due / 1000 - before, n))
            elif message.cancelled:
                self.send(n, "cancel")
        else:
            message.cancel_acked, message.cancel_position = time.time(), position


class Client:
    """Asks the servers, and reads what has arrived."""

    def __init__(self, urls):
        self.nats = reminders.Nats(urls, patience=60)
        self.read_up_to = 0
        self.lock = threading.Lock()

    def reconnect(self):
        self.nats.urls.append(self.nats.urls.pop(0))
        self.nats.connect()

    def ask(self, what, request=None, seconds=120):
        """Until it is answered."""
        until = time.monotonic() + seconds
        with self.lock:
            while True:
                try:
                    return self.nats.ask(what, request)
                except OSError:  # a TimeoutError, too: that server may be cut off
                    self.reconnect()
                if time.monotonic() > until:
                    raise TimeoutError(f"JetStream does not answer {what}")
                time.sleep(0.2)

    def insist(self, what, request):
        """Until it is done."""
        until = time.monotonic() + 120
        while "error" in (made := self.ask(what, request)):
            if time.monotonic() > until:
                raise RuntimeError(f"{what}: {made['error']['description']}")
            time.sleep(0.5)
        return made

    def change_target(self, change, make=False):
        """Its stream's configuration is the usual one with this change."""
        config = {"name": STREAM, "subjects": [TARGET], "num_replicas": 3, "storage": "file",
                  "discard": "new", "max_msgs": -1, "duplicate_window": WINDOW * 10**9, **change}
        self.insist(f"STREAM.{'CREATE' if make else 'UPDATE'}.{STREAM}", config)

    def put_fillers(self, count):
        """Most are not acknowledged, so it puts more until there are so many."""
        until = time.monotonic() + PATIENCE
        while (lacking := count - self.count_arrived()) > 0:
            if time.monotonic() > until:
                raise TimeoutError(f"the target's stream still lacks {lacking} of {count} fillers")
            for _ in range(min(lacking, 500) - 1):
                self.nats.send(TARGET, FILLER.encode())
            self.nats.publish(TARGET, FILLER.encode())

    def leader(self, stream=f"HWT-{SPACE}-0"):
        return self.ask(f"STREAM.INFO.{stream}").get("cluster", {}).get("leader")

    def copies_of_target(self):
        """The servers that have one, the leader first."""
        until = time.monotonic() + PATIENCE
        while not (cluster := self.ask(f"STREAM.INFO.{STREAM}").get("cluster", {})).get("leader"):
            if time.monotonic() > until:
                raise RuntimeError("the target's stream has no leader")
            time.sleep(0.5)
        return [cluster["leader"]] + [copy["name"] for copy in cluster["replicas"]]

    def wait_until_current(self, seconds):
        """Until every copy of each stream has all, so that the next fault may come; whether that is so."""
        names = [STREAM] + [f"HWT-{SPACE}-{n}" for n in range(SHARDS)]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            infos = [self.ask(f"STREAM.INFO.{name}").get("cluster", {}) for name in names]
            if all(info.get("leader") and all(one["current"] for one in info.get("replicas", [{"current": False}]))
                   for info in infos):
                return True
            time.sleep(0.5)
        return False

    def count_dead(self):
        return self.ask(f"STREAM.INFO.HWT-{SPACE}-dead").get("state", {}).get("messages", 0)

    def count_arrived(self):
        return self.ask(f"STREAM.INFO.{STREAM}").get("state", {}).get("messages", 0)

    def count_settled(self):
        """Once what was published has arrived."""
        before, count = None, self.count_arrived()
        until = time.monotonic() + PATIENCE
        while not count or count != before:
            if time.monotonic() > until:
                raise TimeoutError(f"what arrives at the target does not settle: {before}, {count}")
            time.sleep(SETTLED)
            before, count = count, self.count_arrived()
        return count

    # ---- What a stream has ----

    def read(self, add):
        """Calls add(message, ns) for what has arrived since the last call."""
        last = self.ask(f"STREAM.INFO.{STREAM}").get("state", {}).get("last_seq", 0)
        self.read_up_to = min(self.read_up_to, last)  # it has lost its end
        self.read_up_to = self.read_stream(STREAM, self.read_up_to, last, add)

    def read_stream(self, stream, after, last, add):
        """Returns how far it has come, which is `last` unless the stream has lost what was there."""
        tries = 0
        while after < last and tries < 20:
            made = self.make_consumer(stream, after)
            if "error" in made:
                time.sleep(0.5)
                tries += 1
                continue
            try:
                came = self.read_consumer(stream, made["name"], after, last, add)
            except OSError:
                self.reconnect()
                came = after
            tries = 0 if came > after else tries + 1
            after = came
        return after

    def make_consumer(self, stream, after):
        return self.ask(f"CONSUMER.CREATE.{stream}",
                        {"stream_name": stream,
                         "config": {"ack_policy": "none", "mem_storage": True, "num_replicas": 1,
                                    "deliver_policy": "by_start_sequence", "opt_start_seq": after + 1}})

    def read_copy(self, server, add):
        """Calls add(message, ns) for all that this server has of the target, since the copies may differ. The servers
        choose where a consumer is, so some are made until there is one on this one."""
        after, until = 0, time.monotonic() + COPY
        while time.monotonic() < until:
            made = self.make_consumer(STREAM, after)
            if made.get("cluster", {}).get("leader") != server:
                continue
            if made["num_pending"] == 0:
                return
            try:
                came = self.read_consumer(STREAM, made["name"], after, after + made["num_pending"], add)
            except OSError:
                self.reconnect()
                came = after
            until, after = (until if came == after else time.monotonic() + COPY), came
        raise RuntimeError(f"what {server} has of the target's stream cannot be read to its end")

    def read_consumer(self, stream, name, after, last, add):
        """Until the end, or until one does not come: then another consumer is made."""
        while after < last:
            batch = min(500, last - after)
            reply = self.nats.send_request(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}",
                                           json.dumps({"batch": batch, "expires": 2 * 10**9}).encode())
            for _ in range(batch):
                message = self.next_of(f"$JS.ACK.{stream}.{name}.", reply)
                if message is None:
                    return after
                words = message.reply.split(".")
                position = int(words[-4])
                if position <= after:
                    return after
                after = position
                add(message, int(words[-2]))
        return after

    def next_of(self, consumer, reply):
        """The next message, without those that an earlier consumer has still sent; None: none came."""
        while True:
            message = self.nats.wait(reply, 3, ("$JS.ACK.",))
            if message is None or message.status:
                return None
            if message.reply.startswith(consumer):
                return message

    def keys_of(self, shard):
        """The orders that a delay stream has, as (operation, key), and the position of its first one."""
        found, name = set(), f"HWT-{SPACE}-{shard}"
        state = self.ask(f"STREAM.INFO.{name}")["state"]

        def add(message, _):
            found.add((message.headers.get("Hwt-Op", "put"), message.headers.get("Hwt-Key")))

        self.read_stream(name, state["first_seq"] - 1, state["last_seq"], add)
        return found, state["first_seq"]


class Ledger(threading.Thread):
    """Reads the target all the while, because its servers may lose what they have acknowledged."""

    def __init__(self, urls, producers):
        super().__init__(name="reader")
        self.client = Client(urls) if urls else None
        self.producers = producers
        self.strangers = []
        self.stops, self.failed = threading.Event(), None
        self.reads_anew = threading.Event()  # copies of the target may have a message at different positions

    def run(self):
        tries = 0
        while not self.stops.wait(1) and not self.failed:
            if self.reads_anew.is_set():
                self.reads_anew.clear()
                self.client.read_up_to = 0
            try:
                self.client.read(self.add)
                tries = 0
            except Exception as error:  # a server that begins again may answer anything for a while
                tries += 1
                self.failed = error if tries == TRIES else None  # told by the main thread

    def message(self, name):
        if name == FILLER:
            return None
        try:
            producer, n = name.split("-")
            return self.producers[int(producer)].messages[int(n)]
        except (ValueError, IndexError):
            self.strangers.append(name)
            return None

    def add(self, message, at):
        found = self.message(message.payload.decode(errors="replace"))
        if found and at not in found.arrived:
            found.arrived += (at,)

    def add_last(self, message, at):
        self.add(message, at)
        found = self.message(message.payload.decode(errors="replace"))
        if found:
            found.there += 1
            if (name := message.headers.get("Nats-Msg-Id")) not in found.ids:
                found.ids += (name,)

    def read_to_the_end(self):
        """What the leader has, once more from the beginning: what is double there has come twice. The broker has lost
        what another copy alone has, since somebody acknowledged it to the relay."""
        leader, *others = self.client.copies_of_target()
        self.client.read_copy(leader, self.add_last)
        for other in others:
            self.client.read_copy(other, self.note_lost)

    def note_lost(self, message, _):
        found = self.message(message.payload.decode(errors="replace"))
        if found and not found.arrived:
            found.lost = True

    def note_what_the_broker_has_lost(self):
        """Of what it has acknowledged. What is below a stream's beginning has been read by all replicas. By a client of
        its own, since another thread calls it."""
        client = Client(self.client.nats.urls)
        for shard in range(SHARDS):
            acked = [message for p in self.producers for message in p.messages[shard::SHARDS]
                     if message.acked and not message.arrived]
            keys, first = client.keys_of(shard)
            for message in acked:
                if message.position >= first and ("put", message.name) not in keys:
                    message.lost = True
                if message.cancel_acked and message.cancel_position >= first and \
                        ("cancel", message.name) not in keys:
                    message.cancel_lost = True
        client.nats.close()
