"""An agent that reports to Kafka. The partitioner matters: the default of this client would put sessions elsewhere than Java does."""
import json, uuid
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "localhost:9092", "enable.idempotence": True, "partitioner": "murmur2_random"})
def report(session, tool, args, result, outcome):
    event = {"id": str(uuid.uuid4()), "kind": "tool", "session_id": session, "tool": tool, "args": args, "result": result, "outcome": outcome}
    producer.produce("agents.tool-events.v1", key=session, value=json.dumps(event))
report("sess-42", "Bash", {"command": "cargo test -p core"}, "error: no such package", "error")
producer.flush()
