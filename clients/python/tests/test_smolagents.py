"""The adapter in agents of smolagents, with a scripted model. Its runs are synchronous."""

import itertools
import re
from typing import Any

import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

pytest.importorskip("smolagents", reason="smolagents is not in this environment")

from smolagents import CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

from loopwarden_client.adapters.smolagents import protect

ids = itertools.count()


def texts(messages: Any) -> list[str]:
    found = []
    for message in messages:
        if message.role in (MessageRole.TOOL_RESPONSE, MessageRole.USER) and isinstance(message.content, list):
            said = "".join(part.get("text", "") for part in message.content)
            found += re.findall(r"(?:Observation|Error|Execution logs):\n?(.*?)(?=\nObservation:|\Z)", said, re.S)
    return found


class Scripted(Model):
    """A model that follows a script, by tool calls or by code."""

    def __init__(self, script: Any, name: str = scripts.TOOL, is_code: bool = False) -> None:
        super().__init__(model_id="scripted")
        self.script, self.name, self.is_code = script, name, is_code
        self.seen: list[str] = []

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        self.seen = texts(messages)
        calls = [(self.name, args) for args in self.script(self.seen)] or [("final_answer", {"answer": "done"})]
        if self.is_code:
            lines = [f"print({name}(**{args!r}))" if name != "final_answer" else "final_answer('done')" for name, args in calls]
            return ChatMessage(role=MessageRole.ASSISTANT, content="Thought: on\n<code>\n" + "\n".join(lines) + "\n</code>")
        made = [
            ChatMessageToolCall(
                id=f"call_{next(ids)}", type="function", function=ChatMessageToolCallFunction(name=name, arguments=args)
            )
            for name, args in calls
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=made)


def search_tool(ran: list[str], error: bool = False) -> Any:
    @tool
    def search(q: str) -> str:
        """Searches.

        Args:
            q: what for
        """
        ran.append(q)
        if error:
            raise OSError("no result")
        return scripts.answer(q)

    return search


def run(guard: Guard, script: Any, is_code: bool = False, error: bool = False, **options: Any) -> tuple[list[str], int]:
    ran: list[str] = []
    model = Scripted(script, is_code=is_code)
    kind = CodeAgent if is_code else ToolCallingAgent
    agent = protect(kind(tools=[search_tool(ran, error)], model=model, max_steps=30, verbosity_level=0), guard, **options)
    assert agent.run("find it") == "done"
    seen = [text.replace("Last output from code snippet:\nNone", "").removeprefix("Execution logs:").strip() for text in model.seen]
    return seen, len(ran)


@pytest.mark.parametrize("is_code", [False, True])
def test_loop(fake: FakeGuard, guard: Guard, is_code: bool) -> None:
    scripts.check_loop(fake.rule, *run(guard, scripts.loop, is_code))


@pytest.mark.parametrize("is_code", [False, True])
def test_work(fake: FakeGuard, guard: Guard, is_code: bool) -> None:
    scripts.check_work(fake.rule, *run(guard, scripts.work, is_code, session_id="mine"))
    assert fake.rule.events[0]["session_id"] == "mine"


def test_parallel_calls(fake: FakeGuard, guard: Guard) -> None:
    results, runs = run(guard, scripts.parallel)
    # The observations of one step are one text.
    lines = [line for text in results for line in text.splitlines() if line]
    assert runs == 3 and sum("refused" in line for line in lines) == 2 and sum("3 times" in line for line in lines) == 1
    assert (fake.rule.nudges, fake.rule.denied) == (1, 2)


def test_a_tool_that_raises_tells_its_error_and_is_nudged(fake: FakeGuard, guard: Guard) -> None:
    results, runs = run(guard, scripts.loop, error=True)
    assert runs == 3 and any("3 times" in text and "no result" in text for text in results) and "refused" in results[-1]
    assert {event["outcome"] for event in fake.rule.results()} == {"error"}


@pytest.mark.parametrize("is_code", [False, True])
def test_managed_agents_are_agents_of_the_session(fake: FakeGuard, guard: Guard, is_code: bool) -> None:
    shared = search_tool([])
    helper = ToolCallingAgent(
        tools=[shared], model=Scripted(scripts.loop), name="helper", description="Searches.", max_steps=30, verbosity_level=0
    )
    kind = CodeAgent if is_code else ToolCallingAgent
    model = Scripted(lambda results: [] if results else [{"task": "x"}], "helper", is_code)
    boss = protect(kind(tools=[shared], model=model, managed_agents=[helper], verbosity_level=0), guard)
    assert boss.run("go") == "done"
    calls = {(event["agent"]["id"], event["tool"]) for event in fake.rule.calls()}
    assert calls == ({("helper", "search")} | (set() if is_code else {("main", "helper")}))
    assert fake.rule.denied == 1 and len({event["session_id"] for event in fake.rule.events}) == 1


def test_code_that_works_with_a_result_gets_it_as_it_is(fake: FakeGuard, guard: Guard) -> None:
    @tool
    def search(q: str) -> list:
        """Searches.

        Args:
            q: what for
        """
        return [{"title": "a"}]

    model = Scripted(lambda results: [{"q": "same"}] if len(results) < 3 else [], is_code=True)
    original = model.generate

    def generate(messages: Any, **options: Any) -> ChatMessage:
        message = original(messages, **options)
        message.content = message.content.replace("print(search(**{'q': 'same'}))", "print(search(q='same')[0]['title'])")
        return message

    model.generate = generate
    protect(CodeAgent(tools=[search], model=model, verbosity_level=0), guard).run("find it")
    assert [("3 times" in text, "failed" in text) for text in model.seen] == [(False, False)] * 2 + [(True, False)], model.seen


def test_each_run_is_a_session_unless_it_goes_on(fake: FakeGuard, guard: Guard) -> None:
    agent = protect(ToolCallingAgent(tools=[search_tool([])], model=Scripted(scripts.work), verbosity_level=0), guard)
    sessions = []
    for options in ({}, {"reset": False}, {}):
        turns = iter([[{"q": "a"}], []])
        agent.model = Scripted(lambda _, turns=turns: next(turns))
        agent.run("x", **options)
        sessions.append(fake.rule.calls()[-1]["session_id"])
    assert sessions[0] == sessions[1] != sessions[2]


def test_without_a_guard_the_run_is_as_it_was() -> None:
    results, runs = run(Guard("http://127.0.0.1:1"), scripts.loop)
    assert runs == scripts.STEPS_MAX and set(results) == {"no result for same"}


def test_the_program_itself(real: Guard) -> None:
    scripts.check_real(*run(real, scripts.loop))


def test_the_readme(fake: FakeGuard, guard: Guard) -> None:
    made = readme.run("smolagents", guard=guard, model=Scripted(scripts.loop), tools=[search_tool([])], question="find it")
    assert made["result"] == "done" and fake.rule.denied == 1
