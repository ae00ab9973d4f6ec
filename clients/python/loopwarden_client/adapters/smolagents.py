"""smolagents: `protect(agent, guard)` for a `ToolCallingAgent` or a `CodeAgent`, and the agents that it manages.

The session is one `run`; with `reset=False` it goes on.
"""

import copy
import functools
import threading
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from smolagents import MultiStepAgent, ToolCallingAgent

from ..aio import AsyncGuard
from ..events import Call
from ..guard import Asking, Step, add, add_to_error, arguments
from .shared import Owner

FINAL = "final_answer"
Agent = TypeVar("Agent", bound=MultiStepAgent)


class _Run:
    """The session of the run that the outermost agent is in."""

    def __init__(self, given: str | None) -> None:
        self.session_id = given or uuid.uuid4().hex
        self._is_given = given is not None
        self._lock = threading.Lock()

    def renew(self) -> None:
        with self._lock:
            if not self._is_given:
                self.session_id = uuid.uuid4().hex


def protect(agent: Agent, guard: Asking | AsyncGuard, *, session_id: str | None = None) -> Agent:
    """Makes the agent ask before and after each tool call, and gives it back."""
    run = _Run(session_id)
    original = agent.run

    @functools.wraps(original)
    def renewed(task: Any, stream: bool = False, reset: bool = True, **options: Any) -> Any:
        if reset:
            run.renew()
        return original(task, stream=stream, reset=reset, **options)

    agent.run = renewed
    _protect(agent, Owner(guard), run, "main")
    return agent


def _protect(agent: Any, owner: Owner, run: _Run, default: str) -> None:
    name = getattr(agent, "name", None) or default
    if isinstance(agent, ToolCallingAgent):
        execute: Callable[[str, Any], Any] = agent.execute_tool_call

        def guarded(tool_name: str, arguments: Any) -> Any:
            return _around(owner, run, name, tool_name, arguments, lambda: execute(tool_name, arguments))

        agent.execute_tool_call = guarded  # type: ignore[method-assign]
    else:
        # Generated code calls the tools itself. They are copied: another agent may hold the same ones.
        for tool_name, tool in agent.tools.items():
            agent.tools[tool_name] = _guarded_tool(owner, run, name, tool_name, tool)
    for number, managed in enumerate((agent.managed_agents or {}).values()):
        _protect(managed, owner, run, f"managed-{number}")


def _guarded_tool(owner: Owner, run: _Run, agent_id: str, tool_name: str, tool: Any) -> Any:
    forward = tool.forward
    held = copy.copy(tool)

    @functools.wraps(forward)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        return _around(owner, run, agent_id, tool_name, arguments(forward, args, kwargs), lambda: forward(*args, **kwargs))

    held.forward = guarded
    return held


def _around(owner: Owner, run: _Run, agent_id: str, tool: str, args: Any, ask: Callable[[], Any]) -> Any:
    if tool == FINAL:
        return ask()
    step = Step(owner.guard, Call(tool, args, run.session_id, agent_id, framework="smolagents"))
    refusal = step.refusal()
    if refusal is not None:
        return refusal
    try:
        result = ask()
    except Exception as error:
        add_to_error(error, step.note(error=error))
        if hasattr(error, "message"):
            error.message = str(error)  # what the model reads of an AgentError
        raise
    return add(result, step.note(result))
