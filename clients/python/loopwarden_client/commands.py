"""The rules for workers (src/docs/workers.md) over commands from anywhere: which are in force, and what they mean for a call."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from .deciding import Candidate, Outcome, decide
from .decision import Decision, clean
from .verdicts import CallPrints, Command, NoCommandError, Subject, Verdict, Who, parse, read_command

IDS_MAX = 100_000
SUBJECTS_MAX = 100_000
# Whom operators stop: held apart, so that nothing pushes one out. A further one is `full`.
STOPS_MAX = 10_000
# Verdicts of one subject, as in the engine: beyond them the oldest nudge leaves, else the oldest block.
VERDICTS_MAX = 16
# Agents that are remembered for what they were told, and nudges of each.
AGENTS_MAX = 32_768
NUDGES_MAX = 32
# A caller that gives its model a text before a call runs, and refuses calls.
CAN = ("deny", "context_before")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(slots=True)
class _Held:
    """What holds for a subject."""

    order: tuple[int, int] = (-1, 0)
    # After it nothing of this means anything.
    ends_ms: int = 0
    verdicts: list[Verdict] = field(default_factory=list)


@dataclass(slots=True)
class _Agent:
    """What an agent was told."""

    void_until_ms: int | None = None
    # Those that wait for the end of a call, and None for those that were said.
    nudges: "OrderedDict[str, Verdict | None]" = field(default_factory=OrderedDict)

    def is_open(self, nudge: Verdict) -> bool:
        is_void = self.void_until_ms is not None and nudge.issued_ms <= self.void_until_ms
        return not is_void and self.nudges.get(nudge.command_id, nudge) is not None

    def set(self, nudge: Verdict, held: Verdict | None) -> None:
        self.nudges[nudge.command_id] = held
        _bound(self.nudges, NUDGES_MAX)


class Commands:
    """Commands in force. Safe to use from any thread, and bounded."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._subjects: OrderedDict[Subject, _Held] = OrderedDict()
        self._stops: OrderedDict[Subject, _Held] = OrderedDict()
        # Subjects that may mean a call: those of its session, of its swarm, of its tenant's fleet, of its groups.
        self._near: dict[Subject, dict[Subject, None]] = {}
        self._agents: OrderedDict[Subject, _Agent] = OrderedDict()

    def read(self, record: bytes | str) -> str:
        """Takes a command as it is published. The answer is as that of `apply`."""
        try:
            return self.apply(parse(record))
        except NoCommandError as error:
            return str(error)

    def apply(self, command: Any) -> str:
        """Takes a command. The answer is `applied`, or why not: a word such as `expired` or `stale`."""
        try:
            read = read_command(command)
        except NoCommandError as error:
            return str(error)
        with self._lock:
            return self._apply(read)

    def decide(
        self, who: Who, tool: str | None, args: object, *, can: Collection[str] = CAN, phase: str = "before"
    ) -> Decision:
        """What holds for a call, `before` or `after` it runs, or in a `turn` between calls: then there is no tool.

        `can` is what the caller is able to do with the answer. A nudge is given once to each agent.
        """
        try:
            with self._lock:
                return self._decide(who, tool, args, can, phase)
        except Exception:  # noqa: BLE001 - arguments are a stranger's objects; without an answer the call is allowed
            return Decision(failure="client_error")

    def begin_anew(self, who: Who) -> None:
        """A person has spoken, or the session begins or ends: nudges that the agent has not had are void."""
        with self._lock:
            agent = self._told(who)
            agent.void_until_ms = self._now()
            for command_id in [command_id for command_id, held in agent.nudges.items() if held is not None]:
                del agent.nudges[command_id]

    def _now(self) -> int:
        return (self._clock() - _EPOCH) // timedelta(milliseconds=1)

    def _apply(self, command: Command) -> str:
        if command.id in self._ids:
            return "duplicate"
        self._ids[command.id] = None
        _bound(self._ids, IDS_MAX)
        if not command.is_live:
            return "not_live"
        now = self._now()
        if command.expires_ms <= now:
            return "expired"
        subjects = self._stops if command.subject[0] == "stop" else self._subjects
        if subjects is self._stops and command.subject not in subjects and not self._has_room(now):
            return "full"
        held = subjects.setdefault(command.subject, _Held())
        subjects.move_to_end(command.subject)
        if command.order <= held.order:
            return "stale"
        held.order, held.ends_ms = command.order, max(held.ends_ms, command.expires_ms)
        held.verdicts = [verdict for verdict in held.verdicts if verdict.expires_ms > now and not _is_replaced(verdict, command)]
        if command.verdict is not None:
            if len(held.verdicts) >= VERDICTS_MAX:
                nudges = (at for at, verdict in enumerate(held.verdicts) if not verdict.is_block)
                del held.verdicts[next(nudges, 0)]
            held.verdicts.append(command.verdict)
        if held.verdicts and subjects is self._subjects:
            self._near.setdefault(command.subject[:-1], {})[command.subject] = None
        self._forget()
        return "applied"

    def _decide(self, who: Who, tool: str | None, args: object, can: Collection[str], phase: str) -> Decision:
        call = None if tool is None else CallPrints(tool, args)
        outcome = decide(phase, can, self._candidates(who, call, phase))
        for nudge in outcome.held:
            agent = self._told(who)
            if nudge.command_id not in agent.nudges:
                agent.set(nudge, nudge)
        if outcome.is_told and outcome.verdict is not None:
            self._told(who).set(outcome.verdict, None)
        return _decision(outcome)

    def _candidates(self, who: Who, call: CallPrints | None, phase: str) -> list[Candidate]:
        now, agent = self._now(), self._agents.get(_agent_key(who)) or _Agent()
        own = [verdict for verdict in self._in_force(_session_key(who), now) if _is_own(verdict, who)]
        found = [
            Candidate(verdict, call is not None and call.is_in(verdict.scope), agent.is_open(verdict), False) for verdict in own
        ]
        found += [Candidate(stop, call is not None, False, False) for stop in self._stopping(who, now)]
        others = [] if call is None else [
            verdict
            for key in _other_keys(who)
            for verdict in self._in_force(key, now)
            if _is_bound_by_others(verdict, who, call)
        ]
        if phase == "after":
            waiting = (held for held in agent.nudges.values() if held is not None)
            others += [held for held in waiting if held.expires_ms > now and self._holds(who, held)]
        known = {verdict.command_id for verdict in own}
        for verdict in others:
            # An agent with a verdict of its own on that tool has heard enough.
            tools = (None, verdict.scope.tool)
            has_own = any(verdict.scope.tool is None or mine.scope.tool in tools for mine in own)
            # What binds a group is no advice about a loop: nothing takes its place.
            if verdict.command_id not in known and (verdict.scope.group is not None or not has_own):
                known.add(verdict.command_id)
                found.append(Candidate(verdict, True, agent.is_open(verdict), True))
        return found

    def _stopping(self, who: Who, now: int) -> list[Verdict]:
        """The stops of operators that bind an agent."""
        if not self._stops:
            return []
        tenant = who.tenant or ""
        keys = [
            ("stop", tenant, "session", who.session_id, ""),
            ("stop", tenant, "agent", who.agent_id, ""),
            ("stop", tenant, "fleet", "", ""),
            ("stop", "", "all", "", ""),
        ]
        if who.swarm_id is not None:
            keys.append(("stop", tenant, "swarm", who.swarm_id, ""))
        keys += [("stop", tenant, "tree", tree, "") for tree in who.trees]
        held = (self._stops[key] for key in keys if key in self._stops)
        return [verdict for one in held for verdict in one.verdicts if verdict.expires_ms > now]

    def _has_room(self, now: int) -> bool:
        if len(self._stops) >= STOPS_MAX:
            for key in [key for key, held in self._stops.items() if held.ends_ms <= now]:
                del self._stops[key]
        return len(self._stops) < STOPS_MAX

    def _in_force(self, near: Subject, now: int) -> list[Verdict]:
        found: list[Verdict] = []
        subjects = self._near.get(near, {})
        for key in list(subjects):
            held = self._subjects[key]
            held.verdicts = [verdict for verdict in held.verdicts if verdict.expires_ms > now]
            found += held.verdicts
            if not held.verdicts:
                # Only its order is remembered: a command that comes late must not place again what was lifted.
                del subjects[key]
        if not subjects:
            self._near.pop(near, None)
        return found

    def _holds(self, who: Who, verdict: Verdict) -> bool:
        """Whether a verdict that was found by the history of others still stands."""
        if verdict.scope.group is not None:
            now = self._now()
            return any(known.command_id == verdict.command_id for key in _group_keys(who) for known in self._in_force(key, now))
        near = [key for key in _other_keys(who) if key[0] == verdict.scope.kind]
        held = self._subjects.get((*near[0], verdict.scope.fingerprint or "")) if near else None
        return held is not None and any(known.command_id == verdict.command_id for known in held.verdicts)

    def _told(self, who: Who) -> _Agent:
        agent = self._agents.setdefault(_agent_key(who), _Agent())
        self._agents.move_to_end(_agent_key(who))
        _bound(self._agents, AGENTS_MAX)
        return agent

    def _forget(self) -> None:
        while len(self._subjects) > SUBJECTS_MAX:
            subject, _ = self._subjects.popitem(last=False)
            near = subject[:-1]
            self._near.get(near, {}).pop(subject, None)
            if not self._near.get(near):
                self._near.pop(near, None)


