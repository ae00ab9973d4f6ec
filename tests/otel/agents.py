"""Two agents that loop, reported by the Python SDK of OpenTelemetry over HTTP: one traced by hand, one by PydanticAI's own instrumentation.

    agents.py http://HOST:PORT

Each asks for the same call eight times and gets the same failure or the same empty answer. Prints the session of each, a tab, and one of its
calls as an event has it.
"""

import json
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import StatusCode

CALLS = 8


def provider(address):
    """Spans go to the process under test, compressed as collectors send them."""
    provider = TracerProvider(resource=Resource.create({"service.name": "looping"}))
    exporter = OTLPSpanExporter(endpoint=f"{address}/v1/traces", compression=Compression.Gzip)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def by_hand(tracer):
    """The conversation id stands on the parent only, which ends last."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "by-hand"}
    with tracer.start_as_current_span("invoke_agent fixer", attributes=attributes):
        for number in range(CALLS):
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "shell",
                "gen_ai.tool.call.id": f"call-{number}",
                "gen_ai.tool.call.arguments": '{"command": "cargo test -p core"}',
            }
            with tracer.start_as_current_span("execute_tool shell", attributes=attributes) as span:
                span.record_exception(RuntimeError("no such package: core"))
                span.set_status(StatusCode.ERROR, "no such package: core")
    told = {"tool": "shell", "args": {"command": "cargo test -p core"}, "outcome": "error",
            "error": {"type": "RuntimeError", "message": "no such package: core"}}
    return "by-hand", told


def by_pydantic_ai(tracer_provider):
    """A model that always asks for the same call, played by a function."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.instrumented import InstrumentationSettings

    def model(messages, info):
        answers = sum(part.part_kind == "tool-return" for message in messages for part in message.parts)
        if answers < CALLS:
            return ModelResponse(parts=[ToolCallPart("search", {"query": "loop detection"})])
        return ModelResponse(parts=[TextPart("nothing found")])

    agent = Agent(FunctionModel(model), name="searcher")
    agent.instrument = InstrumentationSettings(tracer_provider=tracer_provider, include_content=True)

    @agent.tool_plain
    def search(query: str) -> str:
        return f"no results for {query}"

    agent.run_sync("find out about loop detection", conversation_id="by-pydantic-ai")
    told = {"tool": "search", "args": {"query": "loop detection"}, "outcome": "ok", "result": "no results for loop detection"}
    return "by-pydantic-ai", told


def main():
    tracer_provider = provider(sys.argv[1])
    trace.set_tracer_provider(tracer_provider)
    for session, call in [by_hand(tracer_provider.get_tracer("by-hand")), by_pydantic_ai(tracer_provider)]:
        print(session, json.dumps(call), sep="\t")
    if not tracer_provider.force_flush(30_000):
        sys.exit("the spans were not taken")
    tracer_provider.shutdown()


main()
