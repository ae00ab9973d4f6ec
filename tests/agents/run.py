"""Real coding agents from npm, headless, against a model on loopback, with the hooks that `loopwarden hook install` writes.

For each agent two runs: one that loops (its model reads a nudge, then a refusal, and the run ends), one that works (nothing is said). Claude
Code has a third: an operator stops it in the middle, lets it go on, and the session goes on.
All ask a process with a log of its own. Claude Code also asks a guard beside it, with a fleet on Kafka behind: `claude-code@kafka`.
Needs Node's package manager and its registry for the first run, and a JVM and Maven for Kafka; skips with the reason where they are missing.

    python3 tests/agents/run.py [AGENT[@kafka][:KIND]...]
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import model  # noqa: E402
from warden import TARGET, OnKafka, OwnLog, missing, new_folder  # noqa: E402

CACHE = Path(os.environ.get("LOOPWARDEN_AGENTS_DIR", Path.home() / ".cache/loopwarden/agents"))
PACKAGES = {
    # Some of the agents need a newer Node than distributions have.
    "node": "22.23.3",
    "@anthropic-ai/claude-code": "2.1.332",
    "@openai/codex": "0.169.0",
    "@google/gemini-cli": "0.61.0",
    "@qwen-code/qwen-code": "0.24.4",
    "opencode-ai": "1.18.33",
}
RUN_WAIT_S = 300


def installed():
    """The directory with the agents' programs; None, with the reason printed, where they cannot be had."""
    wanted = json.dumps({"private": True, "dependencies": PACKAGES}, indent=1)
    stamp = CACHE / "installed.json"
    if not (stamp.is_file() and stamp.read_text() == wanted):
        if not shutil.which("npm"):
            return print("agents: skipped, npm is not installed")
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "package.json").write_text(wanted)
        npm = ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=1", "--loglevel=error"]
        done = subprocess.run(npm, cwd=CACHE, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["no reason given"]
            return print("agents: skipped, npm cannot install them: %s" % lines[0])
        stamp.write_text(wanted)
    return CACHE / "node_modules/.bin"


def claude(base, _home, _project):
    environment = {
        "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "x", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return environment, ["claude", "-p", "go", "--allowedTools", "Bash"]


def codex(base, home, _project):
    # The file may hold settings of a person; nothing of it is ours.
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex/config.toml").write_text(
        'model = "fake"\nmodel_provider = "fake"\n'
        '[model_providers.fake]\nname = "fake"\nbase_url = "%s/v1"\nenv_key = "FAKE_KEY"\nwire_api = "responses"\n' % base)
    command = ["codex", "exec", "--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox",
               "--skip-git-repo-check", "go"]
    return {"FAKE_KEY": "x"}, command


def gemini(base, home, _project):
    (home / ".gemini").mkdir(exist_ok=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini/settings.json").write_text(json.dumps(settings))
    environment = {"GOOGLE_GEMINI_BASE_URL": base, "GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return environment, ["gemini", "-p", "go", "--yolo", "-m", "gemini-2.5-flash"]


def qwen(base, _home, _project):
    environment = {"OPENAI_BASE_URL": base + "/v1", "OPENAI_API_KEY": "x", "OPENAI_MODEL": "fake"}
    return environment, ["qwen", "-p", "go", "--yolo", "--auth-type", "openai"]


def opencode(base, _home, project):
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": {"baseURL": base + "/v1", "apiKey": "x"},
                "models": {"fake": {"name": "fake"}}}
    settings = {"provider": {"fake": provider}, "model": "fake/fake", "autoupdate": False, "share": "disabled"}
    (project / "opencode.json").write_text(json.dumps(settings))
    return {}, ["opencode", "run", "go"]


AGENTS = {"claude-code": claude, "codex": codex, "gemini": gemini, "qwen": qwen, "opencode": opencode}
WARDENS = {"": OwnLog, "kafka": OnKafka}
DEFAULT = [*AGENTS, "claude-code@kafka"]


def run(agent, warden, kind, programs, folder):
    """One run: (script of the model, commands of loopwarden, exit code, seconds, output)."""
    home, project = folder / "home", folder / "project"
    for path in (home, project):
        path.mkdir(parents=True)
    warden = warden(folder)
    script, base, stop = model.start(kind)
    try:
        environment, command = AGENTS[agent](base, home, project)
        keep = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR") if name in os.environ}
        environment = {**keep, **environment, "HOME": str(home), "PATH": "%s:%s" % (programs, os.environ["PATH"]), "CI": "1", "LC_ALL": "C",
                       # Ours is busy at times; an agent in a test waits.
                       "LOOPWARDEN_HOOK_WAIT_MS": "5000"}
        install = [TARGET / "loopwarden", "hook", "install", agent, "--address", warden.address, "--program",
                   TARGET / "loopwarden-hook"]
        done = subprocess.run(install, env=environment, cwd=project, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise SystemExit("%s: hook install failed: %s" % (agent, done.stderr))
        def operator(*words):
            done = subprocess.run([TARGET / "loopwarden", *words, "--agent", "main", "--address", warden.address], capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit("%s: %s" % (words[0], done.stderr))

        script.act = lambda: operator("stop", "--reason", "drill", "--for", "10m")
        began = time.monotonic()
        with open(folder / "agent.log", "w") as log:
            def agent_ends(command):
                try:
                    return subprocess.run(command, env=environment, cwd=project, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                          timeout=RUN_WAIT_S).returncode
                except subprocess.TimeoutExpired:
                    return "none within %d s" % RUN_WAIT_S

            code = agent_ends(command)
            if kind == "stop":
                script.made_until_stop = sorted(path.name for path in project.glob("step-*"))
                operator("release")
                code = agent_ends([*command, "--continue"])
                script.made = sorted(path.name for path in project.glob("step-*"))
        took = time.monotonic() - began
        return script, warden.commands(), code, took, (folder / "agent.log").read_text()
    finally:
        stop()
        warden.stop()


def plain(message):
    """A message as the guard hands it out."""
    return message.replace("[System] ", "").strip().rstrip(".")


def problems_of_loop(script, commands):
    read = "\n".join(script.read)
    messages = {action: [plain(one["message"]) for one in commands if one["action"] == action and one["mode"] == "live"]
                for action in ("nudge", "block")}
    for action, texts in messages.items():
        if not texts:
            yield "no %s was sent" % action
        elif not any(text in read for text in texts):
            yield "the model never read a %s: %s" % (action, texts)
    if not script.gave_up:
        yield "the model was never refused a call"


def problems_of_work(script, commands):
    # What a detector says in shadow is for people who watch.
    live = [one["message"] for one in commands if one["mode"] == "live" and one["action"] != "unblock"]
    if live:
        yield "loopwarden said something: %s" % live
    read = "\n".join(script.read)
    if any(plain(one["message"]) in read for one in commands if one.get("message")):
        yield "the model read what was meant for nobody"
    if script.calls != len(model.WORK):
        yield "%d of %d calls were made" % (script.calls, len(model.WORK))


def problems_of_stop(script, commands):
    before = ["step-%d" % number for number in range(1, model.STOPPED_AT + 1)]
    if script.made_until_stop != before:
        yield "until the release %s were made, not %s" % (script.made_until_stop, before)
    if script.made[-1:] != ["step-%d" % len(model.STEPS)]:
        yield "after the release it did not go on: %s" % script.made
    if "An operator has stopped this agent" not in "\n".join(script.read):
        yield "the model never read that it was stopped"
    acts = [one["reason"]["code"] for one in commands if one["reason"]["code"] in ("stop", "release")]
    if acts != ["stop", "release"]:
        yield "acts were %s" % acts


def chosen(words):
    """Agent, where it asks, and which run, of each word."""
    for word in words or DEFAULT:
        name, _, only = word.partition(":")
        agent, _, behind = name.partition("@")
        if agent not in AGENTS or behind not in WARDENS:
            raise SystemExit("no such agent: %s; there are %s" % (word, ", ".join(DEFAULT)))
        yield name, agent, WARDENS[behind], only


def main():
    choice = list(chosen(sys.argv[1:]))
    programs = installed()
    if programs is None:
        return 0
    for program in ("loopwarden", "loopwarden-hook"):
        if not (TARGET / program).is_file():
            raise SystemExit("%s is not built in %s" % (program, TARGET))
    passed = failed = 0
    for name, agent, warden, only in choice:
        lacks = missing(warden)
        if lacks:
            print("%s: skipped, %s is not installed" % (name, lacks))
            continue
        kinds = [("loop", problems_of_loop), ("work", problems_of_work)]
        kinds += [("stop", problems_of_stop)] if name == "claude-code" else []
        for kind, problems_of in kinds:
            if only not in ("", kind):
                continue
            folder = new_folder("agents-")
            script, commands, code, took, output = run(agent, warden, kind, programs, folder)
            problems = list(problems_of(script, commands))
            problems += ["it ended with %s" % code] if code != 0 else []
            actions = ["%s %s" % (one["mode"], one["action"]) for one in commands]
            print("%s, %s: %s; %d calls, commands %s, %.1f s" % (
                name, kind, "FAILED" if problems else "ok", script.calls, actions, took), flush=True)
            if problems:
                failed += 1
                print("\n".join("  " + problem for problem in problems))
                print("  its last lines:\n" + "\n".join("    " + line for line in output.splitlines()[-15:]))
                print("  kept in %s" % folder, flush=True)
            else:
                passed += 1
                shutil.rmtree(folder, ignore_errors=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
