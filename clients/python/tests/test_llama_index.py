"""The adapter in agents of LlamaIndex, with a scripted model."""

import asyncio
import itertools
from typing import Any

import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

pytest.importorskip("llama_index.core", reason="llama-index is not in this environment")

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from loopwarden_client.adapters.llama_index import protect

ids = itertools.count()


def model(script: Any, seen: list[list[str]], tool: str = scripts.TOOL) -> MockFunctionCallingLLM:
    def respond(messages: Any, **_: Any) -> Any:
        results = [message.content or "" for message in messages if message.role == MessageRole.TOOL]
        seen.append(results)
        calls = [ToolCallBlock(tool_call_id=f"call_{next(ids)}", tool_name=tool, tool_kwargs=args) for args in script(results)]
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=calls) if calls else ChatMessage(role="assistant", content="done")

    return MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)


def search_tool(ran: list[str], error: bool = False) -> FunctionTool:
    def search(q: str) -> str:
        """Searches."""
        ran.append(q)
        if error:
            raise OSError("no result")
        return scripts.answer(q)

    return FunctionTool.from_defaults(search)


def run(guard: Guard, script: Any, error: bool = False, in_workflow: bool = False, **options: Any) -> tuple[list[str], int]:
    ran: list[str] = []
    seen: list[list[str]] = []
    tools = [search_tool(ran, error)]
    agent: Any = FunctionAgent(name="worker", description="d", tools=tools, llm=model(script, seen), streaming=False)
    if in_workflow:
        agent = AgentWorkflow(agents=[agent], root_agent="worker")
    protect(agent, guard, **options)

    async def go() -> Any:
        return await agent.run("find it", max_iterations=30)

    assert str(asyncio.run(go())) == "done"
    return seen[-1], len(ran)


@pytest.mark.parametrize("in_workflow", [False, True])
def test_loop(fake: FakeGuard, guard: Guard, in_workflow: bool) -> None:
    scripts.check_loop(fake.rule, *run(guard, scripts.loop, in_workflow=in_workflow))
    assert fake.rule.events[0]["agent"] == {"id": "worker", "framework": "llama-index"}


@pytest.mark.parametrize("in_workflow", [False, True])
def test_work(fake: FakeGuard, guard: Guard, in_workflow: bool) -> None:
    scripts.check_work(fake.rule, *run(guard, scripts.work, in_workflow=in_workflow, session_id="mine"))
    assert fake.rule.events[0]["session_id"] == "mine"


def test_parallel_calls(fake: FakeGuard, guard: Guard) -> None:
    scripts.check_parallel(fake.rule, *run(guard, scripts.parallel))
    assert len({event["session_id"] for event in fake.rule.events}) == 1


def test_a_tool_that_raises_tells_its_error_and_is_nudged(fake: FakeGuard, guard: Guard) -> None:
    results, runs = run(guard, scripts.loop, error=True)
    assert runs == 3 and "3 times" in results[2] and "no result" in results[2] and "refused" in results[3]
    assert {event["outcome"] for event in fake.rule.results()} == {"error"}


def test_agents_of_a_workflow_share_its_session(fake: FakeGuard, guard: Guard) -> None:
    ran: list[str] = []
    tools = iter(["handoff"])
    boss = FunctionAgent(
        name="boss", description="d", tools=[], can_handoff_to=["helper"], streaming=False,
        llm=model(lambda results: [{"to_agent": "helper", "reason": "r"}] if next(tools, "") == "handoff" else [], [], "handoff"),
    )
    looks = lambda results: scripts.loop([text for text in results if "helper" not in text])  # noqa: E731
    helper = FunctionAgent(name="helper", description="d", tools=[search_tool(ran)], llm=model(looks, []), streaming=False)
    flow = protect(AgentWorkflow(agents=[boss, helper], root_agent="boss"), guard)

    async def go() -> Any:
        return await flow.run("go")

    asyncio.run(go())
    assert {(event["agent"]["id"], event["tool"]) for event in fake.rule.calls()} == {("boss", "handoff"), ("helper", "search")}
    assert len({event["session_id"] for event in fake.rule.events}) == 1 and fake.rule.denied == 1


def test_a_context_that_goes_on_is_one_session_and_a_new_run_another(fake: FakeGuard, guard: Guard) -> None:
    agent = FunctionAgent(tools=[search_tool([])], llm=model(scripts.work, []), streaming=False)
    protect(agent, guard)

    async def go() -> list[set[str]]:
        sessions, context = [], Context(agent)
        for options in ({"ctx": context}, {"ctx": context}, {}):
            least = len(sessions)
            agent.llm = model(lambda results, least=least: [{"q": "a"}] if len(results) <= least else [], [])
            await agent.run("x", **options)
            sessions.append({event["session_id"] for event in fake.rule.calls()})
            fake.rule.events.clear()
        return sessions

    first, second, third = asyncio.run(go())
    assert len(first) == 1 and first == second and not first & third


def test_a_react_agent(fake: FakeGuard, guard: Guard) -> None:
    ran: list[str] = []

    def respond(messages: Any, **_: Any) -> Any:
        refused = any("refused" in (message.content or "") for message in messages)
        said = "Thought: done.\nAnswer: done" if refused else 'Thought: look.\nAction: search\nAction Input: {"q": "same"}'
        return ChatMessage(role="assistant", content=said)

    agent = ReActAgent(
        tools=[search_tool(ran)], llm=MockFunctionCallingLLM(response_generator=respond, is_chat_model=True), streaming=False
    )
    protect(agent, guard)

    async def go() -> Any:
        return await agent.run("find it", max_iterations=30)

    assert str(asyncio.run(go())) == "done" and len(ran) == 3 and (fake.rule.nudges, fake.rule.denied) == (1, 1)


def test_without_a_guard_the_run_is_as_it_was() -> None:
    results, runs = run(Guard("http://127.0.0.1:1"), scripts.loop)
    assert runs == scripts.STEPS_MAX and set(results) == {"no result for same"}


def test_the_program_itself(real: Guard) -> None:
    scripts.check_real(*run(real, scripts.loop))


def test_the_readme(fake: FakeGuard, guard: Guard) -> None:
    made = readme.run("LlamaIndex", guard=guard, model=model(scripts.loop, []), tools=[search_tool([])])

    async def go() -> Any:
        return await made["agent"].run("find it")

    assert str(asyncio.run(go())) == "done" and fake.rule.denied == 1
