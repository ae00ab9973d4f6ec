//! Commands as log records of OpenTelemetry: in the trace of the event that caused them, in order, each at least once. `make otel` looks at them
//! in a real collector.

use std::fs;

use serde_json::{Value, json};

use crate::http::{Running, Scratch, failed_call};
use crate::receiver::{Receiver, Reply, Request, TAKES};

/// Calls of a session: enough for a nudge and a block.
const CALLS: usize = 10;
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// ExportLogsServiceRequest of opentelemetry-proto 1.x in its JSON form: ids in hex, numbers of 64 bits as texts.
fn schema() -> Value {
    let digits = json!({ "type": "string", "pattern": "^[0-9]{1,20}$" });
    let value = json!({ "type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1,
        "properties": { "stringValue": { "type": "string" }, "intValue": digits } });
    let attributes = json!({ "type": "array", "items": { "type": "object", "additionalProperties": false, "required": ["key", "value"],
        "properties": { "key": { "type": "string", "minLength": 1 }, "value": value } } });
    let record = json!({ "type": "object", "additionalProperties": false, "required": ["timeUnixNano", "severityNumber", "body"],
        "properties": {
            "timeUnixNano": digits, "observedTimeUnixNano": digits, "severityNumber": { "type": "integer", "minimum": 1, "maximum": 24 },
            "severityText": { "type": "string" }, "eventName": { "type": "string" }, "body": value, "attributes": attributes,
            "flags": { "type": "integer", "minimum": 0 },
            "traceId": { "type": "string", "pattern": "^[0-9a-f]{32}$" }, "spanId": { "type": "string", "pattern": "^[0-9a-f]{16}$" },
        } });
    let of = |name: &str, items: &Value, more: Value| {
        let mut properties = more;
        properties[name] = json!({ "type": "array", "minItems": 1, "items": items });
        json!({ "type": "object", "additionalProperties": false, "required": [name], "properties": properties })
    };
    let scope =
        json!({ "scope": { "type": "object", "properties": { "name": { "type": "string" }, "version": { "type": "string" } } } });
    let resource =
        json!({ "resource": { "type": "object", "additionalProperties": false, "properties": { "attributes": attributes } } });
    of("resourceLogs", &of("scopeLogs", &of("logRecords", &record, scope), resource), json!({}))
}

fn record(request: &Request) -> Value {
    request.json()["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0].clone()
}

#[test]
fn commands_are_records_in_the_trace_of_their_event_and_come_again_until_they_are_taken() {
    let scratch = Scratch::new();
    let takes = Receiver::start(|_, number| if number == 0 { Reply::Status(503, "") } else { TAKES });
    let rejects =
        Receiver::start(|_, _| Reply::Body(200, r#"{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"no room"}}"#));
    let table = |name: &str, receiver: &Receiver| {
        format!("[[webhook]]\nname = \"{name}\"\nurl = \"http://{}/v1/logs\"\nformat = \"otlp\"\n", receiver.address)
    };
    let config = scratch.0.join("loopwarden.toml");
    fs::write(&config, [table("takes", &takes), table("rejects", &rejects)].concat()).unwrap();
    let running = Running::start_with(&scratch.0, &["--config", &config.to_string_lossy()], &[]);
    for number in 1..=CALLS {
        let mut event = failed_call("s", number);
        event["traceparent"] = format!("00-{TRACE}-{number:016x}-01").into();
        running.accept(&event);
    }
    running.json_until("/overview", |overview| overview["commands"]["block"] == 1);
    let commands = running.commands("after=0&wait=0s").0;

    let seen = takes.until("all commands", |seen| seen.len() > commands.len());
    assert_eq!((record(&seen[0]), seen[0].is_taken), (record(&seen[1]), false), "the same again");
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for (request, command) in seen[1..].iter().zip(&commands) {
        let problems: Vec<String> = validator.iter_errors(&request.json()).map(|problem| problem.to_string()).collect();
        assert_eq!((problems, request.header("content-type")), (Vec::new(), Some("application/json")));
        let record = record(request);
        let number = command["trigger"]["event_id"].as_str().unwrap().trim_start_matches("s-").parse::<u64>().unwrap();
        assert_eq!((&record["traceId"], &record["spanId"]), (&json!(TRACE), &json!(format!("{number:016x}"))), "{command}");
        assert_eq!(record["eventName"], format!("loopwarden.command.{}", command["action"].as_str().unwrap()));
        let id = json!({ "key": "loopwarden.command.id", "value": { "stringValue": command["id"] } });
        assert!(record["attributes"].as_array().unwrap().contains(&id), "{record}");
        assert!(!request.json().to_string().contains("cargo test"), "no content of calls");
    }

    // A record that is rejected is given up: those behind it are sent.
    rejects.until("all commands", |seen| seen.len() == commands.len());
    let refused = format!("loopwarden_webhook_passed_total{{webhook=\"rejects\",why=\"refused\"}} {}", commands.len());
    running.until("/metrics", |answer| answer.text.contains(&refused));
}
