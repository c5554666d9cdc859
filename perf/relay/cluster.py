# SPDX-License-Identifier: LGPL-2.1-or-later
"""Three NATS servers and three replicas of hwt-relay on loopback, which can be killed."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time

NODES = 3
SPACE = "load"
SHARDS = 2


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Child:
    """A program that can be started again. Its output goes to a log."""

    def __init__(self, name, command, log):
        self.name, self.command, self.log = name, command, log
        self.process = None

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGKILL):
        """Sends a signal, and waits for the end: the exit status."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        status = self.process.wait()
        self.process = None
        return status


class Cluster:
    def __init__(self, relay, out):
        self.out = out
        ports, routes = free_ports(NODES), free_ports(NODES)
        self.urls = [f"nats://127.0.0.1:{port}" for port in ports]
        cluster = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
        self.servers, self.relays = [], []
        for i in range(NODES):
            path = self.write(f"nats-{i}.conf", f"""\
listen: 127.0.0.1:{ports[i]}
server_name: n{i}
jetstream {{ store_dir: "{self.path(f'js-{i}')}" }}
cluster {{ name: c, listen: 127.0.0.1:{routes[i]}, routes: [ {cluster} ] }}
""")
            self.servers.append(Child(f"n{i}", [shutil.which("nats-server"), "-c", path],
                                      self.path(f"nats-{i}.log")))
            path = self.write(f"relay-{i}.conf", f"""\
space = {SPACE}
shards = {SHARDS}
replica = r{i}
replicas = r0 r1 r2
servers = {' '.join(self.urls)}
targets = {SPACE}.target
state = {self.path(f'state-{i}')}
""")
            self.relays.append(Child(f"r{i}", [relay, "-c", path], self.path(f"relay-{i}.log")))

    def path(self, name):
        return os.path.join(self.out, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def status(self):
        """The output of hwt-relay status; "" if it cannot."""
        done = subprocess.run(self.relays[0].command + ["status"], capture_output=True, text=True,
                              check=False)
        return done.stdout if done.returncode == 0 else ""

    def owner(self):
        """The replica that owns the first shard; None: nobody does."""
        found = re.search(r"owned by r(\d)", self.status())
        return self.relays[int(found[1])] if found else None

    def start(self):
        """Servers, and relays once the servers have chosen a leader."""
        for server in self.servers:
            server.start()

    def start_relays(self):
        for relay in self.relays:
            relay.start()
        until = time.monotonic() + 60
        while self.status().count("owned by") < SHARDS:
            if time.monotonic() > until:
                raise TimeoutError("no relay takes the shards; see the logs")
            time.sleep(0.5)

    def end(self):
        for child in self.relays + self.servers:
            child.end()
