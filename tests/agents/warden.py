"""Where an agent of the tests asks: the process with a log of its own, or a guard beside the agent and a fleet on Kafka behind it."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache/loopwarden/target")) / "release"
READY_WAIT_S = 60


def new_folder(prefix):
    """A folder for one run. Not in the system's temporary directory: state is refused there."""
    scratch = TARGET.parent / "tmp"
    scratch.mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=scratch))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(what, is_so, process, log):
    """Waits for something that a process will do. A process that ends, or does not, is the end of the test."""
    deadline = time.monotonic() + READY_WAIT_S
    while not is_so():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("%s is not there:\n%s" % (what, log.read_text()[-2000:]))
        time.sleep(0.05)


class Process:
    """One process of loopwarden that answers over HTTP."""

    def __init__(self, name, folder, arguments):
        self.address = "127.0.0.1:%d" % free_port()
        self.log = folder / (name + ".log")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LOOPWARDEN_")}
        arguments = [one.replace("ADDRESS", self.address) for one in arguments]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([TARGET / "loopwarden", *arguments], stdout=log, stderr=log, env=environment)
        until("loopwarden " + name, self.is_ready, self.process, self.log)

    def is_ready(self, why=""):
        """Whether it is, and says so with these words."""
        try:
            return why in urllib.request.urlopen("http://%s/readyz?verbose" % self.address, timeout=2).read().decode()
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


class OwnLog:
    """A process with a log of its own, in live mode."""

    def __init__(self, folder, more=()):
        arguments = ["run", "--data-dir", str(folder / "data"), "--set", "http.listen=ADDRESS", "--set", "mode=live", *more]
        self.process = Process("run", folder, arguments)
        self.address = self.process.address

    def commands(self):
        """What it has sent: one object a line."""
        text = urllib.request.urlopen("http://%s/v1/commands?wait=200ms" % self.address, timeout=10).read().decode()
        found = []
        for line in text.splitlines():
            value = json.loads(line) if line.strip() else {}
            found += value.get("commands", [value] if value.get("action") else [])
        return found

    def stop(self):
        self.process.stop()


class Broker:
    """One broker of Kafka in a JVM. It ends with this process."""

    def __init__(self, folder):
        jars = subprocess.run(["sh", ROOT / "tests/kafka/broker/fetch.sh"], capture_output=True, text=True, check=True)
        self.jars = jars.stdout.strip()
        port, controller = free_port(), free_port()
        self.bootstrap = "127.0.0.1:%d" % port
        folder.mkdir()
        (folder / "server.properties").write_text("\n".join([
            "process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@127.0.0.1:%d" % controller,
            "listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d" % (port, controller),
            "advertised.listeners=PLAINTEXT://127.0.0.1:%d" % port, "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT", "log.dirs=%s" % (folder / "data"),
            "log.index.size.max.bytes=1048576", "auto.create.topics.enable=false", "group.initial.rebalance.delay.ms=0",
            "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=4", "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=4", "",
        ]))
        environment = {**os.environ, "DIR": str(folder), "LIB": self.jars, "CLUSTER": "4L6g3nShT-eMCtK--X86sw", "LOCK": "",
                       "OPTIONS": "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
        self.process = subprocess.Popen(["sh", ROOT / "tests/kafka/broker/run.sh"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        env=environment)
        until("the broker", self.answers, self.process, folder / "broker.log")

    def answers(self):
        """Makes the topics, as soon as it can."""
        command = [TARGET / "loopwarden", "topics", "create", "--partitions", "4", "--set", "kafka.bootstrap_servers=" + self.bootstrap]
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0

    def tool(self, name, *arguments):
        """Runs one of Kafka's own tools; what it printed."""
        command = ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", self.jars + "/*", "org.apache.kafka.tools." + name,
                   "--bootstrap-server", self.bootstrap, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout

    def records(self, topic):
        """The committed records of a topic, each a JSON object; read until nothing comes any more."""
        arguments = ["--topic", topic, "--from-beginning", "--timeout-ms", "3000", "--isolation-level", "read_committed"]
        lines = self.tool("consumer.ConsoleConsumer", *arguments).splitlines()
        # Its log lines come the same way.
        return [json.loads(line) for line in lines if line.startswith("{")]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class OnKafka:
    """A broker, the process of a fleet, and a guard beside the agent, which asks the guard alone."""

    NEEDS = ("java", "mvn")

    def __init__(self, folder):
        self.broker = Broker(folder / "broker")
        kafka = ["--set", "kafka.bootstrap_servers=" + self.broker.bootstrap]
        # One lane for sessions and one for swarms; each that joins the group makes the others wait. All have joined before an agent starts.
        arguments = ["run", "--data-dir", str(folder / "data"), "--set", "http.listen=ADDRESS", "--set", "mode=live", "--set", "lanes=1", *kafka]
        self.run = Process("run", folder, arguments)
        until("all tasks of the fleet", lambda: self.run.is_ready("8 of 8 tasks run"), self.run.process, self.run.log)
        self.guard = Process("guard", folder, ["guard", "--state", "kafka", "--listen", "ADDRESS", "--keep", str(folder / "kept"), *kafka])
        self.address = self.guard.address

    def commands(self):
        return self.broker.records("agents.loop-commands.v1")

    def stop(self):
        for one in (self.guard, self.run, self.broker):
            one.stop()


def missing(warden):
    """A program that is missing to start one; None where nothing is."""
    return next((name for name in getattr(warden, "NEEDS", ()) if not shutil.which(name)), None)
