"""A guard for tests: the routes and answers of the real one, and a trivial rule.

The third equal call of an agent is nudged, later ones are refused. What is no proper question is answered with 400, so that a test
that looks at `refused` sees what an adapter got wrong.
"""

import json
import re
import socketserver
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NUDGE_AT = 3
NUDGE = "The same {} call has been made 3 times in this session."
REFUSAL = "This {} call is refused: it has been made too often."
KINDS = {"tool_call", "tool_result", "message", "session_start", "session_end"}
NAME = re.compile(r"[^\x00-\x1f\x7f]{1,256}")


class Rule:
    """Decides. Safe to use from the server's threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.events: list[dict[str, Any]] = []
        self.questions: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.denied = 0
        self.nudges = 0
        self.ids: set[tuple[str, str]] = set()
        self.counts: Counter[str] = Counter()
        self.held: dict[str, str] = {}

    def answer(self, question: Any) -> tuple[int, dict[str, Any]]:
        with self.lock:
            fault = self.fault(question)
            if fault:
                self.refused.append(fault)
                return 400, {"error": {"code": "malformed", "message": fault}}
            event = question["event"]
            self.questions.append(question)
            is_new = (event["session_id"], event["id"]) not in self.ids
            self.ids.add((event["session_id"], event["id"]))
            if is_new and question.get("record", True):
                self.events.append(event)
            return 200, self.decide(event, question["client"].get("can", ["deny"]), is_new)

    @staticmethod
    def fault(question: Any) -> str:
        """JSON pointer of what is wrong with a question."""
        if not isinstance(question, dict) or question.get("v") != 1:
            return "/v"
        event, client = question.get("event"), question.get("client", {})
        if not isinstance(event, dict):
            return "/event"
        if event.get("kind") not in KINDS:
            return "/event/kind"
        names = ["id", "session_id"] + (["tool", "call_id"] if event["kind"].startswith("tool_") else [])
        for field in names:
            if not isinstance(event.get(field), str) or not NAME.fullmatch(event[field]):
                return f"/event/{field}"
        if not isinstance(event.get("agent", {}).get("id", "main"), str):
            return "/event/agent/id"
        if event["kind"] == "tool_call" and not {"args", "args_sha256"} & event.keys():
            return "/event/args"
        if event["kind"] == "tool_result" and event.get("outcome") not in ("ok", "error"):
            return "/event/outcome"
        if not isinstance(client, dict) or not all(isinstance(can, str) for can in client.get("can", [])):
            return "/client/can"
        if not 1 <= question.get("deadline_ms", 150) <= 10_000:
            return "/deadline_ms"
        return ""

    def decide(self, event: dict[str, Any], can: list[str], is_new: bool) -> dict[str, Any]:
        agent = f"{event['session_id']} {event.get('agent', {}).get('id', 'main')}"
        answer: dict[str, Any] = {
            "v": 1, "decision": "allow", "action": "none", "recorded": is_new,
            "state": {"as_of": "2026-01-05T09:00:00Z", "lag_ms": 0, "stale": False, "source": "test"},
        }
        if event["kind"] == "tool_call" and is_new:
            call = f"{agent} {event['tool']} {json.dumps(event.get('args', event.get('args_sha256')), sort_keys=True)}"
            self.counts[call] += 1
            if self.counts[call] == NUDGE_AT:
                self.held[agent] = event["tool"]
            elif self.counts[call] > NUDGE_AT and "deny" in can:
                self.denied += 1
                text = REFUSAL.format(event["tool"])
                answer |= self.command("block", text, 3) | {"decision": "deny", "placement": "before"}
        elif event["kind"] == "tool_result" and agent in self.held and "context_after" in can:
            self.nudges += 1
            text = NUDGE.format(self.held.pop(agent))
            answer |= self.command("nudge", text, 1) | {"placement": "append_to_result"}
        return answer

    def command(self, action: str, message: str, level: int) -> dict[str, Any]:
        return {
            "action": action, "message": message, "level": level, "command_id": f"C{self.nudges}{self.denied}",
            "episode": "E1", "reason": {"code": "exact_repeat", "summary": "equal calls"}, "advice": "change_approach",
            "expires_at": "2026-01-05T09:10:00Z",
        }

    def calls(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == "tool_call"]

    def results(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == "tool_result"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece; in two, the second one would wait 40 ms for the first to be acknowledged.
    wbufsize = -1
    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.connections.append(id(self.connection))
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            status, answer = 401, {}
        elif self.path != "/v1/check":
            status, answer = 404, {}
        else:
            try:
                status, answer = self.server.rule.answer(json.loads(body))
            except ValueError:
                status, answer = 400, {}
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass

    def address_string(self) -> str:
        return "test"


class TcpServer(ThreadingHTTPServer):
    request_queue_size = 128


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    request_queue_size = 128


class FakeGuard:
    """A running guard: `with FakeGuard() as guard: guard.address`."""

    def __init__(self, socket: Path | None = None, token: str | None = None) -> None:
        self.rule = Rule()
        if socket:
            self.server: Any = UnixServer(str(socket), Handler)
            self.address = f"unix:{socket}"
        else:
            self.server = TcpServer(("127.0.0.1", 0), Handler)
            self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.server.rule, self.server.token, self.server.connections = self.rule, token, []
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> "FakeGuard":
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


if __name__ == "__main__":
    with FakeGuard() as running:
        print(running.address, flush=True)
        running.thread.join()
