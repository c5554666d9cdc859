# SPDX-License-Identifier: LGPL-2.1-or-later
"""Servers and replicas are killed, stopped, cut off and starved while messages are on their way."""

import os
import shutil
import signal
import subprocess
import threading
import time

from cluster import RELAYS, SERVERS, SHARDS
from load import SETTLED, SPARE

DOWN = 3  # seconds; longer than a lease
GONE = {"subjects": ["nobody.publishes.this"]}  # of the target's stream
CLIENT = "the clients"
# Seconds by which a clock is stepped: within clock_bound, beyond it, and beyond what a store takes for a leap.
STEPS = (-0.5, 0.5, -20, 20, 7200)
BOUND = 1  # clock_bound: so much too early may be what an owner with a wrong clock sends


class Fault:
    def __init__(self, kind, victim):
        self.at, self.kind, self.victim = time.time(), kind, victim
        self.until = None  # when the cluster was whole again
        self.allows_early = False


class Faults(threading.Thread):
    """Makes `count` faults, spread over the middle of the run; one has ended before the next one begins."""

    def __init__(self, cluster, client, random, seconds, count, on_servers_whole):
        super().__init__(name="faults")
        self.cluster, self.client, self.random = cluster, client, random
        self.on_servers_whole = on_servers_whole
        self.kinds = [self.kill_relay, self.stop_relay, self.drain_relay, self.kill_all_relays]
        if cluster.servers:
            self.kinds += [self.kill_server, self.stop_server]
        if hasattr(client, "change_target"):  # those of NATS
            self.kinds += [self.kill_all_servers, self.refuse, self.fill_target, self.slow_target]
        if cluster.net:
            self.kinds += [self.cut_relay, self.cut_relay_one_way, self.cut_server,
                           self.cut_server_one_way, self.cut_servers_apart, self.step_clock,
                           self.fill_disk]
        self.plan = []
        for i in range(count):
            if i % len(self.kinds) == 0:
                random.shuffle(self.kinds)
            self.plan.append((seconds * (i + 0.5) / count, self.kinds[i % len(self.kinds)]))
        self.done, self.failed = [], None

    def run(self):
        try:
            begin = time.monotonic()
            for after, make in self.plan:
                time.sleep(max(begin + after - time.monotonic(), 1))
                make()
                self.done[-1].until = time.time()
                self.look_after_relays()
        except Exception as error:  # told by the main thread
            self.failed = error

    def note(self, kind, victim):
        self.done.append(Fault(kind, victim))
        print(f"{time.strftime('%H:%M:%S')} fault {len(self.done)}: {kind}, {victim}", flush=True)

    # ---- Who it is: in two of three cases the one that has most to do ----

    def pick_relay(self):
        owner = self.random.random() < 0.67 and self.cluster.owner(self.random.randrange(SHARDS))
        return owner or self.cluster.relays[self.random.randrange(len(RELAYS))]

    def pick_server(self):
        leader = self.client.leader() if self.random.random() < 0.67 else None
        found = [server for server in self.cluster.servers if server.name == leader]
        return found[0] if found else self.cluster.servers[self.random.randrange(len(SERVERS))]

    def wait_for_servers(self):
        """A server that does not come to have all again is started again, which is said."""
        for patience in (90, 90):
            if self.client.wait_until_current(patience):
                self.on_servers_whole()
                return
            self.note("(the servers do not agree, and are started again)", "all servers")
            for server in self.cluster.servers:
                server.end(signal.SIGTERM)
                server.start()
                time.sleep(5)
        raise RuntimeError("the servers do not come to agree")

    def look_after_relays(self):
        """One that has ended by itself is started again, as systemd would, and with the stores of another one
        if it asks for them."""
        for relay in self.cluster.relays:
            if not relay.has_ended():
                continue
            status = relay.process.returncode
            relay.end()
            with open(relay.log, encoding="utf-8", errors="replace") as log:
                wants_copy = any("copy the store of" in line for line in log.readlines()[-12:])
            self.note(f"(it has ended by itself with {status}{', and wants a copy' * wants_copy})", relay.name)
            source = self.cluster.another(relay)
            if wants_copy and source is not None:
                self.copy_stores(source, relay)
            relay.start()

    def copy_stores(self, source, to):
        for n in range(SHARDS):
            path = os.path.join(self.cluster.state(to), str(n))
            shutil.rmtree(path)
            subprocess.run([self.cluster.tool, "copy", os.path.join(self.cluster.state(source), str(n)), path],
                           check=True)

    # ---- Processes ----

    def kill_relay(self):
        victim = self.pick_relay()
        self.note("relay killed", victim.name)
        victim.end()
        time.sleep(DOWN)
        victim.start()

    def kill_all_relays(self):
        self.note("all relays killed", "all")
        for relay in self.cluster.relays:
            relay.end()
        for relay in self.cluster.relays:
            relay.start()

    def stop_relay(self):
        victim = self.pick_relay()
        self.note("relay stopped", victim.name)
        victim.send(signal.SIGSTOP)
        time.sleep(DOWN)
        victim.send(signal.SIGCONT)

    def drain_relay(self):
        victim = self.pick_relay()
        self.note("relay drained", victim.name)
        status = victim.end(signal.SIGTERM)
        if status != 0:
            raise RuntimeError(f"{victim.name} was drained, and exits with {status}")
        victim.start()

    def kill_server(self):
        victim = self.pick_server()
        self.note("server killed", victim.name)
        victim.end()
        time.sleep(DOWN)
        victim.start()
        self.wait_for_servers()

    def stop_server(self):
        victim = self.pick_server()
        self.note("server stopped", victim.name)
        victim.send(signal.SIGSTOP)
        time.sleep(DOWN)
        victim.send(signal.SIGCONT)
        self.wait_for_servers()

    def kill_all_servers(self):
        self.note("all servers killed", "all")
        for server in self.cluster.servers:
            server.send(signal.SIGKILL)
        for server in self.cluster.servers:
            server.end()
            server.start()
        self.wait_for_servers()

    # ---- The target ----

    def refuse(self):
        """Nobody has the target's subject."""
        self.note("target gone", "its stream")
        self.client.change_target(GONE)
        time.sleep(DOWN)
        self.client.change_target({})

    def fillers(self):
        """How many the target needs for the faults that are planned."""
        return SPARE * sum(make == self.fill_target for _, make in self.plan)

    def fill_target(self):
        """Each copy of its stream refuses by the limit and the number of messages that it has itself. So the limit
        changes only while nobody has the subject and nothing more arrives, and is below that number: then the oldest
        go, which are fillers, and all copies are full, also if they had not the same number."""
        self.note("target full", "its stream")
        self.client.change_target(GONE)
        limit = {"max_msgs": self.client.count_settled() - SPARE}
        for change in ({**GONE, **limit}, limit, {**GONE, **limit}, GONE, {}):
            self.client.change_target(change)
            time.sleep(DOWN if change is limit else SETTLED)

    def slow_target(self):
        """Its stream's leader runs for a fifth of the time."""
        leader = self.client.leader("TARGET")
        victim = next((s for s in self.cluster.servers if s.name == leader), self.cluster.servers[0])
        self.note("target slow", victim.name)
        for _ in range(8):
            victim.send(signal.SIGSTOP)
            time.sleep(0.4)
            victim.send(signal.SIGCONT)
            time.sleep(0.1)
        self.wait_for_servers()

    # ---- Machines ----

    def cut(self, kind, name, ways, others):
        self.note(kind, name)
        self.cluster.net.cut(name, ways, [other for other in others if other != name])
        time.sleep(DOWN + self.random.random() * DOWN)
        self.cluster.net.mend(name)
        self.wait_for_servers()

    def cut_relay(self):
        self.cut("relay cut off", self.pick_relay().name, ("in", "out"), SERVERS)

    def cut_relay_one_way(self):
        way = self.random.choice(("in", "out"))
        kind = {"in": "relay hears nothing", "out": "relay is not heard"}[way]
        self.cut(kind, self.pick_relay().name, (way,), SERVERS)

    def cut_server(self):
        self.cut("server cut off", self.pick_server().name, ("in", "out"), SERVERS + RELAYS + [CLIENT])

    def cut_server_one_way(self):
        way = self.random.choice(("in", "out"))
        kind = {"in": "server hears nothing", "out": "server is not heard"}[way]
        self.cut(kind, self.pick_server().name, (way,), SERVERS + RELAYS + [CLIENT])

    def cut_servers_apart(self):
        """The clients and relays still reach the one that is alone."""
        self.cut("server cut off from servers", self.pick_server().name, ("in", "out"), SERVERS)

    def step_clock(self):
        victim, step = self.pick_relay(), self.random.choice(STEPS)
        clock = self.cluster.clocks[int(victim.name[1])]
        self.note(f"clock stepped by {step} s", victim.name)
        self.done[-1].allows_early = abs(step) <= BOUND
        clock.step(step)
        time.sleep(2 * DOWN)
        clock.step(0)
        time.sleep(DOWN)

    def fill_disk(self):
        victim = self.pick_relay()
        disk = self.cluster.disks[int(victim.name[1])]
        self.note("disk full", victim.name)
        disk.fill()
        time.sleep(2 * DOWN)
        disk.empty()
