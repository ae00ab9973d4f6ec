//! Mappings of foreign JSON.

use loopwarden_sources::mapping::{Mapping, MappingError, MappingFile};
use serde_json::{Value, json};

use crate::{EVENT_BYTES_MAX, NOW};

fn mapping(text: &str) -> Mapping {
    Mapping::new(&toml::from_str(text).unwrap()).unwrap()
}

const TEXT: &str = r#"
filter = "type == 'tool.finished'"
[fields]
id = "event_id"
session_id = "run.id"
"agent.id" = "run.worker || 'main'"
tool = "join('.', [tool.namespace, tool.name])"
args = "tool.input"
result = "tool.output"
outcome = "tool.ok"
"error.message" = "tool.failure"
"labels.team" = "team"
time = "at"
[defaults]
kind = "tool"
tenant = "acme"
"#;

fn event(mapping: &Mapping, record: &Value) -> Value {
    let made = mapping.map(record.to_string().as_bytes(), NOW, EVENT_BYTES_MAX).unwrap().unwrap();
    serde_json::from_slice(&made.json).unwrap()
}

#[test]
fn paths_constants_defaults_and_a_filter_make_an_event() {
    let mapping = mapping(TEXT);
    let mut record = json!({ "type": "tool.finished", "event_id": 12, "run": { "id": "r1" }, "team": 7, "at": "2026-01-05T09:00:00Z",
        "tool": { "namespace": "fs", "name": "read", "input": { "path": "a" }, "output": null, "ok": false, "failure": "no such file" } });
    assert_eq!(
        event(&mapping, &record),
        json!({ "id": "12", "kind": "tool", "session_id": "r1", "tenant": "acme", "agent": { "id": "main" }, "tool": "fs.read",
            "args": { "path": "a" }, "outcome": "error", "error": { "message": "no such file" }, "labels": { "team": "7" },
            "time": "2026-01-05T09:00:00Z" })
    );
    record["type"] = "chat".into();
    assert_eq!(mapping.map(record.to_string().as_bytes(), NOW, EVENT_BYTES_MAX), Ok(None));
    record["type"] = "tool.finished".into();
    record["tool"]["name"] = 7.into();
    let refused = mapping.map(record.to_string().as_bytes(), NOW, EVENT_BYTES_MAX).unwrap_err();
    assert_eq!(refused.to_string(), "bad_value at /tool", "a function got what it does not take");
    record["tool"]["name"] = "read".into();
    record["run"] = Value::Null;
    let refused = mapping.map(record.to_string().as_bytes(), NOW, EVENT_BYTES_MAX).unwrap_err();
    assert_eq!(refused.to_string(), "missing_field at /session_id");
}

#[test]
fn a_record_without_an_id_is_known_by_its_bytes() {
    let mapping = mapping("[fields]\nsession_id = \"s\"\ntool = \"t\"");
    let id = |record: Value| event(&mapping, &record)["id"].as_str().unwrap().to_owned();
    let one = id(json!({ "s": "a", "t": "b" }));
    assert!(one.starts_with("rec-"));
    assert_eq!(one, id(json!({ "s": "a", "t": "b" })));
    assert_ne!(one, id(json!({ "s": "a", "t": "b", "at": 1 })));
}

#[test]
fn five_bytes_before_the_json_are_skipped_where_the_setting_says_so() {
    let framed = mapping("framing = \"confluent\"\n[fields]\nsession_id = \"s\"\ntool = \"t\"");
    let map = |record: &[u8]| {
        framed.map(record, NOW, EVENT_BYTES_MAX).map(|made| made.is_some()).map_err(|rejected| rejected.to_string())
    };
    assert_eq!(map(b"\x00\x00\x00\x00\x07{\"s\":\"a\",\"t\":\"b\"}"), Ok(true));
    for record in [&b"{\"s\":\"a\",\"t\":\"b\"}"[..], b"\x00\x00", b""] {
        assert_eq!(map(record), Err("unsupported_format".to_owned()));
    }
    assert_eq!(map(b"\x00\x00\x00\x00\x07"), Err("not_json".to_owned()));
}

#[test]
fn a_trial_says_what_is_missing() {
    let mapping = mapping("[fields]\nsession_id = \"s\"\ntool = \"t\"\nargs = \"a\"\noutcome = \"o\"");
    let trial = mapping.trial(br#"{"s":"x","t":"y","o":"ok"}"#, NOW, EVENT_BYTES_MAX);
    assert!(trial.event.unwrap().is_some());
    assert_eq!((trial.empty, trial.missing), (vec!["args".to_owned()], vec!["args", "result", "time"]));
    let trial = mapping.trial(b"no json", NOW, EVENT_BYTES_MAX);
    assert_eq!(trial.event.unwrap_err().to_string(), "not_json");
}

#[test]
fn what_is_wrong_with_a_mapping_is_said_with_its_field() {
    let error = |text: &str| Mapping::new(&toml::from_str::<MappingFile>(text).unwrap()).unwrap_err();
    assert_eq!(error("[fields]\nsessionid = \"s\""), MappingError::UnknownField("sessionid".to_owned()));
    assert_eq!(error("[fields]\nsession_id = \"s\""), MappingError::Missing("tool"));
    assert_eq!(error("[fields]\ntool = \"t\""), MappingError::Missing("session_id"));
    let MappingError::Expression { field, message } = error("[fields]\nsession_id = \"a.[\"\ntool = \"t\"") else { panic!() };
    assert!(field == "session_id" && message.contains("line"), "{message}");
    let long = format!("[fields]\nsession_id = \"{}\"\ntool = \"t\"", "a".repeat(5_000));
    assert_eq!(error(&long), MappingError::TooLong("session_id".to_owned()));
    for deep in ["(", "[", "!", "{a:", "a[?", "not_null(", "a.", "&", "*.", "a||"] {
        let deep = deep.repeat(1_024 / deep.len());
        let MappingError::Expression { .. } = error(&format!("[fields]\nsession_id = {}\ntool = \"t\"", Value::from(deep)))
        else {
            panic!()
        };
    }
    let deep = format!("{}a{}", "(".repeat(500), ")".repeat(500));
    let deep = mapping(&format!("[fields]\nsession_id = \"{deep}\"\ntool = \"a{}\"", ".a".repeat(500)));
    assert!(deep.map(b"{\"a\":1}", NOW, EVENT_BYTES_MAX).is_err());
    assert!(toml::from_str::<MappingFile>("[field]\na = \"b\"").is_err());
}
