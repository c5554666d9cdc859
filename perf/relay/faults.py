# SPDX-License-Identifier: LGPL-2.1-or-later
"""Servers and replicas are killed and stopped while messages are on their way."""

import signal
import threading
import time

DOWN = 3  # seconds


class Fault:
    def __init__(self, at, kind, victim):
        self.at, self.kind, self.victim = at, kind, victim


class Faults(threading.Thread):
    """Spreads `count` faults over the middle of the run; one has ended before the next one begins."""

    def __init__(self, cluster, client, random, seconds, count):
        super().__init__(name="faults")
        self.cluster, self.client, self.random = cluster, client, random
        self.kinds = [self.kill_relay, self.stop_relay, self.drain_relay, self.kill_server,
                      self.stop_server]
        self.plan = []
        for i in range(count):
            if i % len(self.kinds) == 0:
                random.shuffle(self.kinds)
            self.plan.append((seconds * (i + 0.5) / count, self.kinds[i % len(self.kinds)],
                              random.random() < 0.67, random.randrange(3)))
        self.done, self.failed = [], None

    def run(self):
        try:
            begin = time.monotonic()
            for after, kind, choose_leader, any_one in self.plan:
                time.sleep(max(begin + after - time.monotonic(), 0))
                kind(choose_leader, any_one)
        except Exception as error:  # told by the main thread
            self.failed = error

    def note(self, kind, victim):
        self.done.append(Fault(time.time(), kind, victim.name))

    def relay(self, choose_leader, any_one):
        return (choose_leader and self.cluster.owner()) or self.cluster.relays[any_one]

    def server(self, choose_leader, any_one):
        leader = self.client.leader() if choose_leader else None
        found = [server for server in self.cluster.servers if server.name == leader]
        return found[0] if found else self.cluster.servers[any_one]

    def kill_relay(self, choose_leader, any_one):
        victim = self.relay(choose_leader, any_one)
        self.note("relay killed", victim)
        victim.end()
        time.sleep(DOWN)
        victim.start()

    def stop_relay(self, choose_leader, any_one):
        victim = self.relay(choose_leader, any_one)
        self.note("relay stopped", victim)
        victim.send(signal.SIGSTOP)
        time.sleep(DOWN)
        victim.send(signal.SIGCONT)

    def drain_relay(self, choose_leader, any_one):
        victim = self.relay(choose_leader, any_one)
        self.note("relay drained", victim)
        status = victim.end(signal.SIGTERM)
        if status != 0:
            raise RuntimeError(f"{victim.name} was drained, and exits with {status}")
        victim.start()

    def kill_server(self, choose_leader, any_one):
        victim = self.server(choose_leader, any_one)
        self.note("server killed", victim)
        victim.end()
        time.sleep(DOWN)
        victim.start()
        self.client.wait_until_current()

    def stop_server(self, choose_leader, any_one):
        victim = self.server(choose_leader, any_one)
        self.note("server stopped", victim)
        victim.send(signal.SIGSTOP)
        time.sleep(DOWN)
        victim.send(signal.SIGCONT)
        self.client.wait_until_current()
