"""The adapter in runs of the Google ADK, with a scripted model."""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

pytest.importorskip("google.adk", reason="google-adk is not in this environment")

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from loopwarden_client.adapters.google_adk import LoopwardenPlugin

ids = itertools.count()


class Scripted(BaseLlm):
    """A model that follows a script."""

    model: str = "scripted"
    script: Any
    tool: str = scripts.TOOL

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        parts = [
            types.Part(function_call=types.FunctionCall(id=f"call_{next(ids)}", name=self.tool, args=args))
            for args in self.script(texts(llm_request.contents))
        ]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text="done")]))


def texts(contents: Any) -> list[str]:
    parts = [part for content in contents for part in content.parts or [] if part.function_response]
    return ["\n".join(str(value) for value in part.function_response.response.values()) for part in parts]


def run(guard: Guard, agent: LlmAgent, is_async: bool = True) -> list[str]:
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[LoopwardenPlugin(guard)]))
    asyncio.run(runner.session_service.create_session(app_name="app", user_id="u", session_id="session-1"))
    question: dict[str, Any] = {
        "user_id": "u", "session_id": "session-1", "new_message": types.Content(role="user", parts=[types.Part(text="find it")])
    }

    async def go() -> list[Any]:
        return [event async for event in runner.run_async(**question)]

    events = asyncio.run(go()) if is_async else list(runner.run(**question))
    assert events[-1].content.parts[0].text == "done"
    return texts([event.content for event in events if event.content])


def searching(script: Any, ran: list[str], name: str = "main_agent", **options: Any) -> LlmAgent:
    def search(q: str, limit: int = 10) -> str:
        """Searches."""
        ran.append(q)
        return scripts.answer(q)

    return LlmAgent(name=name, model=Scripted(script=script), tools=[search], **options)


@pytest.mark.parametrize("is_async", [False, True])
def test_loop(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    ran: list[str] = []
    results = run(guard, searching(scripts.loop, ran), is_async)
    scripts.check_loop(fake.rule, results, len(ran))
    assert fake.rule.events[0]["kind"] == "message" and fake.rule.events[0]["session_id"] == "session-1"
    assert fake.rule.calls()[0]["agent"] == {"id": "main_agent", "framework": "google-adk"}
    assert fake.rule.calls()[0]["call_id"].startswith("call_")


@pytest.mark.parametrize("is_async", [False, True])
def test_work(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    ran: list[str] = []
    results = run(guard, searching(scripts.work, ran), is_async)
    scripts.check_work(fake.rule, results, len(ran))


def test_parallel_calls(fake: FakeGuard, guard: Guard) -> None:
    ran: list[str] = []
    results = run(guard, searching(scripts.parallel, ran))
    scripts.check_parallel(fake.rule, results, len(ran))


def test_an_error_that_ends_the_run_still_does(fake: FakeGuard, guard: Guard) -> None:
    def search(q: str) -> str:
        """Searches."""
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        run(guard, LlmAgent(name="a", model=Scripted(script=scripts.loop), tools=[search]))
    assert fake.rule.results()[0]["error"] == {"type": "OSError", "message": "gone"}


def test_a_result_that_says_error_is_one(fake: FakeGuard, guard: Guard) -> None:
    def search(q: str) -> dict[str, str]:
        """Searches."""
        return {"error": "no result"}

    results = run(guard, LlmAgent(name="a", model=Scripted(script=scripts.loop), tools=[search]))
    assert "3 times" in results[2] and "no result" in results[2] and "refused" in results[3]
    assert {event["outcome"] for event in fake.rule.results()} == {"error"}


def test_sub_agents_are_agents_of_their_session(fake: FakeGuard, guard: Guard) -> None:
    ran: list[str] = []
    helper = searching(scripts.loop, ran, "helper")
    script = lambda results: [] if results else [{"agent_name": "helper"}]  # noqa: E731
    boss = LlmAgent(name="boss", model=Scripted(script=script, tool="transfer_to_agent"), sub_agents=[helper])
    # What was handed over counts the transfer as a result.
    helper.model.script = lambda results: scripts.loop(results[1:])
    run(guard, boss)
    assert {(event["session_id"], event["agent"]["id"], event["tool"]) for event in fake.rule.calls()} == {
        ("session-1", "boss", "transfer_to_agent"), ("session-1", "helper", "search")
    }
    assert fake.rule.denied == 1 and len(ran) == 3


def test_an_agent_as_a_tool_is_guarded_too(fake: FakeGuard, guard: Guard) -> None:
    ran: list[str] = []
    script = lambda results: [] if results else [{"request": "x"}]  # noqa: E731
    tool = AgentTool(searching(scripts.loop, ran, "helper"))
    run(guard, LlmAgent(name="boss", model=Scripted(script=script, tool="helper"), tools=[tool]))
    assert {(event["agent"]["id"], event["tool"]) for event in fake.rule.calls()} == {("boss", "helper"), ("helper", "search")}
    assert fake.rule.denied == 1 and len(ran) == 3


def test_without_a_guard_the_run_is_as_it_was() -> None:
    ran: list[str] = []
    results = run(Guard("http://127.0.0.1:1"), searching(scripts.loop, ran))
    assert len(ran) == scripts.STEPS_MAX and set(results) == {"no result for same"}


def test_the_program_itself(real: Guard) -> None:
    ran: list[str] = []
    results = run(real, searching(scripts.loop, ran))
    scripts.check_real(results, len(ran))


def test_the_readme(fake: FakeGuard, guard: Guard) -> None:
    made = readme.run("Google ADK", guard=guard, agent=searching(scripts.loop, []))
    asyncio.run(InMemoryRunner(app=made["app"]).run_debug("find it", quiet=True))
    assert fake.rule.denied == 1
