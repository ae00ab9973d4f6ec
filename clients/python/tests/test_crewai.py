"""The adapter in crews of CrewAI, with a scripted model."""

import asyncio
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import Guard

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}
pytest.importorskip("crewai", reason="crewai is not in this environment")

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

from loopwarden_client.adapters.crewai import install

ids = itertools.count()


class Scripted(BaseLLM):
    """A model that follows a script."""

    script: Any = None
    tool: str = scripts.TOOL
    seen: Any = None

    def call(self, messages: Any, tools: Any = None, *_: Any, **__: Any) -> Any:
        results = [str(message["content"]) for message in messages if message["role"] == "tool"]
        self.seen.append(results)
        calls = self.script(results) if tools else []
        made = [
            {"id": f"call_{next(ids)}", "type": "function", "function": {"name": self.tool, "arguments": json.dumps(args)}}
            for args in calls
        ]
        return made or "done"

    async def acall(self, *args: Any, **options: Any) -> Any:
        return self.call(*args, **options)

    def supports_function_calling(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))


@pytest.fixture
def installed(guard: Guard) -> Iterator[None]:
    uninstall = install(guard)
    yield
    uninstall()


def worker(script: Any, tools: list[Any], seen: list[list[str]], name: str = scripts.TOOL, role: str = "worker") -> Agent:
    model = Scripted(model="scripted", script=script, seen=seen, tool=name)
    return Agent(role=role, goal="g", backstory="b", llm=model, tools=tools, cache=False, max_iter=30, verbose=False)


def search_tool(ran: list[str], error: bool = False) -> Any:
    @tool("search")
    def search(q: str) -> str:
        """Searches."""
        ran.append(q)
        if error:
            raise OSError("no result")
        return scripts.answer(q)

    search.cache_function = lambda *_: False
    return search


def run(script: Any, is_async: bool = False, error: bool = False) -> tuple[list[str], int]:
    ran: list[str] = []
    seen: list[list[str]] = []
    agent = worker(script, [search_tool(ran, error)], seen)
    task = Task(description="find it", expected_output="it", agent=agent)
    crew = Crew(agents=[agent], tasks=[task], cache=False, tracing=False)
    result = asyncio.run(crew.akickoff()) if is_async else crew.kickoff()
    assert "done" in result.raw
    return max(seen, key=len), len(ran)


@pytest.mark.parametrize("is_async", [False, True])
def test_loop(fake: FakeGuard, installed: None, is_async: bool) -> None:
    scripts.check_loop(fake.rule, *run(scripts.loop, is_async))
    assert fake.rule.events[0]["agent"] == {"id": "worker", "framework": "crewai"}


@pytest.mark.parametrize("is_async", [False, True])
def test_work(fake: FakeGuard, installed: None, is_async: bool) -> None:
    scripts.check_work(fake.rule, *run(scripts.work, is_async))


def test_parallel_calls(fake: FakeGuard, installed: None) -> None:
    scripts.check_parallel(fake.rule, *run(scripts.parallel))


def test_a_tool_that_raises_tells_its_error_and_is_nudged(fake: FakeGuard, installed: None) -> None:
    results, runs = run(scripts.loop, error=True)
    assert runs == 3 and "3 times" in results[2] and "no result" in results[2] and "refused" in results[3]
    assert {event["outcome"] for event in fake.rule.results()} == {"error"}
    assert fake.rule.results()[0]["error"] == {"message": "no result"}


def test_each_kickoff_is_a_session_and_agents_of_a_crew_share_it(fake: FakeGuard, installed: None) -> None:
    agents = [
        worker(lambda results: [] if results else [{"q": "x"}], [search_tool([])], [], role=role) for role in ("first", "second")
    ]
    tasks = [Task(description="d", expected_output="e", agent=agent) for agent in agents]
    crew = Crew(agents=agents, tasks=tasks, cache=False, tracing=False)
    crew.kickoff()
    crew.kickoff()
    calls = [(event["session_id"], event["agent"]["id"]) for event in fake.rule.calls()]
    assert [agent for _, agent in calls] == ["first", "second", "first", "second"]
    assert len({session for session, _ in calls}) == 2


def test_without_a_guard_and_after_uninstalling_the_run_is_as_it_was(fake: FakeGuard) -> None:
    uninstall = install(Guard("http://127.0.0.1:1"))
    # CrewAI has a detector of its own, which ends a task at the fifth equal call: here work is what shows that all goes on.
    results, runs = run(scripts.work)
    uninstall()
    assert runs == 6 and "no result for question 5" in results[5]
    install(Guard(fake.address))()
    assert run(scripts.work)[1] == 6 and not fake.rule.events


def test_the_readme(fake: FakeGuard, guard: Guard) -> None:
    from crewai.hooks import clear_all_tool_call_hooks

    agent = worker(scripts.loop, [search_tool([])], [])
    task = Task(description="find it", expected_output="it", agent=agent)
    made = readme.run("CrewAI", guard=guard, agents=[agent], tasks=[task])
    clear_all_tool_call_hooks()
    assert "done" in made["result"].raw and fake.rule.denied == 1
