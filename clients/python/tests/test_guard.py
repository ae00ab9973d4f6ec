"""The client against a guard that answers, the circuit breaker, and what becomes of arguments and results."""

import asyncio
import dataclasses
import hashlib
import json
import logging
import math
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hostile
import pytest
import readme
import scripts
from fake_guard import FakeGuard

from loopwarden_client import AsyncGuard, Breaker, Call, Guard, Step, user_message
from loopwarden_client.guard import add, add_to_error


def call(number: int, **args: Any) -> Call:
    return Call("search", args or {"q": "same"}, "s", call_id=f"c{number}")


@pytest.fixture(params=["tcp", "unix"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[FakeGuard, Guard]]:
    with FakeGuard(tmp_path / "guard.sock" if request.param == "unix" else None, token="secret") as fake:
        yield fake, Guard(fake.address, token="secret", deadline_ms=10_000)


def test_a_loop_is_nudged_once_and_then_refused(address: tuple[FakeGuard, Guard]) -> None:
    fake, guard = address
    answers = []
    for number in range(1, 6):
        decision = guard.check(call(number).before())
        answers.append(decision.message if decision.denied else guard.observe(call(number).after("none")).nudge)
    assert answers[0] == answers[1] == "" and "3 times" in answers[2] and "refused" in answers[3] and "refused" in answers[4]
    assert (decision.action, decision.level) == ("block", 3)
    assert (decision.reason_code, decision.advice) == ("exact_repeat", "change_approach")
    assert len(set(fake.server.connections)) == 1, "connections are kept"
    assert fake.rule.questions[0]["client"] == {
        "name": "python", "version": "0.1.0", "can": ["deny", "context_after", "replace_result"]
    }


def test_the_token_comes_from_a_file_and_a_wrong_one_allows(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with FakeGuard(token="secret") as fake:
        assert Guard(fake.address, token_file=tmp_path / "token", deadline_ms=10_000).check(call(1).before()).recorded
        assert Guard(fake.address, token="other", deadline_ms=10_000).check(call(2).before()).failure == "status_401"


def test_what_can_and_record_say_reaches_the_guard(fake: FakeGuard, guard: Guard) -> None:
    guard.check(call(1).before(), can=["deny"], record=False)
    assert fake.rule.events == [] and fake.rule.questions[0]["client"]["can"] == ["deny"]
    assert not guard.observe(user_message("s", "try\nagain")).failure
    assert fake.rule.events[0]["text_sha256"] == hashlib.sha256(b"try\nagain").hexdigest()


def test_the_same_call_reported_twice_is_one(fake: FakeGuard, guard: Guard) -> None:
    for _ in range(9):
        assert not guard.check(call(1).before()).denied
    assert len(fake.rule.events) == 1
    assert call(1).before()["id"] != call(1).after()["id"] != call(2).after()["id"]
    assert Call("t", {}, "s", call_id="").before()["id"] != Call("t", {}, "s", call_id="").before()["id"], "no id is no same id"


def test_a_nudge_that_was_given_is_not_given_again() -> None:
    nudge = json.dumps({"v": 1, "decision": "allow", "action": "nudge", "message": "m", "command_id": "C1"}).encode()
    with hostile.server(hostile.http(nudge)) as (address, _):
        guard = Guard(address, deadline_ms=10_000)
        assert [guard.check(call(number).before()).nudge for number in (1, 2)] == ["m", ""]
        other = Call("t", {}, "s", agent_id="helper")
        assert guard.check(other.before()).nudge == "m", "another agent has not had it"
        # A nudge that comes before the call stands in its result.
        step = Step(guard, Call("t", {}, "s2"))
        assert step.refusal() is None and step.note("x") == "m"


def test_after_a_fork_the_child_asks_on_its_own_connection(fake: FakeGuard, guard: Guard) -> None:
    asyncio.run(AsyncGuard(guard).check(call(1).before()))
    child = os.fork()
    if child == 0:
        both = (guard.check(call(2).before()), asyncio.run(AsyncGuard(guard).check(call(3).before())))
        os._exit(0 if all(decision.recorded for decision in both) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert guard.check(call(4).before()).denied
    parent, *of_child, parent_again = fake.server.connections
    assert len(of_child) == 2 and parent not in of_child and parent == parent_again


def test_a_connection_that_the_guard_has_closed_is_made_anew() -> None:
    with FakeGuard() as fake:
        guard = Guard(fake.address, deadline_ms=10_000)
        closed = threading.Event()
        finish = fake.server.shutdown_request

        def shut(request: Any) -> None:
            finish(request)
            closed.set()

        fake.server.shutdown_request = shut
        original = fake.server.RequestHandlerClass.send_response

        def send_response(self: Any, *args: Any) -> None:
            original(self, *args)
            self.close_connection = True  # without saying so in a header

        fake.server.RequestHandlerClass = type("Closing", (fake.server.RequestHandlerClass,), {"send_response": send_response})
        assert guard.check(call(1).before()).recorded
        assert closed.wait(10)
        assert guard.check(call(2).before()).recorded


def test_a_connection_that_is_closed_as_the_question_comes_is_made_anew_once() -> None:
    def closing(connection: socket.socket, _: threading.Event) -> None:
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 28\r\n\r\n{"v":1,  "decision":"allow"}')
        connection.recv(65_536)

    with hostile.server(closing) as (address, requests):
        guard = Guard(address, deadline_ms=10_000)
        assert not any(guard.check(call(number).before()).failure for number in range(3))
        assert len(requests) == 3


def test_async_many_at_once_over_several_loops(fake: FakeGuard, guard: Guard) -> None:
    async def run(session: str) -> list[bool]:
        calls = [Call("t", {"n": 1}, session, call_id=str(number)) for number in range(50)]
        decisions = await asyncio.gather(*(AsyncGuard(guard).check(call.before()) for call in calls))
        assert not any(decision.failure for decision in decisions)
        return [decision.denied for decision in decisions]

    for session in ("a", "b"):
        assert sum(asyncio.run(run(session))) == 47


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_three_failures_in_a_row_open_the_circuit_for_five_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with hostile.server(hostile.http(b"garbage")) as (address, requests):
        guard = Guard(address, deadline_ms=10_000, breaker=Breaker(clock))
        with caplog.at_level(logging.WARNING):
            failures = [guard.check(call(number).before()).failure for number in range(6)]
        assert failures == ["not_json"] * 3 + ["open_circuit"] * 3
        assert len(requests) == 3 and len(caplog.records) == 1
        clock.now = 4.9
        assert guard.check(call(7).before()).failure == "open_circuit"
        clock.now = 5.1
        assert [guard.check(call(8).before()).failure for _ in range(2)] == ["not_json", "open_circuit"], "one tries"
        clock.now = 61.0
        with caplog.at_level(logging.WARNING):
            guard.check(call(9).before())
        assert len(caplog.records) == 2, "one warning a minute"


def test_while_one_tries_the_others_wait_for_what_comes_of_it() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(3):
        breaker.failed("test")
    clock.now = 5.1
    assert [breaker.lets_through() for _ in range(2)] == [True, False]
    breaker.succeeded()
    assert breaker.lets_through()


def test_an_answer_closes_the_circuit(fake: FakeGuard) -> None:
    clock = Clock()
    breaker = Breaker(clock)
    guard = Guard(fake.address, deadline_ms=10_000, breaker=breaker)
    for _ in range(3):
        breaker.failed("test")
    assert guard.check(call(1).before()).failure == "open_circuit"
    clock.now = 5.1
    assert all(guard.check(call(number).before()).recorded for number in (2, 3))


def test_an_event_that_is_refused_does_not_open_the_circuit() -> None:
    with hostile.server(hostile.http(b"{}", "400 Bad Request")) as (address, requests):
        guard = Guard(address, deadline_ms=10_000)
        assert {guard.check(call(number).before()).failure for number in range(5)} == {"status_400"}
        assert len(requests) == 5


def test_wrap(fake: FakeGuard, guard: Guard) -> None:
    ran = []

    def search(q: str, limit: int = 10) -> str:
        """Searches."""
        ran.append(q)
        return f"no {q}"

    wrapped = guard.wrap(search, session_id="s")
    assert wrapped.__doc__ == "Searches."
    texts = [wrapped("x") for _ in range(4)]
    assert texts[:2] == ["no x"] * 2 and texts[2] == "no x\n\nThe same search call has been made 3 times in this session."
    assert "refused" in texts[3] and len(ran) == 3
    assert fake.rule.calls()[0]["args"] == {"q": "x"}, "as written, without defaults"


def test_wrap_of_coroutines_and_of_what_raises(fake: FakeGuard, guard: Guard) -> None:
    async def fails(q: str) -> str:
        raise OSError(f"no {q}")

    wrapped = AsyncGuard(guard).wrap(fails, session_id="s", agent_id="helper")

    async def run() -> list[str]:
        texts = []
        for _ in range(4):
            try:
                texts.append(await wrapped(q="x"))
            except OSError as error:
                texts.append(str(error))
        return texts

    texts = asyncio.run(run())
    assert texts[1] == "no x" and texts[2].endswith("3 times in this session.") and "refused" in texts[3]
    assert fake.rule.results()[0]["error"] == {"type": "OSError", "message": "no x"}
    assert fake.rule.results()[0]["outcome"] == "error" and fake.rule.calls()[0]["agent"]["id"] == "helper"


@dataclasses.dataclass
class Point:
    x: int


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Dump:
    def model_dump(self, mode: str) -> dict[str, int]:
        return {"a": 1}


def test_whatever_arguments_and_results_are_the_event_is_sound(fake: FakeGuard, guard: Guard) -> None:
    endless: list[Any] = []
    endless += [endless, endless]
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    odd: list[Any] = [
        Broken(), {"k": Broken()}, {Broken(): 1}, endless, deep, [1] * 200_000, "x" * 1_000_000, float("nan"),
        {3: {2, 1}, None: b"\xff"},
        "a\ud800b", {"\ud800": 1}, Point(1), Dump(), Dump, object(), 10**30, 10**5_000, None, "", [], "null",
    ]
    for number, value in enumerate(odd):
        tried = Call("t", value, "s", call_id=f"odd{number}")
        assert guard.check(tried.before()).recorded, type(value)
        assert guard.observe(tried.after(value)).recorded, type(value)
        assert guard.observe(Call("t", {}, "s").after(error=value)).recorded, type(value)
    assert not guard.check(Call(Broken(), {}, "a\nb" * 200, agent_id="", call_id="\x00").before()).failure  # type: ignore[arg-type]
    assert fake.rule.events[-1]["tool"] == "<Broken>" and len(fake.rule.events[-1]["session_id"]) == 256
    assert guard.check({"kind": object(), "n": math.nan}).failure == "status_400"
    fake.rule.refused.clear()


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ({"b": (1, 2.5), "a": None}, {"args": {"b": [1, 2.5], "a": None}}),
        ({3: {2, 1}, None: Point(1)}, {"args": {"3": [1, 2], "None": {"x": 1}}}),
        (Dump(), {"args": {"a": 1}}),
        (float("inf"), {"args": "inf"}),
        ("x" * 100_000, {"args_sha256": hashlib.sha256(json.dumps("x" * 100_000).encode()).hexdigest(), "args_bytes": 100_002}),
    ],
)
def test_what_json_does_not_know_is_made_of_what_it_knows(value: object, made: dict[str, Any]) -> None:
    event = Call("t", value, "s").before()
    assert {field: event[field] for field in event if field.startswith("args")} == made


def test_a_note_stands_where_a_model_reads_it() -> None:
    image = object()
    assert add(image, "n") is image and add([image], "n") == [image]
    assert add([1, "a"], "n") == "[1, 'a']\n\nn"
    assert (add("r", ""), add("r", "n"), add({"a": 1}, "n"), add(7, "n")) == ("r", "r\n\nn", {"a": 1, "note": "n"}, "7\n\nn")
    for error, text in ((OSError(2, "x"), "[Errno 2] x"), (ValueError("a"), "a\n\nn"), (ValueError(), "n")):
        add_to_error(error, "n")
        assert str(error) == text


def test_the_program_itself(real: Guard) -> None:
    ran: list[str] = []

    def search(q: str) -> str:
        ran.append(q)
        return "no result for " + q

    wrapped = real.wrap(search, session_id="s")
    results: list[str] = []
    while scripts.loop(results):
        results.append(wrapped(q="same"))
    scripts.check_real(results, len(ran))


def test_the_readme() -> None:
    made = readme.run("Without a framework", search=scripts.answer)
    assert made["search"]("x") == "no result for x", "whether a guard is there or not"


def test_a_stop_that_fails_closed_holds_where_no_guard_answers_until_its_end(tmp_path: Path) -> None:
    stopped = {
        "v": 1, "decision": "deny", "action": "block", "message": "stopped", "fail": "closed", "stop": True,
        "expires_at": "2999-01-01T00:00:00Z", "state": {"stale": False, "source": "embedded"},
    }
    allowed = {"v": 1, "decision": "allow", "action": "none", "state": {"stale": False, "source": "embedded"}}
    answers: dict[str, dict[str, Any]] = {"s": stopped, "over": {**stopped, "expires_at": "2000-01-01T00:00:00Z"}}

    def of(session: str) -> Call:
        return Call("search", {"q": "same"}, session, call_id="c1")

    with FakeGuard(tmp_path / "guard.sock") as fake:
        fake.rule.answer = lambda question: (  # type: ignore[method-assign]
            (200, answers[question["event"]["session_id"]]) if answers else (503, {})
        )
        guard = Guard(fake.address, deadline_ms=10_000)
        assert guard.check(of("s").before()).fails_closed and guard.check(of("over").before()).fails_closed
        answers.clear()
        held = guard.check(of("s").before())
        assert (held.denied, held.message, bool(held.failure)) == (True, "stopped", True)
        assert not guard.observe(of("s").after("x")).denied, "a call that has run cannot be refused"
        assert not guard.check(of("s").before(), can=("context_after",)).denied
        assert not guard.check(of("over").before()).denied, "it has ended"
        assert not guard.check(of("other").before()).denied
        answers["s"] = {**allowed, "state": {"stale": True, "source": "embedded"}}
        guard.breaker = Breaker()
        held = guard.check(of("s").before())
        assert (held.denied, held.stale, held.failure) == (True, True, ""), "a guard that has just started knows of no stop"
        assert not guard.observe(of("s").after("x")).denied
        for state in ({}, {"state": None}, {"state": {}}, {"state": {"stale": "no"}}):
            answers["s"] = {**{key: value for key, value in allowed.items() if key != "state"}, **state}
            held = guard.check(of("s").before())
            assert (held.denied, held.stale) == (True, True), f"an answer that does not say that it knows: {state}"
        answers["s"] = allowed
        assert not guard.check(of("s").before()).denied, "whoever knows releases"
        answers.clear()
        assert not guard.check(of("s").before()).denied


def test_beyond_the_bound_a_stopped_session_keeps_one_refusal_and_the_loss_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr("loopwarden_client.guard.STOPPED_MAX", 4)
    stopped = {
        "v": 1, "decision": "deny", "action": "block", "message": "stopped", "fail": "closed",
        "expires_at": "2999-01-01T00:00:00Z", "state": {"stale": False, "source": "embedded"},
    }
    answers = [(200, stopped)]

    def of(session: str, agent: str) -> Call:
        return Call("search", {"q": "same"}, session, agent, call_id="c1")

    with FakeGuard(tmp_path / "guard.sock") as fake:
        fake.rule.answer = lambda question: answers[0]  # type: ignore[method-assign]
        guard = Guard(fake.address, deadline_ms=10_000)
        for session, agent in [("quiet", "main"), *(("loud", f"made-up-{number}") for number in range(10))]:
            assert guard.check(of(session, agent).before()).fails_closed
        answers[0] = (503, {})
        with caplog.at_level(logging.WARNING):
            assert guard.check(of("quiet", "main").before()).denied, "another session's agents push it out"
            assert guard.check(of("loud", "made-up-9").before()).denied
    assert "W0703" in caplog.text
