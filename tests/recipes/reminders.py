#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reminders by hwt-relay, from Python, with nothing but the standard library.

    reminders.py URL SPACE order ID MS    a reminder of order ID in MS milliseconds; prints its due time
    reminders.py URL SPACE paid ID DUE    there shall be none: cancels it
    reminders.py URL SPACE remind         prints the reminders that are due, until it is killed

A put is a message with headers that is published to the space and acknowledged; see hwt-relay-protocol(5).
What is due arrives in a stream like any other. So a program needs a client of NATS and no library of
hwt. Nats below is as much of a client as that takes. Have a look at nats.io for one that does more, as TLS.

If the program dies before it was answered, it is not known whether the order is there. It may put the
same once more: with the same key and due time it replaces the first one. The reader acknowledges an order
when it has dealt with it. If it dies between the two, the order comes again.
"""

import json
import os
import socket
import sys
import time
import urllib.parse

STREAM = "REMINDERS"
TARGET = "reminders.order"


class Message:
    def __init__(self, subject, reply, status, headers, payload):
        self.subject, self.reply, self.payload = subject, reply, payload
        self.status = status  # "503": nobody answers on that subject; "": it is a message
        self.headers = headers


class Nats:
    """A connection to the first of these servers that answers, over NATS' text protocol."""

    def __init__(self, urls, patience=30):
        self.urls, self.patience = list(urls), patience
        self.socket = None
        self.connect()

    def connect(self):
        """Tries all servers until one answers. Subscriptions are gone."""
        until = time.monotonic() + self.patience
        while True:
            for url in self.urls:
                try:
                    return self.connect_to(urllib.parse.urlsplit(url))
                except OSError as error:
                    failed = error
            if time.monotonic() >= until:
                raise failed
            time.sleep(0.2)

    def connect_to(self, url):
        self.close()
        self.buffer, self.kept, self.last = b"", [], 0
        # With a user's name in it, the server can be told who may read there.
        self.inbox = ".".join(["_INBOX"] + [url.username] * bool(url.username) + [os.urandom(12).hex()])
        self.socket = socket.create_connection((url.hostname, url.port or 4222), timeout=5)
        self.read_line()  # INFO
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True,
                   "lang": "python", "version": "1", "protocol": 1}
        if url.username:
            options.update(user=urllib.parse.unquote(url.username),
                           **{"pass": urllib.parse.unquote(url.password or "")})
        self.write(f"CONNECT {json.dumps(options)}\r\nPING\r\n")
        while (line := self.read_line()) != "PONG":
            if line.startswith("-ERR"):
                raise ConnectionError(f"{url.hostname}:{url.port}: {line}")
        self.subscribe(self.inbox + ".*")

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    # ---- lines and bytes ----

    def write(self, text):
        self.socket.settimeout(5)
        self.socket.sendall(text if isinstance(text, bytes) else text.encode())

    def read(self):
        got = self.socket.recv(1 << 18)
        if not got:
            raise ConnectionError("the server has closed the connection")
        self.buffer += got

    def read_line(self):
        while (end := self.buffer.find(b"\r\n")) < 0:
            self.read()
        line, self.buffer = self.buffer[:end].decode(), self.buffer[end + 2:]
        return line

    def read_bytes(self, size):
        while len(self.buffer) < size + 2:
            self.read()
        found, self.buffer = self.buffer[:size], self.buffer[size + 2:]
        return found

    # ---- messages ----

    def subscribe(self, subject):
        self.last += 1
        self.write(f"SUB {subject} {self.last}\r\n")

    def send(self, subject, payload=b"", headers=(), reply=""):
        """Sends, and does not wait."""
        if not headers:
            self.write(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
            return
        head = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
        head = head.encode()
        size = f"HPUB {subject} {reply} {len(head)} {len(head) + len(payload)}\r\n"
        self.write(size.encode() + head + payload + b"\r\n")

    def parse(self, line):
        words = line.split()
        if words[0] == "MSG":
            return Message(words[1], words[3] if len(words) == 5 else "", "", {},
                           self.read_bytes(int(words[-1])))
        everything = self.read_bytes(int(words[-1]))
        size = int(words[-2])
        lines = everything[:size].decode().split("\r\n")
        status = lines[0][len("NATS/1.0"):].strip()
        headers = dict(one.split(":", 1) for one in lines[1:] if ":" in one)
        return Message(words[1], words[3] if len(words) == 6 else "", status,
                       {name: value.strip() for name, value in headers.items()}, everything[size:])

    def receive(self, seconds):
        """The next message of a subscription; None: none came. OSError: the connection is lost."""
        if self.kept:
            return self.kept.pop(0)
        until = time.monotonic() + seconds
        while True:
            if b"\r\n" not in self.buffer:
                self.socket.settimeout(max(until - time.monotonic(), 0.001))
                try:
                    self.read()
                except (socket.timeout, BlockingIOError):
                    return None
                continue
            self.socket.settimeout(5)
            line = self.read_line()
            if line.startswith(("MSG ", "HMSG ")):
                return self.parse(line)
            if line == "PING":
                self.write("PONG\r\n")
            elif line.startswith("-ERR"):
                raise ConnectionError(line)

    def request(self, subject, payload=b"", headers=(), seconds=5):
        """Sends, and waits for the answer; None: there is none."""
        answer = self.wait(self.send_request(subject, payload, headers), seconds, ())
        return None if answer is None or answer.status == "503" else answer

    def send_request(self, subject, payload, headers=()):
        self.last += 1
        reply = f"{self.inbox}.{self.last}"
        self.send(subject, payload, headers, reply)
        return reply

    def wait(self, reply, seconds, acks):
        """The message to `reply`, or one whose reply subject begins so; others are kept for later."""
        until, others, answer = time.monotonic() + seconds, [], None
        while answer is None and time.monotonic() < until:
            message = self.receive(until - time.monotonic())
            if message and (message.subject == reply or message.reply.startswith(acks)):
                answer = message
            elif message and not message.subject.startswith(self.inbox):
                others.append(message)
        self.kept = others + self.kept
        return answer

    # ---- JetStream ----

    def ask(self, what, request=None):
        """A call of JetStream's interface: its answer."""
        answer = self.request("$JS.API." + what, json.dumps(request).encode() if request else b"")
        if answer is None:
            raise TimeoutError(f"JetStream does not answer {what}")
        return json.loads(answer.payload)

    def next(self, stream, consumer, seconds):
        """A message of a consumer; None: none came. It has the subject that it was published to."""
        reply = self.send_request(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}",
                                  b'{"batch": 1, "expires": %d}' % int(seconds * 1e9))
        message = self.wait(reply, seconds + 1, ("$JS.ACK.",))
        return None if message is None or message.status else message

    def publish(self, subject, payload=b"", headers=()):
        """Publishes until it is acknowledged, so the headers should have a Nats-Msg-Id."""
        until = time.monotonic() + self.patience
        while time.monotonic() < until:
            try:
                answer = self.request(subject, payload, headers)
            except OSError:
                self.connect()
                continue
            if answer is not None:
                ack = json.loads(answer.payload)
                if "error" in ack:
                    raise RuntimeError(ack["error"]["description"])
                return ack["seq"]
            time.sleep(0.1)
        raise TimeoutError(f"nobody acknowledges {subject}")


