"""A real collector of OpenTelemetry between what is instrumented and loopwarden: over HTTP, and over Kafka without a key.

    collector.py COLLECTOR PYTHON     the program that collector/ is built to, and a Python with the SDK's packages

The agents of agents.py, those of agents.mjs where PACKAGES names the Node SDK's packages, and Claude Code and Codex with their own exporters,
loop and send to the collector. The loop of each must be found. What cannot be had is skipped with the reason.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import exporters  # noqa: E402
from exporters import agents  # noqa: E402
from warden import Broker, OwnLog, Process, free_port, missing, new_folder, until  # noqa: E402

HERE = Path(__file__).parent
TOPIC = "otlp_spans"
PATIENCE_S = 60


class Collector:
    """Takes OTLP over HTTP and hands it to one exporter, without waiting for a batch."""

    def __init__(self, program, folder, exporter):
        port = free_port()
        self.address = "http://127.0.0.1:%d" % port
        config = folder / "collector.yaml"
        name = exporter.split(":")[0].strip()
        pipelines = "".join("    %s: { receivers: [otlp], exporters: [%s] }\n" % (signal, name)
                            for signal in (("traces", "logs") if name == "otlp_http" else ("traces",)))
        config.write_text(
            "receivers:\n  otlp: { protocols: { http: { endpoint: 127.0.0.1:%d } } }\nexporters:\n  %s\n"
            "service:\n  telemetry: { metrics: { level: none } }\n  pipelines:\n%s" % (port, exporter, pipelines))
        self.log = folder / "collector.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([program, "--config", "file:%s" % config], stdout=log, stderr=log)

    def until_ready(self):
        until("the collector", lambda: "Everything is ready" in self.log.read_text(), self.process, self.log)
        return self.address

    def stop(self):
        """Ends when what it holds is sent."""
        self.process.terminate()
        self.process.wait(timeout=60)


class OnKafka:
    """The process of a fleet that reads what the collector writes, from a topic of four partitions whose records have no key."""

    NEEDS = ("java", "mvn")

    def __init__(self, folder):
        self.broker = Broker(folder / "broker")
        self.broker.tool("TopicCommand", "--create", "--topic", TOPIC, "--partitions", "4")
        config = folder / "loopwarden.toml"
        config.write_text('[kafka]\nbootstrap_servers = "%s"\n[[input]]\ntopic = "%s"\nform = "otlp_proto"\n' % (self.broker.bootstrap, TOPIC))
        self.run = Process("run", folder, ["run", "--config", str(config), "--data-dir", str(folder / "data"),
                                           "--set", "http.listen=ADDRESS", "--set", "mode=live"])
        self.exporter = "kafka: { brokers: [%s], traces: { topic: %s, encoding: otlp_proto } }" % (self.broker.bootstrap, TOPIC)

    def commands(self):
        return self.broker.records("agents.loop-commands.v1")

    def stop(self):
        self.run.stop()
        self.broker.stop()


class OverHttp(OwnLog):
    """A process with a log of its own."""

    def __init__(self, folder):
        super().__init__(folder)
        self.exporter = 'otlp_http: { endpoint: "http://%s" }' % self.address


def nudged(warden, sessions):
    """Waits until each session has its nudge; those that have none."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = {one["session_id"] for one in warden.commands() if one["action"] == "nudge"}
        left = [session for session in sessions if session not in found]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def of_sdk(program, agents_of_sdk, kind, folder):
    """The agents of an SDK by way of a collector: what is wrong."""
    warden = kind(folder)
    collector = Collector(program, folder, warden.exporter)
    try:
        sent = subprocess.run([*agents_of_sdk, collector.until_ready()], capture_output=True, text=True, timeout=PATIENCE_S)
        sessions = [line.split("\t")[0] for line in sent.stdout.splitlines()]
        if sent.returncode != 0 or not sessions:
            return ["%s: %s%s" % (agents_of_sdk, sent.stdout, sent.stderr)]
        collector.stop()
        return ["%s: no loop was found" % session for session in nudged(warden, sessions)]
    finally:
        collector.process.kill()
        warden.stop()


def of_agent(program, agent, programs, folder):
    """A real agent with its own exporter by way of a collector: what is wrong."""
    collectors = []

    def between(warden):
        collectors.append(Collector(program, folder, 'otlp_http: { endpoint: "http://%s" }' % warden.address))
        return collectors[0].until_ready()

    try:
        made, calls, commands = exporters.run(agent, programs, folder, between)
    finally:
        for collector in collectors:
            collector.stop()
    return list(exporters.problems(made, calls, commands))


def main(program, python):
    programs = agents.installed()
    sdks = [("Python", [python, HERE / "agents.py"])]
    if os.environ.get("PACKAGES"):
        sdks.append(("Node", ["node", HERE / "agents.mjs"]))
    rows = [("%s SDK over %s" % (name, way), lambda folder, command=command, kind=kind: of_sdk(program, command, kind, folder))
            for name, command in sdks for way, kind in (("HTTP", OverHttp), ("Kafka", OnKafka))]
    rows += [("%s over HTTP" % agent, lambda folder, agent=agent: of_agent(program, agent, programs, folder))
             for agent in ("claude-code", "codex") if programs]
    failed = 0
    for name, run in rows:
        lacks = missing(OnKafka) if "Kafka" in name else None
        if lacks:
            print("collector, %s: skipped, %s is not installed" % (name, lacks))
            continue
        folder = new_folder("collector-")
        problems = run(folder)
        print("collector, %s: %s" % (name, "FAILED" if problems else "ok"), flush=True)
        if problems:
            failed += 1
            print("\n".join("  " + problem for problem in problems) + "\n  kept in %s" % folder, flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
