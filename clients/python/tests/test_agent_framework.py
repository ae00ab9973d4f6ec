"""The adapter in agents of the Microsoft Agent Framework, with a scripted chat client. Its runs are asynchronous."""

import asyncio
import itertools
from typing import Any

import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

pytest.importorskip("agent_framework", reason="agent-framework is not in this environment")

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message, tool

from loopwarden_client.adapters.agent_framework import LoopwardenMiddleware

ids = itertools.count()


def texts(messages: Any) -> list[str]:
    return [str(part.result) for message in messages for part in message.contents if part.type == "function_result"]


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """A chat client that follows a script."""

    def __init__(self, script: Any, name: str = scripts.TOOL) -> None:
        super().__init__(function_invocation_configuration={"max_iterations": 40, "max_consecutive_errors_per_request": 40})
        self.script, self.name = script, name
        self.seen: list[str] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def respond() -> ChatResponse:
            self.seen = texts(messages)
            calls = [
                Content.from_function_call(f"call_{next(ids)}", self.name, arguments=args) for args in self.script(self.seen)
            ]
            return ChatResponse(messages=[Message(role="assistant", contents=calls or [Content.from_text("done")])])

        return respond()


def search_tool(ran: list[str], error: bool = False) -> Any:
    @tool(approval_mode="never_require")
    def search(q: str) -> str:
        """Searches."""
        ran.append(q)
        if error:
            raise OSError("no result")
        return scripts.answer(q)

    return search


def run(guard: Guard, script: Any, error: bool = False, **options: Any) -> tuple[list[str], int]:
    ran: list[str] = []
    client = Scripted(script)
    agent = Agent(client=client, tools=[search_tool(ran, error)], middleware=[LoopwardenMiddleware(guard, **options)])

    async def go() -> Any:
        return await agent.run("find it", session=agent.create_session(session_id="session-1"))

    assert asyncio.run(go()).text == "done"
    return client.seen, len(ran)


def test_loop(fake: FakeGuard, guard: Guard) -> None:
    scripts.check_loop(fake.rule, *run(guard, scripts.loop, agent_id="worker"))
    assert fake.rule.events[0]["agent"] == {"id": "worker", "framework": "agent-framework"}
    assert fake.rule.events[0]["session_id"] == "session-1"


def test_work(fake: FakeGuard, guard: Guard) -> None:
    scripts.check_work(fake.rule, *run(guard, scripts.work, session_id="mine"))
    assert fake.rule.events[0]["session_id"] == "mine"


def test_parallel_calls(fake: FakeGuard, guard: Guard) -> None:
    scripts.check_parallel(fake.rule, *run(guard, scripts.parallel))


def test_a_tool_that_raises_tells_its_error_and_is_nudged(fake: FakeGuard, guard: Guard) -> None:
    results, runs = run(guard, scripts.loop, error=True)
    assert runs == 3 and "3 times" in results[2] and "Function failed" in results[2] and "refused" in results[3]
    assert fake.rule.results()[0]["error"] == {"type": "OSError", "message": "no result"}


def test_a_sub_agent_is_another_agent_of_the_session(fake: FakeGuard, guard: Guard) -> None:
    ran: list[str] = []
    helper = Agent(
        client=Scripted(scripts.loop), name="helper", description="Searches.", tools=[search_tool(ran)],
        middleware=[LoopwardenMiddleware(guard, session_id="s", agent_id="helper")],
    )

    @tool(approval_mode="never_require")
    async def delegate(q: str) -> str:
        """Lets another agent search."""
        return (await helper.run(q)).text

    boss = Agent(
        client=Scripted(lambda results: [] if results else [{"q": "x"}], "delegate"), tools=[delegate],
        middleware=[LoopwardenMiddleware(guard, session_id="s", agent_id="boss")],
    )

    async def go() -> Any:
        return await boss.run("go")

    asyncio.run(go())
    assert {(event["session_id"], event["agent"]["id"], event["tool"]) for event in fake.rule.calls()} == {
        ("s", "boss", "delegate"), ("s", "helper", "search")
    }
    assert fake.rule.denied == 1 and len(ran) == 3


def test_runs_without_a_session_share_one_and_that_is_said_once(
    fake: FakeGuard, guard: Guard, caplog: pytest.LogCaptureFixture
) -> None:
    middleware = LoopwardenMiddleware(guard)

    async def go() -> Any:
        script = lambda results: [] if results else [{"q": "x"}]  # noqa: E731
        return await Agent(client=Scripted(script), tools=[search_tool([])], middleware=[middleware]).run("go")

    asyncio.run(go())
    asyncio.run(go())
    sessions = {event["session_id"] for event in fake.rule.events}
    said = [record.message for record in caplog.records if "session" in record.message and record.name == "loopwarden_client"]
    assert len(sessions) == len(said) == 1 and sessions.pop() in said[0]


def test_without_a_guard_the_run_is_as_it_was() -> None:
    results, runs = run(Guard("http://127.0.0.1:1"), scripts.loop)
    assert runs == scripts.STEPS_MAX and set(results) == {"no result for same"}


def test_the_program_itself(real: Guard) -> None:
    scripts.check_real(*run(real, scripts.loop))


def test_the_readme(fake: FakeGuard, guard: Guard) -> None:
    made = readme.run("Microsoft Agent Framework", guard=guard, model=Scripted(scripts.loop), tools=[search_tool([])])

    async def go() -> Any:
        return await made["agent"].run("find it")

    assert asyncio.run(go()).text == "done" and fake.rule.denied == 1
