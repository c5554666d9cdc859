# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ways to delay a message that relay_compare.sh compares. Each has three nodes of its own on loopback, all
that is needed to put a message with a due time, and to be told when it has come.

A rival has a key, which is the name of its folder, a name, and
    start()          until messages may be put
    put(due)         due in ns since 1970; a call of the producer's process
    serve()          what else has to be done from time to time; likewise
    come(seconds)    the due times of what has come, within so long; a call of the consumer's process
    end()
and connects in each process by itself.
"""

import os
import shutil
import subprocess
import time

import reminders
from cluster import Child, Cluster, SHARDS, SPACE, free_ports

NODES = 3


def wait_until(done, what, seconds=90):
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            raise RuntimeError(f"{what} does not begin")
        time.sleep(0.3)


class Jetstream:
    """Three servers, with a stream and a consumer that pushes to this process."""

    stream, subject, policy = "TARGET", f"{SPACE}.target", {"ack_policy": "none"}

    def __init__(self, out, relay):
        self.cluster = Cluster(relay, out)
        self.nats, self.sent = None, 0

    def start(self):
        self.cluster.start()
        nats = reminders.Nats(self.cluster.urls, patience=60)
        config = {"name": self.stream, "subjects": [self.subject], "num_replicas": NODES, "storage": "file"}
        wait_until(lambda: "error" not in self.ask(nats, f"STREAM.CREATE.{self.stream}", config), "JetStream")

    @staticmethod
    def ask(nats, what, request):
        try:
            return nats.ask(what, request)
        except OSError:
            return {"error": "no answer"}

    def client(self):
        self.nats = self.nats or reminders.Nats(self.cluster.urls)
        return self.nats

    def serve(self):
        while self.client().receive(0) is not None:
            pass  # acknowledgements

    def come(self, seconds):
        if not self.nats:
            nats = self.client()
            inbox = nats.inbox + "-pushed"
            nats.subscribe(inbox)  # the server looks for that subject, not for a pattern
            made = nats.ask(f"CONSUMER.CREATE.{self.stream}",
                            {"stream_name": self.stream,
                             "config": {"deliver_subject": inbox, **self.policy}})
            if "error" in made:
                raise RuntimeError(made["error"]["description"])
        message = self.nats.receive(seconds)
        if message is None or not message.reply.startswith("$JS.ACK."):
            return []
        return self.judge(message)

    def judge(self, message):
        return [int(message.payload)]

    def end(self):
        self.cluster.end()


class Relay(Jetstream):
    key, name = "relay", "hwt-relay"

    def start(self):
        super().start()
        self.cluster.start_relays()

    def put(self, due):
        self.sent += 1
        nats = self.client()
        nats.send(f"hwt.{SPACE}.{self.sent % SHARDS}", b"%d" % due,
                  [("Hwt-Due", -(-due // 1000000)), ("Hwt-Target", self.subject)], nats.inbox + ".ack")


class Nak(Jetstream):
    """A worker gives a message that is not due back with a delay, and acknowledges one that is."""

    key, name = "nak", "NakWithDelay"
    stream, subject, policy = "WORK", "work", {"ack_policy": "explicit", "ack_wait": 60 * 10**9}

    def put(self, due):
        nats = self.client()
        nats.send(self.subject, b"%d" % due, (), nats.inbox + ".ack")

    def judge(self, message):
        due = int(message.payload)
        left = due - time.time_ns()
        if left > 0:
            self.nats.send(message.reply, b'-NAK {"delay": %d}' % left)
            return []
        self.nats.send(message.reply, b"+ACK")
        return [due]


class NakWide(Nak):
    key, name = "nak-wide", "NakWithDelay, max_ack_pending 100000"
    policy = {**Nak.policy, "max_ack_pending": 100000}


class Rabbit:
    """A quorum queue on three nodes; each message has a time to live, and a dead letter goes to the target."""

    key, name = "rabbitmq", "RabbitMQ, TTL + DLX in a quorum queue"
    HOME = "/usr/lib/rabbitmq/bin"

    def __init__(self, out, _):
        self.out, self.connection, self.channel, self.nodes = out, None, None, []
        self.ports, self.dist = free_ports(NODES), free_ports(NODES)
        self.names = free_ports(1)[0]  # of a daemon of our own that knows the nodes

    def environment(self, i):
        folder = os.path.join(self.out, f"rabbit-{i}")
        os.makedirs(folder, exist_ok=True)
        plugins = os.path.join(folder, "plugins")
        with open(plugins, "w", encoding="utf-8") as file:
            file.write("[].")
        return {"HOME": self.out, "ERL_EPMD_PORT": str(self.names), "RABBITMQ_NODENAME": f"hwt{i}@localhost", "RABBITMQ_NODE_PORT": str(self.ports[i]),
                "RABBITMQ_DIST_PORT": str(self.dist[i]), "RABBITMQ_MNESIA_BASE": folder,
                "RABBITMQ_LOG_BASE": folder, "RABBITMQ_ENABLED_PLUGINS_FILE": plugins,
                "RABBITMQ_CONF_ENV_FILE": "/dev/null", "RABBITMQ_CONFIG_FILE": os.path.join(folder, "none")}

    def control(self, i, *command):
        done = subprocess.run([f"{self.HOME}/rabbitmqctl", "-n", f"hwt{i}@localhost", *command],
                              env={**os.environ, **self.environment(i)}, capture_output=True, text=True, check=False)
        return done.returncode == 0

    def start(self):
        self.nodes = [Child(f"rabbit {i}", [f"{self.HOME}/rabbitmq-server"], os.path.join(self.out, f"rabbit-{i}.log"),
                            self.environment(i)) for i in range(NODES)]
        for i, node in enumerate(self.nodes):
            node.start()
            wait_until(lambda i=i: self.control(i, "await_startup"), "RabbitMQ", 120)
            for command in [["stop_app"], ["join_cluster", "hwt0@localhost"], ["start_app"]] if i > 0 else []:
                if not self.control(i, *command):
                    raise RuntimeError(f"rabbitmqctl {' '.join(command)} has failed")
        self.open()
        quorum = {"x-queue-type": "quorum", "x-quorum-initial-group-size": NODES}
        self.channel.queue_declare("target", durable=True, arguments=quorum)
        self.channel.queue_declare("delay", durable=True,
                                   arguments={**quorum, "x-dead-letter-exchange": "",
                                              "x-dead-letter-routing-key": "target",
                                              "x-dead-letter-strategy": "at-least-once",
                                              "x-overflow": "reject-publish"})
        self.connection.close()
        self.connection = None

    def open(self):
        import pika  # only here, as it may not be there
        if not self.connection:
            self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.ports[0]))
            self.channel = self.connection.channel()
            self.properties = pika.BasicProperties

    def put(self, due):
        self.open()
        left = max(-(-(due - time.time_ns()) // 1000000), 0)
        self.channel.basic_publish("", "delay", b"%d" % due,
                                   self.properties(delivery_mode=2, expiration=str(left)))

    def serve(self):
        self.open()
        self.connection.process_data_events(0)

    def come(self, seconds):
        if not self.connection:
            self.open()
            self.came = []
            self.channel.basic_qos(prefetch_count=2000)
            self.channel.basic_consume("target", self.take)
        self.connection.process_data_events(seconds)
        came, self.came = self.came, []
        return came

    def take(self, channel, method, _, body):
        self.came.append(int(body))
        channel.basic_ack(method.delivery_tag)

    def end(self):
        for i, node in enumerate(self.nodes):
            if node.process:
                self.control(i, "stop")
            node.end()
        subprocess.run(["epmd", "-port", str(self.names), "-kill"], capture_output=True, check=False)


class Redis:
    """A sorted set by due time, a Lua script that moves what is due to a list, and WAIT for one of two replicas;
    each node flushes before it answers."""

    key, name = "redis", "Redis, ZSET + Lua + WAIT 1"
    MOVE = """\
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 500)
if #due > 0 then
  redis.call('ZREM', KEYS[1], unpack(due))
  redis.call('RPUSH', KEYS[2], unpack(due))
