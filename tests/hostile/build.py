"""A process of a build that is attacked, and requests of one principal to it."""

import http.client
import json
import signal
import subprocess
import threading
from pathlib import Path

MARK = "only-for-good-eyes"
PUBLIC = "https://warden.example"
BUDGETS = [("tenant", "day"), ("tenant", "hour"), ("agent", "day"), ("tree", "day"), ("swarm", "day"), ("swarm", "hour")]


class Client:
    """Requests of one principal, on one connection as long as it lasts."""

    def __init__(self, address, token=None, timeout=60):
        self.address, self.timeout, self.connection = address, timeout, None
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

    def ask(self, method, path, body=None, media="application/json", headers=None):
        """Status and text; status 0 where nobody answers."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        for _ in range(2):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection(self.address, timeout=self.timeout)
                sent = {"content-type": media, **self.headers, **(headers or {})}
                self.connection.request(method, path, body.encode() if isinstance(body, str) else body, sent)
                answer = self.connection.getresponse()
                return answer.status, answer.read().decode(errors="replace")
            except (OSError, http.client.HTTPException):
                self.connection = None
        return 0, ""

    def decision(self, event):
        status, text = self.ask("POST", "/v1/check", {"event": event, "record": False, "client": {"name": "red", "can": ["deny"]}})
        return json.loads(text)["decision"] if status == 200 else f"status {status}"


def call(session, name, kind="tool", tenant="good", outcome="ok", **more):
    event = {"id": name, "kind": kind, "session_id": session, "tenant": tenant, "tool": "Bash", "args": {"command": f"{MARK} make"}}
    return event | ({"outcome": outcome, "result": name} if kind == "tool" else {}) | more


class Process:
    """A process of the build, in live mode."""

    def __init__(self, program, folder, config="", policy="", listen="127.0.0.1:0"):
        self.program, self.folder, self.listen = program, Path(folder), listen
        self.folder.mkdir(parents=True, exist_ok=True)
        # Only `good` has a stop; each attacker reports for his own tenant.
        names = {"operator": "operator", "good": "source", "reader": "reader"} | {f"evil{n}": "source,operator,reader" for n in range(16)}
        tables = ""
        for name, roles in names.items():
            (self.folder / name).write_text(f"{name}-secret\n")
            tenants = "" if name == "operator" else f'tenants = "{"good" if name == "reader" else name}"\n'
            tables += f'[[token]]\nname = "{name}"\nfile = "{name}"\nroles = "{roles}"\n{tenants}'
        (self.folder / "everything").write_text("everything-secret\n")
        (self.folder / "link-secret").write_text("0123456789abcdef" * 2)
        # A policy extends a shipped one.
        (self.folder / "policy.toml").write_text(f'base = "default"\n{policy}')
        http_table = f'[http]\nlocal = "token"\ntoken_file = "everything"\npublic_url = "{PUBLIC}"\nlink_secret_file = "link-secret"\n'
        (self.folder / "loopwarden.toml").write_text(http_table + tables + config)
        self.child = self.address = None
        self.start()

    def start(self):
        command = [self.program, "run", "--config", str(self.folder / "loopwarden.toml"), "--data-dir", str(self.folder / "data")]
        command += ["--log-level", "warn", "--set", "mode=live", "--set", f"http.listen={self.listen}"]
        command += ["--set", f"policy={self.folder / 'policy.toml'}"]
        log = (self.folder / "log").open("a")
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        for line in self.child.stdout:
            if "http://" in line:
                self.address = line.split("http://")[1].split("/")[0].split()[0].rstrip(",;")
                self.listen = self.address
                threading.Thread(target=self.child.stdout.read, daemon=True).start()
                return
        raise SystemExit(f"it did not start: {(self.folder / 'log').read_text()}")

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def client(self, name):
        return Client(self.address, f"{name}-secret")


def budgets():
    text = ""
    for number, (scope, per) in enumerate(BUDGETS):
        per = f'per = "{per}"\n' if per else ""
        text += f'[[budget]]\nname = "b{number}"\nscope = "{scope}"\n{per}calls = 1000000000\nmode = "block"\n'
    return text + '[[budget]]\nname = "few"\nscope = "label:few"\nper = "day"\ncalls = 20\nmode = "block"\n'
