#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Three brokers of Apache Kafka on loopback, which can be killed and stopped.

    kafka_brokers.py FOLDER

prints where they listen, as HOST:PORT,HOST:PORT,HOST:PORT, and ends them when its standard input ends. What they
keep and log is in FOLDER, which is made anew. Maven brings the brokers into build/kafka/lib, once. The exit status is
77, with a reason, where there is no Java 17, no Maven, or nothing that Maven could get them from.
"""

import os
import re
import shutil
import subprocess
import sys
import time

import confluent_kafka
from confluent_kafka.admin import AdminClient

from cluster import Child, free_ports

HERE = os.path.dirname(os.path.abspath(__file__))
LIB = os.path.join(HERE, "../../build/kafka/lib")
COUNT = 3
PATIENCE = 120  # seconds within which brokers have started
CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
broker.session.timeout.ms=6000
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=8388608
{more}
"""
LOG = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{{1}} %m%n
"""


class Skipped(RuntimeError):
    """They cannot be had here."""


def java_version():
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def get_library():
    """The folder of the brokers' programs."""
    if java_version() < 17:
        raise Skipped("there is no Java 17 (Debian: openjdk-17-jre-headless)")
    lib = os.path.abspath(LIB)
    if os.path.isdir(lib):
        return lib
    if not shutil.which("mvn"):
        raise Skipped("there is no Maven, which brings the brokers (Debian: maven)")
    shutil.rmtree(lib + ".new", ignore_errors=True)
    done = subprocess.run(["mvn", "-q", "-B", "-f", os.path.join(HERE, "kafka_brokers.xml"),
                           "dependency:copy-dependencies", f"-DoutputDirectory={lib}.new"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"Maven does not get the brokers: {(done.stdout.strip() or 'it says nothing').splitlines()[0]}")
    os.rename(lib + ".new", lib)
    return lib


class Servers:
    """The brokers, as children. `more` are lines of their properties."""

    def __init__(self, folder, more=""):
        self.folder, self.lib = os.path.abspath(folder), get_library()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.write("log.properties", LOG)
        ports, control = free_ports(COUNT), free_ports(COUNT)
        self.urls = [f"127.0.0.1:{port}" for port in ports]
        self.config = {"bootstrap.servers": ",".join(self.urls), "log_level": 2}
        self.voters = ",".join(f"{i + 1}@127.0.0.1:{port}" for i, port in enumerate(control))
        self.children = [self.make(i + 1, ports[i], control[i], more) for i in range(COUNT)]

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def java(self, *words):
        return ["java", "-Xms64m", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{self.lib}/*",
                f"-Dlog4j2.configurationFile={self.folder}/log.properties", *words]

    def run(self, *words):
        """A command of Kafka's: its class, and words. Its output."""
        done = subprocess.run(self.java(*words), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{words[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def make(self, node, port, control, more):
        path = self.write(f"{node}.properties", PROPERTIES.format(
            node=node, port=port, control=control, voters=self.voters, folder=f"{self.folder}/{node}", more=more))
        self.run("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", path)
        return Child(str(node), self.java("kafka.Kafka", path), os.path.join(self.folder, f"{node}.log"))

    def start(self):
        for child in self.children:
            child.start()
        self.wait_until_whole()
        # The first producer with transactions waits until their coordinators have made their topic.
        producer = confluent_kafka.Producer({**self.config, "transactional.id": "first"})
        producer.init_transactions(PATIENCE)

    def metadata(self):
        """None: no broker answers."""
        client = AdminClient(self.config)
        try:
            return client.list_topics(timeout=5)
        except confluent_kafka.KafkaException:
            return None

    def is_whole(self):
        found = self.metadata()
        return found is not None and len(found.brokers) == COUNT and all(
            p.leader > 0 and len(p.isrs) == len(p.replicas)
            for topic in found.topics.values() for p in topic.partitions.values())

    def wait_until_whole(self, patience=PATIENCE):
        """All brokers are there, and each copy is in sync."""
        until = time.monotonic() + patience
        while not self.is_whole():
            if time.monotonic() > until:
                raise RuntimeError(f"the brokers do not become whole; the logs are in {self.folder}")
            time.sleep(0.3)

    def leader(self, topic, partition=0):
        """The child that leads a partition; None: nobody does, or it is not known."""
        found = self.metadata()
        places = found.topics[topic].partitions if found and topic in found.topics else {}
        node = places[partition].leader if partition in places else -1
        return self.children[node - 1] if node > 0 else None

    def end(self):
        for child in self.children:
            child.end()


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        servers = Servers(sys.argv[1])
    except Skipped as reason:
        print(f"skipped: {reason}", file=sys.stderr)
        sys.exit(77)
    try:
        servers.start()
        print(",".join(servers.urls), flush=True)
        sys.stdin.read()
    finally:
        servers.end()


if __name__ == "__main__":
    main()
