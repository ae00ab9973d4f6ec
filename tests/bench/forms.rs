//! What a call costs until it is a native event, by the form it arrives in: native, OTLP in protobuf and JSON, CloudEvents, mapped JSON.
//!
//! `cargo bench -p loopwarden-sources --bench forms` over the calls of the sample fleet. The same calls in each form, in the same run; of each
//! foreign form the event is read again as the engine will. Spans come 98 a body, everything else one a body.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a broken benchmark must stop and say so")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use loopwarden_core::event::{EventTime, RecordMeta, RecordOffset, decode};
use loopwarden_sources::cloudevents::{self, Transport};
use loopwarden_sources::otlp::{Form, Signal, read};
use loopwarden_sources::{Sessions, mapping::Mapping};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use serde_json::{Value, json};

const FLEET: &str = include_str!("../../config/demo/fleet.ndjson");
const NOW: EventTime = EventTime(4_102_444_800_000);
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Spans of a body. An SDK sends up to 512.
const BATCH: usize = 98;

const MAPPING: &str = "
[fields]
session_id = \"run.id\"
tool = \"call.name\"
args = \"call.input\"
result = \"call.output\"
outcome = \"call.failed && 'error' || 'ok'\"
\"error.message\" = \"call.failure\"
\"agent.id\" = \"run.worker || 'main'\"
time = \"at\"
";

/// The calls of the fleet that are one event each.
fn calls() -> Vec<Value> {
    let events = FLEET.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["kind"] == "tool").collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn span(number: usize, call: &Value) -> Value {
    let attribute = |key: &str, value: String| json!({ "key": key, "value": { "stringValue": value } });
    let mut attributes = vec![
        attribute("gen_ai.operation.name", "execute_tool".to_owned()),
        attribute("gen_ai.tool.name", text(&call["tool"])),
        attribute("gen_ai.tool.call.id", text(&call["id"])),
        attribute("gen_ai.conversation.id", text(&call["session_id"])),
        attribute("gen_ai.agent.name", text(&call["agent"]["id"])),
        attribute("gen_ai.tool.call.arguments", text(&call["args"])),
    ];
    if !call["result"].is_null() {
        attributes.push(attribute("gen_ai.tool.call.result", text(&call["result"])));
    }
    let nanos = 1_795_613_167_000_000_000_u64 + number as u64 * 1_000_000_000;
    let is_error = call["outcome"] != "ok";
    json!({
        // A trace each: calls of two sessions do not share one.
        "traceId": format!("{:032x}", number + 1), "spanId": format!("{:016x}", number + 1),
        "name": format!("execute_tool {}", text(&call["tool"])), "kind": 1,
        "startTimeUnixNano": (nanos - 700_000_000).to_string(), "endTimeUnixNano": nanos.to_string(), "attributes": attributes,
        "status": if is_error { json!({ "code": 2, "message": text(&call["error"]["message"]) }) } else { json!({}) },
    })
}

fn exports(calls: &[Value]) -> Vec<Value> {
    let spans: Vec<Value> = calls.iter().enumerate().map(|(number, call)| span(number, call)).collect();
    let body = |spans: &[Value]| {
        let resource = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "fleet" } }] });
        json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "scope": { "name": "bench" }, "spans": spans }] }] })
    };
    spans.chunks(BATCH).map(body).collect()
}

fn forms(c: &mut Criterion) {
    let calls = calls();
    let texts =
        |of: &dyn Fn(&Value) -> Value| -> Vec<Vec<u8>> { calls.iter().map(|call| of(call).to_string().into_bytes()).collect() };
    let native = texts(&Value::clone);
    let envelopes = texts(
        &|call| json!({ "specversion": "1.0", "id": call["id"], "source": "/fleet", "type": "tool", "subject": call["session_id"], "data": call }),
    );
    let foreign = texts(&|call| {
        let failure = &call["error"]["message"];
        json!({ "run": { "id": call["session_id"], "worker": call["agent"]["id"] }, "at": call["time"],
            "call": { "name": call["tool"], "input": call["args"], "output": call["result"], "failed": call["outcome"] != "ok", "failure": failure } })
    });
    let exports = exports(&calls);
    let exports_json: Vec<Vec<u8>> = exports.iter().map(|export| export.to_string().into_bytes()).collect();
    let protobuf =
        |export: &Value| serde_json::from_str::<ExportTraceServiceRequest>(&export.to_string()).unwrap().encode_to_vec();
    let exports_protobuf: Vec<Vec<u8>> = exports.iter().map(protobuf).collect();
    let mapping = Mapping::new(&toml::from_str(MAPPING).unwrap()).unwrap();

    let mut group = c.benchmark_group(format!("forms, {} calls", calls.len()));
    group.throughput(Throughput::Elements(calls.len() as u64));
    group.bench_function("native", |bencher| {
        let meta = RecordMeta {
            topic: "bench",
            partition: 0,
            offset: RecordOffset(0),
            timestamp: NOW,
            key: None,
            headers: Vec::new(),
            value_bytes_max: EVENT_BYTES_MAX,
        };
        bencher.iter(|| native.iter().for_each(|line| drop(black_box(decode(Some(line), &meta).unwrap()))));
    });
    for (name, form, bodies) in [("OTLP protobuf", Form::Protobuf, &exports_protobuf), ("OTLP JSON", Form::Json, &exports_json)] {
        let mut sessions = Sessions::default();
        let mut pass = || -> usize {
            let read =
                |body: &Vec<u8>| read((Signal::Traces, form), body, &mut sessions, NOW, EVENT_BYTES_MAX).unwrap().events.len();
            bodies.iter().map(read).sum()
        };
        assert_eq!(pass(), calls.len());
        group.bench_function(name, |bencher| bencher.iter(|| black_box(pass())));
    }
    group.bench_function("CloudEvents", |bencher| {
        let headers: &[(&str, &[u8])] = &[("content-type", b"application/cloudevents+json")];
        let read = |body: &Vec<u8>| {
            let batch = cloudevents::read(Transport::Http, headers, body, None, NOW, EVENT_BYTES_MAX).unwrap().unwrap();
            assert_eq!(batch.events.len(), 1);
        };
        bencher.iter(|| envelopes.iter().for_each(read));
    });
    group.bench_function("mapped JSON", |bencher| {
        let read = |record: &Vec<u8>| drop(black_box(mapping.map(record, NOW, EVENT_BYTES_MAX).unwrap().unwrap()));
        bencher.iter(|| foreign.iter().for_each(read));
    });
    group.finish();
}

criterion_group!(benches, forms);
criterion_main!(benches);
