# SPDX-License-Identifier: LGPL-2.1-or-later
"""Machines: a network namespace for each, on a bridge. They can be cut off, and clocks be stepped.

The whole is in namespaces of its own, which perf/relay.sh has entered, so that nothing of it is left.
"""

import os
import struct
import subprocess

PREFIX = "10.77.0."


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


class Net:
    """Addresses by name; the client's is that of the bridge."""

    def __init__(self, names):
        self.addresses = {name: f"{PREFIX}{i + 1}" for i, name in enumerate(names)}
        run("mount", "-t", "tmpfs", "tmpfs", "/run")  # ours alone; `ip netns` keeps its names there
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "address", "add", f"{PREFIX}254/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")
        for name, address in self.addresses.items():
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"to-{name}", "master", "bridge", "up")
            for command in (["link", "set", "lo", "up"], ["link", "set", "eth0", "up"],
                            ["address", "add", f"{address}/24", "dev", "eth0"]):
                run("ip", "-n", name, *command)

    def inside(self, name):
        """What to write before a command."""
        return ["nsenter", f"--net=/run/netns/{name}"]

    def cut(self, name, ways, others):
        """Drops what comes `in` from others, or goes `out` to them."""
        them = "{ " + ", ".join(self.addresses.get(other, PREFIX + "254") for other in others) + " }"
        table = ["table inet cut {"]
        for way, field in (("in", "saddr"), ("out", "daddr")):
            if way in ways:
                table.append(f"chain {way} {{ type filter hook {way}put priority 0; ip {field} {them} drop; }}")
        run(*self.inside(name), "nft", "-f", "-", text="\n".join(table + ["}"]) + "\n")

    def mend(self, name):
        run(*self.inside(name), "nft", "delete", "table", "inet", "cut")


class Clock:
    """Of a program that has clock.c preloaded."""

    def __init__(self, path):
        self.path = path
        self.step(0)

    def environment(self, library):
        return {"LD_PRELOAD": library, "RELAY_CLOCK": self.path}

    def step(self, seconds):
        flags = os.O_WRONLY | os.O_CREAT
        file = os.open(self.path, flags, 0o644)
        os.pwrite(file, struct.pack("=q", int(seconds * 1e9)), 0)
        os.close(file)


class Disk:
    """A file system in memory, which can be filled."""

    SIZE = "512m"

    def __init__(self, path):
        self.path = path
        os.makedirs(path)
        run("mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "tmpfs", path)

    def fill(self):
        with open(os.path.join(self.path, "filler"), "wb", buffering=0) as file:
            block = bytes(1 << 20)
            while block:
                try:
                    file.write(block)
                except OSError:
                    block = block[:len(block) // 2]

    def empty(self):
        os.unlink(os.path.join(self.path, "filler"))
