"""Commands as they are written, read with suspicion: what is not understood binds nobody (rule 8 of src/docs/workers.md)."""

import calendar
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from .canonical import fingerprint

# Agents that are meant together: tenant, kind, name.
Whom = tuple[str, str, str]
# Whose state a command is about: whom it means, what binds them, and of a loop the agent or the fingerprint.
Subject = tuple[str, str, str, str, str]
# How a fingerprint is made: the kind, only these arguments, all but these.
Recipe = tuple[str, tuple[str, ...], tuple[str, ...]]
CALL: Recipe = ("call", (), ())
OPAQUE: Recipe = ("opaque", (), ())
# What binds those that an operator stops.
BY_STOP = "stop"
# The agent of a session that names none.
MAIN_AGENT = "main"
# Arguments that are not known: no command that names some means such a call.
UNKNOWN = object()

_U64_MAX = 2**64 - 1
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


class NoCommandError(ValueError):
    """Nobody is bound by it. The text is a word for people who look for a fault."""


@dataclass(frozen=True, slots=True)
class Who:
    """Whose call it is."""

    session_id: str
    agent_id: str = MAIN_AGENT
    swarm_id: str | None = None
    tenant: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    """Labels of the event, as (key, value): budgets may be those of a label."""
    root_id: str | None = None
    """The agent that began its tree."""
    parent_id: str | None = None
    """The agent that started it, which stands for the root where none is named."""

    @property
    def trees(self) -> tuple[str, ...]:
        """The trees whose verdicts bind it: its own, and the one that it may be the root of."""
        parent = None if self.parent_id == MAIN_AGENT else self.parent_id
        tree = self.root_id or parent or self.session_id
        return (tree,) if self.agent_id in (MAIN_AGENT, tree) else (tree, self.agent_id)


    def all(self) -> list[Whom]:
        """All that it may be meant by, the narrowest first."""
        tenant = self.tenant or ""
        return [("" if kind == "all" else tenant, kind, name) for kind, names in KINDS.items() for name in names(self)]


# What agents that are meant together have in common: each kind with the names of that kind which an agent has.
KINDS: dict[str, Callable[[Who], tuple[str, ...]]] = {
    "session": lambda who: (who.session_id,),
    "agent": lambda who: (who.agent_id,),
    "tree": lambda who: who.trees,
    "swarm": lambda who: () if who.swarm_id is None else (who.swarm_id,),
    "label": lambda who: tuple(f"{key}={value}" for key, value in who.labels),
    "tenant": lambda who: ("",),
    "all": lambda who: ("",),
}


@dataclass(frozen=True, slots=True)
class Scope:
    """Which calls of those that are meant a verdict binds."""

    kind: str
    name: str | None
    by: str | None
    """What binds them in all that they call, as `stop` or `budget/NAME/day`; None: a loop was found."""
    agent_id: str | None
    """The agent of the session in whose history it was found."""
    tool: str | None
    fingerprint: str | None
    recipe: Recipe
    only: tuple[tuple[str, str], ...]
    """These agents only, as (session, agent); empty: all."""
    tools: tuple[str, ...] = ()
    """Calls of these tools only; one that ends in `*` is a beginning of names. Empty: all."""

    @property
    def is_of_others(self) -> bool:
        """It comes from more than the history of one agent."""
        return self.by is not None or self.kind != "session"

    def has_tool(self, name: str) -> bool:
        """Whether calls of a tool are bound. A tool of a server, `server__tool`, has the rules of its last name too."""
        own = name.rpartition("__")[2]

        def is_named(pattern: str) -> bool:
            if pattern.endswith("*"):
                return name.startswith(pattern[:-1]) or own.startswith(pattern[:-1])
            return pattern in (name, own)

        return self.tool in (None, name) and (not self.tools or any(map(is_named, self.tools)))

    def binds_same_calls(self, other: "Scope") -> bool:
        """Whether the same calls of the same subject are meant, whichever agents make them."""
        mine, theirs = ((scope.tool, scope.tools, scope.fingerprint) for scope in (self, other))
        return mine == theirs and (self.fingerprint is None or self.recipe == other.recipe)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A nudge or block that holds until it expires. Times in Unix milliseconds."""

    command_id: str
    action: str
    scope: Scope
    level: int
    episode: str
    code: str
    summary: str
    message: str
    advice: str
    issued_ms: int
    expires_ms: int
    expires_at: str

    @property
    def is_block(self) -> bool:
        """A block refuses calls."""
        return self.action == "block"

    @property
    def is_of_operator(self) -> bool:
        """An operator placed it: it goes before all that detectors have placed."""
        return self.scope.by == BY_STOP

    @property
    def stops(self) -> bool:
        """It ends the turn of an agent."""
        return self.is_block and self.level >= 4 and self.advice == "stop"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a version that is known."""

    id: str
    is_live: bool
    subject: Subject
    order: tuple[int, int]
    episode: str
    expires_ms: int
    verdict: Verdict | None
    """None: what its episode placed is lifted."""


