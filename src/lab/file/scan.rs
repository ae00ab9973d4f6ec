//! What places a line: its session, its time, its former place. The event itself is decoded later, once, by the task.

use std::{borrow::Cow, sync::LazyLock};

use loopwarden_core::event::{EventTime, fields_while, json};
use memchr::memmem::Finder;

/// Partitions a former place may name. More than any topic has; each is a task.
const PLACE_PARTITIONS_MAX: u32 = 65_536;

/// Times a record can have. Milliseconds: 1970 to the end of 9999, as for an event's own.
const TIMES_MS: std::ops::RangeInclusive<i64> = 0..=253_402_300_799_999;

/// What a line says about its place. Empty where the line is no object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) session_id: Option<Cow<'a, str>>,
    /// `_record.timestamp`, else `time`.
    pub(super) timestamp_ms: Option<i64>,
    /// `_record.partition` and `_record.offset`, where both are there.
    pub(super) place: Option<(u32, u64)>,
    pub(super) topic: Option<Cow<'a, str>>,
}

/// Reads a line's top-level fields. On anything but an object in UTF-8 it finds nothing or something, but always ends; such a
/// line is refused when it is decoded. `may_have_record`: as [`names_record`] has it of the line, or of what it is part of.
pub(super) fn scan(bytes: &[u8], may_have_record: bool) -> Line<'_> {
    let mut line = Line::default();
    let Some(text) = json::text(bytes) else { return line };
    let mut time = None;
    // What is no sound object is refused when it is decoded.
    let _ = fields_while(text, |key, place| {
        let end = place.end;
        let source = text.get(place).unwrap_or_default();
        match &*key {
            b"session_id" if json::is_string(source) => line.session_id = Some(json::unquote(source)),
            b"time" => time = time_of(source),
            b"_record" => record(source, &mut line),
            _ => return true,
        }
        // Most lines have these early, and all they say later is long.
        line.session_id.is_none() || time.is_none() || (may_have_record && names_record(bytes.get(end..).unwrap_or_default()))
    });
    line.timestamp_ms = line.timestamp_ms.or(time);
    line
}

/// Whether a text may have a field `_record`, in whatever spelling.
pub(super) fn names_record(bytes: &[u8]) -> bool {
    static SPELLINGS: LazyLock<[Finder<'_>; 2]> = LazyLock::new(|| ["_record", "\\u00"].map(Finder::new));
    SPELLINGS.iter().any(|spelling| spelling.find(bytes).is_some())
}

fn time_of(source: &str) -> Option<i64> {
    if json::is_string(source) {
        return EventTime::parse_rfc3339(&json::unquote(source)).map(|time| time.0);
    }
    source.parse().ok().filter(|time| TIMES_MS.contains(time))
}

fn record<'a>(source: &'a str, line: &mut Line<'a>) {
    let (mut partition, mut offset) = (None, None);
    for (key, source) in json::fields(source) {
        match &*key {
            "topic" if json::is_string(source) => line.topic = Some(json::unquote(source)),
            "partition" => partition = source.parse().ok().filter(|partition| *partition < PLACE_PARTITIONS_MAX),
            // The offset after it must exist too.
            "offset" => offset = source.parse().ok().filter(|offset| *offset < u64::MAX),
            "timestamp" => line.timestamp_ms = source.parse().ok().filter(|time| TIMES_MS.contains(time)),
            _ => {}
        }
    }
    line.place = partition.zip(offset);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of a line in a text that may have the field, and of one in a text that is itself alone.
    fn scan(bytes: &[u8]) -> Line<'_> {
        let line = super::scan(bytes, true);
        assert_eq!(super::scan(bytes, names_record(bytes)), line);
        line
    }

    #[test]
    fn fields_are_found_at_the_top_level_only_and_whatever_their_spelling() {
        let line = scan(br#" {"args":{"session_id":"no","x":["}","\"",{"time":1}]},"s":"\\","\u0073ession_id" : "a\u00e9\n\"b" , "time":"1970-01-01T00:00:01.5Z"}"#);
        assert_eq!(line, Line { session_id: Some("aé\n\"b".into()), timestamp_ms: Some(1_500), ..Line::default() });
        assert_eq!(scan(br#"{"session_id":7,"time":12}"#), Line { timestamp_ms: Some(12), ..Line::default() });
        assert_eq!(scan(br#"["session_id","x"]"#), Line::default());
        assert_eq!(scan(b"\xff{\"session_id\":\"x\"}"), Line::default());
        assert_eq!(scan(b""), Line::default());
        assert_eq!(scan(br#"{"session_id":"x","time":"yesterday"}"#).timestamp_ms, None);
    }

    #[test]
    fn a_former_place_is_found_wherever_it_stands() {
        for name in ["_record", "\\u005frecord", "_\\u0072ecord"] {
            let line = format!(r#"{{"session_id":"x","time":9,"result":"long","{name}":{{"partition":3,"offset":88}}}}"#);
            assert_eq!(scan(line.as_bytes()).place, Some((3, 88)), "{name}");
        }
    }

    #[test]
    fn a_former_place_wins_over_the_time_and_is_taken_whole() {
        let line = scan(br#"{"_record":{"topic":"t","partition":3,"offset":88,"timestamp":5},"session_id":"x","time":9}"#);
        assert_eq!((line.place, line.timestamp_ms, line.topic.as_deref()), (Some((3, 88)), Some(5), Some("t")));
        let place = |record: &str| scan(format!(r#"{{"_record":{record}}}"#).as_bytes()).place;
        assert_eq!(place(r#"{"partition":3}"#), None);
        assert_eq!(place(r#"{"partition":3,"offset":-1}"#), None);
        assert_eq!(place(r#"{"partition":65536,"offset":1}"#), None);
        assert_eq!(place(r#"{"partition":3,"offset":18446744073709551615}"#), None);
        assert_eq!(place("7"), None);
    }

    proptest! {
        #[test]
        fn a_session_reads_back_as_json_wrote_it(session_id in any::<String>(), other in any::<String>(), time in TIMES_MS) {
            let line = serde_json::json!({ "a": [other.clone(), { "session_id": other }], "session_id": session_id, "time": time }).to_string();
            let found = scan(line.as_bytes());
            prop_assert_eq!(found.session_id.as_deref(), Some(session_id.as_str()));
            prop_assert_eq!(found.timestamp_ms, Some(time));
        }

        #[test]
        fn hostile_lines_never_panic(bytes in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b'{'), Just(b'\\'), Just(b':'), any::<u8>()], 0..60)) {
            let _ = scan(&bytes);
        }
    }
}
