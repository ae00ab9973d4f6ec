"""PydanticAI: `Agent(..., capabilities=[LoopwardenCapability(guard)])`.

The session is the run's `conversation_id`. A sub-agent that a tool runs has a conversation of its own, unless it is given
that of its parent: `helper.run(..., conversation_id=ctx.conversation_id)`.
"""

from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, SkipToolExecution, ToolFailedError, ToolRetryError
from pydantic_ai.messages import ToolCallPart, ToolReturn
from pydantic_ai.tools import ToolDefinition

from ..aio import AsyncGuard, AsyncStep
from ..events import Call
from ..guard import Asking, add, add_to_error
from .shared import Owner


@dataclass
class LoopwardenCapability(AbstractCapability[Any]):
    """Asks the guard before and after each tool call."""

    guard: Asking | AsyncGuard
    session_id: str | None = None
    agent_id: str | None = None
    _owner: Owner = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._owner = Owner(self.guard, self.session_id, self.agent_id)

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], handler: Any
    ) -> Any:
        """Around the whole life of a call."""
        agent = getattr(ctx.agent, "name", None)
        step = AsyncStep(
            self._owner.aio,
            Call(
                call.tool_name,
                call.args if call.args is not None else {},
                self._owner.session(ctx.conversation_id or ctx.run_id),
                self._owner.agent(agent),
                call.tool_call_id,
                framework="pydantic-ai",
            ),
        )
        refusal = await step.refusal()
        if refusal is not None:
            return refusal
        try:
            result = await handler(args)
        except (SkipToolExecution, CallDeferred, ApprovalRequired):
            raise  # no result, and no failure
        except ToolRetryError as error:
            _say(error.tool_retry, await step.note(error=error.tool_retry.content))
            raise
        except ToolFailedError as error:
            _say(error.tool_failed, await step.note(error=error.tool_failed.content))
            raise
        except Exception as error:
            add_to_error(error, await step.note(error=error))
            raise
        return _noted(result, await step.note(result.return_value if isinstance(result, ToolReturn) else result))


def _say(part: Any, text: str) -> None:
    """Puts a text behind that which the model reads of a failure."""
    if text and isinstance(part.content, str):
        part.content = f"{part.content}\n\n{text}"


def _noted(result: Any, text: str) -> Any:
    if not text:
        return result
    if isinstance(result, ToolReturn):
        result.return_value = add(result.return_value, text)
        return result
    if isinstance(result, (str, dict)):
        return add(result, text)
    # Whatever else a tool returns stays as it is; the text is a part of its own behind it.
    return ToolReturn(return_value=result, content=text)
