"""Asks the guard. Whatever goes wrong, the call is allowed, and nothing is raised into the agent."""

import dataclasses
import functools
import inspect
import json
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .breaker import Breaker
from .decision import BadAnswerError, Decision
from .events import Call
from .plain import name, plain
from .transport import Transport, TransportError
from .verdicts import time_ms

VERSION = "0.1.0"
CHECK_PATH = "/v1/check"
DEADLINE_MS_MAX = 10_000
# Connecting may take this part of the deadline: 50 ms of 150.
CONNECT_PART = 3
# Longest body that is sent. Bytes.
BODY_BYTES_MAX = 256 * 1024
# Nudges that are remembered, so that none is given twice.
NUDGES_MAX = 10_000
# Agents that are remembered to be stopped where no guard answers. Beyond them one leaves, and that is a warning.
STOPPED_MAX = 10_000
# What `wrap` and most adapters can do with an answer.
CAN = ("deny", "context_after", "replace_result")

Function = TypeVar("Function", bound=Callable[..., Any])


class Asking(ABC):
    """What a guard and a follower of commands have in common: adapters take either."""

    deadline_ms: int

    @abstractmethod
    def ask(self, event: Mapping[str, Any], can: Sequence[str], record: bool, deadline: float) -> Decision:
        """One question, until a point of `time.monotonic`. Never raises."""

    def check(self, event: Mapping[str, Any], *, can: Sequence[str] = CAN, record: bool = True) -> Decision:
        """Asks before a call (`Call.before()`). `can` is what the caller is able to do with an answer."""
        return self.ask(event, can, record, time.monotonic() + self.deadline_ms / 1_000)

    def observe(self, event: Mapping[str, Any], *, can: Sequence[str] = CAN) -> Decision:
        """Tells what came of a call (`Call.after()`). The answer may hold a nudge for the model."""
        return self.ask(event, can, True, time.monotonic() + self.deadline_ms / 1_000)

    def wrap(
        self, function: Function, *, session_id: str, agent_id: str = "main", tool: str | None = None
    ) -> Function:
        """The function, asking before and telling after each call. A refused call returns the guard's text."""

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            call = Call(tool or function.__name__, arguments(function, args, kwargs), session_id, agent_id)
            step = Step(self, call)
            refusal = step.refusal()
            if refusal is not None:
                return refusal
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                add_to_error(error, step.note(error=error))
                raise
            return add(result, step.note(result))

        return wrapped  # type: ignore[return-value]


