"""smolagents: `protect(agent, guard)` for a `ToolCallingAgent` or a `CodeAgent`, and the agents that it manages.

The session is one `run`; with `reset=False` it goes on. Generated code works with results as they are, so that a text in them would
break it: there a refusal is an error of the code, and a nudge stands behind what the step has printed.
"""

import copy
import functools
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from smolagents import ActionStep, MultiStepAgent, ToolCallingAgent

from ..aio import AsyncGuard
from ..events import Call
from ..guard import Asking, Step, add, add_to_error, arguments
from .shared import Owner

FINAL = "final_answer"
Agent = TypeVar("Agent", bound=MultiStepAgent)


def protect(agent: Agent, guard: Asking | AsyncGuard, *, session_id: str | None = None) -> Agent:
    """Makes the agent ask before and after each tool call, and gives it back."""
    session = [session_id or uuid.uuid4().hex]
    original = agent.run

    @functools.wraps(original)
    def run(task: Any, stream: bool = False, reset: bool = True, **options: Any) -> Any:
        if reset and session_id is None:
            session[0] = uuid.uuid4().hex
        return original(task, stream=stream, reset=reset, **options)

    agent.run = run
    _Protected(agent, Owner(guard), session, "main")
    return agent


class _Protected:
    """One agent. `session` is shared with those that it manages, and changes with each run."""

    def __init__(self, agent: Any, owner: Owner, session: list[str], default: str) -> None:
        self._owner, self._session = owner, session
        self._name = getattr(agent, "name", None) or default
        self._notes: list[str] = []
        if isinstance(agent, ToolCallingAgent):
            agent.execute_tool_call = self._executing(agent.execute_tool_call)
        else:
            # Generated code calls the tools itself. They are copied: another agent may hold the same ones.
            agent.tools.update({name: self._copied(name, tool) for name, tool in agent.tools.items() if name != FINAL})
            agent.step_callbacks.register(ActionStep, self._tell)
        for number, managed in enumerate((agent.managed_agents or {}).values()):
            _Protected(managed, owner, session, f"managed-{number}")

    def _executing(self, execute: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
        def guarded(tool_name: str, arguments: Any) -> Any:
            if tool_name == FINAL:
                return execute(tool_name, arguments)
            step = self._step(tool_name, arguments)
            if (refusal := step.refusal()) is not None:
                return refusal
            result = _watched(step, lambda: execute(tool_name, arguments))
            return add(result, step.note(result))

        return guarded

    def _copied(self, name: str, tool: Any) -> Any:
        forward, held = tool.forward, copy.copy(tool)

        @functools.wraps(forward)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            step = self._step(name, arguments(forward, args, kwargs))
            if (refusal := step.refusal()) is not None:
                raise RuntimeError(refusal)
            result = _watched(step, lambda: forward(*args, **kwargs))
            self._notes.append(step.note(result))
            return result

        held.forward = guarded
        return held

    def _tell(self, memory_step: Any) -> None:
        for note in filter(None, self._notes):
            memory_step.observations = f"{memory_step.observations or ''}\n\n{note}"
        self._notes.clear()

    def _step(self, tool: str, args: Any) -> Step:
        return Step(self._owner.guard, Call(tool, args, self._session[0], self._name, framework="smolagents"))


def _watched(step: Step, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:
        add_to_error(error, step.note(error=error))
        if hasattr(error, "message"):
            error.message = str(error)  # what the model reads of an AgentError
        raise
