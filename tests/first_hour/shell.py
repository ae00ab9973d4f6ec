"""A shell as the reader of a page has it: a home of its own, the built programs in the PATH, and what runs in the background."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from pages import ROOT

WAIT_S = 90


class Shell:
    """One user."""

    def __init__(self, folder, programs):
        self.home = folder / "home"
        self.work = folder / "work"
        self.bin = folder / "bin"
        for path in (self.home, self.work, self.bin):
            path.mkdir(parents=True)
        for name in ("loopwarden", "loopwarden-hook"):
            (self.bin / name).symlink_to(programs / name)
        # Nobody's service manager: a test leaves nothing behind.
        (self.bin / "systemctl").write_text("#!/bin/sh\nexit 1\n")
        (self.bin / "systemctl").chmod(0o755)
        self.environment = {"HOME": str(self.home), "PATH": "%s:%s" % (self.bin, os.environ["PATH"]), "LANG": "C.UTF-8", "no_proxy": "*"}
        self.running = []

    def type(self, command, expect=0, parts=(), more=None):
        """Types a command. Its exit code and parts of its output are as expected; returns the output."""
        done = subprocess.run(["bash", "-c", command], cwd=self.work, env={**self.environment, **(more or {})}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WAIT_S)
        shown = "$ %s\n%s(%d)" % (command, done.stdout, done.returncode)
        if done.returncode != expect:
            raise SystemExit("%s\nfirst hour: expected exit code %d" % (shown, expect))
        for part in parts:
            if part not in done.stdout:
                raise SystemExit("%s\nfirst hour: %r is not there" % (shown, part))
        return done.stdout

    def start(self, command, ready):
        """Starts what goes on, and waits for a part of its output."""
        log = self.work / ("output-%d" % len(self.running))
        with open(log, "w") as out:
            process = subprocess.Popen(["bash", "-c", "exec " + command], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        self.running.append(process)
        self.until("%r of `%s`" % (ready, command), lambda: ready in log.read_text(), process, log)
        return process, log

    @staticmethod
    def until(what, is_so, process, log):
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("first hour: no %s:\n%s" % (what, log.read_text()[-3000:]))
            time.sleep(0.05)

    @staticmethod
    def stop(process, by=signal.SIGTERM):
        """Ends it, and what it has started."""
        if process.poll() is None:
            os.killpg(process.pid, by)
            process.wait(WAIT_S)

    def close(self):
        for process in self.running:
            self.stop(process, signal.SIGKILL)

    def left(self):
        """Files in the home, but for the folder with the state and the cache."""
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*") if path.is_file()
                      and not path.is_relative_to(self.home / ".local/state") and not path.is_relative_to(self.home / ".cache"))


def answers():
    """Whether somebody listens where the pages have their broker."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", 9092)) == 0


def kafka(folder):
    """A broker on localhost:9092 from the jars that tests/kafka/broker/fetch.sh brings; or why there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jars = sorted(cache.glob("loopwarden/kafka-*/lib"))
    if not jars or not shutil.which("java"):
        return None, "there is no Java, or no jars of Kafka"
    folder.mkdir()
    lines = ["process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@127.0.0.1:9093",
             "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093", "advertised.listeners=PLAINTEXT://127.0.0.1:9092",
             "controller.listener.names=CONTROLLER", "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
             "log.dirs=%s" % (folder / "data"), "log.index.size.max.bytes=1048576", "auto.create.topics.enable=false",
             "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=4", "transaction.state.log.replication.factor=1",
             "transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=4", "group.initial.rebalance.delay.ms=0",
             "group.min.session.timeout.ms=1000"]
    (folder / "server.properties").write_text("\n".join(lines) + "\n")
    # The shell of the other tests: the broker ends with its standard input.
    environment = {**os.environ, "LIB": str(jars[-1]), "DIR": str(folder), "CLUSTER": "MkU3OEVBNTcwNTJENDM2Qg", "LOCK": "",
                   "OPTIONS": "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
    broker = subprocess.Popen(["sh", str(ROOT / "tests/kafka/broker/run.sh")], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if broker.stdout.read(7) != b"started":
        raise SystemExit("first hour: the storage of a broker cannot be formatted: %s" % (folder / "format.log").read_text())
    Shell.until("broker", answers, broker, folder / "broker.log")
    return broker, str(jars[-1])
