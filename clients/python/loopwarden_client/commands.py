"""The rules for workers (src/docs/workers.md) over commands from anywhere: which are in force, and what they mean for a call."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from .deciding import Candidate, Outcome, decide
from .decision import Decision, clean
from .verdicts import BY_STOP, CallPrints, Command, NoCommandError, Subject, Verdict, Who, Whom, parse, read_command

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
        # Subjects by whom they mean.
        self._near: dict[Whom, dict[Subject, None]] = {}
        self._agents: OrderedDict[tuple[str, str, str], _Agent] = OrderedDict()

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
        subjects = self._stops if command.subject[3] == BY_STOP else self._subjects
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
            self._near.setdefault(command.subject[:3], {})[command.subject] = None
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
        meant = [verdict for whom in who.all() for verdict in self._in_force(whom, now)]
        own = [verdict for verdict in meant if not verdict.scope.is_of_others and verdict.scope.agent_id == who.agent_id]
        of_others = [verdict for verdict in meant if verdict.scope.is_of_others]
        found = [
            Candidate(verdict, call is not None and call.is_in(verdict.scope), agent.is_open(verdict), False) for verdict in own
        ]
        found += [Candidate(stop, call is not None, False, False) for stop in self._stopping(who, now)]
        others = [] if call is None else [verdict for verdict in of_others if _is_bound_by_others(verdict, who, call)]
        if phase == "after":
            standing = {verdict.command_id for verdict in of_others}
            others += [held for held in agent.nudges.values() if held is not None and held.command_id in standing]
        known = {verdict.command_id for verdict in own}
        for verdict in others:
            # An agent with a verdict of its own on that tool has heard enough.
            tools = (None, verdict.scope.tool)
            has_own = any(verdict.scope.tool is None or mine.scope.tool in tools for mine in own)
            # What binds them in all that they call is no advice about a loop: nothing takes its place.
            if verdict.command_id not in known and (verdict.scope.by is not None or not has_own):
                known.add(verdict.command_id)
                found.append(Candidate(verdict, True, agent.is_open(verdict), True))
        return found

    def _stopping(self, who: Who, now: int) -> list[Verdict]:
        """The stops of operators that bind an agent."""
        if not self._stops:
            return []
        keys: list[Subject] = [(*whom, BY_STOP, "") for whom in who.all()]
        held = (self._stops[key] for key in keys if key in self._stops)
        return [verdict for one in held for verdict in one.verdicts if verdict.expires_ms > now]

    def _has_room(self, now: int) -> bool:
        if len(self._stops) >= STOPS_MAX:
            for key in [key for key, held in self._stops.items() if held.ends_ms <= now]:
                del self._stops[key]
        return len(self._stops) < STOPS_MAX

    def _in_force(self, near: Whom, now: int) -> list[Verdict]:
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

    def _told(self, who: Who) -> _Agent:
        agent = self._agents.setdefault(_agent_key(who), _Agent())
        self._agents.move_to_end(_agent_key(who))
        _bound(self._agents, AGENTS_MAX)
        return agent

    def _forget(self) -> None:
        while len(self._subjects) > SUBJECTS_MAX:
            subject, _ = self._subjects.popitem(last=False)
            near = subject[:3]
            self._near.get(near, {}).pop(subject, None)
            if not self._near.get(near):
                self._near.pop(near, None)


def _agent_key(who: Who) -> tuple[str, str, str]:
    return (who.tenant or "", who.session_id, who.agent_id)


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
