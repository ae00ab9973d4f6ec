"""The decision itself: a function of what is in force, what the caller can do and what it was told. It changes nothing.

It decides as the guard does; vectors that the guard has answered hold both to it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from .verdicts import Verdict

# For a model. Characters.
MESSAGE_CHARS_MAX = 1_000
# Text that poses as a word of the system may be taken for an injection.
_PREFIX = "[System] "
_NO_TEXT = "This call was refused: it is part of a loop that goes on."
_ONCE = " The same call will be let through if it is needed."


@dataclass(frozen=True, slots=True)
class Candidate:
    """A verdict in force, seen from one event."""

    verdict: Verdict
    matches: bool
    """It binds the call of the event."""
    is_due: bool
    """A nudge that may be handed out now."""
    is_of_others: bool
    """It is to be said at a call that it binds, and at no other."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is decided."""

    verdict: Verdict | None = None
    """What it comes from; none: there is nothing to do."""
    denied: bool = False
    message: str = ""
    placement: str = ""
    stop: bool = False
    is_told: bool = False
    """A nudge is handed out."""
    held: tuple[Verdict, ...] = field(default=())
    """These are to be said after the call."""


NOTHING = Outcome()


def decide(phase: str, can: Collection[str], candidates: Sequence[Candidate]) -> Outcome:
    """Decides for an event `before` or `after` a call, or in a `turn` between calls. At other moments nothing is said."""
    speaks_after = "context_after" in can or "replace_result" in can
    if phase == "before":
        return _before(can, candidates, speaks_after)
    if phase == "after":
        stop = _strongest(held for held in candidates if held.verdict.stops and not held.is_of_others)
        if stop is not None and "stop" in can:
            return Outcome(stop, message=plain(stop.message), placement="append_to_result", stop=True)
        return _nudge(candidates, lambda _: True, "append_to_result") if speaks_after else NOTHING
    if phase == "turn" and ("context_before" in can or "context_after" in can):
        return _nudge(candidates, lambda nudge: not nudge.is_of_others, "next_turn")
    return NOTHING


def _before(can: Collection[str], candidates: Sequence[Candidate], speaks_after: bool) -> Outcome:
    block = _strongest(held for held in candidates if held.verdict.is_block and held.matches)
    if block is not None:
        if "deny" in can:
            return Outcome(block, True, plain(block.message), "before", stop=block.stops and "stop" in can)
        # The call would be refused, but the caller cannot.
        return Outcome(block, message=plain(block.message), placement="before") if "context_before" in can else Outcome(block)
    if "context_before" in can:
        return _nudge(candidates, lambda _: True, "before")
    if speaks_after:
        held = tuple(nudge.verdict for nudge in candidates if _is_due(nudge) and nudge.is_of_others)
        return Outcome(held=held)
    if "deny" in can:
        # A call that would have been the repeat is refused once, with the nudge as the reason. Never another one.
        repeated = _strongest(
            nudge for nudge in candidates if _is_due(nudge) and nudge.matches and nudge.verdict.scope.fingerprint is not None
        )
        if repeated is not None:
            return Outcome(repeated, True, once(repeated.message), "before", is_told=True)
    return NOTHING


def _nudge(candidates: Sequence[Candidate], is_meant: Callable[[Candidate], bool], placement: str) -> Outcome:
    nudge = _strongest(held for held in candidates if _is_due(held) and is_meant(held))
    return NOTHING if nudge is None else Outcome(nudge, False, plain(nudge.message), placement, is_told=True)


def _is_due(held: Candidate) -> bool:
    return held.is_due and not held.verdict.is_block


def _strongest(candidates: Iterable[Candidate]) -> Verdict | None:
    """That of an operator first, then the firmer one, then the later one, then any, but always the same."""
    verdicts = (held.verdict for held in candidates)

    def rank(verdict: Verdict) -> tuple[bool, int, int, str]:
        return verdict.is_of_operator, verdict.level, verdict.issued_ms, verdict.command_id

    return max(verdicts, key=rank, default=None)


def plain(message: str) -> str:
    """The text of a command for a model: bounded, never empty."""
    text = message.replace(_PREFIX, "").strip()
    return _cut(text, MESSAGE_CHARS_MAX) if text else _NO_TEXT


def once(message: str) -> str:
    """The text of a nudge that comes as the refusal of one call."""
    return _cut(plain(message), MESSAGE_CHARS_MAX - len(_ONCE)) + _ONCE


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
