"""The adapter in agents of Strands, with a scripted model."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

pytest.importorskip("strands", reason="strands-agents is not in this environment")

from strands import Agent, tool
from strands.models import Model

from loopwarden_client.adapters.strands import LoopwardenHooks

ids = itertools.count()


def texts(messages: Any) -> list[str]:
    blocks = [block["toolResult"] for message in messages for block in message["content"] if "toolResult" in block]
    return ["\n".join(part.get("text", "") for part in block["content"]) for block in blocks]


class Scripted(Model):
    """A model that follows a script."""

    def __init__(self, script: Any, name: str = scripts.TOOL) -> None:
        self.script, self.name = script, name

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        calls = self.script(texts(messages))
        yield {"messageStart": {"role": "assistant"}}
        for args in calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": self.name, "toolUseId": f"call_{next(ids)}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(args)}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


def search_tool(ran: list[str], error: bool = False) -> Any:
    @tool
    def search(q: str) -> str:
        """Searches."""
        ran.append(q)
        if error:
            raise OSError("no result")
        return scripts.answer(q)

    return search


def run(guard: Guard, script: Any, is_async: bool = True, error: bool = False, **options: Any) -> tuple[list[str], int]:
    ran: list[str] = []
    hooks = LoopwardenHooks(guard, **options)
    agent = Agent(model=Scripted(script), tools=[search_tool(ran, error)], hooks=[hooks], name="worker", callback_handler=None)
    result = asyncio.run(agent.invoke_async("find it")) if is_async else agent("find it")
    assert str(result).strip() == "done"
    return texts(agent.messages), len(ran)


@pytest.mark.parametrize("is_async", [False, True])
def test_loop(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    scripts.check_loop(fake.rule, *run(guard, scripts.loop, is_async))
    assert fake.rule.events[0]["agent"] == {"id": "worker", "framework": "strands"}
    assert fake.rule.events[0]["call_id"].startswith("call_")


@pytest.mark.parametrize("is_async", [False, True])
def test_work(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    scripts.check_work(fake.rule, *run(guard, scripts.work, is_async, session_id="mine"))
    assert fake.rule.events[0]["session_id"] == "mine"


def test_parallel_calls(fake: FakeGuard, guard: Guard) -> None:
    scripts.check_parallel(fake.rule, *run(guard, scripts.parallel))


def test_a_tool_that_raises_tells_its_error_and_is_nudged(fake: FakeGuard, guard: Guard) -> None:
    results, runs = run(guard, scripts.loop, error=True)
    assert runs == 3 and "3 times" in results[2] and "no result" in results[2] and "refused" in results[3]
    assert fake.rule.results()[0]["outcome"] == "error" and "no result" in fake.rule.results()[0]["error"]["message"]


def test_a_conversation_is_a_session_and_a_sub_agent_has_its_own_or_is_given_one(fake: FakeGuard, guard: Guard) -> None:
    hooks = LoopwardenHooks(guard)
    ran: list[str] = []

    def ask(turns: list[Any], name: str = scripts.TOOL) -> Scripted:
        left = iter(turns)
        return Scripted(lambda _: next(left), name)

    turns = [[{"q": "a"}], [], [{"q": "a"}], []]
    helper = Agent(model=ask(turns), tools=[search_tool(ran)], hooks=[hooks], name="helper", callback_handler=None)

    @tool
    def delegate(q: str) -> str:
        """Lets another agent search."""
        return str(helper(q, session_id=q or None))

    turns = [[{"q": ""}], [], [{"q": "given"}], []]
    boss = Agent(model=ask(turns, "delegate"), tools=[delegate], hooks=[hooks], name="boss", callback_handler=None)
    boss("go")
    boss("go on")
    calls = [(event["agent"]["id"], event["session_id"]) for event in fake.rule.calls()]
    assert [agent for agent, _ in calls] == ["boss", "helper"] * 2
    assert calls[0] == calls[2] and calls[3][1] == "given" and calls[1][1] not in (calls[0][1], "given")


def test_without_a_guard_the_run_is_as_it_was() -> None:
    results, runs = run(Guard("http://127.0.0.1:1"), scripts.loop)
    assert runs == scripts.STEPS_MAX and set(results) == {"no result for same"}


def test_the_program_itself(real: Guard) -> None:
    scripts.check_real(*run(real, scripts.loop))


def test_the_readme(fake: FakeGuard, guard: Guard) -> None:
    made = readme.run("Strands", guard=guard, model=Scripted(scripts.loop), tools=[search_tool([])], question="find it")
    assert str(made["result"]).strip() == "done" and fake.rule.denied == 1
