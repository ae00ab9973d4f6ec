"""A real collector of OpenTelemetry between what is instrumented and loopwarden: over HTTP, and over Kafka without a key.

    collector.py COLLECTOR PYTHON     the program that collector/ is built to, and a Python with the SDK's packages

The agents of agents.py, those of agents.mjs where PACKAGES names the Node SDK's packages, and Claude Code and Codex with their own exporters,
loop and send to the collector. The loop of each must be found. A second collector takes the commands, which must be in the traces of the
agents they are about. What cannot be had is skipped with the reason.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import exporters  # noqa: E402
from exporters import agents  # noqa: E402
from warden import Broker, OwnLog, Process, free_port, missing, new_folder, until  # noqa: E402

HERE = Path(__file__).parent
TOPIC = "otlp_spans"
PATIENCE_S = 60


class Collector:
    """Takes OTLP over HTTP and hands it to its exporters, without waiting for a batch."""

    def __init__(self, program, folder, *exporters, name="collector"):
        port = free_port()
        self.address = "http://127.0.0.1:%d" % port
        config = folder / (name + ".yaml")
        names = [exporter.split(":")[0].strip() for exporter in exporters]
        pipelines = "".join("    %s: { receivers: [otlp], exporters: [%s] }\n" % (signal, ", ".join(names))
                            for signal in (("traces", "logs") if names[0].startswith("otlp_http") else ("traces",)))
        config.write_text(
            "receivers:\n  otlp: { protocols: { http: { endpoint: 127.0.0.1:%d } } }\nexporters:\n%s"
            "service:\n  telemetry: { metrics: { level: none } }\n  pipelines:\n%s"
            % (port, "".join("  %s\n" % exporter for exporter in exporters), pipelines))
        self.log = folder / (name + ".log")
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


class Sink:
    """Keeps what a collector hands on, in JSON as the collector writes it."""

    def __init__(self):
        self.spans, self.records = [], []
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                for group in body.get("resourceSpans", []):
                    sink.spans += [span for scope in group["scopeSpans"] for span in scope["spans"]]
                for group in body.get("resourceLogs", []):
                    sink.records += [record for scope in group["scopeLogs"] for record in scope["logRecords"]]
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.exporter = 'otlp_http/sink: { endpoint: "http://127.0.0.1:%d", encoding: json, compression: none }' % self.server.server_port


class SendsOn(OwnLog):
    """A process with a log of its own that sends its commands to a collector."""

    def __init__(self, folder, collector):
        config = folder / "loopwarden.toml"
        config.write_text('[[webhook]]\nname = "otel"\nformat = "otlp"\nurl = "%s/v1/logs"\n' % collector)
        super().__init__(folder, ["--config", str(config)])


def of_commands(program, agents_of_sdk, folder):
    """Commands as records in the traces of the agents they are about, as a collector has read them: what is wrong."""
    sink = Sink()
    after = Collector(program, folder, sink.exporter, name="after")
    warden = SendsOn(folder, after.until_ready())
    before = Collector(program, folder, 'otlp_http: { endpoint: "http://%s" }' % warden.address, sink.exporter, name="before")
    try:
        sent = subprocess.run([*agents_of_sdk, before.until_ready()], capture_output=True, text=True, timeout=PATIENCE_S)
        sessions = {line.split("\t")[0] for line in sent.stdout.splitlines()}
        before.stop()
        left = nudged(warden, sorted(sessions))
        if left or not sessions:
            return ["no loop was found in %s: %s" % (left, sent.stderr)]
        known = {(span["traceId"], span["spanId"]) for span in sink.spans}
        commands = warden.commands()
        deadline = time.monotonic() + PATIENCE_S
        while len(sink.records) < len(commands) and time.monotonic() < deadline:
            time.sleep(0.2)
        problems = []
        for command in commands:
            found = [record for record in sink.records if text_of(record, "loopwarden.command.id") == command["id"]]
            if len(found) != 1:
                problems.append("%d records of %s" % (len(found), command["id"]))
                continue
            record = found[0]
            if (record.get("traceId"), record.get("spanId")) not in known:
                problems.append("%s is in no trace: %s" % (command["id"], record))
            shown = (text_of(record, "session.id"), record.get("eventName"), record["body"]["stringValue"])
            if shown != (command["session_id"], "loopwarden.command." + command["action"], command["reason"]["summary"]):
                problems.append("%s is shown as %s" % (command["id"], shown))
        return problems
    finally:
        before.process.kill()
        warden.stop()
        after.stop()
        sink.server.shutdown()


def text_of(record, name):
    """An attribute of a record."""
    values = [one["value"].get("stringValue") for one in record["attributes"] if one["key"] == name]
    return values[0] if values else None


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
    rows += [("commands in the traces of the %s SDK" % name, lambda folder, command=command: of_commands(program, command, folder))
             for name, command in sdks]
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
