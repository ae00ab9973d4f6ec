//! Bytes to events: what is let through, what is refused, and with which reason.

use std::{collections::BTreeSet, path::Path};

use loopwarden::event::{
    Ack, Content, Event, EventKind, EventTime, Header, Outcome, Reason, RecordMeta, RecordOffset, Rejected, ResetScope, Role,
    allowed, decode,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const RECORD_TIME: EventTime = EventTime(1_795_291_203_120);

pub(crate) fn record<'a>(headers: &[Header<'a>]) -> RecordMeta<'a> {
    RecordMeta {
        topic: "agents.tool-events.v1",
        partition: 3,
        offset: RecordOffset(7),
        timestamp: RECORD_TIME,
        key: Some(b"s"),
        headers: headers.to_vec(),
        value_bytes_max: loopwarden::limits::RECORD_BYTES_MAX_DEFAULT,
    }
}

fn decoded(source: &str) -> Event<'_> {
    decode(Some(source.as_bytes()), &record(&[])).unwrap_or_else(|rejected| panic!("{rejected}: {source}"))
}

fn refused(value: &[u8]) -> Rejected {
    decode(Some(value), &record(&[])).map(|event| panic!("{event:?}")).unwrap_err()
}

fn assert_refused(source: &str, reason: Reason, field: &str) {
    assert_eq!(refused(source.as_bytes()), Rejected { reason, field: field.into() }, "{source}");
}