end
return #due"""

    def __init__(self, out, _):
        self.ports, self.client, self.count, self.unsent = free_ports(NODES), None, 0, {}
        self.nodes = []
        for i, port in enumerate(self.ports):
            folder = os.path.join(out, f"redis-{i}")
            os.makedirs(folder)
            command = [shutil.which("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", folder,
                       "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
            if i > 0:
                command += ["--replicaof", "127.0.0.1", str(self.ports[0])]
            self.nodes.append(Child(f"redis {i}", command, os.path.join(out, f"redis-{i}.log")))

    def open(self):
        import redis  # only here, as it may not be there
        if not self.client:
            self.client = redis.Redis(port=self.ports[0], socket_timeout=10)
            self.move = self.client.register_script(self.MOVE)
        return self.client

    def has_replicas(self):
        try:
            return self.open().info("replication")["connected_slaves"] == NODES - 1
        except OSError:
            return False
        except Exception as error:  # redis' own are not OSErrors
            return "onnect" not in str(error) and "oading" not in str(error)

    def start(self):
        for node in self.nodes:
            node.start()
        time.sleep(1)
        wait_until(self.has_replicas, "Redis")
        self.client.close()
        self.client = None

    def put(self, due):
        self.count += 1
        self.unsent[f"{due}:{self.count}"] = due

    def serve(self):
        if self.unsent:
            self.open().zadd("delayed", self.unsent)
            self.client.wait(1, 1000)
            self.unsent = {}

    def come(self, seconds):
        client = self.open()
        until = time.monotonic() + seconds
        while not self.move(["delayed", "due"], [time.time_ns()]):
            if time.monotonic() > until:
                return []
            time.sleep(0.001)
        client.wait(1, 1000)
        return [int(one.split(b":")[0]) for one in client.lpop("due", 500) or []]

    def end(self):
        for node in self.nodes:
            node.end()


ALL = [Relay, Nak, NakWide, Rabbit, Redis]


