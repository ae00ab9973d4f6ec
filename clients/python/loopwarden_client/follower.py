"""Follows the topic of commands and answers as a guard does, without one: `pip install loopwarden-client[kafka]`.

A follower reads all partitions from the beginning of what is kept, in no consumer group: each process needs every command. Until it
has read to the end, and while the broker is away, there are no new blocks; those that stand end at their time.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .breaker import Breaker
from .commands import Commands
from .decision import Decision
from .events import denied
from .guard import Asking
from .plain import name
from .verdicts import MAIN_AGENT, UNKNOWN, Who

TOPIC = "agents.loop-commands.v1"
# Larger records are no commands.
RECORD_BYTES_MAX = 1024 * 1024
# How long a poll waits, and how often partitions are looked up. Seconds.
POLL_S = 0.2
PARTITIONS_S = 30.0
BATCH_MAX = 500


class Follower(Asking):
    """A guard made of the commands on Kafka. Adapters take it in place of a Guard; `with Follower(…) as guard:`.

    `report` is given each event, those of refused calls included, and should publish it with the partitioner `murmur2_random`
    (deploy/examples/producer.py). What it raises is logged and goes no further.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        topic: str = TOPIC,
        report: Callable[[dict[str, Any]], object] | None = None,
        config: Mapping[str, Any] | None = None,
        commands: Commands | None = None,
    ) -> None:
        self.deadline_ms = 150
        self.commands = commands or Commands()
        self.read_to_end = threading.Event()
        """Set when the commands that were there at the start are read."""
        self._topic, self._report = topic, report
        self._config = {
            **(config or {}),
            "bootstrap.servers": bootstrap_servers,
            # Needed by the client; nothing is joined or committed.
            "group.id": "loopwarden-follower",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        self._breaker = Breaker()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loopwarden-follower", daemon=True)
        self._assigned: set[int] = set()
        self._ended: set[int] = set()

    def start(self) -> "Follower":
        """Begins to read, on a thread of its own. Raises ImportError where confluent-kafka is not installed."""
        from confluent_kafka import Consumer

        self._consumer: Any = Consumer(self._config)
        self._thread.start()
        return self

    def close(self) -> None:
        """Ends the thread and the connection."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> "Follower":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, event: Mapping[str, Any], can: Sequence[str], record: bool, deadline: float) -> Decision:
        """As `Asking.ask`. Asks no one: the answer is computed here."""
        try:
            decision = self._decide(event, can)
            if record and self._report is not None:
                # A refused call is told as such, and does not count as another step of the loop.
                self._report(denied(event, decision.command_id) if decision.denied else dict(event))
            return decision
        except Exception as error:  # noqa: BLE001 - a report that fails must not stop an agent
            self._breaker.warn(f"an event was not reported: {type(error).__name__}")
            return Decision(failure="client_error")

    def _decide(self, event: Mapping[str, Any], can: Sequence[str]) -> Decision:
        given = event.get("agent")
        agent = given if isinstance(given, Mapping) else {}
        who = Who(
            name(event.get("session_id", "")),
            name(agent.get("id") or MAIN_AGENT),
            event.get("swarm_id"),
            event.get("tenant"),
            _labels(event.get("labels")),
            agent.get("root_id"),
            agent.get("parent_id"),
        )
        phase = _phase(event)
        if phase == "anew":
            self.commands.begin_anew(who)
            return Decision()
        if "tool" not in event or phase == "turn":
            return self.commands.decide(who, None, UNKNOWN, can=can, phase=phase)
        # What came of a call may be told without its arguments.
        args = event.get("args") if "args" in event or phase == "before" else UNKNOWN
        if "args_sha256" in event:
            args = f"sha256:{event['args_sha256']}"
        return self.commands.decide(who, str(event["tool"]), args, can=can, phase=phase)

    def _run(self) -> None:
        looked_at = float("-inf")
        while not self._stopping.is_set():
            try:
                if time.monotonic() - looked_at > PARTITIONS_S or not self._assigned:
                    looked_at = time.monotonic()
                    self._assign()
                for record in self._consumer.consume(BATCH_MAX, POLL_S):
                    self._take(record)
            except Exception as error:  # noqa: BLE001 - whatever the client raises, the agent goes on
                self._breaker.warn(f"commands cannot be read: {error}")
                self._stopping.wait(POLL_S)
        self._consumer.close()

    def _assign(self) -> None:
        """Adds the partitions that are new, from their beginning."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        found = self._consumer.list_topics(self._topic, 5.0).topics[self._topic]
        if found.error is not None:
            self._breaker.warn(f"commands cannot be read: {found.error}")
            return
        new = set(found.partitions) - self._assigned
        if new:
            self._consumer.incremental_assign([TopicPartition(self._topic, at, OFFSET_BEGINNING) for at in sorted(new)])
            self._assigned |= new

    def _take(self, record: Any) -> None:
        error = record.error()
        if error is not None and error.name() == "_PARTITION_EOF":
            self._ended.add(record.partition())
            if self._ended >= self._assigned:
                self.read_to_end.set()
        elif error is not None:
            self._breaker.warn(f"commands cannot be read: {error}")
        else:
            value = record.value() or b""
            if len(value) <= RECORD_BYTES_MAX:
                self.commands.read(value)


def _labels(labels: Any) -> tuple[tuple[str, str], ...]:
    pairs = labels.items() if isinstance(labels, Mapping) else ()
    return tuple((key, value) for key, value in pairs if isinstance(key, str) and isinstance(value, str))


def _phase(event: Mapping[str, Any]) -> str:
    """Where an agent is: `before` or `after` a call, in a `turn` between calls, or about to begin `anew`."""
    kind, role = event.get("kind"), event.get("role")
    if kind in ("session_start", "session_end", "reset") or (kind == "message" and role == "user"):
        return "anew"
    if kind == "message" and role == "assistant":
        return "turn"
    return {"tool_call": "before", "tool_result": "after", "tool": "after"}.get(str(kind), "other")