class CallPrints:
    """A call that verdicts are held against; each fingerprint of it is made once."""

    def __init__(self, tool: str, args: object) -> None:
        self.tool = tool
        self._args = args
        self._made: dict[Recipe, str | None] = {}

    def is_in(self, scope: Scope) -> bool:
        """Whether it is among the calls of a scope. What cannot be told is not."""
        if not scope.has_tool(self.tool):
            return False
        return scope.fingerprint is None or self._print(scope.recipe) == scope.fingerprint

    def _print(self, recipe: Recipe) -> str | None:
        if self._args is UNKNOWN:
            return None
        if recipe not in self._made:
            kind, args, ignored = recipe
            identity = {"kind": kind, "args": list(args), "args_ignored": list(ignored)}
            self._made[recipe] = fingerprint(self.tool, self._args, identity)
        return self._made[recipe]


def parse(record: bytes | str) -> Any:
    """JSON of a record.

    Raises NoCommandError for what is none.
    """
    try:
        text = record.decode() if isinstance(record, bytes) else record
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise NoCommandError("malformed") from error


def read_command(wire: Any) -> Command:
    """A command that binds somebody, or would if it were live.

    Raises NoCommandError: `malformed` or `unknown`.
    """
    if not isinstance(wire, Mapping) or _number(wire.get("v"), _U64_MAX) != 1:
        raise NoCommandError("unknown" if isinstance(wire, Mapping) and "v" in wire else "malformed")
    action, mode = _text(wire.get("action")), _text(wire.get("mode"))
    scope = _scope(wire.get("scope"))
    if action not in ("nudge", "block", "unblock") or scope.kind not in KINDS:
        raise NoCommandError("unknown")
    reason = wire.get("reason")
    if not isinstance(reason, Mapping):
        raise NoCommandError("malformed")
    command_id, episode = _text(wire.get("id")), _text(wire.get("episode"))
    level = _number(wire.get("level"), 255)
    order = (_number(wire.get("epoch"), _U64_MAX), _number(wire.get("seq"), _U64_MAX))
    code, summary = _text(reason.get("code")), _optional(reason.get("summary"))
    message, advice = _optional(wire.get("message")), _optional(wire.get("advice"))
    issued_ms, expires_ms = _time(wire.get("issued_at")), _time(wire.get("expires_at"))
    subject = _subject(wire, scope)
    verdict = None
    if action != "unblock":
        if message is None:
            raise NoCommandError("malformed")
        if action == "block" and scope.fingerprint is not None and scope.recipe == OPAQUE:
            # A block of calls that nobody can tell from others would have to be widened to bind any.
            raise NoCommandError("unknown")
        verdict = Verdict(
            command_id, action, scope, level, episode, code, summary or "", message, advice or "", issued_ms, expires_ms,
            wire["expires_at"],
        )
    return Command(command_id, mode == "live", subject, order, episode, expires_ms, verdict)


