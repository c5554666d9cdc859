#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A service manager for one relay: service.py RELAY SERVER FOLDER.

It hears that the relay is up, how it is, that it reloads and stops, and its watchdog: only while the thread of the shard goes
on, which is stopped by ptrace(2) meanwhile. Exit status 77: this is not permitted here.
"""

import ctypes
import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000
relay, server, folder = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)


class Manager:
    """Listens at a path, or at an abstract name if that begins with @."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + path[1:] if path[0] == "@" else path)
        self.path = path
        self.heard = []

    def hear(self, seconds):
        self.socket.settimeout(seconds)
        try:
            self.heard.append(self.socket.recv(4096).decode())
        except (TimeoutError, BlockingIOError, socket.timeout):
            return None
        return self.heard[-1]

    def expect(self, begin):
        """The next one that begins so, within two minutes."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            text = self.hear(1)
            if text is not None and text.startswith(begin):
                return text
        sys.exit(f"no {begin}: {self.heard}")

    def expect_silence(self):
        """For five times as long as between two words of the watchdog, within a minute."""
        until = time.monotonic() + 60
        while self.hear(5) is not None:
            if time.monotonic() > until:
                sys.exit(f"no silence: {self.heard}")


def free_port():
    """One that nobody has now, below those that the system gives to whoever does not ask for one."""
    while True:
        port = random.randrange(10000, 30000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            pass


def start(manager, port, more):
    with open("relay.conf", "w", encoding="utf-8") as file:
        file.write(f"space = shop\ncopies = 1\nlease = 500ms\nreplica = a\nreplicas = a\nservers = {server}\n"
                   f"targets = orders.>\nstate = {folder}/state\nmetrics = 127.0.0.1:{port}\n")
    environment = {**os.environ, "NOTIFY_SOCKET": manager.path, **more}
    with open("relay.log", "a", encoding="utf-8") as log:
        return subprocess.Popen([relay, "-c", "relay.conf"], stderr=log, env=environment)


def find_thread(process, name):
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        with open(f"/proc/{process.pid}/task/{thread}/comm", encoding="utf-8") as comm:
            if comm.read().strip() == name:
                return int(thread)
    sys.exit(f"there is no thread {name}")


def trace(request, thread):
    if libc.ptrace(ctypes.c_long(request), ctypes.c_long(thread), None, None) != 0:
        print("skipped: ptrace is not permitted")
        sys.exit(77)


def health(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/healthz")
    return connection.getresponse().status


def until_health(port, status):
    for _ in range(1200):
        if health(port) == status:
            return
        time.sleep(0.1)
    sys.exit(f"/healthz does not come to be {status}")


def watched():
    manager, port = Manager(f"{folder}/notify"), free_port()
    process = start(manager, port, {"WATCHDOG_USEC": "8000000"})
    try:
        manager.expect("READY=1")
        manager.expect("STATUS=owns 1 of 1 shards; ready")
        manager.expect("WATCHDOG=1")
        manager.expect("WATCHDOG=1")
        until_health(port, 200)

        thread = find_thread(process, "shard 0")
        trace(PTRACE_SEIZE, thread)
        trace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WALL)
        until_health(port, 503)
        manager.expect_silence() # behind what was on its way
        trace(PTRACE_DETACH, thread)
        manager.expect("WATCHDOG=1")
        until_health(port, 200)

        process.send_signal(signal.SIGHUP)
        assert "\nMONOTONIC_USEC=" in manager.expect("RELOADING=1")
        manager.expect("READY=1")
        process.send_signal(signal.SIGTERM)
        manager.expect("STOPPING=1")
        assert process.wait(120) == 0
    finally:
        process.kill()


def not_watched():
    """By an abstract name, and with the watchdog of another process."""
    manager, port = Manager(f"@{folder}/notify"), free_port()
    process = start(manager, port, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
    try:
        manager.expect("STATUS=owns 1 of 1 shards; ready")
        process.send_signal(signal.SIGTERM)
        manager.expect("STOPPING=1")
        assert process.wait(120) == 0
        assert "WATCHDOG=1" not in manager.heard and manager.heard.count("READY=1") == 1, manager.heard
    finally:
        process.kill()


watched()
not_watched()
