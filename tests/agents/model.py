"""A model of nobody's, for real agents: answers the APIs of Anthropic, OpenAI and Gemini on loopback, by a script.

The script is `loop` (one failing command for ever, given up once a call was refused), `work` (another command each time, then done) or
`stop` (the same, and an operator acts in the middle).
What the agent sent as results is kept, so that a test sees what a model would have read.
"""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOOP = "cat ./no-such-fixture"
# What stands in its result, as each agent shows it: without any of it the command did not run. A busy agent may lose the output.
RAN = ("No such file or directory", "Exit Code: ", "Exit code ")
# More calls than any loop should need.
CALLS_MAX = 40
# What somebody does who gets on.
WORK = (
    "mkdir -p src",
    "printf 'fn main() {\\n    println!(\"hi\");\\n}\\n' > src/main.rs",
    "cat src/main.rs",
    "wc -l src/main.rs",
    "grep -n println src/main.rs",
    "sed -i 's/hi/hello/' src/main.rs",
    "head -n 2 src/main.rs",
    "ls -a",
)
# What an operator stops before the third: each leaves a file behind.
STEPS = tuple("touch step-%d" % number for number in range(1, 7))
STOPPED_AT = 2
SHELLS = ("Bash", "run_shell_command", "exec_command", "shell_command", "bash", "shell")


class Script:
    """What the model says next, by how many results it has read."""

    def __init__(self, kind):
        self.kind = kind
        self.lock = threading.Lock()
        self.read = []
        self.gave_up = False
        self.calls = 0
        # Called once, when the model has read as many results as `STOPPED_AT`.
        self.act = None

    def next(self, results, everything):
        """The command to run, or None when it is done. `results`: texts of the results so far; `everything`: the request."""
        with self.lock:
            self.read.append(everything)
            done = len(results)
            if self.kind == "stop":
                if self.act and done == STOPPED_AT:
                    act, self.act = self.act, None
                    act()
                command = STEPS[done] if done < len(STEPS) else None
            elif self.kind == "work":
                command = WORK[done] if done < len(WORK) else None
            else:
                # Only a result that is there can be a refusal.
                self.gave_up = self.gave_up or (done > 0 and not any(word in results[-1] for word in RAN))
                command = None if self.gave_up or done >= CALLS_MAX else LOOP
            self.calls = max(self.calls, done + (command is not None))
            return command


