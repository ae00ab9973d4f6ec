//! What is "the same": vectors of the wire, canonical JSON against its oracle, the mask pass against the expressions.

use loopwarden::event::Content;
use loopwarden::identity::{
    Arguments, CallRules, FingerprintRules, MaskRule, MaskSet, Phrases, SHIPPED_MASKS, ShellRules, args_identity, base32,
    call_identity, canonical_text, fingerprint, hash_text,
};
use proptest::prelude::*;
use regex::Regex;
use serde_json::Value;

pub(crate) fn mask_rules() -> Vec<MaskRule> {
    SHIPPED_MASKS
        .iter()
        .map(|(pattern, replacement)| MaskRule { pattern: (*pattern).into(), replacement: (*replacement).into() })
        .collect()
}

#[test]
fn the_examples_of_the_wire_are_vectors() {
    let rules = CallRules::default();
    let call = |tool, args| call_identity(tool, &Arguments::of(&Content::Raw(args)), &rules).0.hash128().to_string();
    assert_eq!(call("Bash", r#"{"command":"cargo test -p core"}"#), "a4404e81f177a67db9d08a78ed566b35");
    assert_eq!(call("search", r#"{"q":"loop","opts":{"b":[2,1],"a":1}}"#), "0ac5c057b0fb4b88ebf2cd985bdaf4d7");

    let path = ["path".to_owned()];
    let rules = FingerprintRules { targets: path.to_vec(), args: path.into(), ..FingerprintRules::default() };
    let args = Content::Raw(r#"{"path":"src/größe.rs","encoding":"utf-8"}"#);
    assert_eq!(
        fingerprint("read_file", &Arguments::of(&args), None, &rules).unwrap().hash128().to_string(),
        "87f5fb79309ab8db4235f1eb037474d5"
    );

    let definition = args_identity(&Arguments::of(&Content::Raw(r#"{"definition":"x"}"#)), &CallRules::default());
    assert_eq!(definition.hash128().to_string(), "2748e54004c7867d13bdcb63b3a608d3");
}

#[test]
fn the_command_id_of_the_wire_is_a_vector() {
    let subject = "agent\u{1f}\u{1f}sess-42\u{1f}main";
    let text = ["loopwarden", subject, "1795291200000", "1", "nudge", "exact_repeat", "a3"].join("\u{1f}");
    let digest = hash_text(&text).0;
    assert_eq!(base32(digest.first_chunk::<16>().unwrap()), "1YNQ91F3F2P6VHKFC3KH93HVZA");
}

#[test]
fn every_spelling_of_the_arguments_is_one_call() {
    let rules = CallRules::default();
    let call = |args: &str| call_identity("t", &Arguments::of(&Content::Raw(args)), &rules).0.to_string();
    let plain = call(r#"{"a":1,"b":["x",null]}"#);
    for spelling in [
        "{ \"b\" : [ \"x\" , null ],\n\t\"a\" : 1.0 }",
        r#"{"a":2,"b":["\u0078",null],"a":10e-1}"#,
        r#""{\"a\": 1, \"b\": [\"x\", null]}""#,
    ] {
        assert_eq!(call(spelling), plain, "{spelling}");
    }
    assert_ne!(call(r#"{"a":1,"b":[null,"x"]}"#), plain);
    assert_ne!(call(r#"{"id":9007199254740993}"#), call(r#"{"id":9007199254740992}"#));
}

fn json_text() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        "[a-c]{0,2}",
        Just("\u{1f600}".to_owned()),
        Just("\u{ff61}".to_owned()),
        Just("é\"\\\n".to_owned()),
        any::<String>()
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
        any::<f64>().prop_filter("finite, and written with a point or exponent", |x| x.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(6, 64, 8, move |inner| {
        let member = (key.clone(), inner.clone());
        prop_oneof![
            proptest::collection::vec(inner, 0..8).prop_map(Value::from),
            proptest::collection::vec(member, 0..8).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    (value, any::<bool>()).prop_map(|(value, is_pretty)| {
        // A text at top level would be looked into for JSON.
        let value = if value.is_string() { Value::from(vec![value]) } else { value };
        if is_pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() }
    })
}

/// Pieces of which masks match some, nearly match others, and meet at all kinds of borders.
fn maskable() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[0-9]{1,9}",
        4 => "[0-9a-fA-F]{1,13}",
        4 => Just("2026-11-21T20:00:03".to_owned()),
        1 => "2026-11-21[T ][0-9]{2}:[0-9]{2}:[0-9]{1,2}",
        2 => "(\\.[0-9]{0,3})?(Z|[+-][0-9]{2}:?[0-9]{1,2})?",
        2 => "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{11,13}",
        1 => "[0-9a-f]{7,9}-[0-9a-f]{3,5}-[0-9]{4}-[0-9]{4}-[0-9]{2}",
        4 => "[ .:_+-]",
        1 => "[ \t\n\u{b}\u{c}\r\u{a0}]{1,2}",
        4 => "ms|s|m|S|sm|mss",
        1 => "<ts>|<id>|<dur>|T|Z|é|٣|_|x",
        2 => "[/(),;>]",
        1 => ",[0-9]{3,4}",
        1 => "2026/11/21 20:00:[0-9]{1,3}",
        1 => "[0-9]{2}/(Jan|Xyz|jan)/2026:20:00:[0-9]{1,3}",
        1 => "[0-9]{2} (Feb|Xyz|feb) 2026 20:00:[0-9]{1,3}",
        2 => "(Mar|Xyz|mar)(  5| 15| 5) 20:00:[0-9]{1,3}",
        1 => "Jan|Dec|  5 20:00:03|/May/2026:20:00:03| Jun 2026 20:00:03",
        2 => "(at )?0x[0-9a-f]{5,9}[>);,]?",
        1 => "at |0x|0x7F12AB34",
        2 => "[0-9]{1,2}\\.[0-9]{1,9} ?(secs?|seconds?)?",
        1 => "\\([0-9]{1,2}:01:[0-9]{1,2}\\)",
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Each text with what both ways of masking make of it.
fn assert_masked(cases: &[(&str, &str)]) {
    let (pass, regexes) = (MaskSet::new(&mask_rules()).unwrap(), MaskSet::through_regex(&mask_rules()).unwrap());
    for (text, masked) in cases {
        assert_eq!(regexes.apply(text), *masked, "regex: {text}");
        assert_eq!(pass.apply(text), *masked, "pass: {text}");
    }
}

#[test]
fn the_mask_pass_gives_what_the_expressions_give_on_hand_picked_texts() {
    assert_masked(&[
        ("", ""),
        ("nothing to do here", "nothing to do here"),
        ("at 2026-11-21T20:00:03.120Z.", "at <ts>."),
        ("2026-11-21 20:00:03+01:00x", "<ts>x"),
        ("12026-11-21T20:00:03", "1<ts>"),
        ("deadbeef2026-11-21T20:00:03deadbeef", "<id><ts><id>"),
        ("5s2026-11-21T20:00:03", "<dur><ts>"),
        ("5 ms2026-11-21T20:00:03 ms", "<dur><ts> ms"),
        ("2026-11-21T20:00:032026-11-21T20:00:03", "<ts><ts>"),
        ("2026-11-21T20:00:03.", "<ts>."),
        ("2026-11-21T20:00:03-1", "<ts>-1"),
        ("0198f0aa-7c1e-7b3a-9d2f-0123456789ab", "<id>"),
        ("0198f0aa-7c1e-7b3a-9d2f-0123456789ab2026-11-21T20:00:03", "<id><ts>"),
        ("0198f0aa-7c1e-7b3a-9d2f-0123456789abc", "<id>-7c1e-7b3a-9d2f-<id>"),
        ("x0198f0aa-7c1e-7b3a-9d2f-0123456789ab", "x0198f0aa-7c1e-7b3a-9d2f-<id>"),
        ("12345678 ms", "<id> ms"),
        ("12345678ms", "<dur>"),
        ("1.12345678 s", "<dur>"),
        ("1.1234567a s", "1.<id> s"),
        ("loss 0.69314718056, lr 1e-05", "loss 0.69314718056, lr 1e-05"),
        ("1.2.12345678", "1.2.12345678"),
        (".12345678", ".<id>"),
        ("x.12345678", "x.<id>"),
        ("12345678.12345678", "<id>.<id>"),
        ("deadbee1.12345678", "<id>.<id>"),
        ("0.12345678-1234-1234-1234-123456789012", "0.<id>"),
        ("0.123456782026-11-21T20:00:03", "0.12345678<ts>"),
        ("2026-11-21T20:00:03+01:00.12345678", "<ts>.<id>"),
        ("1.12345678s", "<dur>"),
        ("12345678.5s", "<id>.<dur>"),
        ("1.2.3s", "1.<dur>"),
        ("took 1.5 s, 20ms; 3 seconds", "took <dur>, <dur>; 3 seconds"),
        ("5\u{a0}s", "5\u{a0}s"),
        ("5s_", "5s_"),
        ("é5s", "é<dur>"),
        ("1.2026-11-21T20:00:03s", "1.<ts>s"),
        ("1.52026-11-21T20:00:03s", "1.5<ts>s"),
    ]);
    let pass = MaskSet::new(&mask_rules()).unwrap();
    assert!(matches!(pass.apply("nothing 1234 to do"), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn each_form_of_a_time_an_address_and_a_duration_is_masked_and_what_looks_like_it_is_not() {
    assert_masked(&[
        // A comma before milliseconds, which are three digits.
        ("2026-01-05 09:00:00,123 INFO up", "<ts> INFO up"),
        ("2026-01-05 09:00:00,1234", "<ts>,1234"),
        ("2026-01-05 09:00:00, 123", "<ts>, 123"),
        ("2026-01-05 09:00:00,1232026-11-21T20:00:03", "<ts>,123<ts>"),
        // Slashes.
        ("2026/01/05 09:00:00 [error] 7#7", "<ts> [error] 7#7"),
        ("2026/01/05", "2026/01/05"),
        ("2026/01/05T09:00:00", "2026/01/05T09:00:00"),
        ("2026-01/05 09:00:00", "2026-01/05 09:00:00"),
        ("2026/01/05 09:00:001", "2026/01/05 09:00:001"),
        ("2026/01/05 09:00:002026-11-21T20:00:03", "<ts><ts>"),
        ("2026/01/05 09:00:0026-11-21T20:00:03", "2026/01/05 09:00:<ts>"),
        ("x2026/01/05 09:00:00", "x2026/01/05 09:00:00"),
        // Access logs.
        ("[05/Jan/2026:09:00:00 +0000]", "[<ts> +0000]"),
        ("05/Jan/2026 09:00:00", "05/Jan/2026 09:00:00"),
        ("05/jan/2026:09:00:00", "05/jan/2026:09:00:00"),
        ("5/Jan/2026:09:00:00", "5/Jan/2026:09:00:00"),
        // HTTP and mail.
        ("Date: Mon, 05 Jan 2026 09:00:00 GMT", "Date: Mon, <ts> GMT"),
        ("05 Jan 2026", "05 Jan 2026"),
        ("05 Jan 2026 09:00", "05 Jan 2026 09:00"),
        ("5 Jan 2026 09:00:00", "5 Jan 2026 09:00:00"),
        // Syslog.
        ("Jan  5 09:00:00 host", "<ts> host"),
        ("Dec 15 09:00:00 host", "<ts> host"),
        ("Jan 5 09:00:00", "Jan 5 09:00:00"),
        ("Jan  5 09:00", "Jan  5 09:00"),
        ("Job 12 09:00:00", "Job 12 09:00:00"),
        ("xJan 12 09:00:00", "xJan 12 09:00:00"),
        ("2026-11-21T20:00:03Jan 12 09:00:00", "<ts><ts>"),
        ("Jan  5 09:00:00 Jan 2026 09:00:00", "<ts> Jan 2026 09:00:00"),
        ("05 Jan 2026 09:00:00/Jan/2026:09:00:00", "<ts>/Jan/2026:09:00:00"),
        ("started 09:00:00", "started 09:00:00"),
        // Addresses.
        ("<app.Foo object at 0x7f12ab34cd56>", "<app.Foo object <id>>"),
        ("at 0x7f12ab34cd56", "<id>"),
        ("Foo(0x7f12ab), 0x7f12ab; 0x7f12ab, 0x7f12ab>", "Foo(<id>, <id> <id> <id>"),
        ("0x7f12ab34cd56 is free", "0x7f12ab34cd56 is free"),
        ("flat 0x7f12ab34cd56", "flat 0x7f12ab34cd56"),
        ("at 0x7f12a>", "at 0x7f12a>"),
        ("at 0x7F12AB34", "at 0x7F12AB34"),
        ("at 0x7f12abxy)", "at 0x7f12abxy)"),
        ("at  0x7f12ab", "at  0x7f12ab"),
        ("at 0x7f12ab2026-11-21T20:00:03", "<id><ts>"),
        // Durations.
        ("in 0.53 seconds, 1.2 secs, 12.5 sec, 1.0second", "in <dur>, <dur>, <dur>, <dur>"),
        ("3 seconds, 3 secs, 1.5 minutes", "3 seconds, 3 secs, 1.5 minutes"),
        ("0.53 section", "0.53 section"),
        ("1.12345678 seconds", "<dur>"),
        ("12345678.5 seconds", "<id>.5 seconds"),
        ("83.12s (0:01:23)", "<dur> <dur>"),
        ("(09:01:23) (0:01:2) 0:01:23 ((0:01:23))", "(09:01:23) (0:01:2) 0:01:23 (<dur>)"),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn canonical_json_is_what_the_oracle_writes(source in json_text()) {
        let value: Value = serde_json::from_str(&source).unwrap();
        prop_assert_eq!(canonical_text(&Content::Raw(&source)), serde_json_canonicalizer::to_string(&value).unwrap());
    }

    #[test]
    fn numbers_are_what_the_oracle_writes(number in any::<f64>().prop_filter("finite", |x| x.is_finite()), style in 0..3) {
        let source = match style { 0 => format!("{number:e}"), 1 => format!("{number:.3e}"), _ => format!("{number:?}") };
        // Read by the standard library: `serde_json` may be off by the last bit.
        let value: f64 = source.parse().unwrap();
        prop_assert_eq!(canonical_text(&Content::Raw(&source)), serde_json_canonicalizer::to_string(&value).unwrap());
    }

    #[test]
    fn the_mask_pass_gives_what_the_expressions_give(text in maskable()) {
        let (pass, regexes) = (MaskSet::new(&mask_rules()).unwrap(), MaskSet::through_regex(&mask_rules()).unwrap());
        prop_assert_eq!(pass.apply(&text), regexes.apply(&text));
    }
}

proptest! {
    #[test]
    fn simple_reads_are_those_of_the_expression(command in r"[ \t\n\u{a0}]{0,2}(cat|head|wc|ls|catt)?([ \t\u{2003}]{0,2}(-[a-z0-9]{0,2}|[a-z./@_]{1,3}|-|é|;|>)){0,4}[ \n]{0,2}") {
        let expression = Regex::new(r"^\s*(cat|head|wc)(\s+-\S+)*\s+([A-Za-z0-9_./@][A-Za-z0-9_./@-]*)\s*$").unwrap();
        let expected = if command.contains(['|', '>', '<', ';', '&']) {
            None
        } else {
            expression.captures(&command).and_then(|found| found.get(3)).map(|path| path.as_str())
        };
        let readers = ["cat", "head", "wc"].map(String::from).to_vec();
            let rules = ShellRules { readers, ..ShellRules::default() };
        let found = rules.simple_read(&command);
        prop_assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn words_are_those_of_the_expression(text in r"[ab_é ]{0,12}", words in r"[ab]{1,2}( [ab])?") {
        let expression = Regex::new(&format!(r"(?:^|[^\p{{Alphabetic}}\p{{N}}_])(?:{words})(?:$|[^\p{{Alphabetic}}\p{{N}}_])")).unwrap();
        prop_assert_eq!(Phrases::new(vec![words]).stand_alone_in(&text), expression.is_match(&text));
    }
}
