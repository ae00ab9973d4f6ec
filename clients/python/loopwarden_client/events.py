"""The events of a tool call, as the engine reads them (src/docs/events.md)."""

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .plain import content, name, sound, text_of

ERROR_CHARS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool: it makes the event before the call and the event after it."""

    tool: str
    args: object
    session_id: str
    agent_id: str = "main"
    """Tells the agents of one session apart."""
    call_id: str = ""
    """The model's id of the call, else a random one. Ids of events are made of it: two reports of one call are one."""
    framework: str | None = None

    def __post_init__(self) -> None:
        if not self.call_id:
            object.__setattr__(self, "call_id", uuid.uuid4().hex)

    def before(self) -> dict[str, Any]:
        """What is asked about before the tool runs."""
        return self._event("tool_call") | content("args", self.args)

    def after(self, result: object = None, *, error: object = None, outcome: str | None = None) -> dict[str, Any]:
        """What is told when the tool has run: a result, or the error that it raised or returned."""
        event = self._event("tool_result")
        event["outcome"] = outcome or ("error" if error is not None else "ok")
        if isinstance(error, BaseException):
            event["error"] = {"type": type(error).__name__, "message": text_of(error)[:ERROR_CHARS_MAX]}
        elif error is not None:
            event["error"] = {"message": text_of(error)[:ERROR_CHARS_MAX]}
        else:
            event |= content("result", result)
        return event

    def _event(self, kind: str) -> dict[str, Any]:
        agent = {"id": name(self.agent_id, "main")}
        if self.framework:
            agent["framework"] = self.framework
        session, call = name(self.session_id), name(self.call_id)
        identity = "\x1f".join((session, agent["id"], call, kind))
        return {
            "id": hashlib.sha256(identity.encode()).hexdigest()[:32],
            "kind": kind,
            "session_id": session,
            "agent": agent,
            "tool": name(self.tool),
            "call_id": call,
        }


def user_message(session_id: str, text: str, agent_id: str = "main") -> dict[str, Any]:
    """That a person has said something: loops of the session begin to be counted anew. The text itself is not sent."""
    return {
        "id": uuid.uuid4().hex,
        "kind": "message",
        "role": "user",
        "session_id": name(session_id),
        "agent": {"id": name(agent_id, "main")},
        "text_sha256": hashlib.sha256(sound(text).encode()).hexdigest(),
    }



def denied(call: Mapping[str, Any], command_id: str) -> dict[str, Any]:
    """The event of a call that a command has refused, made of the event before it: it is no other step of the loop."""
    event = {**call, "kind": "tool", "outcome": "denied", "command_id": command_id}
    event["id"] = hashlib.sha256(f"{call.get('id')}\x1fdenied".encode()).hexdigest()[:32]
    return event