def _session_key(who: Who) -> Subject:
    return ("session", who.tenant or "", who.session_id)


def _agent_key(who: Who) -> Subject:
    return (*_session_key(who), who.agent_id)


def _other_keys(who: Who) -> list[Subject]:
    tenant = who.tenant or ""
    swarm: list[Subject] = [] if who.swarm_id is None else [("swarm", tenant, who.swarm_id)]
    return [*swarm, ("fleet", tenant), *_group_keys(who)]


def _group_keys(who: Who) -> list[Subject]:
    """The groups that an agent belongs to."""
    swarm = [] if who.swarm_id is None else [("swarm", who.swarm_id)]
    labels = [("label", f"{key}={value}") for key, value in who.labels]
    trees = [("tree", tree) for tree in who.trees]
    groups = [("agent", who.agent_id), ("session", who.session_id), *swarm, ("tenant", ""), *labels, *trees]
    return [("group", who.tenant or "", kind, name) for kind, name in groups]


def _is_own(verdict: Verdict, who: Who) -> bool:
    return verdict.scope.kind == "session" or verdict.scope.agent_id == who.agent_id


def _is_bound_by_others(verdict: Verdict, who: Who, call: CallPrints) -> bool:
    scope = verdict.scope
    if scope.only and (who.session_id, who.agent_id) not in scope.only:
        return False
    # Calls that nobody can tell by a fingerprint: such a nudge is about its tool.
    return scope.tool == call.tool if scope.recipe[0] == "opaque" else call.is_in(scope)


def _is_replaced(verdict: Verdict, command: Command) -> bool:
    """What a command takes the place of: all of its episode where it lifts, else nudges, and a block of the same calls."""
    if verdict.episode != command.episode:
        return False
    new = command.verdict
    return new is None or not verdict.is_block or (new.is_block and verdict.scope.binds_same_calls(new.scope))


def _decision(outcome: Outcome) -> Decision:
    verdict = outcome.verdict
    if verdict is None:
        return Decision()
    return Decision(
        denied=outcome.denied,
        message=clean(outcome.message),
        action=verdict.action,
        placement=outcome.placement,
        stop=outcome.stop,
        level=verdict.level,
        command_id=verdict.command_id,
        episode=verdict.episode,
        reason_code=verdict.code,
        reason_summary=verdict.summary,
        advice=verdict.advice,
        expires_at=verdict.expires_at,
    )


def _bound(held: "OrderedDict[Any, Any]", most: int) -> None:
    while len(held) > most:
        held.popitem(last=False)
