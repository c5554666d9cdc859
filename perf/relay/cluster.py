# SPDX-License-Identifier: LGPL-2.1-or-later
"""Three NATS servers and three replicas of hwt-relay, which can be killed: on loopback, or each on a machine of
its own (net.py)."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time

import net

NODES = 3
ENDS = 60  # seconds in which a program ends; a drain takes a lease
SPACE = "load"
SHARDS = 2
SERVERS = [f"n{i}" for i in range(NODES)]
RELAYS = [f"r{i}" for i in range(NODES)]


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Child:
    """A program that can be started again. Its output goes to a log."""

    def __init__(self, name, command, log, environment=None):
        self.name, self.command, self.log = name, command, log
        self.environment = {**os.environ, **(environment or {})}
        self.process = None

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=self.environment)

    def send(self, number):
        self.process.send_signal(number)

    def has_ended(self):
        return self.process is not None and self.process.poll() is not None

    def end(self, number=signal.SIGKILL):
        """Sends a signal, and waits for the end: the exit status."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        try:
            status = self.process.wait(ENDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise RuntimeError(f"{self.name} has not ended {ENDS} s after signal {number}") from None
        self.process = None
        return status


class Cluster:
    """With `machines`, a library that is preloaded for clocks, there are net, clocks and disks, too. `settings` are
    more lines of a relay's configuration. With `urls` there are servers already."""

    def __init__(self, relay, out, machines=None, settings=lambda i: "", space=SPACE, urls=None):
        self.out, self.relay, self.settings, self.space = out, relay, settings, space
        self.tool = os.path.join(os.path.dirname(relay), "../delay/tool/hwt-delay")
        self.net, self.clocks, self.disks = None, [None] * NODES, [None] * NODES
        if machines:
            self.net = net.Net(SERVERS + RELAYS)
            self.clocks = [net.Clock(self.path(f"clock-{i}")) for i in range(NODES)]
            self.disks = [net.Disk(self.path(f"disk-{i}")) for i in range(NODES)]
        self.urls, self.servers = urls, []
        if not urls:
            self.make_servers()
        self.relays = [self.make_relay(i, machines) for i in range(NODES)]

    def make_servers(self):
        if self.net:
            hosts = [self.net.addresses[name] for name in SERVERS]
            ports, routes = [4222] * NODES, [6222] * NODES
        else:
            hosts = ["127.0.0.1"] * NODES
            ports, routes = free_ports(NODES), free_ports(NODES)
        self.urls = [f"nats://{host}:{port}" for host, port in zip(hosts, ports)]
        cluster = ", ".join(f"nats://{host}:{port}" for host, port in zip(hosts, routes))
        self.servers = [self.make_server(i, f"{hosts[i]}:{ports[i]}", f"{hosts[i]}:{routes[i]}", cluster)
                        for i in range(NODES)]

    def make_server(self, i, listen, route, cluster):
        path = self.write(f"nats-{i}.conf", f"""\
listen: "{listen}"
server_name: n{i}
jetstream {{ store_dir: "{self.path(f'js-{i}')}" }}
cluster {{ name: c, listen: "{route}", routes: [ {cluster} ] }}
""")
        program = shutil.which(os.environ.get("NATS_SERVER") or "nats-server")
        return Child(f"n{i}", self.inside(f"n{i}") + [program, "-c", path],
                     self.path(f"nats-{i}.log"))

    def make_relay(self, i, library):
        folder = self.disks[i].path if self.disks[i] else self.out
        path = self.write(f"relay-{i}.conf", f"""\
space = {self.space}
shards = {SHARDS}
replica = r{i}
replicas = {' '.join(RELAYS)}
servers = {' '.join(self.urls)}
targets = {self.space}.>
state = {os.path.join(folder, f'state-{i}')}
{self.settings(i)}
""")
        environment = self.clocks[i].environment(library) if self.clocks[i] else None
        return Child(f"r{i}", self.inside(f"r{i}") + [self.relay, "-c", path],
                     self.path(f"relay-{i}.log"), environment)

    def state(self, relay):
        """The folder of a replica's stores."""
        i = self.relays.index(relay)
        folder = self.disks[i].path if self.disks[i] else self.out
        return os.path.join(folder, f"state-{i}")

    def another(self, than):
        """A replica that runs; None: there is none."""
        return next((relay for relay in self.relays if relay is not than and not relay.has_ended()), None)

    def inside(self, name):
        return self.net.inside(name) if self.net else []

    def path(self, name):
        return os.path.join(self.out, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def status(self):
        """The output of hwt-relay status; "" if it cannot."""
        try:
            done = subprocess.run([self.relay, "-c", self.path("relay-0.conf"), "status"],
                                  capture_output=True, text=True, check=False, timeout=ENDS)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout if done.returncode == 0 else ""

    def owner(self, shard=0):
        """The replica that owns the shard; None: nobody does."""
        found = re.search(rf"shard {shard}: owned by r(\d)", self.status())
        return self.relays[int(found[1])] if found else None

    def start(self):
        """Servers, and relays once the servers have chosen a leader."""
        for server in self.servers:
            server.start()

    def wait_for_owners(self, seconds=60):
        until = time.monotonic() + seconds
        while self.status().count("owned by") < SHARDS:
            if time.monotonic() > until:
                raise TimeoutError("no relay takes the shards; see the logs")
            time.sleep(0.5)

    def start_relays(self):
        for relay in self.relays:
            relay.start()
        self.wait_for_owners()

    def end(self):
        for child in self.relays + self.servers:
            child.end()