class Guard(Asking):
    """A client of the guard at an address: `http://127.0.0.1:9464`, or `unix:/path/to/socket`.

    `deadline_ms` bounds what one question may cost, connecting included: 1 to 10,000. A wrong address or token is a ValueError
    here, at the start. No method raises later. On this machine nothing is sent but to a guard of this user, of root, or of the user
    with the number `guard_uid`.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        deadline_ms: int = 150,
        breaker: Breaker | None = None,
        guard_uid: int | None = None,
    ) -> None:
        if not 1 <= deadline_ms <= DEADLINE_MS_MAX:
            raise ValueError(f"deadline_ms is 1 to {DEADLINE_MS_MAX}")
        if token_file is not None:
            token = Path(token_file).read_text(encoding="utf-8").strip()
        self.deadline_ms = deadline_ms
        self.breaker = breaker or Breaker()
        self._transport = Transport(address, token, deadline_ms / 1_000 / CONNECT_PART, guard_uid)
        self._lock = threading.Lock()
        self._nudged: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._stopped: dict[tuple[str, ...], Decision] = {}
        self._forgotten = 0

    def ask(self, event: Mapping[str, Any], can: Sequence[str], record: bool, deadline: float) -> Decision:
        """As `Asking.ask`. Where no guard with fresh verdicts answers, a stop that fails closed holds until its end."""
        decision = self._ask(event, can, record, deadline)
        try:
            return self._closed(event, can, decision)
        except Exception:  # noqa: BLE001 - the promise of this class
            return decision

    def _closed(self, event: Mapping[str, Any], can: Sequence[str], decision: Decision) -> Decision:
        if not (decision.fails_closed or self._stopped):
            return decision
        agent = event.get("agent")
        agent_id = agent.get("id", "main") if isinstance(agent, Mapping) else "main"
        key = (name(event.get("tenant") or ""), name(event.get("session_id", "")), name(agent_id))
        is_call = event.get("kind") == "tool_call"
        with self._lock:
            if decision.fails_closed:
                self._stopped[key] = decision
                if len(self._stopped) > STOPPED_MAX:
                    self._forget_one()
            elif is_call and not (decision.failure or decision.stale):
                # Only a guard that knows releases: one that has just started knows of no stop yet.
                self._stopped.pop(key, None)
            held = self._stopped.get(key)
            if decision.denied or held is None or not is_call or "deny" not in can:
                return decision
            if (time_ms(held.expires_at) or 0) <= time.time() * 1_000:
                del self._stopped[key]
                return decision
        return dataclasses.replace(held, failure=decision.failure, recorded=decision.recorded, stale=decision.stale)

    def _forget_one(self) -> None:
        """Of the session that has most the one that ends first: it keeps one, however many agents it names."""
        held = Counter(key[:2] for key in self._stopped)

        def order(key: tuple[str, ...]) -> tuple[int, int]:
            return -held[key[:2]], time_ms(self._stopped[key].expires_at) or 0

        del self._stopped[min(self._stopped, key=order)]
        self._forgotten += 1
        self.breaker.warn(f"W0703: {self._forgotten} refusals of stopped agents had no room; without a guard these agents go on")

    def _ask(self, event: Mapping[str, Any], can: Sequence[str], record: bool, deadline: float) -> Decision:
        try:
            if not self.breaker.lets_through():
                return Decision(failure="open_circuit")
            left_ms = max(1, int((deadline - time.monotonic()) * 1_000))
            body = self._body(event, can, record, left_ms)
            decision = Decision.of(self._transport.post(CHECK_PATH, body, deadline))
            self.breaker.succeeded()
            return self._once(event, decision)
        except TransportError as error:
            if error.counts:
                self.breaker.failed(error.code)
            else:
                self.breaker.succeeded()
                self.breaker.warn(f"the guard refused an event ({error.code}); the call is allowed")
            return Decision(failure=error.code)
        except BadAnswerError as error:
            self.breaker.failed(str(error))
            return Decision(failure=str(error))
        except Exception as error:  # noqa: BLE001 - the promise of this class
            self.breaker.warn(f"a call is allowed without the guard: {type(error).__name__} in its client")
            return Decision(failure="client_error")

    def close(self) -> None:
        """Closes the connections that are idle. The guard may be used again."""
        self._transport.close()

    @staticmethod
    def _body(event: Mapping[str, Any], can: Sequence[str], record: bool, left_ms: int) -> bytes:
        question = {
            "v": 1,
            "event": event,
            "record": record,
            "client": {"name": "python", "version": VERSION, "can": list(can)},
            "deadline_ms": left_ms,
        }
        try:
            body = json.dumps(question, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError):
            body = json.dumps(plain(question), allow_nan=False).encode()
        if len(body) > BODY_BYTES_MAX:
            raise TransportError("event_too_large", counts=False)
        return body

    def _once(self, event: Mapping[str, Any], decision: Decision) -> Decision:
        """Without the text of a nudge that this agent already had from here."""
        if not decision.nudge or not decision.command_id:
            return decision
        agent = event.get("agent")
        agent_id = agent.get("id", "main") if isinstance(agent, Mapping) else "main"
        key = (name(event.get("session_id", "")), name(agent_id), decision.command_id)
        with self._lock:
            if key in self._nudged:
                return Decision(stale=decision.stale, recorded=decision.recorded)
            self._nudged[key] = None
            if len(self._nudged) > NUDGES_MAX:
                self._nudged.popitem(last=False)
        return decision


class Step:
    """One call between its two questions: what all adapters share."""

    def __init__(self, guard: Asking, call: Call, can: Sequence[str] = CAN) -> None:
        self.guard, self.call, self.can = guard, call, can
        self.decision = Decision()
        self._text = ""

    def refusal(self) -> str | None:
        """Asks before the call: the text to give in its place, or None where it may run."""
        return self.take(self.guard.check(self.call.before(), can=self.can))

    def note(self, result: object = None, *, error: object = None, outcome: str | None = None) -> str:
        """Tells what came of it: the text to add to the result, mostly empty."""
        return self.add(self.guard.observe(self.call.after(result, error=error, outcome=outcome), can=self.can))

    def take(self, decision: Decision) -> str | None:
        """As `refusal`, of a decision that is there."""
        self.decision = decision
        if decision.denied:
            return decision.message
        self._text = decision.nudge
        return None

    def add(self, decision: Decision) -> str:
        """As `note`, of a decision that is there."""
        text, self._text = self._text, ""
        return "\n\n".join(part for part in (text, decision.nudge) if part)


def arguments(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call by name, without defaults: as the model wrote them."""
    try:
        return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {"args": list(args), "kwargs": kwargs} if args else dict(kwargs)


def add(result: Any, text: str) -> Any:
    """A result with a text for the model: behind a text, as a key of a dict, else both as one text.

    What has no text that says all of it, such as an image, stays as it is: the result is worth more than the nudge.
    """
    if not text or not isinstance(result, (str, int, float, dict, list, tuple, type(None))):
        return result
    if isinstance(result, dict):
        return {**result, "note": text}
    if isinstance(result, (list, tuple)) and not all(isinstance(item, (str, int, float, dict, type(None))) for item in result):
        return result
    return f"{result}\n\n{text}"


def add_to_error(error: BaseException, text: str) -> None:
    """Puts a text where frameworks read that of an error: behind its first argument."""
    if text and error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\n\n{text}", *error.args[1:])
    elif text and not error.args:
        error.args = (text,)
