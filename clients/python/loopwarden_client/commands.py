"""The rules for workers (src/docs/workers.md) over commands from anywhere: which are in force, and what they mean for a call."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from .canonical import fingerprint
from .decision import Decision, clean

IDS_MAX = 100_000
SUBJECTS_MAX = 100_000
# Arguments that are not known: no command that names some means such a call.
UNKNOWN = object()
# Episodes of one subject that are remembered.
EPISODES_MAX = 64
DELIVERED_MAX = 100_000


@dataclass
class _Subject:
    """What holds for one agent of a session, one fingerprint of a swarm, or one of the fleet."""

    order: tuple[int, int] = (-1, 0)
    blocks: "OrderedDict[str, Mapping[str, Any]]" = field(default_factory=OrderedDict)
    nudges: "OrderedDict[str, Mapping[str, Any]]" = field(default_factory=OrderedDict)


@dataclass(frozen=True)
class Who:
    """Whose call it is."""

    session_id: str
    agent_id: str = "main"
    swarm_id: str | None = None
    tenant: str | None = None


class Commands:
    """Commands in force. Safe to use from any thread, and bounded."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._subjects: OrderedDict[tuple[Any, ...], _Subject] = OrderedDict()
        # Subjects that may mean a session: itself, its swarm, its tenant's fleet.
        self._near: dict[tuple[Any, ...], dict[tuple[Any, ...], None]] = {}
        self._delivered: OrderedDict[tuple[str, Who], None] = OrderedDict()

    def apply(self, command: Any) -> str:
        """Takes a command. The answer is `applied`, or why not: a word such as `expired` or `stale`."""
        try:
            with self._lock:
                return self._apply(command)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            return "malformed"

    def decide(self, who: Who, tool: str, args: object, *, blocks: bool = True, nudges: bool = True) -> Decision:
        """What holds for a call: the block that refuses it, else a nudge that this agent has not had, else nothing.

        Without `blocks` or `nudges` these are not looked at; a nudge then waits for the next question.
        """
        try:
            with self._lock:
                return self._decide(who, tool, args, blocks, nudges)
        except Exception:  # noqa: BLE001 - arguments are a stranger's objects; without an answer the call is allowed
            return Decision(failure="client_error")

    def _apply(self, command: Mapping[str, Any]) -> str:
        identity = command["id"]
        if command["v"] != 1 or command["action"] not in ("nudge", "block", "unblock"):
            return "unknown"
        if not isinstance(identity, str) or identity in self._ids:
            return "duplicate"
        self._ids[identity] = None
        _bound(self._ids, IDS_MAX)
        if command["mode"] != "live":
            return "not_live"
        subject_key, near = _subject(command)
        if subject_key is None:
            return "unknown"
        if _time(command["expires_at"]) <= self._clock():
            return "expired"
        order = (int(command["epoch"]), int(command["seq"]))
        subject = self._subjects.setdefault(subject_key, _Subject())
        self._subjects.move_to_end(subject_key)
        if order <= subject.order:
            return "stale"
        subject.order = order
        self._near.setdefault(near, {})[subject_key] = None
        self._forget()
        episode = str(command["episode"])
        subject.nudges.pop(episode, None)
        if command["action"] == "unblock":
            subject.blocks.pop(episode, None)
            return "applied"
        if not clean(command["message"]):
            return "malformed"
        held = subject.blocks if command["action"] == "block" else subject.nudges
        held[episode] = command
        _bound(held, EPISODES_MAX)
        return "applied"

    def _decide(self, who: Who, tool: str, args: object, blocks: bool, nudges: bool) -> Decision:
        now = self._clock()
        prints: dict[str, str | None] = {}
        nudge: Mapping[str, Any] | None = None
        for key in self._around(who):
            subject = self._subjects[key]
            for held in (subject.blocks, subject.nudges):
                for episode in [episode for episode, command in held.items() if _time(command["expires_at"]) <= now]:
                    del held[episode]
            for command in reversed(subject.blocks.values()):
                if blocks and _means(command["scope"], who, tool, args, prints):
                    return _decision(command, denied=True)
            for command in subject.nudges.values():
                is_own = command["scope"]["kind"] in ("agent", "session")
                is_meant = _is_whose(command["scope"], who) if is_own else _means(command["scope"], who, tool, args, prints)
                if nudge is None and is_meant and (command["id"], who) not in self._delivered:
                    nudge = command
        if nudge is None or not nudges:
            return Decision()
        self._delivered[(nudge["id"], who)] = None
        _bound(self._delivered, DELIVERED_MAX)
        return _decision(nudge, denied=False)

    def _around(self, who: Who) -> list[tuple[Any, ...]]:
        keys = [("session", who.tenant, who.session_id), ("swarm", who.tenant, who.swarm_id), ("fleet", who.tenant)]
        return [subject for key in keys for subject in self._near.get(key, ())]

    def _forget(self) -> None:
        while len(self._subjects) > SUBJECTS_MAX:
            key, _ = self._subjects.popitem(last=False)
            near = key[:2] if key[0] == "fleet" else key[:3]
            self._near.get(near, {}).pop(key, None)
            if not self._near.get(near):
                self._near.pop(near, None)


