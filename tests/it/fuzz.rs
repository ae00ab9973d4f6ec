//! Seeded fuzzing: good inputs, broken in small ways. The same seed gives the same inputs, so a failure comes again.

use loopwarden::event::{Content, EventKind, View, decode};
use loopwarden::identity::{
    Arguments, CallRules, MaskSet, OutcomeRules, Signature, StopWords, ToolOutcomeRules, call_identity, canonical_text,
    outcome_identity, readable_text,
};
use loopwarden::limits::{NAME_CHARS_MAX, TEXT_CHARS_MAX};

use crate::{decode::record, identity::mask_rules, random::Random};

const ROUNDS: usize = 20_000;

const EVENTS: [&str; 5] = [
    r#"{"v":1,"id":"0198f0aa-7c1e-7b3a-9d2f-0123456789ab","kind":"tool","session_id":"sess-42","agent":{"id":"w1","model":"m"},"time":"2026-11-21T20:00:03.120Z","tool":"Bash","args":{"command":"cargo test -p core","n":[1,2.5e3,-0.0]},"result":{"stdout":"ok \ud83d\ude00","exit":0},"outcome":"error","error":{"type":"x","message":"after 12 ms","exit_code":1}}"#,
    r#"{"id":"a","kind":"tool_call","session_id":"s","tool":"t","args":"{\"b\": 1, \"a\": [\"\\u00e9\", null]}","labels":{"k":"v"},"usage":{"input_tokens":1,"cost_usd":0.5}}"#,
    r#"{"id":"b","kind":"tool_result","session_id":"s","call_id":"c","result":"batch 0198f0aa7c1e done in 1.5s at 2026-11-21 20:00:03+01:00","truncated":true,"seq":3}"#,
    r#"{"id":"c","kind":"message","session_id":"s","role":"user","text":"größe \u0041\n\"x\"","final":null,"time":1795291203120}"#,
    r#"{"id":"d","kind":"ack","session_id":"s","command_id":"C","ack":"applied","state":"tree","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#,
];

const SCRAPS: [&[u8]; 28] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"\\ud83d",
    b"\\ude00",
    b"\\u00",
    b"1e999",
    b"-0",
    b"\x00",
    b"\x7f",
    b"\xff",
    b"\xc3",
    "\u{1f600}".as_bytes(),
    b"\"id\":\"a\",",
    b"\"args\":{},",
    b"2026-11-21T20:00:03",
    b"ms",
    b" s",
    b"deadbeef",
    b"-",
    b"{\"a\":{\"b\":",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

fn broken(random: &mut Random) -> Vec<u8> {
    let good = random.pick(&EVENTS);
    broken_of(good.as_bytes(), random)
}

/// An input, broken in one to three places.
pub(crate) fn broken_of(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => _ = bytes.splice(at..at, random.pick(&SCRAPS).iter().copied()),
            1 => {
                let end = (at + random.below(12)).min(bytes.len());
                bytes.drain(at..end);
            }
            2 => {
                let end = (at + random.below(40)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            3 => bytes[at] ^= 1 << random.below(8),
            4 => bytes[at] = random.next() as u8,
            _ => {
                let end = (at + 1).min(bytes.len());
                bytes.splice(at..end, random.pick(&SCRAPS).iter().copied());
            }
        }
        if bytes.is_empty() {
            bytes.push(b'{');
        }
    }
    bytes
}

/// Canonical text is a fixed point, and equal to that of the content it stands for.
fn check_content(content: &Content<'_>) {
    let canonical = canonical_text(content);
    match content.view() {
        View::Json(source) => {
            assert!(serde_json::from_str::<serde::de::IgnoredAny>(&canonical).is_ok(), "{source} became {canonical}");
            if !canonical.starts_with('"') {
                assert_eq!(canonical_text(&Content::Raw(&canonical)), canonical, "{source}");
            }
        }
        View::Text(text) => assert_eq!(canonical, text),
        View::Absent => assert_eq!(canonical, "{}"),
        View::Sha256(_) => assert!(canonical.starts_with("sha256:")),
    }
    let rules = CallRules::default();
    assert_eq!(call_identity("t", &Arguments::of(content), &rules), call_identity("t", &Arguments::of(content), &rules));
    let view = content.view();
    let readable = readable_text(&view);
    let _ = Signature::of(&readable, &StopWords::default());
    let _ = outcome_identity(false, &content.view(), Some(&readable), &OutcomeRules::default(), &ToolOutcomeRules::default());
}