def time_ms(text: str) -> int | None:
    """RFC 3339 with an offset, in Unix milliseconds; second 60 is the moment after second 59. None for another text."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, sign, zone_hours, zone_minutes = found.groups()[6:]
    is_date = year >= 1 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]
    east = int(zone_hours or 0), int(zone_minutes or 0)
    if not is_date or hour > 23 or minute > 59 or second > 60 or east[0] > 23 or east[1] > 59:
        return None
    days = (datetime(year, month, day, tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)).days
    east_minutes = (east[0] * 60 + east[1]) * (-1 if sign == "-" else 1)
    seconds = (days * 24 + hour) * 3_600 + (minute - east_minutes) * 60 + second
    return seconds * 1_000 + int(((fraction or "") + "000")[:3])


def _scope(wire: Any) -> Scope:
    if not isinstance(wire, Mapping):
        raise NoCommandError("malformed")
    recipe = _recipe(wire.get("identity"))
    print_ = _optional(wire.get("fingerprint"))
    if print_ is not None and not re.fullmatch("[0-9a-fA-F]{32}", print_):
        raise NoCommandError("malformed")
    only = wire.get("only", [])
    if not isinstance(only, list) or not all(isinstance(agent, Mapping) for agent in only):
        raise NoCommandError("malformed")
    return Scope(
        kind=_text(wire.get("kind")),
        name=_optional(wire.get("name")),
        by=_optional(wire.get("by")),
        agent_id=_optional(wire.get("agent_id")),
        tool=_optional(wire.get("tool")),
        fingerprint=print_.lower() if print_ is not None else None,
        recipe=recipe,
        only=tuple((_text(agent.get("session_id")), _text(agent.get("agent_id"))) for agent in only),
        tools=_names(wire, "tools"),
    )


def _recipe(wire: Any) -> Recipe:
    if wire is None:
        return CALL
    if not isinstance(wire, Mapping):
        raise NoCommandError("malformed")
    kind, args, ignored = _optional(wire.get("kind")), _names(wire, "args"), _names(wire, "args_ignored")
    if kind in (None, "call", "args"):
        return (kind or "call", args, ignored)
    # One that is not known cannot be made either.
    return ("coarse", args, ()) if kind == "coarse" else OPAQUE


def _subject(wire: Mapping[str, Any], scope: Scope) -> Subject:
    tenant = "" if scope.kind == "all" else _optional(wire.get("tenant")) or ""
    session_id, swarm_id = _optional(wire.get("session_id")), _optional(wire.get("swarm_id"))
    names = {"session": session_id, "swarm": swarm_id, "tenant": "", "all": ""}
    name = _text(names.get(scope.kind, scope.name))
    if scope.by is None:
        # A loop is found in the calls of an agent, of a swarm or of a tenant.
        found = {"session": scope.agent_id, "swarm": scope.fingerprint, "tenant": scope.fingerprint}
        if scope.kind not in found:
            raise NoCommandError("unknown")
        return (tenant, scope.kind, name, "", _text(found[scope.kind]))
    # Operators stop by no label, and they alone stop everybody.
    if scope.kind == ("label" if scope.by == BY_STOP else "all"):
        raise NoCommandError("unknown")
    return (tenant, scope.kind, name, scope.by, "")


def _text(value: Any) -> str:
    # Half of a surrogate pair is no text.
    if not isinstance(value, str) or not (value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)):
        raise NoCommandError("malformed")
    return value


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


def _names(wire: Mapping[str, Any], field: str) -> tuple[str, ...]:
    names = wire.get(field, [])
    if not isinstance(names, list):
        raise NoCommandError("malformed")
    return tuple(sorted(_text(name) for name in names))


def _number(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise NoCommandError("malformed")
    return value


def _time(value: Any) -> int:
    ms = time_ms(_text(value))
    if ms is None:
        raise NoCommandError("malformed")
    return ms


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