def text_of(value):
    """All texts in a value."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text_of(part) for part in value)
    if isinstance(value, dict):
        return "\n".join(text_of(part) for key, part in value.items() if key not in ("type", "id", "tool_use_id", "call_id"))
    return ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script = None

    def log_message(self, *_):
        pass

    def send_bytes(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_json(self, value):
        self.send_bytes("application/json", json.dumps(value).encode())

    def send_events(self, events, named=False, end=None):
        lines = []
        for event in events:
            lines += ["event: " + event["type"]] if named else []
            lines += ["data: " + json.dumps(event), ""]
        lines += ["data: " + end, ""] if end else []
        self.send_bytes("text/event-stream", ("\n".join(lines) + "\n").encode())

    def do_GET(self):
        self.send_json({"data": [], "models": []})

    do_HEAD = do_GET

    def body(self):
        if self.headers.get("transfer-encoding") == "chunked":
            raw = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            return json.loads(raw)
        except ValueError:
            return {}

    def do_POST(self):
        body, path = self.body(), self.path.split("?")[0]
        if path.endswith("/messages"):
            self.anthropic(body)
        elif path.endswith("/responses"):
            self.openai(body)
        elif path.endswith("/chat/completions"):
            self.chat(body)
        elif path.endswith("GenerateContent") or path.endswith("generateContent"):
            self.gemini(body, "stream" in path)
        else:
            self.send_json({"input_tokens": 1, "totalTokens": 1})

    def tool(self, names):
        return next((name for name in SHELLS if name in names), None)

    def why(self, results):
        """Another reason each time: two of the agents end a run at five calls that are equal in every letter."""
        return "attempt %d" % (len(results) + 1)

    def anthropic(self, body):
        messages = body.get("messages", [])
        parts = [part for message in messages if isinstance(message.get("content"), list) for part in message["content"]]
        results = [text_of(part.get("content")) for part in parts if part.get("type") == "tool_result"]
        tool = self.tool([tool.get("name") for tool in body.get("tools") or []])
        command = self.script.next(results, text_of(messages)) if tool else None
        block = {"type": "text", "text": "All is done."}
        if command:
            arguments = {"command": command, "description": self.why(results)}
            block = {"type": "tool_use", "id": "toolu_%04d" % len(results), "name": tool, "input": arguments}
        reason = "tool_use" if command else "end_turn"
        message = {"id": "msg_%04d" % len(results), "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        if not body.get("stream"):
            return self.send_json({**message, "content": [block], "stop_reason": reason})
        if command:
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        return self.send_events([
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ], named=True)

    def openai(self, body):
        items = body.get("input", [])
        results = [text_of(item.get("output")) for item in items if str(item.get("type")).endswith("call_output")]
        tool = self.tool([tool.get("name") for tool in body.get("tools") or []])
        command = self.script.next(results, text_of(items)) if tool else None
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "All is done."}]}
        if command:
            arguments = {"cmd": command} if tool == "exec_command" else {"command": command}
            item = {"type": "function_call", "id": "fc_%04d" % len(results), "call_id": "call_%04d" % len(results), "name": tool,
                    "arguments": json.dumps(arguments)}
        usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
        response = {"id": "resp_%04d" % len(results), "object": "response", "model": body.get("model"), "usage": usage}
        self.send_events([
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {**response, "status": "completed", "output": [item]}},
        ], named=True)

    def chat(self, body):
        messages = body.get("messages", [])
        results = [text_of(message.get("content")) for message in messages if message.get("role") == "tool"]
        tool = self.tool([tool["function"]["name"] for tool in body.get("tools") or []])
        command = self.script.next(results, text_of(messages)) if tool else None
        delta = {"role": "assistant", "content": "All is done."}
        if command:
            arguments = json.dumps({"command": command, "description": self.why(results), "is_background": False})
            call = {"index": 0, "id": "call_%04d" % len(results), "type": "function", "function": {"name": tool, "arguments": arguments}}
            delta = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls" if command else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        common = {"id": "chat_%04d" % len(results), "created": 1, "model": body.get("model")}
        if not body.get("stream"):
            choice = {"index": 0, "message": delta, "finish_reason": reason}
            return self.send_json({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunk = {**common, "object": "chat.completion.chunk"}
        return self.send_events([
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ], end="[DONE]")

    def gemini(self, body, is_stream):
        contents = body.get("contents", [])
        parts = [part for content in contents for part in content.get("parts", [])]
        results = [text_of(part["functionResponse"].get("response")) for part in parts if "functionResponse" in part]
        declared = [one["name"] for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])]
        tool = self.tool(declared)
        command = self.script.next(results, text_of(contents)) if tool else None
        settings = body.get("generationConfig") or {}
        part = {"text": "All is done."}
        if command:
            part = {"functionCall": {"name": tool, "args": {"command": command, "description": self.why(results)}}}
        elif settings.get("responseMimeType") == "application/json" or settings.get("responseJsonSchema"):
            part = {"text": json.dumps({"reasoning": "r", "next_speaker": "user", "model_choice": "flash", "complexity_reasoning": "r",
                                        "complexity_score": 1})}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        answer = {"candidates": [candidate],
                  "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
        if is_stream:
            self.send_events([answer])
        else:
            self.send_json(answer)


def start(kind):
    """A model on a port of its own: (its script, its address, what stops it)."""
    script = Script(kind)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Of", (Handler,), {"script": script}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return script, "http://127.0.0.1:%d" % server.server_port, server.shutdown
