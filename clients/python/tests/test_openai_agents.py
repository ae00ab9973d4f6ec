"""The adapter in runs of the OpenAI Agents SDK, with a scripted model."""

import asyncio
import itertools
import json
import sys
from typing import Any

import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

pytest.importorskip("agents", reason="openai-agents is not in this environment")

from agents import Agent, RunConfig, Runner, function_tool, handoff
from agents.testing import ModelStep, ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from loopwarden_client.adapters.openai_agents import protect

ids = itertools.count()


def texts(items: Any) -> list[str]:
    if isinstance(items, str):
        return []
    return [str(item["output"]) for item in items if isinstance(item, dict) and item.get("type") == "function_call_output"]


def model(script: Any, tool: str = scripts.TOOL) -> ScriptedModel:
    def respond(call: Any) -> Any:
        calls = [
            ResponseFunctionToolCall(type="function_call", name=tool, arguments=json.dumps(args), call_id=f"call_{next(ids)}")
            for args in script(texts(call.input))
        ]
        done = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed",
            content=[ResponseOutputText(type="output_text", text="done", annotations=[])],
        )
        return calls or [done]

    return ScriptedModel([ModelStep(responder=respond) for _ in range(40)])


def search_tool(ran: list[str], error: bool = False) -> Any:
    @function_tool
    def search(q: str) -> str:
        """Searches."""
        ran.append(q)
        if error:
            raise OSError("no")
        return scripts.answer(q)

    return search


def run(guard: Guard, script: Any, is_async: bool = True, error: bool = False, **options: Any) -> tuple[list[str], int]:
    ran: list[str] = []
    agent = protect(Agent("main agent", tools=[search_tool(ran, error)], model=model(script)), guard, **options)
    protect(agent, guard)  # twice is once
    config = RunConfig(group_id="group-1", trace_include_sensitive_data=False)
    if is_async:
        result = asyncio.run(Runner.run(agent, "find it", run_config=config, max_turns=30))
    else:
        result = Runner.run_sync(agent, "find it", run_config=config, max_turns=30)
    assert result.final_output == "done"
    return texts(result.to_input_list()), len(ran)


def normal(rule: Any) -> None:
    """Arguments arrive as the text that the model wrote; the engine reads JSON in a text as JSON."""
    for event in rule.events:
        if isinstance(event.get("args"), str):
            event["args"] = json.loads(event["args"])


@pytest.fixture(autouse=True)
def no_traces() -> None:
    from agents.tracing import set_trace_processors

    set_trace_processors([])


@pytest.mark.parametrize("is_async", [False, True])
def test_loop(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    results, runs = run(guard, scripts.loop, is_async)
    normal(fake.rule)
    scripts.check_loop(fake.rule, results, runs)
    assert fake.rule.events[0]["session_id"] == "group-1"
    assert fake.rule.events[0]["agent"] == {"id": "main agent", "framework": "openai-agents"}


@pytest.mark.parametrize("is_async", [False, True])
def test_work(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    results, runs = run(guard, scripts.work, is_async, session_id=lambda context: context.tool_name + "!")
    scripts.check_work(fake.rule, results, runs)
    assert fake.rule.events[0]["session_id"] == "search!"


def test_parallel_calls(fake: FakeGuard, guard: Guard) -> None:
    scripts.check_parallel(fake.rule, *run(guard, scripts.parallel))


def test_a_tool_that_fails_is_nudged_in_its_error(fake: FakeGuard, guard: Guard) -> None:
    results, runs = run(guard, scripts.loop, error=True)
    assert runs == 3 and "3 times" in results[2] and "error" in results[2] and "refused" in results[3]


def test_agents_as_tools_and_handoffs_are_agents_of_the_session(fake: FakeGuard, guard: Guard) -> None:
    ran: list[str] = []
    helper = Agent("helper", tools=[search_tool(ran)], model=model(scripts.loop))
    second = Agent("second", tools=[search_tool(ran)], model=model(lambda results: [{"q": "a"}] if len(results) < 3 else []))
    third = Agent("third", tools=[search_tool(ran)], model=model(scripts.work))
    turns = iter([("delegate", {"input": "x"}), ("transfer_to_second", {})])

    def respond(_: Any) -> Any:
        name, args = next(turns)
        return [ResponseFunctionToolCall(type="function_call", name=name, arguments=json.dumps(args), call_id=f"call_{next(ids)}")]

    boss = Agent(
        "boss", tools=[helper.as_tool("delegate", "delegates")], handoffs=[handoff(second), third],
        model=ScriptedModel([ModelStep(responder=respond), ModelStep(responder=respond)]),
    )
    protect(boss, guard)
    asyncio.run(Runner.run(boss, "go", run_config=RunConfig(group_id="g")))
    assert {(event["session_id"], event["agent"]["id"], event["tool"]) for event in fake.rule.events} == {
        ("g", "boss", "delegate"), ("g", "helper", "search"), ("g", "second", "search")
    }
    assert len(third.tools[0].tool_input_guardrails) == 1 and fake.rule.denied == 1


SERVER = """
from mcp.server import MCPServer

server = MCPServer("t")


@server.tool()
def search(q: str) -> str:
    return f"no result for {q}"


server.run()
"""


def test_tools_of_mcp_servers_are_guarded_too(fake: FakeGuard, guard: Guard) -> None:
    from agents.mcp import MCPServerStdio

    async def go() -> Any:
        command: Any = {"command": sys.executable, "args": ["-c", SERVER]}
        async with MCPServerStdio(params=command, client_session_timeout_seconds=60) as server:
            agent = protect(Agent("main", mcp_servers=[server], model=model(scripts.loop)), guard)
            return await Runner.run(agent, "find it", max_turns=30)

    results = texts(asyncio.run(go()).to_input_list())
    assert "refused" in results[-1] and "3 times" in results[2] and "no result for same" in results[2], results
    assert (fake.rule.nudges, fake.rule.denied) == (1, 1)


def test_a_run_without_a_group_is_a_session(fake: FakeGuard, guard: Guard) -> None:
    for _ in range(2):
        agent = protect(Agent("main", tools=[search_tool([])], model=model(lambda results: [] if results else [{"q": "a"}])), guard)
        asyncio.run(Runner.run(agent, "x"))
    assert len({event["session_id"] for event in fake.rule.events}) == 2


def test_without_a_guard_the_run_is_as_it_was() -> None:
    results, runs = run(Guard("http://127.0.0.1:1"), scripts.loop)
    assert runs == scripts.STEPS_MAX and set(results) == {"no result for same"}


def test_the_program_itself(real: Guard) -> None:
    scripts.check_real(*run(real, scripts.loop))


def test_the_readme(fake: FakeGuard, guard: Guard) -> None:
    made = readme.run("OpenAI Agents", guard=guard, model=model(scripts.loop), tools=[search_tool([])], question="find it")
    assert made["result"].final_output == "done" and fake.rule.denied == 1
    assert fake.rule.events[0]["session_id"] == "conversation-1"