#[test]
fn a_broken_event_is_refused_or_within_bounds() {
    let mut random = Random(42);
    let mut accepted = 0;
    for round in 0..ROUNDS {
        let bytes = broken(&mut random);
        let event = match decode(Some(&bytes), &record(&[])) {
            Ok(event) => event,
            Err(rejected) => {
                assert!(rejected.field.is_empty() || rejected.field.starts_with('/'), "round {round}: {rejected}");
                assert!(rejected.field.len() < 32, "round {round}: {rejected}");
                continue;
            }
        };
        accepted += 1;
        for name in
            [Some(&event.id), Some(&event.session_id), Some(&event.agent_id), event.tenant.as_ref(), event.swarm_id.as_ref()]
        {
            assert!(
                name.is_none_or(|name| !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.contains('\u{1f}'))
            );
        }
        assert!(event.time <= event.record_time.plus_ms(60_000) && event.labels.len() <= 16);
        match &event.kind {
            EventKind::ToolCall(call) => check_content(&call.args),
            EventKind::ToolResult(result) => check_content(&result.result),
            EventKind::Tool(call, result) => {
                check_content(&call.args);
                check_content(&result.result);
                check_content(&result.stable_result);
            }
            EventKind::Message(message) => {
                assert!(message.text().is_none_or(|text| text.chars().count() <= TEXT_CHARS_MAX));
            }
            _ => {}
        }
    }
    // A fuzzer that only ever sees refusals tests the first check.
    assert!((ROUNDS / 10..ROUNDS).contains(&accepted), "{accepted} accepted");
}

#[test]
fn what_is_taken_for_json_by_hand_is_json_to_the_library() {
    let mut random = Random(7);
    for round in 0..ROUNDS {
        let bytes = broken(&mut random);
        if decode(Some(&bytes), &record(&[])).is_ok()
            && let Err(error) = serde_json::from_slice::<serde_json::Value>(&bytes)
        {
            // The one thing that JSON may say and a `Value` cannot hold.
            assert!(error.to_string().starts_with("number out of range"), "round {round}: {error}");
        }
        // The walk over source text must end whatever it is given.
        let text = String::from_utf8_lossy(&bytes);
        let _ = canonical_text(&Content::Raw(&text));
        let _ = readable_text(&Content::Raw(&text).view());
    }
}

#[test]
fn the_mask_pass_follows_the_expressions_on_broken_texts() {
    let (pass, regexes) = (MaskSet::new(&mask_rules()).unwrap(), MaskSet::through_regex(&mask_rules()).unwrap());
    let alphabet = [
        "0",
        "7",
        "a",
        "F",
        "g",
        "-",
        ":",
        "T",
        "Z",
        ".",
        " ",
        "ms",
        "s",
        "_",
        "é",
        "2026-11-21",
        "20:00:03",
        "deadbeef",
        "+01",
        "/",
        "(",
        ")",
        ",",
        "05",
        "2026",
        "Jan",
        " Jan  5 ",
        "at 0x",
        "7f12ab",
        "sec",
        "0:01:24",
    ];
    let mut random = Random(1);
    for round in 0..ROUNDS {
        let text: String = (0..random.below(24)).map(|_| random.pick(&alphabet)).collect();
        assert_eq!(pass.apply(&text), regexes.apply(&text), "round {round}: {text}");
        let text = String::from_utf8_lossy(&broken(&mut random)).into_owned();
        assert_eq!(pass.apply(&text), regexes.apply(&text), "round {round}: {text}");
    }
}
