# SPDX-License-Identifier: LGPL-2.1-or-later
"""Producers of delayed messages, and what has arrived of them."""

import json
import random
import threading
import time

import reminders  # the recipe: a client of NATS
from cluster import SHARDS, SPACE

TARGET, STREAM = f"{SPACE}.target", "TARGET"
CANCELLED_DELAY = 30  # seconds: longer than any fail-over, so that a cancel is in time
ANSWER = 3  # seconds; then it is sent again


class Message:
    __slots__ = ("due", "cancelled", "acked", "cancel_acked", "arrived")

    def __init__(self, due, cancelled):
        self.due, self.cancelled = due, cancelled  # due: ms
        self.acked = self.cancel_acked = None  # when, in s
        self.arrived = []  # when the target's stream had it, in s


class Producer(threading.Thread):
    """Publishes at a rate, and what is not acknowledged in time once more."""

    def __init__(self, number, urls, seed, rate, seconds):
        super().__init__(name=f"producer {number}")
        self.number, self.rate, self.seconds = number, rate, seconds
        self.random = random.Random(f"{seed} {number}")
        self.urls = urls
        self.messages, self.waiting = [], {}
        self.failed = None

    def run(self):
        try:
            self.nats = reminders.Nats(self.urls)
            self.produce()
        except Exception as error:  # told by the main thread
            self.failed = error

    def produce(self):
        begin, until = time.monotonic(), time.monotonic() + self.seconds + 60
        while time.monotonic() < begin + self.seconds or (self.waiting and time.monotonic() < until):
            try:
                passed = min(time.monotonic() - begin, self.seconds)
                while len(self.messages) < passed * self.rate:
                    self.make()
                self.listen()
            except OSError:
                self.nats.connect()
                for what in list(self.waiting):
                    self.send(*what)

    def make(self):
        n = len(self.messages)
        cancelled = n % 20 == 7
        delay = CANCELLED_DELAY if cancelled else self.random.uniform(0.2, 6)
        self.messages.append(Message(int((time.time() + delay) * 1000), cancelled))
        self.send(n, "put")
        if cancelled:
            self.send(n, "cancel")

    def send(self, n, op):
        self.waiting[n, op] = time.monotonic()
        name = f"{self.number}-{n}"
        headers = [("Hwt-Op", op), ("Hwt-Due", self.messages[n].due), ("Hwt-Key", name),
                   ("Nats-Msg-Id", f"{name}-{op}")]
        if op == "put":
            headers.append(("Hwt-Target", TARGET))
        self.nats.send(f"hwt.{SPACE}.{n % SHARDS}", name.encode() if op == "put" else b"", headers,
                       f"{self.nats.inbox}.{n}-{op}")

    def listen(self):
        while (answer := self.nats.receive(0.005)) is not None:
            n, op = answer.subject.rsplit(".", 1)[1].split("-")
            if answer.status or b'"error"' in answer.payload:
                continue  # sent again in a while
            if self.waiting.pop((int(n), op), None) is not None:
                name = "acked" if op == "put" else "cancel_acked"
                setattr(self.messages[int(n)], name, time.time())
        now = time.monotonic()
        for what in [what for what, sent in self.waiting.items() if now - sent > ANSWER]:
            self.send(*what)


class Client:
    """Asks the servers, and reads what has arrived."""

    def __init__(self, urls):
        self.nats = reminders.Nats(urls, patience=60)
        self.read_up_to = 0
        self.lock = threading.Lock()

    def ask(self, what, request=None, seconds=60):
        """Until it is answered."""
        until = time.monotonic() + seconds
        with self.lock:
            while True:
                try:
                    return self.nats.ask(what, request)
                except TimeoutError:
                    pass
                except OSError:
                    self.nats.connect()
                if time.monotonic() > until:
                    raise TimeoutError(f"JetStream does not answer {what}")
                time.sleep(0.2)

    def make_target(self):
        config = {"name": STREAM, "subjects": [TARGET], "num_replicas": 3, "storage": "file",
                  "duplicate_window": 60 * 10**9}
        until = time.monotonic() + 60
        while "error" in (made := self.ask(f"STREAM.CREATE.{STREAM}", config)):
            if time.monotonic() > until:
                raise RuntimeError(made["error"]["description"])
            time.sleep(0.5)

    def leader(self):
        return self.ask(f"STREAM.INFO.HWT-{SPACE}-0").get("cluster", {}).get("leader")

    def wait_until_current(self, seconds=60):
        """Until every copy of each stream has all; then the next fault may come."""
        names = [STREAM] + [f"HWT-{SPACE}-{n}" for n in range(SHARDS)]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            infos = [self.ask(f"STREAM.INFO.{name}").get("cluster", {}) for name in names]
            if all(info.get("leader") and all(one["current"] for one in info.get("replicas", [{"current": False}]))
                   for info in infos):
                return
            time.sleep(0.5)

    def count_dead(self):
        return self.ask(f"STREAM.INFO.HWT-{SPACE}-dead").get("state", {}).get("messages", 0)

    def read(self, add):
        """Calls add(payload, seconds) for what has arrived since the last call."""
        last = self.ask(f"STREAM.INFO.{STREAM}").get("state", {}).get("last_seq", 0)
        while self.read_up_to < last:
            made = self.ask(f"CONSUMER.CREATE.{STREAM}",
                            {"stream_name": STREAM,
                             "config": {"ack_policy": "none", "mem_storage": True, "num_replicas": 1,
                                        "deliver_policy": "by_start_sequence",
                                        "opt_start_seq": self.read_up_to + 1}})
            if "error" in made:
                time.sleep(0.5)
                continue
            try:
                self.read_consumer(made["name"], last, add)
            except OSError:
                self.nats.connect()

    def read_consumer(self, name, last, add):
        """Until the end, or until one is left out or does not come: then another consumer is made."""
        while self.read_up_to < last:
            batch = min(500, last - self.read_up_to)
            reply = self.nats.send_request(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{name}",
                                           json.dumps({"batch": batch, "expires": 2 * 10**9}).encode())
            for _ in range(batch):
                message = self.nats.wait(reply, 3, ("$JS.ACK.",))
                if message is None or message.status:
                    return
                words = message.reply.split(".")
                if int(words[-4]) != self.read_up_to + 1:
                    return
                self.read_up_to += 1
                add(message.payload.decode(), int(words[-2]) / 1e9)
