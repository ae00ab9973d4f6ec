"""The part of the Messages API that Claude Code needs, answered by a function of the conversation."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# From the request to blocks: {"type": "tool_use", "name": …, "input": …}, or none at all for an answer in words.
Respond = Callable[[dict[str, Any]], list[dict[str, Any]]]


def results(request: dict[str, Any]) -> list[str]:
    """What the model has read of tools, with what stands beside it."""
    texts: list[str] = []
    for message in request["messages"]:
        content = message["content"] if isinstance(message["content"], list) else [{"type": "text", "text": message["content"]}]
        for block in content:
            if block["type"] == "tool_result":
                inner = block.get("content") or ""
                parts = [inner] if isinstance(inner, str) else [part.get("text", "") for part in inner]
                texts.append("".join(parts))
            elif block["type"] == "text" and texts:
                texts[-1] += "\n" + block["text"]
    return texts


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: Any

    def do_HEAD(self) -> None:
        self.reply("text/plain", b"")

    def do_GET(self) -> None:
        self.reply("application/json", b"{}")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if not self.path.split("?")[0].endswith("/v1/messages"):
            return self.reply("application/json", b'{"input_tokens":10}')
        with self.server.lock:
            calls = self.server.respond(request) if request.get("tools") else []
            self.server.number += 1
            number = self.server.number
        blocks = [{**call, "id": f"toolu_{number}_{at}"} for at, call in enumerate(calls)] or [{"type": "text", "text": "done"}]
        message = {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": request.get("model"), "content": blocks,
            "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 5},
        }
        if not request.get("stream"):
            return self.reply("application/json", json.dumps(message).encode())
        events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        for index, block in enumerate(blocks):
            is_text = block["type"] == "text"
            empty = {**block, "text": ""} if is_text else {**block, "input": {}}
            delta = (
                {"type": "text_delta", "text": block["text"]} if is_text
                else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            )
            events += [
                {"type": "content_block_start", "index": index, "content_block": empty},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        events += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return self.reply("text/event-stream", text.encode())

    def reply(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class FakeClaude:
    """`with FakeClaude(respond) as address`."""

    def __init__(self, respond: Respond) -> None:
        self.server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads, self.server.block_on_close = True, False
        self.server.respond, self.server.number, self.server.lock = respond, 0, threading.Lock()

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *_: Any) -> None:
        self.server.shutdown()
        self.server.server_close()
