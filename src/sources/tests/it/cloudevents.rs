//! CloudEvents in their three modes.

use loopwarden_sources::cloudevents::{Transport, read};
use loopwarden_sources::mapping::{Mapping, MappingFile};
use loopwarden_sources::{Batch, Fault};
use serde_json::{Value, json};

use crate::{EVENT_BYTES_MAX, NOW, events};

const NATIVE: &str = r#"{"kind":"tool","tool":"Bash","args":{"n":12345678901234567890123},"id":null,"session_id":"s"}"#;

fn of(transport: Transport, headers: &[(&str, &str)], body: &str) -> Result<Option<Batch>, Fault> {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let batch = read(transport, &headers, body.as_bytes(), None, NOW, EVENT_BYTES_MAX)?;
    if let Some(batch) = &batch {
        assert_eq!(batch.records, batch.events.len() + batch.refused.len() + batch.ignored);
    }
    Ok(batch)
}

const STRUCTURED: (&str, &str) = ("Content-Type", "application/cloudevents+json; charset=utf-8");

fn envelope(data: &Value) -> Value {
    json!({ "specversion": "1.0", "id": "1", "source": "/a", "type": "t", "time": "2026-01-05T09:00:00Z", "subject": "of the subject",
        "other": 7, "data": data })
}

#[test]
fn a_native_event_fills_its_gaps_from_the_attributes_and_keeps_its_digits() {
    let headers = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("CE-ID", "1"),
        ("ce-source", "%2Fa"),
        ("ce-type", "t"),
        ("ce-time", "2026-01-05T09:00:00Z"),
        ("ce-subject", "of the subject"),
    ];
    let http = of(Transport::Http, &headers, NATIVE).unwrap().unwrap();
    let text = String::from_utf8(http.events[0].json.clone()).unwrap();
    assert!(text.contains(r#""args":{"n":12345678901234567890123}"#), "{text}");
    let underscored: Vec<(String, &str)> = headers
        .iter()
        .map(|(name, value)| (name.to_lowercase().replace("ce-", "ce_"), if *name == "ce-source" { "/a" } else { value }))
        .collect();
    let underscored: Vec<(&str, &str)> = underscored.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(of(Transport::Kafka, &underscored, NATIVE).unwrap().unwrap(), http);
    let structured = envelope(&Value::Null).to_string().replace("\"data\":null", &format!("\"data\":{NATIVE}"));
    let structured = of(Transport::Http, &[STRUCTURED], &structured).unwrap().unwrap();
    assert_eq!(structured, http);
    let event = &events(&http)[0];
    assert_eq!((&event["session_id"], &event["time"]), (&json!("s"), &json!("2026-01-05T09:00:00Z")));
    assert!(event["id"].as_str().unwrap().starts_with("ce-"));
    let unnamed = of(Transport::Http, &[STRUCTURED], &envelope(&json!({ "kind": "progress", "id": "mine" })).to_string());
    let event = &events(&unnamed.unwrap().unwrap())[0];
    assert_eq!((&event["session_id"], &event["id"]), (&json!("of the subject"), &json!("mine")));
}

#[test]
fn a_batch_is_refused_event_by_event() {
    let good = envelope(&json!({ "kind": "tool", "tool": "t", "session_id": "s" }));
    let mut all = vec![good.clone()];
    let mut bad = |change: &dyn Fn(&mut Value)| {
        let mut event = good.clone();
        change(&mut event);
        all.push(event);
    };
    bad(&|event| event["specversion"] = "0.3".into());
    bad(&|event| event["source"] = "".into());
    bad(&|event| event["datacontenttype"] = "text/xml".into());
    bad(&|event| event["id"] = 7.into());
    bad(&|event| event["data"] = Value::Null);
    bad(&|event| event["data"] = json!({ "a": 1 }));
    bad(&|event| event["data"] = json!([1]));
    bad(&|event| *event = 7.into());
    bad(&|event| event["data_base64"] = "e30=".into());
    let headers = [("content-type", "application/cloudevents-batch+json")];
    let batch = of(Transport::Http, &headers, &Value::from(all).to_string()).unwrap().unwrap();
    let refused: Vec<String> = batch.refused.iter().map(|refused| format!("{} {}", refused.index, refused.rejected)).collect();
    assert_eq!(
        refused,
        [
            "1 unsupported_version at /specversion",
            "2 missing_field at /source",
            "3 unsupported_format at /datacontenttype",
            "4 bad_type at /id",
            "5 null_value at /data",
            "6 missing_field at /data/kind",
            "7 not_an_object at /data",
            "8 not_an_object",
            "9 duplicate_field at /data_base64",
        ]
    );
    assert_eq!(batch.events.len(), 1);
    assert_eq!(of(Transport::Http, &headers, "[]").unwrap().unwrap().records, 0);
    assert_eq!(of(Transport::Http, &headers, "{}"), Err(Fault::OtherShape));
    assert_eq!(of(Transport::Http, &headers, "[{]"), Err(Fault::NotJson));
}

#[test]
fn data_in_base64_is_read_and_what_has_not_all_attributes_is_no_cloud_event() {
    let mut event = envelope(&Value::Null);
    event["data_base64"] = "eyJraW5kIjoidG9vbCIsInRvb2wiOiJ0Iiwic2Vzc2lvbl9pZCI6InMifQ==".into();
    assert_eq!(of(Transport::Http, &[STRUCTURED], &event.to_string()).unwrap().unwrap().events.len(), 1);
    let three = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/a")];
    assert_eq!(of(Transport::Http, &three, NATIVE), Ok(None));
    let four = [three[0], three[1], three[2], ("ce-type", "%C3")];
    let refused = of(Transport::Http, &four, NATIVE).unwrap().unwrap();
    assert_eq!(refused.refused[0].rejected.to_string(), "not_utf8 at /type");
}

#[test]
fn foreign_data_goes_through_the_mapping() {
    let file: MappingFile =
        toml::from_str("filter = \"run\"\n[fields]\nsession_id = \"run\"\ntool = \"name\"\nargs = \"input\"").unwrap();
    let mapping = Mapping::new(&file).unwrap();
    let headers = [(STRUCTURED.0, STRUCTURED.1.as_bytes())];
    let read = |data: Value| {
        let body = envelope(&data).to_string();
        read(Transport::Http, &headers, body.as_bytes(), Some(&mapping), NOW, EVENT_BYTES_MAX).unwrap().unwrap()
    };
    let batch = read(json!({ "run": 7, "name": "search", "input": { "q": "x" } }));
    let event = &events(&batch)[0];
    assert_eq!((&event["session_id"], &event["tool"], &event["kind"]), (&json!("7"), &json!("search"), &json!("tool")));
    assert!(event["id"].as_str().unwrap().starts_with("ce-"));
    assert_eq!(read(json!({ "name": "search" })).ignored, 1);
}
