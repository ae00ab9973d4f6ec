"""What the guard answers. Everything that is not such an answer is a failure, and a failure allows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .plain import sound

# As the schema of commands. Characters.
MESSAGE_CHARS_MAX = 4_096
WORD_CHARS_MAX = 512


class BadAnswerError(ValueError):
    """The answer is not one that this client understands."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a call may run, and what its model should read."""

    denied: bool = False
    message: str = ""
    """For the model. Never empty where the call is denied."""
    action: str = "none"
    """What it came from: `none`, `nudge` or `block`."""
    placement: str = ""
    stop: bool = False
    """The turn should end. Only asked of callers that can end it."""
    level: int = 0
    command_id: str = ""
    episode: str = ""
    reason_code: str = ""
    reason_summary: str = ""
    advice: str = ""
    expires_at: str = ""
    fails_closed: bool = False
    """An operator's stop: where no guard answers any more, it holds until `expires_at`."""
    stale: bool = False
    """Decided without fresh verdicts."""
    recorded: bool = False
    """The guard has taken the event."""
    failure: str = ""
    """Why there was no answer: a word such as `timeout` or `open_circuit`. Then the call is allowed, unless a stop holds."""

    @property
    def nudge(self) -> str:
        """Text to add for the model; empty where there is none, or where the call is denied."""
        return "" if self.denied else self.message

    @classmethod
    def of(cls, body: bytes) -> "Decision":
        """Reads an answer.

        Raises BadAnswerError for what is no JSON object, another version, an unknown decision, or a deny without a text.
        """
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BadAnswerError("not_json") from error
        if not isinstance(answer, dict):
            raise BadAnswerError("not_an_object")
        if type(answer.get("v")) is not int or answer["v"] != 1:
            raise BadAnswerError("unknown_version")
        if answer.get("decision") not in ("allow", "deny"):
            raise BadAnswerError("unknown_decision")
        denied = answer["decision"] == "deny"
        message = clean(answer.get("message"))
        if denied and not message:
            raise BadAnswerError("deny_without_message")
        action = _word(answer, "action")
        if not denied and action not in ("nudge", "block"):
            # A caller that does not know an action does not act on it.
            message, action = "", "none"
        level = answer.get("level")
        reason, state = _table(answer, "reason"), _table(answer, "state")
        return cls(
            denied=denied,
            message=message,
            action=action or "none",
            placement=_word(answer, "placement"),
            stop=answer.get("stop") is True,
            level=level if type(level) is int and 0 <= level <= 9 else 0,
            command_id=_word(answer, "command_id"),
            episode=_word(answer, "episode"),
            reason_code=_word(reason, "code"),
            reason_summary=_word(reason, "summary"),
            advice=_word(answer, "advice"),
            expires_at=_word(answer, "expires_at"),
            fails_closed=denied and answer.get("fail") == "closed",
            # An answer that does not say that it knows does not know.
            stale=state.get("stale") is not False,
            recorded=answer.get("recorded") is True,
        )


def clean(value: object) -> str:
    """Text for a model: no control characters but tabs and line feeds, bounded."""
    if not isinstance(value, str):
        return ""
    text = sound(value[:MESSAGE_CHARS_MAX])
    return "".join(char for char in text if (char >= " " and char != "\x7f") or char in "\t\n").strip()


def _word(table: Mapping[str, Any], field: str) -> str:
    value = table.get(field)
    return clean(value)[:WORD_CHARS_MAX] if isinstance(value, str) else ""


def _table(table: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = table.get(field)
    return value if isinstance(value, dict) else {}
