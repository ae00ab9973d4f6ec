"""The adapter in LangChain's own agents, with a scripted model."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

pytest.importorskip("langchain", reason="langchain is not in this environment")

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode

from loopwarden_client.adapters.langchain import LoopwardenMiddleware

ids = itertools.count()


class Scripted(BaseChatModel):
    """A model that follows a script."""

    script: Any
    tool: str = scripts.TOOL

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> "Scripted":
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        script = self.script(texts(messages))
        calls = [{"name": self.tool, "args": args, "id": f"call_{next(ids)}", "type": "tool_call"} for args in script]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "done", tool_calls=calls))])


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def run(guard: Guard, script: Callable[..., Any], is_async: bool, **options: Any) -> tuple[list[str], int]:
    ran = []

    @tool
    def search(q: str, limit: int = 10) -> str:
        """Searches."""
        ran.append(q)
        return scripts.answer(q)

    agent = create_agent(Scripted(script=script), [search], middleware=[LoopwardenMiddleware(guard, **options)])
    question = {"messages": [("user", "find it")]}
    config: Any = {"configurable": {"thread_id": "thread-1"}}
    state = asyncio.run(agent.ainvoke(question, config)) if is_async else agent.invoke(question, config)
    assert state["messages"][-1].text == "done"
    return texts(state["messages"]), len(ran)


@pytest.mark.parametrize("is_async", [False, True])
def test_runs(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    scripts.check_loop(fake.rule, *run(guard, scripts.loop, is_async))
    assert fake.rule.events[0]["session_id"] == "thread-1"
    assert fake.rule.events[0]["call_id"].startswith("call_")


@pytest.mark.parametrize("is_async", [False, True])
def test_work(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    scripts.check_work(fake.rule, *run(guard, scripts.work, is_async))


@pytest.mark.parametrize("is_async", [False, True])
def test_parallel_calls(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    scripts.check_parallel(fake.rule, *run(guard, scripts.parallel, is_async, session_id="mine"))
    assert fake.rule.events[0]["session_id"] == "mine"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_raises_tells_its_error_and_is_nudged(fake: FakeGuard, guard: Guard, is_async: bool) -> None:
    @tool
    def search(q: str) -> str:
        """Searches."""
        raise OSError(f"no {q}")

    middleware = LoopwardenMiddleware(guard)
    node = ToolNode(
        [search], wrap_tool_call=middleware.wrap_tool_call, awrap_tool_call=middleware.awrap_tool_call, handle_tool_errors=str
    )
    from langgraph.graph import END, START, MessagesState, StateGraph

    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").add_edge("tools", END).compile()
    answers = []
    for number in range(4):
        calls = [{"name": "search", "args": {"q": "x"}, "id": f"e{number}", "type": "tool_call"}]
        state: Any = {"messages": [AIMessage("", tool_calls=calls)]}
        config: Any = {"configurable": {"thread_id": "t"}}
        done = asyncio.run(graph.ainvoke(state, config)) if is_async else graph.invoke(state, config)
        answers.append(done["messages"][-1])
    assert [answer.status for answer in answers] == ["error"] * 4
    assert "3 times" in answers[2].text and "refused" in answers[3].text, answers
    assert fake.rule.results()[0]["outcome"] == "error" and "no x" in fake.rule.results()[0]["error"]["message"]


def test_a_sub_agent_is_another_agent_of_the_session(fake: FakeGuard, guard: Guard) -> None:
    middleware = LoopwardenMiddleware(guard)

    @tool
    def search(q: str) -> str:
        """Searches."""
        return scripts.answer(q)

    inner = create_agent(Scripted(script=scripts.loop), [search], middleware=[middleware], name="helper")

    @tool
    def delegate(q: str) -> str:
        """Lets another agent search."""
        return inner.invoke({"messages": [("user", q)]})["messages"][-1].text

    outer = create_agent(
        Scripted(script=lambda results: [{"q": "x"}] if not results else [], tool="delegate"),
        [delegate], middleware=[middleware], name="boss",
    )
    outer.invoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "t"}})
    assert {(event["session_id"], event["agent"]["id"], event["tool"]) for event in fake.rule.events} == {
        ("t", "boss", "delegate"), ("t", "helper", "search")
    }
    assert fake.rule.denied == 1


def test_without_a_guard_the_run_is_as_it_was() -> None:
    results, runs = run(Guard("http://127.0.0.1:1"), scripts.loop, False)
    assert runs == scripts.STEPS_MAX and set(results) == {"no result for same"}


def test_the_program_itself(real: Guard) -> None:
    scripts.check_real(*run(real, scripts.loop, True))


def test_the_readme(fake: FakeGuard, guard: Guard) -> None:
    @tool
    def search(q: str) -> str:
        """Searches."""
        return scripts.answer(q)

    made = readme.run("LangChain, LangGraph", guard=guard, model=Scripted(script=scripts.loop), tools=[search], question="find it")
    assert made["state"]["messages"][-1].text == "done" and fake.rule.denied == 1
    assert fake.rule.events[0]["session_id"] == "conversation-1"
