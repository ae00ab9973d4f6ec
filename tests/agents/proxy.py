"""A real MCP client from PyPI and real MCP servers, with `loopwarden mcp-proxy` between them.

For each server: one client that loops (it reads a nudge, then refusals, and the server is reached no more), one that works (nothing is said),
and the same bytes with and without the proxy. One server is run as src/docs/agents.md writes it, and one over HTTP, which answers in JSON or
in a stream of events.
Needs PyPI and, for that server, npm; skips with the reason where they are missing.

    python3 tests/agents/proxy.py
"""

import asyncio
import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import run  # noqa: E402
from warden import ROOT, TARGET, OwnLog, free_port, new_folder, until  # noqa: E402

PACKAGES = ["mcp==2.3.0"]
CACHE = run.CACHE / "mcp"
# More than a nudge and a block need.
LOOP_CALLS = 40
WORK_CALLS = 12
WAIT_S = 120

# A server of the SDK itself. It notes each call in a file: what was refused must not be there.
OWN = '''
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("own")


@server.tool()
def read_text_file(path: str) -> str:
    with open(sys.argv[1], "a") as calls:
        calls.write(path + "\\n")
    with open(path) as file:
        return file.read()


# Over HTTP: port, and how it answers.
if len(sys.argv) > 2:
    server.run("streamable-http", port=int(sys.argv[2]), json_response=sys.argv[3] == "json")
else:
    server.run()
'''


def python():
    """A Python with the SDK; None, with the reason printed, where it cannot be had."""
    home = CACHE / "-".join(PACKAGES)
    if not (home / "complete").is_file():
        shutil.rmtree(home, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", home], capture_output=True, text=True, timeout=120)
        if made.returncode == 0:
            pip = [home / "bin/python", "-m", "pip", "install", "--quiet", "--retries", "1", *PACKAGES]
            made = subprocess.run(pip, capture_output=True, text=True, timeout=600)
        if made.returncode != 0:
            lines = (made.stderr.strip() or made.stdout.strip()).splitlines() or ["no reason given"]
            return print("mcp-proxy: skipped, the SDK cannot be installed: %s" % lines[-1])
        (home / "complete").touch()
    return home / "bin/python"


def documented():
    """The server of the page, as a client reads it: program and arguments."""
    page = (ROOT / "src/docs/agents.md").read_text()
    found = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.S)]
    (server,) = [server for block in found for server in block.get("mcpServers", {}).values()]
    assert len(json.dumps(server)) and "mcp-proxy" in server["args"], server
    return server["command"], server["args"]


class Place:
    """A home and a project of one run, and a loopwarden that its home points to."""

    def __init__(self):
        self.folder = new_folder("mcp-")
        self.home, self.project = self.folder / "home", self.folder / "project"
        (self.home / ".config/loopwarden").mkdir(parents=True)
        self.project.mkdir()
        for number in range(WORK_CALLS):
            (self.project / ("file-%d.txt" % number)).write_text("This is number %d, and it says %s.\n" % (number, chr(97 + number) * 9))
        self.warden = OwnLog(self.folder)
        (self.home / ".config/loopwarden/hook-address").write_text(self.warden.address + "\n")
        self.environment = {
            "HOME": str(self.home), "PATH": "%s:%s" % (TARGET, os.environ["PATH"]),
            # Ours is busy at times; a client in a test waits.
            "LOOPWARDEN_HOOK_WAIT_MS": "5000",
            "npm_config_cache": str(CACHE / "npm"), "npm_config_prefer_offline": "true", "npm_config_update_notifier": "false",
            "npm_config_fetch_retries": "1",
        }

    def close(self):
        self.warden.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def connected(place, command, log):
    """The SDK's connection to a command, or to an address."""
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if isinstance(command, str):
        return streamable_http_client(command)
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=place.environment, cwd=place.project), errlog=log)


async def calls(place, command, paths):
    """What a client reads of these calls: (text of the tool, texts behind it, is an error)."""
    from mcp import ClientSession

    with open(place.folder / "server.log", "a") as log:
        async with connected(place, command, log) as (reads, writes), ClientSession(reads, writes) as session:
            await session.initialize()
            read = []
            for path in paths:
                result = await session.call_tool("read_text_file", {"path": str(place.project / path)})
                texts = [item.text for item in result.content]
                read.append((texts[0], texts[1:], result.is_error))
            return read


