"""The rules for workers, one by one, and the topic they come from."""

import json
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import readme

from loopwarden_client import Call, Commands, Decision, Follower, Step, user_message
from loopwarden_client.canonical import fingerprint
from loopwarden_client.commands import SUBJECTS_MAX
from loopwarden_client.verdicts import Who

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=timezone.utc)
ARGS = {"command": "ls"}
WHO = Who("s")
PRINT = fingerprint("Bash", ARGS)


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now


def command(seq: int = 1, action: str = "block", **fields: Any) -> dict[str, Any]:
    scope = {"kind": "session", "agent_id": "main", "tool": "Bash", "fingerprint": PRINT, "identity": {"kind": "call"}}
    return {
        "v": 1, "id": f"ID{seq}", "action": action, "session_id": "s", "scope": scope, "level": 3, "epoch": 1, "seq": seq,
        "episode": "E1",
        "issued_at": "2026-01-05T09:00:00.000Z", "expires_at": "2026-01-05T09:10:00.000Z", "mode": "live", "message": f"text {seq}",
        "reason": {"code": "exact_repeat", "summary": "Bash: 3 calls"}, **fields,
    }


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def commands(clock: Clock) -> Commands:
    return Commands(clock)


def test_a_block_refuses_what_it_matches_and_nothing_else(commands: Commands) -> None:
    assert commands.apply(command()) == "applied"
    decision = commands.decide(WHO, "Bash", ARGS)
    assert (decision.denied, decision.message, decision.command_id) == (True, "text 1", "ID1")
    assert decision.reason_code == "exact_repeat"
    assert commands.decide(WHO, "Bash", '{ "command" : "ls" }').denied, "another spelling is the same call"
    others = [(WHO, "Bash", {"command": "pwd"}), (WHO, "sh", ARGS), (Who("x"), "Bash", ARGS), (Who("s", "helper"), "Bash", ARGS)]
    assert not any(commands.decide(*other).denied for other in [*others, (Who("s", tenant="t"), "Bash", ARGS)])


def stop(seq: int, kind: str, action: str = "block", **fields: Any) -> dict[str, Any]:
    code = "stop" if action == "block" else "release"
    scope = {"kind": kind, "by": "stop"}
    given: dict[str, Any] = {"id": f"{kind}{seq}", "scope": scope, "level": 4, "advice": "stop", "reason": {"code": code}}
    wire = command(seq, action, **{**given, **fields})
    if "session_id" not in fields:
        del wire["session_id"]
    return wire


@pytest.mark.parametrize(("kind", "fields", "whom"), [
    ("session", {"session_id": "s"}, Who("s", "any")),
    ("agent", {"scope": {"kind": "agent", "name": "fixer", "by": "stop"}}, Who("any", "fixer")),
    ("swarm", {"swarm_id": "w"}, Who("any", swarm_id="w")),
    ("tenant", {"tenant": "t"}, Who("any", tenant="t")),
    ("all", {}, Who("any", tenant="any")),
])
def test_a_stop_of_an_operator_refuses_all_calls_of_whom_it_names(
    commands: Commands, kind: str, fields: dict[str, Any], whom: Who
) -> None:
    assert commands.apply(stop(1, kind, **fields)) == "applied"
    decision = commands.decide(whom, "Bash", {"any": 1}, can=("deny", "stop"))
    assert (decision.denied, decision.stop, decision.reason_code, decision.message) == (True, True, "stop", "text 1")
    assert commands.decide(Who("x", "y", "z", "u"), "Bash", ARGS).denied is (kind == "all")
    assert commands.apply(stop(2, kind, "unblock", **fields)) == "applied"
    assert not commands.decide(whom, "Bash", {"any": 1}).denied
    assert commands.apply(stop(1, kind, id="late", **fields)) == "stale"


@pytest.mark.parametrize(("kind", "name"), [
    ("agent", "fixer"), ("session", "s"), ("swarm", "w"), ("tenant", None), ("label", "team=search"),
])
def test_a_budget_of_a_group_refuses_all_calls_of_its_agents_and_of_nobody_else(
    commands: Commands, kind: str, name: str | None
) -> None:
    scope = {"kind": kind, "by": "budget/b/day"}
    field = {"session": "session_id", "swarm": "swarm_id"}.get(kind)
    named = {"scope": scope, field: name} if field else {"scope": scope if name is None else {**scope, "name": name}}
    block = {**command(1), "session_id": None, "tenant": "t", "reason": {"code": "budget"}, "level": 4, **named}
    who = Who("s", "fixer", "w", "t", (("team", "search"),))
    commands.apply(command(7, id="own", session_id="s", tenant="t", scope={"kind": "session", "agent_id": "fixer"}, action="nudge"))
    assert commands.apply(block) == "applied"
    decision = commands.decide(who, "Bash", {"any": 1}, can=("deny", "stop"))
    found = (decision.denied, decision.reason_code, decision.message)
    assert found == (True, "budget", "text 1"), "though it has a nudge of its own"
    others = [Who("s", "fixer", "w"), Who("x", "y", "z", "t", (("team", "x"),))]
    assert [commands.decide(other, "Bash", {}).denied for other in others] == [False, kind == "tenant"]
    lift = {**block, "id": "lift", "seq": 2, "action": "unblock"}
    assert commands.apply(lift) == "applied"
    assert not commands.decide(who, "Bash", {}).denied
    assert commands.apply({**block, "id": "other", "scope": {**scope, "kind": "galaxy"}}) == "unknown"
    assert commands.apply({**block, "id": "none", "scope": {"kind": "label", "by": "budget/b/day"}}) == "malformed"


