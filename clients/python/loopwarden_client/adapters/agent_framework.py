"""Microsoft Agent Framework: `Agent(..., middleware=[LoopwardenMiddleware(guard)])`.

The session is that of the run: `agent.run("…", session=session)`. A run without one shares a session with all others of this
middleware. The framework does not tell middleware which agent calls: give each agent a middleware with its own `agent_id`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from agent_framework import Content, FunctionInvocationContext, FunctionMiddleware
from agent_framework.exceptions import MiddlewareException, UserInputRequiredException

from ..aio import AsyncGuard, AsyncStep
from ..events import Call
from ..guard import CAN, Asking
from .shared import Owner

# What the framework itself says of a function that has raised, unless details are asked for.
FAILED = "Error: Function failed."


class LoopwardenMiddleware(FunctionMiddleware):
    """Asks the guard before and after each function call. Place it first in the list."""

    def __init__(self, guard: Asking | AsyncGuard, *, session_id: str | None = None, agent_id: str | None = None) -> None:
        self._owner = Owner(guard, session_id, agent_id)

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Around a function call. A result that is set without `call_next` takes the place of the call."""
        session = context.session
        # There is no id of the call here.
        call = Call(
            context.function.name,
            context.arguments,
            self._owner.session(session and (session.service_session_id or session.session_id)),
            self._owner.agent(),
            framework="agent-framework",
        )
        step = AsyncStep(self._owner.aio, call, CAN)
        refusal = await step.refusal()
        if refusal is not None:
            context.result = refusal
            return
        try:
            await call_next()
        except (MiddlewareException, UserInputRequiredException):
            raise  # no outcome of the function
        except Exception as error:
            text = await step.note(error=error)
            if not text:
                raise
            # The model would read the framework's sentence only; now it reads that and the text.
            context.result = f"{FAILED}\n\n{text}"
            return
        text = await step.note(_said(context.result))
        if text and isinstance(context.result, list):
            context.result = [*context.result, Content.from_text(text)]
        elif text:
            context.result = f"{context.result}\n\n{text}"


def _said(result: Any) -> Any:
    """The text of a result, where it is made of texts."""
    if isinstance(result, list) and all(isinstance(part, Content) and part.type == "text" for part in result):
        return "\n".join(part.text or "" for part in result)
    return [part.to_dict() if isinstance(part, Content) else part for part in result] if isinstance(result, list) else result
