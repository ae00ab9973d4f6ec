"""LlamaIndex: `protect(agent, guard)` for a `FunctionAgent`, a `ReActAgent` or an `AgentWorkflow`.

All of them run their tools in one method, which is overridden on the given object. The session belongs to the run's `Context`, so a
conversation that goes on in the same context is one session.
"""

import uuid
from typing import Any, TypeVar

from llama_index.core.llms import TextBlock
from llama_index.core.tools import ToolOutput

from ..aio import AsyncGuard, AsyncStep
from ..events import Call
from ..guard import Asking
from .shared import Owner

SESSION_KEY = "loopwarden_session"
Agent = TypeVar("Agent")


def protect(agent: Agent, guard: Asking | AsyncGuard, *, session_id: str | None = None, agent_id: str | None = None) -> Agent:
    """Makes the agent ask before and after each tool call, and gives it back."""
    owner = Owner(guard, session_id, agent_id)
    call_tool = agent._call_tool  # type: ignore[attr-defined]

    async def guarded(ctx: Any, tool: Any, tool_input: dict[str, Any]) -> ToolOutput:
        name = tool.metadata.get_name()
        whose = await ctx.store.get("current_agent_name", default=None) or getattr(agent, "name", None)
        # There is no id of a call here.
        call = Call(
            name, dict(tool_input), session_id or await _session(ctx), owner.agent(whose), framework="llama-index"
        )
        step = AsyncStep(owner.aio, call)
        refusal = await step.refusal()
        if refusal is not None:
            return ToolOutput(content=refusal, tool_name=name, raw_input=tool_input, raw_output=refusal, is_error=True)
        # It gives errors of tools back; what it raises waits for a person, and is no outcome.
        output = await call_tool(ctx, tool, tool_input)
        text = await (step.note(error=output.content) if output.is_error else step.note(output.content))
        if text:
            output.blocks = [*output.blocks, TextBlock(text=f"\n\n{text}")]
        return output

    # The classes are pydantic's, which refuse names that they do not know.
    object.__setattr__(agent, "_call_tool", guarded)
    return agent


async def _session(ctx: Any) -> str:
    """The id that the context of the run holds; it is made with the first call."""
    found = await ctx.store.get(SESSION_KEY, default=None)
    if not found:
        async with ctx.store.edit_state() as state:
            found = state.get(SESSION_KEY, default=None) or uuid.uuid4().hex
            state[SESSION_KEY] = found
    return str(found)
