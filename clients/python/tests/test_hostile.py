"""Whatever the guard answers, a call is allowed or refused, and nothing is raised."""

import asyncio
import json
import socket
from pathlib import Path

import hostile
import pytest

from loopwarden_client import AsyncGuard, Call, Decision, Guard

CALL = Call("Bash", {"command": "ls"}, "sess-42")
ALLOW = {"v": 1, "decision": "allow"}
DENY = {"v": 1, "decision": "deny", "message": "no"}


def answer(**fields: object) -> hostile.Answer:
    return hostile.http(json.dumps({**ALLOW, **fields}).encode())


FAILURES = {
    "garbage": (hostile.sends(b"\x00\xff garbage \r\n\r\n"), "not_http"),
    "nothing": (hostile.sends(), "unreachable"),
    "another protocol": (hostile.sends(b"SSH-2.0-OpenSSH_9.6\r\n"), "not_http"),
    "half a head": (hostile.sends(b"HTTP/1.1 200 OK\r\nContent-Le"), "not_json"),
    "half a body": (hostile.sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), "not_json"),
    "a long head": (hostile.sends(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"), "not_http"),
    "many headers": (hostile.sends(b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 200 + b"\r\n"), "not_http"),
    "a bad length": (hostile.sends(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\nConnection: close\r\n\r\nx"), "not_json"),
    "bad chunks": (hostile.sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "not_http"),
    "a huge chunk": (hostile.sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{"), "not_http"),
    "an endless body": (hostile.endless, "answer_too_large"),
    "a huge length": (hostile.http(b" " * 70_000), "answer_too_large"),
    "silence": (hostile.silent, "timeout"),
    "a byte now and then": (hostile.dribbling, "timeout"),
    "endless interim answers": (hostile.continues, "timeout"),
    "an empty body": (hostile.http(b""), "not_json"),
    "no JSON": (hostile.http(b"<html>"), "not_json"),
    "no UTF-8": (hostile.http(b'{"v":1,"decision":"\xff"}'), "not_json"),
    "deep JSON": (hostile.http(b"[" * 60_000), "not_json"),
    "a list": (hostile.http(b"[]"), "not_an_object"),
    "a long number": (hostile.http(b'{"v":' + b"9" * 50_000 + b"}"), None),
    "no version": (hostile.http(b'{"decision":"deny","message":"no"}'), "unknown_version"),
    "another version": (hostile.http(json.dumps({**DENY, "v": 2}).encode()), "unknown_version"),
    "a version that is true": (hostile.http(json.dumps({**DENY, "v": True}).encode()), "unknown_version"),
    "no decision": (hostile.http(b'{"v":1}'), "unknown_decision"),
    "an unknown decision": (answer(decision="ask"), "unknown_decision"),
    "a decision of another type": (answer(decision=["deny"]), "unknown_decision"),
    "a deny without a text": (answer(decision="deny"), "deny_without_message"),
    "a deny with an empty text": (answer(decision="deny", message=" \n"), "deny_without_message"),
    "a deny whose text is none": (answer(decision="deny", message={"a": 1}), "deny_without_message"),
    "204": (hostile.http(b"", "204 No Content"), "status_204"),
    "a redirection": (hostile.http(b"", "302 Found", b"Location: http://127.0.0.1:1/"), "status_302"),
    "400": (hostile.http(json.dumps(DENY).encode(), "400 Bad Request"), "status_400"),
    "401": (hostile.http(json.dumps(DENY).encode(), "401 Unauthorized"), "status_401"),
    "403 of a proxy": (hostile.http(json.dumps(DENY).encode(), "403 Forbidden"), "status_403"),
    "413": (hostile.http(b"", "413 Too Large"), "status_413"),
    "429": (hostile.http(b"", "429 Too Many"), "status_429"),
    "500": (hostile.http(json.dumps(DENY).encode(), "500 Oops"), "status_500"),
    "503": (hostile.http(b"", "503 Starting"), "status_503"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_is_no_answer_allows(name: str) -> None:
    reply, failure = FAILURES[name]
    # Only where the time is to run out is it short.
    with hostile.server(reply) as (address, requests):
        guard = Guard(address, deadline_ms=150 if failure == "timeout" else 5_000)
        asynchronous = asyncio.run(AsyncGuard(guard).check(CALL.before()))
        for decision in (guard.check(CALL.before()), guard.observe(CALL.after("x")), asynchronous):
            assert not decision.denied and not decision.message and not decision.stop
            assert decision.failure == failure if failure else decision.failure
        assert guard.wrap(lambda: "ran", session_id="s")() == "ran"
        assert requests


TOLERATED = {
    "fields of wrong types": answer(
        action=1, message=7, placement=[], command_id={}, episode=None, level="x", reason="r", state=[], stop="yes",
        expires_at=1, recorded=2,
    ),
    "unknown fields": answer(a=1, decision2="deny", state={"stale": False, "b": []}),
    "an unknown action": answer(action="dance", message="do this"),
    "a message without a nudge": answer(message="do this"),
    "levels out of range": answer(level=10**30),
    "a nudge without a text": answer(action="nudge"),
}


@pytest.mark.parametrize("name", TOLERATED)
def test_what_a_caller_does_not_know_it_does_not_do(name: str) -> None:
    with hostile.server(TOLERATED[name]) as (address, _):
        decision = Guard(address, deadline_ms=5_000).check(CALL.before())
    # Whoever does not say that he knows does not know.
    assert decision == Decision(action=decision.action, stale=name != "unknown fields"), decision


def test_a_text_for_a_model_is_clean_and_bounded() -> None:
    text = rb'{"v":1,"decision":"deny","message":"a\ud800b\u0000\u001b[2J\r\nc\td"}'
    with hostile.server(hostile.http(text)) as (address, _):
        message = Guard(address, deadline_ms=5_000).check(CALL.before()).message
    assert message == "a\ufffdb[2J\nc\td" and message.encode()
    with hostile.server(answer(action="nudge", message="x" * 50_000, command_id="y" * 9_000)) as (address, _):
        decision = Guard(address, deadline_ms=5_000).check(CALL.before())
    assert (len(decision.message), len(decision.command_id)) == (4_096, 512)


def test_a_block_that_came_too_late_to_refuse_still_says_its_text() -> None:
    with hostile.server(answer(action="block", message="m", stop=True)) as (address, _):
        decision = Guard(address, deadline_ms=5_000).observe(CALL.after("x"))
    assert (decision.denied, decision.nudge, decision.stop) == (False, "m", True)


def test_bytes_behind_an_answer_are_not_the_next_answer() -> None:
    allow = json.dumps(ALLOW).encode()
    deny = json.dumps(DENY).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    with hostile.server(hostile.sends(head % len(allow) + allow + head % len(deny) + deny)) as (address, requests):
        guard = Guard(address, deadline_ms=5_000)
        assert not any(guard.check(CALL.before()).denied for _ in range(5))
        assert len(requests) == 5


def test_an_address_without_a_guard(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for address in (f"http://127.0.0.1:{port}", f"unix:{tmp_path}/none", f"unix:{tmp_path / ('x' * 200)}", "http://no-such-host.invalid"):
        assert Guard(address).check(CALL.before()).failure in ("unreachable", "timeout"), address


@pytest.mark.parametrize("address", ["", "localhost:1", "https://127.0.0.1", "unix:", "http://", "http://h/path", "http://u@h", "http://h:99999"])
def test_a_wrong_address_is_refused_at_the_start(address: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Guard(address)


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "ü"])
def test_a_wrong_token_is_refused_at_the_start(token: str) -> None:
    with pytest.raises(ValueError, match="token"):
        Guard("http://127.0.0.1:1", token=token)