def looped(place, command, reached):
    """What is wrong with a client that reads one file for ever."""
    read = asyncio.run(calls(place, command, ["file-0.txt"] * LOOP_CALLS))
    refused = [text for text, _, is_error in read if is_error]
    nudges = [texts for _, texts, _ in read if texts]
    sent = {action: [run.plain(one["message"]) for one in place.warden.commands() if one["action"] == action] for action in ("nudge", "block")}
    first = next((number for number, (_, _, is_error) in enumerate(read) if is_error), len(read))
    print("  nudged at call %s, refused from call %d on" % ([number for number, (_, texts, _) in enumerate(read) if texts], first))
    if not nudges or any(len(texts) != 1 or run.plain(texts[0]) not in sent["nudge"] for texts in nudges):
        yield "the client read other nudges than were sent: %s, %s" % (nudges, sent["nudge"])
    if len(nudges) != len(set(map(str, nudges))):
        yield "a nudge came twice: %s" % nudges
    if not refused or any(run.plain(text) not in sent["block"] for text in refused):
        yield "the client read other refusals than were sent: %s, %s" % (refused, sent["block"])
    if not all(is_error for _, _, is_error in read[first:]):
        yield "a call ran under a block"
    if reached and reached() != first:
        yield "%d calls reached the server, %d were allowed" % (reached(), first)


def worked(place, command, _reached):
    """What is wrong with a client that reads each file once."""
    paths = ["file-%d.txt" % number for number in range(WORK_CALLS)]
    read = asyncio.run(calls(place, command, paths))
    if [text for text, _, _ in read] != [(place.project / path).read_text() for path in paths]:
        yield "the results are not those of the server: %s" % read
    if any(texts or is_error for _, texts, is_error in read):
        yield "something was said: %s" % read
    live = [one["message"] for one in place.warden.commands() if one["mode"] == "live"]
    if live:
        yield "loopwarden said something: %s" % live


def messages(place):
    """A session of a client: one message a line."""
    lines = [
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        b'"clientInfo":{"name":"t","version":"1"}}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
        b'{"jsonrpc":"2.0","id":"list","method":"tools/list"}\n',
    ]
    for number in range(3):
        path = str(place.project / ("file-%d.txt" % number))
        lines.append(json.dumps({"jsonrpc": "2.0", "id": number + 10, "method": "tools/call",
                                 "params": {"name": "read_text_file", "arguments": {"path": path}}}).encode() + b"\n")
    return lines


