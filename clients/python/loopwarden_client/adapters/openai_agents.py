"""OpenAI Agents SDK: `protect(agent, guard)` before `Runner.run(agent, ...)`.

It gives every function tool of the agent, and of the agents that it hands over to or has as tools, a guardrail on its input and on
its output; tools of MCP servers too. Hosted tools run at the provider and have none. The session is the `group_id` of the run, else
its trace.
"""

from collections.abc import Callable
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Handoff,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
)
from agents.tracing import get_current_trace

from ..aio import AsyncGuard, AsyncStep
from ..events import Call
from ..guard import Asking, add
from ..open import Open
from .shared import Owner

Allow = ToolGuardrailFunctionOutput.allow
Reject = ToolGuardrailFunctionOutput.reject_content


class Guardrails:
    """The pair of guardrails. `session_id` may be a function of the call's `ToolContext`, as your own context knows it best."""

    def __init__(self, guard: Asking | AsyncGuard, session_id: str | Callable[[Any], str] | None = None) -> None:
        self._session_of = session_id if callable(session_id) else None
        self._owner = Owner(guard, None if callable(session_id) else session_id)
        self._open: Open[AsyncStep] = Open()
        self.before: Any = ToolInputGuardrail(guardrail_function=self._before, name="loopwarden")
        self.after: Any = ToolOutputGuardrail(guardrail_function=self._after, name="loopwarden")

    async def _before(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        context = data.context
        # Arguments as the model wrote them: a text that holds JSON.
        call = Call(
            context.tool_name,
            context.tool_arguments,
            self._session(context),
            self._owner.agent(data.agent.name),
            context.tool_call_id,
            framework="openai-agents",
        )
        step = AsyncStep(self._owner.aio, call)
        refusal = await step.refusal()
        if refusal is not None:
            return Reject(refusal)
        self._open.put(context.tool_call_id, step)
        return Allow()

    async def _after(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        step = self._open.take(data.context.tool_call_id)
        text = await step.note(data.output) if step else ""
        noted = add(data.output, text)
        # What is "rejected" is replaced: by itself, and the text behind it.
        return Allow() if noted is data.output else Reject(str(noted))

    def _session(self, context: Any) -> str:
        if self._session_of is not None:
            return self._session_of(context)
        group = getattr(context.run_config, "group_id", None)
        trace = get_current_trace()
        run = getattr(trace, "trace_id", None)
        return self._owner.session(group or getattr(trace, "group_id", None) or (run if run != "no-op" else None))


def protect(agent: Agent[Any], guard: Asking | AsyncGuard, *, session_id: str | Callable[[Any], str] | None = None) -> Agent[Any]:
    """Puts the guardrails on the agent's tools, once, and gives the agent back."""
    _walk(agent, Guardrails(guard, session_id), set())
    return agent


def _walk(agent: Any, rails: Guardrails, seen: set[int]) -> None:
    if agent is None or id(agent) in seen:
        return
    seen.add(id(agent))
    functions = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    for tool in [*functions, *agent.mcp_servers]:
        inputs = list(getattr(tool, "tool_input_guardrails", None) or [])
        if all(rail.name != "loopwarden" for rail in inputs):
            tool.tool_input_guardrails = [rails.before, *inputs]
            tool.tool_output_guardrails = [*(tool.tool_output_guardrails or []), rails.after]
        _walk(getattr(tool, "_agent_instance", None), rails, seen)
    for handoff in agent.handoffs:
        reference = getattr(handoff, "_agent_ref", None) if isinstance(handoff, Handoff) else None
        _walk(reference() if reference else handoff if isinstance(handoff, Agent) else None, rails, seen)