def test_a_nudge_of_a_budget_is_given_to_each_agent_of_the_group_once(commands: Commands) -> None:
    commands.apply(command(1, "nudge", scope={"kind": "label", "name": "team=search", "by": "budget/b/day"}))
    for who in (Who("s", labels=(("team", "search"),)), Who("x", labels=(("team", "search"),))):
        phases, can = ("before", "after", "after"), ("deny", "context_after")
        assert [commands.decide(who, "Bash", {}, phase=phase, can=can).message for phase in phases] == ["", "text 1", ""]


def test_a_detectors_unblock_lifts_no_stop_and_a_full_table_pushes_none_out(commands: Commands) -> None:
    commands.apply(command())
    commands.apply(stop(1, "session", session_id="s"))
    assert commands.decide(WHO, "Bash", ARGS).reason_code == "stop", "it goes before all else"
    commands.apply(command(2, "unblock"))
    for number in range(SUBJECTS_MAX + 1):
        commands.apply(command(1, id=f"N{number}", session_id=f"n{number}"))
    assert commands.decide(WHO, "Bash", ARGS).denied


def test_a_block_without_a_fingerprint_refuses_the_tool_or_everything(commands: Commands) -> None:
    commands.apply(command(scope={"kind": "session", "agent_id": "main", "tool": "Bash"}))
    assert commands.decide(WHO, "Bash", {"x": 1}).denied and not commands.decide(WHO, "sh", {}).denied
    commands.apply(command(2, scope={"kind": "session", "agent_id": "main"}, episode="E2"))
    assert commands.decide(WHO, "sh", {}).denied and not commands.decide(Who("s", "other"), "sh", {}).denied


def test_duplicates_old_and_unknown_commands_change_nothing(commands: Commands) -> None:
    assert commands.apply(command(5)) == "applied"
    assert commands.apply(command(5, action="unblock")) == "duplicate"
    assert commands.apply(command(4, action="unblock")) == "stale"
    assert commands.apply(command(6, action="unblock", epoch=0)) == "stale"
    for number, fields in enumerate([{"v": 2}, {"action": "dance"}, {"scope": {"kind": "planet"}}]):
        assert commands.apply(command(10 + number, **{"action": "unblock", **fields})) == "unknown"
    for mode in ("shadow", "replay", "new"):
        assert commands.apply(command(20, action="unblock", mode=mode, id=mode)) == "not_live"
    assert commands.apply(command(30, action="unblock", expires_at="2026-01-05T08:59:59Z")) == "expired"
    assert commands.decide(WHO, "Bash", ARGS).denied
    assert commands.apply(command(1, action="unblock", epoch=2)) == "applied", "a later epoch begins anew"
    assert not commands.decide(WHO, "Bash", ARGS).denied