def same_bytes(place, command, _reached):
    """What differs with the proxy."""
    lines, said = messages(place), []
    for one in (command, command[command.index("--") + 1:]):
        with open(place.folder / "server.log", "a") as log:
            server = subprocess.Popen(one, env=place.environment, cwd=place.project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
            answers = []
            for line in lines:
                server.stdin.write(line)
                server.stdin.flush()
                # Some servers answer in whichever order; here each answer is awaited.
                answers += [server.stdout.readline()] if b'"id"' in line else []
            server.stdin.close()
            rest = server.stdout.read()
            said.append((answers, rest, server.wait(timeout=WAIT_S)))
    if said[0] != said[1]:
        yield "with and without the proxy: %s" % (said,)
    elif not all(b'"result"' in answer for answer in said[0][0]):
        yield "the server answers with errors: %s" % (said[0],)


def asked(url, lines):
    """What a server answers to these messages of one session: status, type and bytes of each."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection, session, answers = http.client.HTTPConnection(host, timeout=WAIT_S), {}, []
    for line in lines:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", **session}
        connection.request("POST", "/" + path, line, headers)
        answer = connection.getresponse()
        answers.append((answer.status, answer.headers["content-type"], answer.read()))
        if answer.headers["mcp-session-id"]:
            session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
    return answers


def same_answers(place, url, direct):
    """What differs over HTTP with the proxy."""
    lines = messages(place)
    said = [asked(one, lines) for one in (url, direct)]
    if said[0] != said[1]:
        yield "with and without the proxy: %s" % (said,)
    elif [status for status, _, _ in said[0]] != [200, 202] + [200] * (len(lines) - 2):
        yield "the server answers with errors: %s" % (said[0],)


@contextlib.contextmanager
def over_http(place, form):
    """A server over HTTP with the proxy in front of it: both addresses, and a count of the calls that reached the server."""
    own, noted = place.folder / "own.py", place.folder / "calls"
    own.write_text(OWN)
    ports = free_port(), free_port()
    direct, url = ("http://127.0.0.1:%d/mcp" % port for port in ports)
    programs = [[sys.executable, own, noted, str(ports[0]), form],
                [TARGET / "loopwarden", "mcp-proxy", "--url", direct, "--listen", "127.0.0.1:%d" % ports[1]]]
    running, log = [], place.folder / "server.log"
    try:
        for program, port in zip(programs, ports):
            with open(log, "a") as errors:
                running.append(subprocess.Popen(program, env=place.environment, cwd=place.project, stdin=subprocess.DEVNULL, stdout=errors,
                                                stderr=errors))
            until("port %d" % port, lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, running[-1], log)
        yield url, direct, lambda: len(noted.read_text().splitlines())
    finally:
        for one in reversed(running):
            one.terminate()
            one.wait(timeout=WAIT_S)


def servers(place):
    """Name, command behind the proxy, and a count of the calls that reached it where it keeps one."""
    own, noted = place.folder / "own.py", place.folder / "calls"
    own.write_text(OWN)
    yield "the SDK's own server", ["loopwarden", "mcp-proxy", "--", sys.executable, str(own), str(noted)], lambda: len(
        noted.read_text().splitlines())
    # The second program does the same without the rest.
    yield "the same by loopwarden-hook", ["loopwarden-hook", "mcp-proxy", "--", sys.executable, str(own), str(noted)], lambda: len(
        noted.read_text().splitlines())
    program, arguments = documented()
    yield "the server of the page", [program, *arguments], None


def npm_problem(environment):
    """Why npm cannot run the server of the page; None where it can."""
    if not shutil.which("npx"):
        return "npm is not installed"
    _, arguments = documented()
    wanted = next(argument for argument in arguments if argument.startswith("@"))
    asked = subprocess.run(["npm", "view", wanted, "version"], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
    return None if asked.returncode == 0 else (asked.stderr.strip().splitlines() or ["no reason given"])[0]


def main():
    for program in ("loopwarden", "loopwarden-hook"):
        if not (TARGET / program).is_file():
            raise SystemExit("%s is not built in %s" % (program, TARGET))
    found = []

    def note(place, name, kind, problems):
        print("mcp-proxy, %s, %s: %s" % (name, kind.__name__, "FAILED" if problems else "ok"), flush=True)
        for problem in problems:
            print("  " + problem)
        if problems:
            print("".join("  | " + line for line in (place.folder / "server.log").open()))
        found.append(bool(problems))

    for form in ("json", "events"):
        for kind in (looped, worked, same_answers):
            place = Place()
            try:
                with over_http(place, form) as (url, direct, reached):
                    problems = list(kind(place, url, direct if kind is same_answers else reached))
                note(place, "a server over HTTP, answers in " + form, kind, problems)
            finally:
                place.close()
    for number in range(3):
        for kind in (looped, worked, same_bytes):
            place = Place()
            try:
                name, command, reached = list(servers(place))[number]
                why = npm_problem(place.environment) if reached is None else None
                if why:
                    print("mcp-proxy, %s: skipped, %s" % (name, why))
                    break
                # The SDK looks for the program on its own path.
                command = [shutil.which(command[0], path=place.environment["PATH"]), *command[1:]]
                note(place, name, kind, list(kind(place, command, reached)))
            finally:
                place.close()
    print("%d passed, %d failed" % (found.count(False), found.count(True)))
    return 1 if any(found) else 0


if __name__ == "__main__":
    if "--within" in sys.argv:
        sys.exit(main())
    found = python()
    sys.exit(subprocess.run([found, __file__, "--within"]).returncode if found else 0)
