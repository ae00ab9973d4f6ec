"""The adapter in PydanticAI's runs, with a scripted model."""

import asyncio
import itertools
from typing import Any

import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not in this environment")

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from loopwarden_client.adapters.pydantic_ai import LoopwardenCapability

ids = itertools.count()


def texts(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, (ToolReturnPart, RetryPromptPart))]


def model(script: Any, tool: str = scripts.TOOL) -> FunctionModel:
    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        calls = [ToolCallPart(tool, args, tool_call_id=f"call_{next(ids)}") for args in script(texts(messages))]
        return ModelResponse(parts=calls or [TextPart("done")])

    return FunctionModel(respond)


def run(guard: Guard, script: Any, is_async: bool = True, search: Any = None, **options: Any) -> tuple[list[str], int]:
    ran = []
    agent = Agent(model(script), capabilities=[LoopwardenCapability(guard, **options)], name="worker", retries=20)

    @agent.tool_plain(name=scripts.TOOL)
    def _search(q: str) -> Any:
        ran.append(q)
        return (search or scripts.answer)(q)

    result = asyncio.run(agent.run("find it")) if is_async else agent.run_sync("find it")
    assert result.output == "done"
    return texts(result.all_messages()), len(ran)


@pytest.mark.parametrize("is_async", [False, True])
def test_loop(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    scripts.check_loop(fake.rule, *run(guard, scripts.loop, is_async))
    assert fake.rule.events[0]["agent"] == {"id": "worker", "framework": "pydantic-ai"}


@pytest.mark.parametrize("is_async", [False, True])
def test_work(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    scripts.check_work(fake.rule, *run(guard, scripts.work, is_async, session_id="mine"))
    assert fake.rule.events[0]["session_id"] == "mine"


def test_parallel_calls(fake: FakeGuard, guard: Guard) -> None:
    scripts.check_parallel(fake.rule, *run(guard, scripts.parallel))


def fails(error: Exception) -> Any:
    def search(q: str) -> str:
        raise error

    return search


@pytest.mark.parametrize("error", [ModelRetry("no result"), ToolFailed("no result")])
def test_failures_for_the_model_are_errors_and_carry_the_nudge(fake: FakeGuard, guard: Guard, error: Exception) -> None:
    results, runs = run(guard, scripts.loop, search=fails(error))
    assert runs == 3 and "3 times" in results[2] and "no result" in results[2] and "refused" in results[3]
    assert fake.rule.results()[0]["outcome"] == "error" and "no result" in fake.rule.results()[0]["error"]["message"]


def test_an_error_that_ends_the_run_still_does(fake: FakeGuard, guard: Guard) -> None:
    with pytest.raises(OSError, match="gone"):
        run(guard, scripts.loop, search=fails(OSError("gone")))
    assert fake.rule.results()[0]["error"] == {"type": "OSError", "message": "gone"}


def test_a_result_that_is_no_text_stays_what_it_is(fake: FakeGuard, guard: Guard) -> None:
    def script(results: list[str]) -> list[dict[str, Any]]:
        return [{"q": "same"}] if len(results) < 3 else []

    assert run(guard, script, search=lambda q: [1, 2])[0] == ["[1, 2]"] * 3
    assert fake.rule.nudges == 1


def test_a_sub_agent_is_another_agent_of_the_session(fake: FakeGuard, guard: Guard) -> None:
    capability = LoopwardenCapability(guard)
    helper = Agent(model(scripts.loop), capabilities=[capability], name="helper")
    helper.tool_plain(name="search")(lambda q: scripts.answer(q))
    boss = Agent(model(lambda results: [] if results else [{"q": "x"}], "delegate"), capabilities=[capability], name="boss")

    @boss.tool
    async def delegate(ctx: RunContext[None], q: str) -> str:
        return (await helper.run(q, conversation_id=ctx.conversation_id)).output

    asyncio.run(boss.run("go", conversation_id="c"))
    assert {(event["session_id"], event["agent"]["id"], event["tool"]) for event in fake.rule.events} == {
        ("c", "boss", "delegate"), ("c", "helper", "search")
    }
    assert fake.rule.denied == 1


def test_without_a_guard_the_run_is_as_it_was() -> None:
    results, runs = run(Guard("http://127.0.0.1:1"), scripts.loop)
    assert runs == scripts.STEPS_MAX and set(results) == {"no result for same"}


def test_the_program_itself(real: Guard) -> None:
    scripts.check_real(*run(real, scripts.loop))


def test_the_readme(fake: FakeGuard, guard: Guard) -> None:
    def search(q: str) -> str:
        return scripts.answer(q)

    made = readme.run("PydanticAI", guard=guard, model=model(scripts.loop), tools=[search], question="find it")
    assert made["result"].output == "done" and fake.rule.denied == 1