/// An event of the given kind with further fields.
fn with(kind: &str, fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { "," };
    format!(r#"{{"id":"a1","kind":"{kind}","session_id":"s"{comma}{fields}}}"#)
}

#[test]
fn the_smallest_event_has_the_defaults_of_the_wire() {
    let source = with("tool", r#""tool":"Bash","args":{"command":"cargo test -p core"},"outcome":"error""#);
    let event = decoded(&source);
    assert_eq!((event.id.as_ref(), event.session_id.as_ref(), event.agent_id.as_ref()), ("a1", "s", "main"));
    assert_eq!((event.has_agent, event.has_time, event.time_clamped, event.texts_cut), (false, false, false, 0));
    assert_eq!((event.time, event.record_time), (RECORD_TIME, RECORD_TIME));
    assert!(event.tenant.is_none() && event.swarm_id.is_none() && event.seq.is_none() && event.turn.is_none());
    let EventKind::Tool(call, result) = event.kind else { panic!("{:?}", event.kind) };
    assert_eq!(call.tool, "Bash");
    assert_eq!(call.args, Content::Raw(r#"{"command":"cargo test -p core"}"#));
    assert_eq!((result.outcome, result.result, result.tool.as_deref()), (Outcome::Error, Content::Absent, Some("Bash")));
}

#[test]
fn every_field_is_carried() {
    let hash = "Ab".repeat(32);
    let source = with(
        "tool_result",
        &format!(
            r#""v":1,"tenant":"acme","swarm_id":"w","agent":{{"id":"x","parent_id":"p","root_id":"r","name":"n","type":"t","model":"m","framework":"f","other":[]}},
            "time":"2026-11-21T20:00:02.5Z","seq":7,"turn":3,"tool":"t","call_id":"c","result_sha256":"{hash}","result_bytes":12,
            "error":{{"type":"timeout","message":"sp\u00e4t","exit_code":-1}},"duration_ms":1.5,"state":"tree","command_id":"C",
            "usage":{{"input_tokens":10,"output_tokens":20,"cost_usd":0.0123456}},"labels":{{"team":"a"}},
            "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","unknown":{{"deep":[1]}},"unknown":2"#
        ),
    );
    let event = decoded(&source);
    assert_eq!((event.tenant.as_deref(), event.swarm_id.as_deref(), event.agent_id.as_ref()), (Some("acme"), Some("w"), "x"));
    assert_eq!((event.time.to_rfc3339(), event.has_time, event.has_agent), ("2026-11-21T20:00:02.500Z".into(), true, true));
    assert_eq!(
        (event.seq, event.turn, event.state.as_deref(), event.command_id.as_deref()),
        (Some(7), Some(3), Some("tree"), Some("C"))
    );
    assert_eq!((event.usage.input_tokens, event.usage.output_tokens, event.usage.cost_micro_usd), (10, 20, 12_346));
    assert_eq!(event.labels, [("team".into(), "a".into())]);
    assert!(event.traceparent.is_some());
    assert_eq!((event.parent_id.as_deref(), event.root_id.as_deref()), (Some("p"), Some("r")));
    let EventKind::ToolResult(result) = event.kind else { panic!("{:?}", event.kind) };
    assert_eq!(result.result, Content::Sha256([0xAB; 32]));
    assert_eq!((result.tool.as_deref(), result.call_id.as_deref(), result.outcome), (Some("t"), Some("c"), Outcome::Error));
    assert_eq!(
        (result.error_type.as_deref(), result.error_message.as_deref(), result.exit_code),
        (Some("timeout"), Some("spät"), Some(-1))
    );
}

#[test]
fn an_agent_is_in_the_tree_of_its_root_else_of_its_parent_else_of_its_session() {
    for (agent, tree) in [
        (r#"{"id":"x"}"#, "s"),
        (r#"{"id":"x","parent_id":"p"}"#, "p"),
        (r#"{"id":"x","parent_id":"main"}"#, "s"),
        (r#"{"id":"x","parent_id":"p","root_id":"r"}"#, "r"),
    ] {
        let source = with("progress", &format!(r#""agent":{agent}"#));
        assert_eq!(decoded(&source).tree(), tree, "{agent}");
    }
}

#[test]
fn null_is_absent_in_every_optional_field() {
    let fields = "v swarm_id tenant agent time seq turn tool call_id description args args_sha256 args_bytes result result_sha256 result_bytes \
        stable_result truncated outcome error duration_ms role text text_sha256 final state scope command_id ack usage traceparent labels";
    let nulls: Vec<_> = fields.split_whitespace().map(|name| format!("\"{name}\":null")).collect();
    let source = with("progress", &nulls.join(","));
    let event = decoded(&source);
    assert!(!event.has_time && !event.has_agent && event.labels.is_empty() && event.texts_cut == 0);
    let source = with(
        "tool",
        r#""tool":"t","agent":{"id":null},"error":{"type":null,"message":null,"exit_code":null},"usage":{"cost_usd":null}"#,
    );
    let EventKind::Tool(_, result) = decoded(&source).kind else { panic!() };
    assert_eq!(result.outcome, Outcome::Unknown);
}

#[test]
fn each_kind_needs_its_fields() {
    for (kind, fields, missing) in [
        ("tool_call", "", "/tool"),
        ("tool", r#""call_id":"c""#, "/tool"),
        ("tool_result", "", "/call_id"),
        ("message", "", "/role"),
        ("reset", r#""scope":"swarm""#, "/swarm_id"),
        ("ack", r#""ack":"applied""#, "/command_id"),
        ("ack", r#""command_id":"C""#, "/ack"),
    ] {
        assert_refused(&with(kind, fields), Reason::MissingField, missing);
    }
    assert_refused("{}", Reason::MissingField, "/id");
    assert_refused(r#"{"id":"a"}"#, Reason::MissingField, "/kind");
    assert_refused(r#"{"id":"a","kind":"tool"}"#, Reason::MissingField, "/session_id");
    assert_refused(r#"{"id":null,"kind":"tool","session_id":"s"}"#, Reason::MissingField, "/id");

    let kind = |kind: &str, fields: &str| format!("{:?}", decoded(&with(kind, fields)).kind);
    for (name, fields) in
        [("tool_result", r#""tool":"t""#), ("tool_result", r#""call_id":"c""#), ("session_start", ""), ("session_end", "")]
    {
        assert!(!kind(name, fields).is_empty());
    }
    assert_eq!(kind("reset", ""), format!("{:?}", EventKind::Reset(ResetScope::Session)));
    assert_eq!(kind("reset", r#""scope":"swarm","swarm_id":"w""#), format!("{:?}", EventKind::Reset(ResetScope::Swarm)));
    assert_eq!(kind("ack", r#""command_id":"C","ack":"ignored_stale""#), format!("{:?}", EventKind::Ack(Ack::IgnoredStale)));
    let source = with("message", r#""role":"assistant","text":"done","final":true"#);
    let EventKind::Message(message) = decoded(&source).kind else { panic!() };
    assert_eq!(
        (message.role, message.text().as_deref(), message.is_final, message.text_sha256),
        (Role::Assistant, Some("done"), true, None)
    );
}

#[test]
fn where_the_outcome_is_silent_the_event_speaks() {
    for (fields, outcome) in [
        ("", Outcome::Unknown),
        (r#""result":"x""#, Outcome::Ok),
        (r#""result":false"#, Outcome::Ok),
        (r#""result":null"#, Outcome::Unknown),
        (r#""stable_result":1"#, Outcome::Ok),
        (r#""result":"x","error":"boom""#, Outcome::Error),
        (r#""error":{"exit_code":1}"#, Outcome::Error),
        (r#""error":{"exit_code":0}"#, Outcome::Unknown),
        (r#""error":{"exit_code":0},"result":"x""#, Outcome::Ok),
        (r#""error":{"exit_code":0,"message":"late"}"#, Outcome::Error),
        (r#""error":{"type":"timeout"}"#, Outcome::Error),
        (r#""error":"","result":"x""#, Outcome::Ok),
        (r#""error":{},"result":"x""#, Outcome::Ok),
        (r#""error":"boom","outcome":"ok""#, Outcome::Ok),
        (r#""outcome":"denied""#, Outcome::Denied),
        (r#""outcome":"cancelled","result":"x""#, Outcome::Cancelled),
    ] {
        let comma = if fields.is_empty() { "" } else { "," };
        let source = with("tool", &format!(r#""tool":"t"{comma}{fields}"#));
        let EventKind::Tool(_, result) = decoded(&source).kind else { panic!() };
        assert_eq!(result.outcome, outcome, "{fields}");
    }
    let hash = "0".repeat(64);
    let source = with("tool", &format!(r#""tool":"t","result_sha256":"{hash}""#));
    let EventKind::Tool(_, result) = decoded(&source).kind else { panic!() };
    assert_eq!(result.outcome, Outcome::Ok);
}

#[test]
fn an_empty_error_text_is_none_and_hides_no_other() {
    for (error, kind, message) in [
        (r#""""#, None, None),
        (r#"{"message":"","exit_code":0}"#, None, None),
        (r#"{"type":"FileNotFoundError","message":""}"#, Some("FileNotFoundError"), None),
        (r#"{"type":"","message":"boom"}"#, None, Some("boom")),
    ] {
        let source = with("tool", &format!(r#""tool":"t","error":{error}"#));
        let EventKind::Tool(_, result) = decoded(&source).kind else { panic!() };
        assert_eq!((result.error_type.as_deref(), result.error_message.as_deref()), (kind, message), "{error}");
    }
}

#[test]
fn the_hash_of_a_cut_result_is_what_comparisons_use() {
    let stable = |fields: &str| {
        let source = with("tool", &format!(r#""tool":"t","result":"x",{fields}"#));
        let EventKind::Tool(_, result) = decoded(&source).kind else { panic!() };
        assert_eq!(result.result, Content::Raw("\"x\""));
        format!("{:?}", result.stable_result)
    };
    let hash = format!(r#""result_sha256":"{}""#, "11".repeat(32));
    assert_eq!(stable(&format!(r#"{hash},"truncated":true"#)), format!("{:?}", Content::Sha256([0x11; 32])));
    assert_eq!(stable(&format!(r#"{hash},"truncated":false"#)), "Absent");
    assert_eq!(stable(r#""truncated":true"#), "Absent");
    assert_eq!(stable(&format!(r#"{hash},"truncated":true,"stable_result":1"#)), "Raw(\"1\")");
}

#[test]
fn time_is_the_producers_but_never_far_ahead_of_the_record() {
    for (time, expected, is_clamped) in [
        ("\"2026-11-21T20:00:03.120Z\"", RECORD_TIME, false),
        ("1795291203120", RECORD_TIME, false),
        ("1795291203120.0", RECORD_TIME, false),
        ("\"2026-11-21T20:01:03.120Z\"", RECORD_TIME.plus_ms(60_000), false),
        ("\"2026-11-21T20:01:03.121Z\"", RECORD_TIME.plus_ms(60_000), true),
        ("253402300799999", RECORD_TIME.plus_ms(60_000), true),
        ("\"0001-01-01T00:00:00Z\"", EventTime(-62_135_596_800_000), false),
        ("0", EventTime(0), false),
    ] {
        let source = with("progress", &format!("\"time\":{time}"));
        let event = decoded(&source);
        assert_eq!((event.time, event.time_clamped, event.has_time), (expected, is_clamped, true), "{time}");
    }
}

#[test]
fn texts_are_cut_at_characters_and_counted() {
    let source = with(
        "tool",
        &format!(
            r#""tool":"t","description":"{}","error":{{"type":"{}","message":"{}"}},"labels":{{"{}":"{}"}}"#,
            "é".repeat(1_025),
            "t".repeat(256),
            "\\u00e9".repeat(4_097),
            "k".repeat(65),
            "v".repeat(257),
        ),
    );
    let event = decoded(&source);
    assert_eq!(event.texts_cut, 4);
    assert_eq!(event.labels, [("k".repeat(64).into(), "v".repeat(256).into())]);
    let EventKind::Tool(call, result) = event.kind else { panic!() };
    assert_eq!(call.description.unwrap(), "é".repeat(1_024));
    assert_eq!(result.error_message.unwrap(), "é".repeat(4_096));
    assert_eq!(result.error_type.unwrap().len(), 256);

    let exact = with("message", &format!(r#""role":"user","text":"{}""#, "é".repeat(16_384)));
    assert_eq!(decoded(&exact).texts_cut, 0);
    let longer = with("message", &format!(r#""role":"user","text":"{}""#, "é".repeat(16_385)));
    assert_eq!(decoded(&longer).texts_cut, 1);
}

#[test]
fn a_message_says_the_same_however_its_text_is_written_and_whatever_its_length() {
    // Around the length up to which a source is left as it is, quotes included: a character is one byte of it, two or six.
    for (escaped, character, counts) in [
        ("x", "x", [0, 1, 16_381, 16_382, 16_383, 16_384, 16_385]),
        ("\\n", "\n", [0, 1, 8_190, 8_191, 8_192, 16_384, 16_385]),
        ("\\u00e9", "é", [0, 1, 2_730, 2_731, 2_732, 16_384, 16_385]),
    ] {
        for count in counts {
            let source = with("message", &format!(r#""role":"user","text":"{}""#, escaped.repeat(count)));
            let event = decoded(&source);
            assert_eq!(event.texts_cut, u32::from(count > 16_384), "{count} of {escaped}");
            let EventKind::Message(message) = event.kind else { panic!() };
            assert_eq!(message.text().unwrap(), character.repeat(count.min(16_384)), "{count} of {escaped}");
        }
    }
    let source = with("message", r#""role":"user""#);
    let EventKind::Message(silent) = decoded(&source).kind else { panic!() };
    assert_eq!(silent.text(), None);
}

#[test]
fn sixteen_labels_stay_in_their_order_and_the_last_value_of_a_key() {
    let labels: Vec<_> = (0..20).map(|n| format!("\"k{n}\":\"v\"")).collect();
    let source = with("progress", &format!("\"labels\":{{{},\"k0\":\"last\"}}", labels.join(",")));
    let event = decoded(&source);
    assert_eq!(event.labels.len(), 16);
    assert_eq!((event.labels[0].1.as_ref(), event.labels[15].0.as_ref(), event.texts_cut), ("last", "k15", 4));
}

#[test]
fn headers_of_cloudevents_fill_gaps_and_nothing_else() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers: Vec<Header<'_>> = vec![
        ("ce_id", Some(b"old")),
        ("ce_id", Some(b"from-header")),
        ("ce_subject", Some("sitzung-ß".as_bytes())),
        ("ce_time", Some(b"2026-11-21T20:00:00Z")),
        ("traceparent", Some(trace.as_bytes())),
        ("ce_type", None),
    ];
    let event = decode(Some(br#"{"kind":"progress"}"#), &record(&headers)).unwrap();
    assert_eq!((event.id.as_ref(), event.session_id.as_ref(), event.has_time), ("from-header", "sitzung-ß", true));
    assert_eq!((event.time.to_rfc3339().as_str(), event.traceparent.as_deref()), ("2026-11-21T20:00:00.000Z", Some(trace)));

    let own = br#"{"id":"a","kind":"progress","session_id":"s","time":"2026-11-21T19:00:00Z","traceparent":"nonsense"}"#;
    let event = decode(Some(own), &record(&headers)).unwrap();
    assert_eq!((event.id.as_ref(), event.session_id.as_ref()), ("a", "s"));
    assert_eq!((event.time.to_rfc3339().as_str(), event.traceparent.as_deref()), ("2026-11-21T19:00:00.000Z", Some(trace)));

    let long = "x".repeat(257);
    for value in [b"".as_slice(), b"a\x1fb", long.as_bytes()] {
        let rejected = decode(Some(br#"{"kind":"progress","session_id":"s"}"#), &record(&[("ce_id", Some(value))])).unwrap_err();
        assert_eq!(rejected, Rejected { reason: Reason::BadValue, field: "/id".into() });
    }
    for value in [None, Some(b"\xff".as_slice())] {
        let rejected = decode(Some(br#"{"kind":"progress","session_id":"s"}"#), &record(&[("ce_id", value)])).unwrap_err();
        assert_eq!(rejected, Rejected { reason: Reason::MissingField, field: "/id".into() });
    }
    let event =
        decode(Some(br#"{"id":"a","kind":"progress","session_id":"s"}"#), &record(&[("ce_time", Some(b"soon"))])).unwrap();
    assert_eq!((event.time, event.has_time), (RECORD_TIME, false));
}

#[test]
fn a_malformed_trace_context_is_ignored() {
    for (trace, is_kept) in [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true),
        ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future", true),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", false),
        ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", false),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false),
        ("", false),
    ] {
        let source = with("progress", &format!("\"traceparent\":\"{trace}\""));
        assert_eq!(decoded(&source).traceparent.is_some(), is_kept, "{trace}");
    }
}

#[test]
fn names_may_be_256_characters_but_hold_no_control_characters() {
    let name = |name: &str| with("tool", &format!(r#""tool":"{name}""#));
    let _ = decoded(&name(&"é".repeat(256)));
    let _ = decoded(&name("\\u00e9\u{80}\u{2028} \\\" x"));
    for bad in [String::new(), "é".repeat(257), "a\\u001fb".into(), "a\\nb".into(), "a\u{7f}".into(), "\\u0000".into()] {
        assert_refused(&name(&bad), Reason::BadValue, "/tool");
    }
}

#[test]
fn a_text_without_escapes_is_borrowed_from_the_record() {
    let source = with("tool", r#""tool":"größe","description":"a\tb","call_id":"c""#);
    let EventKind::Tool(call, _) = decoded(&source).kind else { panic!() };
    assert!(matches!(call.tool, std::borrow::Cow::Borrowed("größe")));
    assert!(matches!(call.description, Some(std::borrow::Cow::Owned(_))));
}

#[test]
fn the_field_at_fault_is_named_and_unknown_names_are_not() {
    assert_refused(&with("tool", r#""tool":"t","args":{"a":["\ud800"]}"#), Reason::BadValue, "/args");
    assert_refused(&with("tool", r#""tool":"t","x":{"a":["\ud800"]}"#), Reason::BadValue, "");
    assert_refused(&with("tool", r#""tool":"t","x\udc00":1"#), Reason::BadValue, "");
    assert_refused(&with("tool", r#""tool":"t","tool":null"#), Reason::DuplicateField, "/tool");
    assert_refused(&with("tool", r#""tool":"t","\u0069d":"b""#), Reason::DuplicateField, "/id");
    assert_refused(&with("tool", r#""tool":"t","agent":{"id":"a","id":"a"}"#), Reason::DuplicateField, "/agent/id");
    assert_refused(&with("tool", r#""tool":"t","error":{"exit_code":"1"}"#), Reason::BadType, "/error/exit_code");
    assert_refused(&with("tool", r#""tool":"t","usage":{"input_tokens":-1}"#), Reason::BadValue, "/usage/input_tokens");
    assert_refused(&with("tool", r#""tool":"t","usage":{"cost_usd":1e308}"#), Reason::BadValue, "/usage/cost_usd");
    // Broken JSON is broken whatever else is in it.
    assert_refused(r#"{"id":"\ud800","id":"x""#, Reason::NotJson, "");
}

#[test]
fn depth_is_refused_before_anything_recurses() {
    for opener in ["[", "{\"a\":"] {
        let mut meta = record(&[]);
        meta.value_bytes_max = usize::MAX;
        let value = format!(r#"{{"id":"a","kind":"tool","session_id":"s","tool":"t","args":{}"#, opener.repeat(1_000_000));
        assert_eq!(decode(Some(value.as_bytes()), &meta).unwrap_err(), Rejected::whole(Reason::TooDeep));
        assert_eq!(decode(Some(opener.repeat(1_000_000).as_bytes()), &meta).unwrap_err(), Rejected::whole(Reason::TooDeep));
    }
    let args = |levels: usize| with("tool", &format!(r#""tool":"t","args":{}{}"#, "[".repeat(levels), "]".repeat(levels)));
    let _ = decoded(&args(63));
    assert_refused(&args(64), Reason::TooDeep, "");
}

#[test]
fn a_refused_word_is_answered_with_those_that_are_known() {
    let told = |kind: &str, fields: &str| allowed(&refused(with(kind, fields).as_bytes()));
    for (kind, field, words) in [
        ("message", "role", "user, assistant, system"),
        ("reset", "scope", "agent, session, swarm"),
        ("ack", "ack", "received, applied, ignored_expired, ignored_stale, ignored_shadow, failed"),
        ("tool", "outcome", "ok, error, denied, timeout, cancelled, unknown"),
    ] {
        let expected = format!("one of {words}");
        let found = told(kind, &format!(r#""tool":"t","command_id":"C","{field}":"done""#)).unwrap();
        assert_eq!(found.split(';').next(), Some(&*expected));
        for word in words.split(", ") {
            let _ = decoded(&with(kind, &format!(r#""tool":"t","command_id":"C","swarm_id":"w","{field}":"{word}""#)));
        }
    }
    assert_eq!(told("progress", r#""agent":"fixer""#).as_deref(), Some(r#"an object, as {"id": "…"}"#));
    assert_eq!(told("progress", r#""turn":"x""#), None);
}

#[test]
fn the_first_check_that_fails_gives_the_reason() {
    let mut meta = record(&[]);
    assert_eq!(decode(None, &meta).unwrap_err().reason, Reason::NullValue);
    meta.value_bytes_max = 4;
    assert_eq!(decode(Some(b"\xff\xff\xff\xff\xff"), &meta).unwrap_err().reason, Reason::TooLarge);
    assert_eq!(decode(Some(b"\xff\xff\xff\xff"), &meta).unwrap_err().reason, Reason::NotUtf8);
    assert_eq!(decode(Some(b""), &meta).unwrap_err().reason, Reason::NotJson);
    assert_eq!(decode(Some(b" {} "), &meta).unwrap_err().reason, Reason::MissingField);
}

#[test]
fn every_file_of_the_bad_corpus_is_refused_for_the_reason_in_its_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/bad");
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let (reason, _) = name.split_once("--").unwrap_or_else(|| panic!("{name}: no reason in the name"));
        let value = std::fs::read(&path).unwrap();
        let mut meta = record(&[]);
        if reason == "too_large" {
            meta.value_bytes_max = value.len() - 1;
        }
        let value = if reason == "null_value" { None } else { Some(value.as_slice()) };
        let rejected = decode(value, &meta).map(|event| panic!("{name}: {event:?}")).unwrap_err();
        assert_eq!(rejected.reason.as_str(), reason, "{name}: {rejected}");
        seen.insert(rejected.reason);
    }
    let of_others = |reason: &Reason| {
        let of_a_sender = matches!(reason, Reason::NotPermitted | Reason::ForeignTenant);
        let of_an_act = matches!(reason, Reason::WiderStop | Reason::TooManyStops | Reason::WrongKey);
        of_a_sender || of_an_act || matches!(reason, Reason::Panic | Reason::Crash | Reason::TenantLimit)
    };
    let of_decode = Reason::ALL.into_iter().filter(|reason| !of_others(reason));
    assert_eq!(seen, of_decode.collect::<BTreeSet<_>>(), "every reason has a file");
}

/// Small events that schema and decoder must judge alike: `(valid, event)`. Formats and control characters apart, the
/// schema says all that the decoder checks.
fn judged() -> Vec<(bool, Value)> {
    let event = |fields: Value| {
        let mut event = json!({"id": "a", "kind": "tool", "session_id": "s", "tool": "t"});
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        event
    };
    let hash = "0a".repeat(32);
    let mut judged = Vec::new();
    for fields in [
        json!({}),
        json!({"v": 1}),
        json!({"v": 1.0}),
        json!({"v": null}),
        json!({"unknown": [1, {"a": null}]}),
        json!({"time": "2026-11-21T20:00:03.120+01:00"}),
        json!({"time": 253_402_300_799_999_i64}),
        json!({"seq": i64::MAX, "turn": 0}),
        json!({"seq": 1.0}),
        json!({"args": null, "result": [], "stable_result": "x", "truncated": true}),
        json!({"args_sha256": hash.to_uppercase(), "args_bytes": 3}),
        json!({"outcome": "unknown", "error": "x"}),
        json!({"error": {"type": "", "message": null, "exit_code": -3, "more": 1}}),
        json!({"agent": {}, "usage": {}, "labels": {}}),
        json!({"agent": {"id": "é", "name": "", "model": null}}),
        json!({"usage": {"input_tokens": 1, "cost_usd": 0.5}}),
        json!({"labels": {"a": "b"}}),
        json!({"state": "x".repeat(128), "duration_ms": 0.25}),
        json!({"id": "é".repeat(256)}),
        json!({"kind": "tool_call"}),
        json!({"kind": "tool_result", "tool": null, "call_id": "c"}),
        json!({"kind": "tool_result", "call_id": null}),
        json!({"kind": "message", "role": "system", "text": "", "final": false, "text_sha256": hash}),
        json!({"kind": "session_start", "tool": null}),
        json!({"kind": "session_end"}),
        json!({"kind": "progress", "role": null}),
        json!({"kind": "reset", "scope": null}),
        json!({"kind": "reset", "scope": "swarm", "swarm_id": "w"}),
        json!({"kind": "ack", "command_id": "C", "ack": "failed"}),
        json!({"traceparent": "nonsense", "description": "x"}),
    ] {
        judged.push((true, event(fields)));
    }
    for fields in [
        json!({"v": 2}),
        json!({"v": "1"}),
        json!({"id": ""}),
        json!({"id": null}),
        json!({"id": 1}),
        json!({"id": "x".repeat(257)}),
        json!({"session_id": "a\u{1f}b"}),
        json!({"session_id": "a\u{7f}"}),
        json!({"tenant": ""}),
        json!({"swarm_id": []}),
        json!({"kind": "tools"}),
        json!({"kind": null}),
        json!({"kind": ["tool"]}),
        json!({"tool": null}),
        json!({"tool": ""}),
        json!({"agent": "main"}),
        json!({"agent": {"id": ""}}),
        json!({"agent": {"parent_id": 5}}),
        json!({"agent": {"root_id": ""}}),
        json!({"kind": "stop", "scope": "tree", "reason": "r", "until": 1, "agent": {"id": "x"}}),
        json!({"agent": {"model": {}}}),
        json!({"time": true}),
        json!({"time": -1}),
        json!({"time": 1.5}),
        json!({"time": 253_402_300_800_000_i64}),
        json!({"seq": -1}),
        json!({"seq": 1.5}),
        json!({"seq": "1"}),
        json!({"turn": 9_223_372_036_854_775_808_u64}),
        json!({"call_id": ""}),
        json!({"description": 1}),
        json!({"args_sha256": "0a"}),
        json!({"args_sha256": "0g".repeat(32)}),
        json!({"result_sha256": "0a".repeat(33)}),
        json!({"args_bytes": -5}),
        json!({"result_bytes": "5"}),
        json!({"truncated": "yes"}),
        json!({"outcome": "fine"}),
        json!({"outcome": true}),
        json!({"error": true}),
        json!({"error": ["x"]}),
        json!({"error": {"message": 5}}),
        json!({"error": {"exit_code": 1.5}}),
        json!({"duration_ms": -1}),
        json!({"duration_ms": "1"}),
        json!({"role": "agent"}),
        json!({"text": {}}),
        json!({"text_sha256": ""}),
        json!({"final": 1}),
        json!({"state": "x".repeat(129)}),
        json!({"scope": "all"}),
        json!({"command_id": "\n"}),
        json!({"ack": "seen"}),
        json!({"usage": []}),
        json!({"usage": {"output_tokens": -1}}),
        json!({"usage": {"cost_usd": -0.5}}),
        json!({"traceparent": 1}),
        json!({"labels": ["a"]}),
        json!({"labels": {"a": 1}}),
        json!({"labels": {"a": null}}),
        json!({"kind": "tool_result", "tool": null}),
        json!({"kind": "message"}),
        json!({"kind": "message", "role": null}),
        json!({"kind": "reset", "scope": "swarm"}),
        json!({"kind": "ack", "ack": "applied"}),
        json!({"kind": "ack", "command_id": "C", "ack": null}),
    ] {
        judged.push((false, event(fields)));
    }
    for other in [json!([]), json!("x"), json!(null), json!({}), json!({"id": "a", "kind": "progress"})] {
        judged.push((false, other));
    }
    judged
}

#[test]
fn schema_and_decoder_judge_alike() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/schemas/tool-event.v1.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (is_valid, event) in judged() {
        let source = event.to_string();
        assert_eq!(validator.is_valid(&event), is_valid, "schema: {source}");
        let decoded = decode(Some(source.as_bytes()), &record(&[]));
        assert_eq!(decoded.is_ok(), is_valid, "decoder: {source}: {:?}", decoded.err());
    }
    // Whatever the schema names, the decoder knows: given twice it is refused.
    for name in schema["properties"].as_object().unwrap().keys() {
        let source = format!(r#"{{"{name}":null,"{name}":null}}"#);
        assert_refused(&source, Reason::DuplicateField, &format!("/{name}"));
    }
}

proptest! {
    #[test]
    fn every_millisecond_prints_as_the_oracle_says_and_comes_back(ms in -62_135_596_800_000_i64..=253_402_207_200_000) {
        let text = EventTime(ms).to_rfc3339();
        let oracle = jiff::Timestamp::from_millisecond(ms).unwrap();
        prop_assert_eq!(format!("{oracle:.3}"), text.as_str());
        prop_assert_eq!(EventTime::parse_rfc3339(&text), Some(EventTime(ms)));
    }

    #[test]
    fn what_is_read_is_what_the_oracle_reads(
        year in 1_i64..10_000, month in 0_i64..14, day in 0_i64..33, hour in 0_i64..25, minute in 0_i64..61,
        second in 0_i64..60, fraction in "(\\.[0-9]{1,9})?", zone in "Z|[+-](0[0-9]|1[0-4]):[0-5][0-9]",
    ) {
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}");
        let oracle = text.parse::<jiff::Timestamp>().ok();
        let near_the_ends = year == 1 || year == 9999;
        prop_assume!(!near_the_ends && hour != 24);
        prop_assert_eq!(EventTime::parse_rfc3339(&text).map(|time| time.0), oracle.map(|oracle| oracle.as_nanosecond().div_euclid(1_000_000) as i64));
    }
}