def _subject(command: Mapping[str, Any]) -> tuple[tuple[Any, ...] | None, tuple[Any, ...]]:
    """Key of the subject, and of where calls look for it."""
    scope, tenant = command["scope"], command.get("tenant")
    kind = scope["kind"]
    if kind in ("agent", "session"):
        near: tuple[Any, ...] = ("session", tenant, _text(command["session_id"]))
        return (*near, _text(scope["agent_id"])), near
    if kind == "swarm":
        near = ("swarm", tenant, _text(command["swarm_id"]))
        return (*near, _text(scope["fingerprint"])), near
    if kind == "fleet":
        near = ("fleet", tenant)
        return (*near, _text(scope["fingerprint"])), near
    return None, ()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is a text")
    return value


def _is_whose(scope: Mapping[str, Any], who: Who) -> bool:
    if scope["kind"] == "agent":
        return bool(scope["agent_id"] == who.agent_id)
    only = scope.get("only")
    if scope["kind"] != "swarm" or only is None:
        return True
    return any((agent["session_id"], agent["agent_id"]) == (who.session_id, who.agent_id) for agent in only)


def _means(scope: Mapping[str, Any], who: Who, tool: str, args: object, prints: dict[str, str | None]) -> bool:
    """Whether a scope covers a call. What a worker cannot recompute covers none."""
    if not _is_whose(scope, who) or scope.get("tool") not in (None, tool):
        return False
    wanted, identity = scope.get("fingerprint"), scope.get("identity")
    if wanted is None or args is UNKNOWN:
        return wanted is None
    recipe = repr(identity)
    if recipe not in prints:
        prints[recipe] = fingerprint(tool, args, identity)
    return bool(prints[recipe] == wanted)


def _decision(command: Mapping[str, Any], denied: bool) -> Decision:
    reason = command.get("reason") or {}
    return Decision(
        denied=denied,
        message=clean(command["message"]),
        action=command["action"],
        placement="before" if denied else str(command.get("placement", "next_turn")),
        level=int(command.get("level", 0)),
        command_id=command["id"],
        episode=str(command["episode"]),
        reason_code=str(reason.get("code", "")),
        reason_summary=str(reason.get("summary", "")),
        advice=str(command.get("advice", "")),
        expires_at=str(command["expires_at"]),
    )


def _time(text: str) -> datetime:
    """RFC 3339; Python 3.10 reads no `Z`."""
    time = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    if time.tzinfo is None:
        raise ValueError("a time without an offset")
    return time


def _bound(held: "OrderedDict[Any, Any]", most: int) -> None:
    while len(held) > most:
        held.popitem(last=False)
