"""Claude Agent SDK: `ClaudeAgentOptions(hooks=hooks(guard))`.

Sessions and sub-agents are Claude Code's own. What a person writes is reported too, without its text: loops are then counted anew.
"""

from typing import Any

from claude_agent_sdk import HookMatcher

from ..aio import AsyncGuard, AsyncStep
from ..events import Call, user_message
from ..guard import Asking
from ..open import Open
from .shared import Owner

# The guard's own deadline comes long before; a hook that meets this one would block the call. Seconds.
TIMEOUT_S = 30.0


class _Hooks:
    def __init__(self, guard: Asking | AsyncGuard, session_id: str | None) -> None:
        self._owner = Owner(guard, session_id)
        self._open: Open[AsyncStep] = Open()

    async def before(self, given: Any, tool_use_id: str | None, _: Any) -> dict[str, Any]:
        """PreToolUse: no opinion, or a refusal. Never `allow`: that would widen permissions."""
        call_id = given.get("tool_use_id") or tool_use_id
        call = Call(
            given["tool_name"],
            given["tool_input"],
            self._owner.session(given.get("session_id")),
            self._owner.agent(given.get("agent_id")),
            call_id or "",
            framework="claude-agent-sdk",
        )
        step = AsyncStep(self._owner.aio, call)
        refusal = await step.refusal()
        if refusal is None:
            self._open.put(call.call_id, step)
            return {}
        output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": refusal}
        return {"hookSpecificOutput": output}

    async def after(self, given: Any, tool_use_id: str | None, _: Any) -> dict[str, Any]:
        """PostToolUse and PostToolUseFailure: the text of a nudge stands beside the result."""
        step = self._open.take(given.get("tool_use_id") or tool_use_id)
        if step is None:
            return {}
        if given["hook_event_name"] == "PostToolUseFailure":
            text = await step.note(error=given.get("error"))
        else:
            text = await step.note(given.get("tool_response"))
        return {"hookSpecificOutput": {"hookEventName": given["hook_event_name"], "additionalContext": text}} if text else {}

    async def prompt(self, given: Any, *_: Any) -> dict[str, Any]:
        """UserPromptSubmit."""
        await self._owner.aio.observe(user_message(self._owner.session(given.get("session_id")), given.get("prompt") or ""))
        return {}


def hooks(
    guard: Asking | AsyncGuard, *, session_id: str | None = None, report_prompts: bool = True
) -> dict[Any, list[HookMatcher]]:
    """Hooks for `ClaudeAgentOptions`. Add your own to the lists."""
    own = _Hooks(guard, session_id)

    def matcher(callback: Any) -> list[HookMatcher]:
        return [HookMatcher(hooks=[callback], timeout=TIMEOUT_S)]

    made = {"PreToolUse": matcher(own.before), "PostToolUse": matcher(own.after), "PostToolUseFailure": matcher(own.after)}
    return {**made, "UserPromptSubmit": matcher(own.prompt)} if report_prompts else made
