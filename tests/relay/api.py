# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls of a NATS server that the library does not have.

    api.py URL CALL JSON           prints the answer of JetStream's API to a call, as STREAM.INFO.NAME
    api.py URL change NAME JSON    changes settings of a stream, and leaves the others
    api.py URL fill SUBJECT N      publishes N messages that are due in an hour; each is stored when it ends
"""

import json
import socket
import sys


class Server:
    def __init__(self, url):
        host, port = url.split("//")[1].split(":")
        self.file = socket.create_connection((host, int(port)), 60).makefile("rwb")
        self.file.readline()
        self.send(b'CONNECT {"verbose":false,"headers":true}\r\nSUB _INBOX.x 1\r\n')

    def send(self, data):
        self.file.write(data)
        self.file.flush()

    def receive(self):
        while True:
            line = self.file.readline()
            if not line or line.startswith(b"-ERR"):
                sys.exit(f"the server says {line!r}")
            if line.startswith(b"PING"):
                self.send(b"PONG\r\n")
            elif line.startswith((b"MSG", b"HMSG")):
                text = self.file.read(int(line.split()[-1]))
                self.file.readline()
                return text

    def ask(self, call, text):
        self.send(b"PUB $JS.API.%s _INBOX.x %d\r\n%s\r\n" % (call.encode(), len(text), text))
        return json.loads(self.receive())

    def change(self, name, settings):
        config = self.ask(f"STREAM.INFO.{name}", b"")["config"]
        return self.ask(f"STREAM.UPDATE.{name}", json.dumps({**config, **settings}).encode())

    def fill(self, subject, count):
        header = b"NATS/1.0\r\nHwt-Delay: 3600000\r\nHwt-Target: orders.x\r\n\r\n"
        for i in range(count):
            self.send(b"HPUB %s _INBOX.x %d %d\r\n%sx\r\n" % (subject.encode(), len(header), len(header) + 1, header))
            if i % 100 == 99:
                for _ in range(100):
                    self.receive()
        for _ in range(count % 100):
            self.receive()
        return {}


def main(url, call, *more):
    server = Server(url)
    if call == "change":
        answer = server.change(more[0], json.loads(more[1]))
    elif call == "fill":
        answer = server.fill(more[0], int(more[1]))
    else:
        answer = server.ask(call, more[0].encode())
    print(json.dumps(answer))
    sys.exit("error" in answer)


main(*sys.argv[1:])