# ---- The shop ----

def make_stream(nats):
    made = nats.ask(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": ["reminders.>"]})
    if "error" in made and made["error"].get("err_code") != 10058:  # it is there, with other options
        sys.exit(f"reminders.py: {made['error']['description']}")


def order(nats, space, name, ms):
    due = int(time.time() * 1000) + int(ms)
    make_stream(nats)
    nats.publish(f"hwt.{space}.0", name.encode(),
                 [("Hwt-Due", due), ("Hwt-Key", name), ("Hwt-Target", TARGET),
                  ("Nats-Msg-Id", f"order-{name}-{due}")])
    print(due, flush=True)


def paid(nats, space, name, due):
    nats.publish(f"hwt.{space}.0", b"",
                 [("Hwt-Op", "cancel"), ("Hwt-Due", due), ("Hwt-Key", name),
                  ("Nats-Msg-Id", f"paid-{name}-{due}")])


def remind(nats):
    make_stream(nats)
    nats.ask(f"CONSUMER.DURABLE.CREATE.{STREAM}.shop",
             {"stream_name": STREAM, "config": {"durable_name": "shop", "ack_policy": "explicit",
                                                "ack_wait": 5 * 10**9}})
    while True:
        try:
            message = nats.next(STREAM, "shop", 1)
        except OSError:
            nats.connect()
            continue
        if message is not None:
            print("remind", message.payload.decode(), flush=True)
            nats.send(message.reply, b"+ACK")


def main():
    words = sys.argv[1:]
    command, operands = words[2] if len(words) > 2 else "", words[3:]
    if (command, len(operands)) not in (("order", 2), ("paid", 2), ("remind", 0)):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    nats = Nats(words[0].split(","))
    if command == "order":
        order(nats, words[1], *operands)
    elif command == "paid":
        paid(nats, words[1], *operands)
    else:
        remind(nats)


if __name__ == "__main__":
    main()