GARBAGE: list[Any] = [
    None, [], "x", 7, {}, {"v": 1}, command(id=None), command(scope=[]), command(expires_at="soon"), command(epoch="x"),
    command(expires_at="2026-01-05T09:10:00"), command(seq=None), command(message=None), command(message=7),
    command(scope={"kind": "swarm"}), command(session_id={}), command(expires_at=7), command(episode=None, scope={"kind": "agent"}),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_no_command(commands: Commands, garbage: Any) -> None:
    assert commands.apply(garbage) in ("malformed", "unknown", "duplicate")
    assert commands.decide(WHO, "Bash", ARGS) == Decision()


def test_a_block_ends_at_its_time_and_an_unblock_lifts_only_its_episode(commands: Commands, clock: Clock) -> None:
    commands.apply(command(1))
    commands.apply(command(2, episode="E2", expires_at="2026-01-05T09:20:00+00:00"))
    commands.apply(command(3, action="unblock"))
    assert commands.decide(WHO, "Bash", ARGS).command_id == "ID2"
    clock.now = NOW + timedelta(minutes=20)
    assert not commands.decide(WHO, "Bash", ARGS).denied


def test_a_nudge_is_given_once_to_each_agent_it_means(commands: Commands) -> None:
    commands.apply(command(action="nudge", level=1))
    assert [commands.decide(WHO, "anything", {}).nudge for _ in range(2)] == ["text 1", ""]
    assert commands.decide(Who("s", "helper"), "Bash", ARGS).nudge == ""
    swarm = {"kind": "swarm", "tool": "Bash", "fingerprint": fingerprint("Bash", ARGS), "identity": {"kind": "call"}}
    commands.apply(command(2, action="nudge", scope=swarm, swarm_id="w"))
    members = [Who("a", swarm_id="w"), Who("b", swarm_id="w"), Who("c", swarm_id="v")]
    assert [commands.decide(who, "Bash", {}).nudge for who in members] == ["", "", ""], "only who makes a matching call"
    assert [commands.decide(who, "Bash", ARGS).nudge for who in members * 2] == ["text 2", "text 2", "", "", "", ""]
    only = [{"session_id": "b", "agent_id": "main"}]
    commands.apply(command(3, scope={**swarm, "only": only}, swarm_id="w"))
    assert [commands.decide(who, "Bash", ARGS).denied for who in members] == [False, True, False]
    commands.apply(command(4, scope={**swarm, "kind": "tenant"}, tenant="t"))
    assert commands.decide(Who("any", tenant="t"), "Bash", ARGS).denied and not commands.decide(Who("any"), "Bash", ARGS).denied


def test_memory_is_bounded(commands: Commands) -> None:
    for number in range(SUBJECTS_MAX + 10):
        commands.apply(command(id=str(number), session_id=str(number)))
    assert len(commands._subjects) == len(commands._near) == SUBJECTS_MAX
    assert not commands.decide(Who("0"), "Bash", ARGS).denied and commands.decide(Who(str(SUBJECTS_MAX)), "Bash", ARGS).denied


def test_a_follower_answers_as_a_guard_does(commands: Commands) -> None:
    told: list[dict[str, Any]] = []
    follower = Follower("unused", commands=commands, report=told.append)
    call = Call("Bash", ARGS, "s")
    commands.apply(command(action="nudge"))
    step = Step(follower, call)
    assert step.refusal() is None and step.note("x") == "text 1"
    commands.apply(command(2))
    assert Step(follower, Call("Bash", ARGS, "s")).refusal() == "text 2"
    assert [event["kind"] for event in told] == ["tool_call", "tool_result", "tool"]
    assert told[2]["outcome"] == "denied" and told[2]["command_id"] == "ID2" and told[2]["args"] == ARGS
    # A nudge for a swarm names a call, and stands in the result of that call. Who has heard of that tool already gets none.
    commands.apply(command(4, action="unblock"))
    swarm = {"kind": "swarm", "tool": "Bash", "fingerprint": fingerprint("Bash", {"a": 1}), "identity": {"kind": "call"}}
    commands.apply(command(5, action="nudge", scope=swarm, swarm_id="w"))
    event = {**Call("Bash", {"a": 1}, "s", call_id="c").before(), "swarm_id": "w"}
    assert not follower.check(event).nudge
    assert follower.observe({**Call("Bash", {"a": 1}, "s", call_id="c").after("x"), "swarm_id": "w"}).nudge == "text 5"
    # A person has spoken: what was not said is void.
    commands.apply(command(6, action="nudge"))
    follower.observe(user_message("s", "go on"))
    assert Step(follower, call).note("x") == ""


def test_a_report_that_fails_stops_no_agent(commands: Commands) -> None:
    def report(_: Any) -> None:
        raise BufferError("queue full")

    follower = Follower("unused", commands=commands, report=report)
    assert follower.check(Call("Bash", ARGS, "s").before()).failure == "client_error"


def test_a_follower_reads_the_topic() -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not in this environment")
    mock = {"test.mock.num.brokers": 1, "bootstrap.servers": "mock"}
    producer = kafka.Producer(mock)
    broker = producer.list_topics(timeout=10).brokers[1]
    expires = (datetime.now(timezone.utc) + timedelta(minutes=10)).isoformat()
    values = [b"garbage", b"[" * 200_000, b"x" * (900 * 1024), json.dumps(command(1, expires_at=expires)).encode()]
    for value in values:
        producer.produce("agents.loop-commands.v1", key="s", value=value)
    assert producer.flush(10) == 0
    with Follower(f"{broker.host}:{broker.port}") as follower:
        assert follower.read_to_end.wait(30)
        assert follower.check(Call("Bash", ARGS, "s").before()).denied
        assert not follower.check(Call("Bash", {"command": "pwd"}, "s").before()).denied
        seen = follower.commands.apply
        arrived = threading.Event()

        def apply(value: Any) -> str:
            said = seen(value)
            arrived.set()
            return said

        follower.commands.apply = apply  # type: ignore[method-assign]
        producer.produce("agents.loop-commands.v1", key="s", value=json.dumps(command(2, action="unblock", expires_at=expires)))
        producer.flush(10)
        assert arrived.wait(30)
        assert not follower.check(Call("Bash", ARGS, "s").before()).denied


def test_the_readme() -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not in this environment")
    told: list[dict[str, Any]] = []
    guard = readme.run("Without a guard: Kafka", report=told.append)["guard"]
    assert not guard.check(Call("Bash", ARGS, "s").before()).denied and len(told) == 1
    guard.close()


def test_without_a_broker_there_are_no_blocks() -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not in this environment")
    with Follower("127.0.0.1:1", config={"log_level": 0}) as follower:
        assert not follower.check(Call("Bash", ARGS, "s").before()).denied
