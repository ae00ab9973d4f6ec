"""The adapter in the Claude Agent SDK with the program that its wheel brings along, and a scripted model behind the API."""

import asyncio
from pathlib import Path
from typing import Any

import fake_claude
import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not in this environment")

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool

NAME = "mcp__t__search"


def run(guard: Guard, home: Path, respond: fake_claude.Respond, error: bool = False, **options: Any) -> int:
    """How often the tool ran."""
    ran = []

    @tool(scripts.TOOL, "Searches.", {"q": str})
    async def search(args: dict[str, Any]) -> dict[str, Any]:
        ran.append(args)
        return {"content": [{"type": "text", "text": scripts.answer(args["q"])}], "is_error": error}

    async def go(address: str) -> None:
        given = dict(
            mcp_servers={"t": create_sdk_mcp_server("t", tools=[search])}, cwd=home, max_turns=30,
            allowed_tools=[NAME, "Task", "Agent"], setting_sources=[],
            env={
                "HOME": str(home), "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "x", "DISABLE_TELEMETRY": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CONFIG_DIR": str(home / "config"),
            },
            **options,
        )
        # The piece in the README, as it is written there.
        settings: ClaudeAgentOptions = readme.run("Claude Agent SDK", guard=guard, options=given)["options"]
        messages = [message async for message in query(prompt="find it", options=settings)]
        assert isinstance(messages[-1], ResultMessage) and messages[-1].result == "done", messages

    with fake_claude.FakeClaude(respond) as address:
        asyncio.run(go(address))
    return len(ran)


def follows(script: Any, seen: list[list[str]]) -> fake_claude.Respond:
    def respond(request: dict[str, Any]) -> list[dict[str, Any]]:
        results = fake_claude.results(request)
        seen.append(results)
        return [{"type": "tool_use", "name": NAME, "input": args} for args in script(results)]

    return respond


def plain_names(rule: Any) -> None:
    for event in rule.calls() + rule.results():
        event["tool"] = event["tool"].removeprefix("mcp__t__")


def cleaned(results: list[str]) -> list[str]:
    """Without the name of the tool, which stands in the texts of the guard, and what Claude Code itself adds."""
    return [text.replace(NAME, scripts.TOOL) for text in results]


def test_loop(fake: FakeGuard, guard: Guard, tmp_path: Path) -> None:
    seen: list[list[str]] = []
    runs = run(guard, tmp_path, follows(scripts.loop, seen))
    plain_names(fake.rule)
    scripts.check_loop(fake.rule, cleaned(seen[-1]), runs)
    assert fake.rule.events[0]["kind"] == "message" and fake.rule.calls()[0]["call_id"].startswith("toolu_")


def test_work(fake: FakeGuard, guard: Guard, tmp_path: Path) -> None:
    seen: list[list[str]] = []
    runs = run(guard, tmp_path, follows(scripts.work, seen))
    plain_names(fake.rule)
    scripts.check_work(fake.rule, [text.splitlines()[0] for text in seen[-1]], runs)


def test_parallel_calls(fake: FakeGuard, guard: Guard, tmp_path: Path) -> None:
    seen: list[list[str]] = []
    runs = run(guard, tmp_path, follows(scripts.parallel, seen))
    scripts.check_parallel(fake.rule, seen[-1], runs)


def test_a_tool_that_fails_is_nudged(fake: FakeGuard, guard: Guard, tmp_path: Path) -> None:
    seen: list[list[str]] = []
    assert run(guard, tmp_path, follows(scripts.loop, seen), error=True) == 3
    assert "3 times" in seen[-1][2] and "refused" in seen[-1][3]
    assert {event["outcome"] for event in fake.rule.results()} == {"error"}


def test_a_sub_agent_is_another_agent_of_the_session(fake: FakeGuard, guard: Guard, tmp_path: Path) -> None:
    def respond(request: dict[str, Any]) -> list[dict[str, Any]]:
        results = fake_claude.results(request)
        if "helper prompt" in str(request.get("system")):
            return [{"type": "tool_use", "name": NAME, "input": args} for args in scripts.loop(results)]
        names = {tool["name"] for tool in request["tools"]}
        delegate = "Agent" if "Agent" in names else "Task"
        task = {"description": "d", "prompt": "search", "subagent_type": "helper", "run_in_background": False}
        return [] if results else [{"type": "tool_use", "name": delegate, "input": task}]

    agents = {"helper": AgentDefinition(description="Searches.", prompt="helper prompt", tools=[NAME])}
    assert run(guard, tmp_path, respond, agents=agents) == 3
    calls = fake.rule.calls()
    assert len({event["session_id"] for event in calls}) == 1
    assert [event["agent"]["id"] == "main" for event in calls] == [True] + [False] * 4
    assert fake.rule.denied == 1


def test_without_a_guard_the_run_is_as_it_was(tmp_path: Path) -> None:
    seen: list[list[str]] = []
    assert run(Guard("http://127.0.0.1:1"), tmp_path, follows(scripts.loop, seen)) == scripts.STEPS_MAX


def test_the_program_itself(real: Guard, tmp_path: Path) -> None:
    seen: list[list[str]] = []
    runs = run(real, tmp_path, follows(scripts.loop, seen))
    scripts.check_real(seen[-1], runs)
