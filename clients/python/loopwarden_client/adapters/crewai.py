"""CrewAI: `install(guard)` once per process; it returns a function that takes the hooks away again.

CrewAI's hooks are global and synchronous, and its model never reads why a hook has blocked a call. So the call is blocked
before, and the text of the guard is put in the place of the result after it. The session is the kickoff of the crew.
"""

from collections.abc import Callable
from typing import Any

from crewai.hooks import (
    ToolCallHookContext,
    register_after_tool_call_hook,
    register_before_tool_call_hook,
    unregister_after_tool_call_hook,
    unregister_before_tool_call_hook,
)

from ..aio import AsyncGuard
from ..events import Call
from ..guard import Asking, Step
from ..open import Open
from .shared import Owner

# How CrewAI begins the result of a tool that has raised.
FAILED = "Error executing tool: "


class _Hooks:
    def __init__(self, guard: Asking | AsyncGuard, session_id: str | None) -> None:
        self._owner = Owner(guard, session_id)
        self._open: Open[tuple[Step, str | None]] = Open()

    def before(self, context: ToolCallHookContext) -> bool | None:
        """False blocks the call."""
        crew = context.crew
        run = getattr(crew, "_kickoff_event_id", None) or getattr(crew, "id", None)
        call = Call(
            context.tool_name,
            dict(context.tool_input),
            self._owner.session(run or getattr(context.task, "id", None)),
            self._owner.agent(getattr(context.agent, "role", None)),
            framework="crewai",
        )
        step = Step(self._owner.guard, call)
        refusal = step.refusal()
        # There is no id of a call: both hooks are given the same dictionary of arguments.
        self._open.put(id(context.tool_input), (step, refusal))
        return None if refusal is None else False

    def after(self, context: ToolCallHookContext) -> str | None:
        """A text takes the place of the result. This hook runs for blocked calls, too."""
        step, refusal = self._open.take(id(context.tool_input)) or (None, None)
        if step is None or refusal is not None:
            return refusal
        result = context.tool_result or ""
        text = step.note(error=result.removeprefix(FAILED)) if result.startswith(FAILED) else step.note(result)
        return f"{result}\n\n{text}" if text else None


def install(guard: Asking | AsyncGuard, *, session_id: str | None = None) -> Callable[[], None]:
    """Registers the hooks for all crews of this process."""
    hooks = _Hooks(guard, session_id)
    before: Any = hooks.before
    after: Any = hooks.after
    register_before_tool_call_hook(before)
    register_after_tool_call_hook(after)

    def uninstall() -> None:
        unregister_before_tool_call_hook(before)
        unregister_after_tool_call_hook(after)

    return uninstall
