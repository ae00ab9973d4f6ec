//! A dead letter: the record as it came, with why it was rejected.

use loopwarden_core::event::{Record, Rejected};
use loopwarden_core::identity::hash_bytes;
use loopwarden_core::limits::{DEAD_LETTER_BYTES_MAX, LETTER_KEY_BYTES_MAX};
use loopwarden_log::{Destination, Headers, Output};

use crate::settings::DeadLetterContent;

/// Prefix of the headers that a dead letter adds.
const DLQ: &str = "dlq.";
/// Bytes a header costs besides its name and value, and a record besides its headers: an upper bound of Kafka's varints.
const FRAME_BYTES: usize = 16;

/// The id of a dead letter in a task's chain of outputs: the place it came from.
pub(crate) fn id(record: &Record<'_>) -> String {
    format!("{}/{}/{}", record.meta.topic, record.meta.partition, record.meta.offset.0)
}

/// Headers that begin each dead letter: why it is one, where its record lay, and the application that says so.
pub(crate) fn why(record: &Record<'_>, rejected: &Rejected, app: &str) -> Headers {
    let meta = &record.meta;
    let mut own = Headers::default();
    own.push("dlq.reason", rejected.reason.as_str());
    if !rejected.field.is_empty() {
        own.push("dlq.field", &rejected.field);
    }
    own.push("dlq.topic", meta.topic);
    own.push_display("dlq.partition", meta.partition);
    own.push_display("dlq.offset", meta.offset.0);
    own.push_display("dlq.timestamp", meta.timestamp.0);
    own.push("dlq.app", app);
    own
}

/// The record with its own headers, and those that say why it is a dead letter (`dlq.…`). What does not fit is cut: first the value, then foreign headers, then the key.
pub(crate) fn output(record: &Record<'_>, content: DeadLetterContent, own: Headers) -> Output {
    let meta = &record.meta;
    // Room for dlq.bytes is kept in any case.
    let mut left =
        DEAD_LETTER_BYTES_MAX - headers_bytes(&own).min(DEAD_LETTER_BYTES_MAX / 2) - 2 * FRAME_BYTES - "dlq.bytes".len() - 20;
    let key = meta.key.unwrap_or_default();
    let key = key.get(..key.len().min(left)).unwrap_or_default();
    left -= key.len();
    let mut headers = Headers::default();
    for (name, value) in &meta.headers {
        // A dead letter that failed again says why it failed now.
        if name.starts_with(DLQ) || *name == "lw_task" || *name == "lw_ordinal" {
            continue;
        }
        let value = value.unwrap_or_default();
        let bytes = name.len() + value.len() + FRAME_BYTES;
        if bytes <= left {
            left -= bytes;
            headers.push((*name).to_owned(), value);
        }
    }
    headers.append(own);
    let value = match (content, record.value) {
        (_, None) | (DeadLetterContent::None, _) => None,
        (DeadLetterContent::Hash, Some(value)) => Some(hash_bytes(value).to_string().into_bytes()),
        (DeadLetterContent::Full, Some(value)) => {
            let kept = value.get(..value.len().min(left)).unwrap_or_default();
            if kept.len() < value.len() {
                headers.push_display("dlq.bytes", value.len());
            }
            Some(kept.to_vec())
        }
    };
    Output {
        destination: Destination::DeadLetters { source_partition: meta.partition },
        key: key.to_vec(),
        value,
        headers,
        timestamp_ms: meta.timestamp.0,
    }
}

/// What says which record it was: for a sender whose share of whole ones is spent. Its record stays where it was read, as long as that
/// topic keeps it.
pub(super) fn name(record: &Record<'_>, own: Headers) -> Output {
    let meta = &record.meta;
    let mut headers = own;
    headers.push_display("dlq.bytes", record.value.map_or(0, <[u8]>::len));
    let key = meta.key.unwrap_or_default();
    Output {
        destination: Destination::DeadLetters { source_partition: meta.partition },
        key: key.get(..key.len().min(LETTER_KEY_BYTES_MAX)).unwrap_or_default().to_vec(),
        value: None,
        headers,
        timestamp_ms: meta.timestamp.0,
    }
}

fn headers_bytes(headers: &Headers) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len() + FRAME_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::{EventTime, RecordMeta, RecordOffset};

    use super::*;

    fn letter(content: DeadLetterContent, key: &[u8], value: Option<&[u8]>, header: &[u8]) -> Output {
        let meta = RecordMeta {
            topic: "t",
            partition: 3,
            offset: RecordOffset(9),
            timestamp: EventTime(1),
            key: Some(key),
            headers: vec![("h", Some(header))],
            value_bytes_max: 1,
        };
        let mut own = Headers::default();
        own.push("dlq.reason", "too_large");
        output(&Record::new(meta, value), content, own)
    }

    fn bytes(output: &Output) -> usize {
        output.key.len() + output.value.as_ref().map_or(0, Vec::len) + headers_bytes(&output.headers)
    }

    #[test]
    fn a_dead_letter_always_fits_and_says_how_large_its_value_was() {
        let large = vec![b'x'; 1_200_000];
        for (key, value, header) in [(10, 1_200_000, 10), (1_200_000, 10, 10), (10, 10, 1_200_000), (900_000, 900_000, 900_000)] {
            let output = letter(DeadLetterContent::Full, &large[..key], Some(&large[..value]), &large[..header]);
            assert!(bytes(&output) <= DEAD_LETTER_BYTES_MAX, "{key} {value} {header}: {}", bytes(&output));
            let kept = output.value.as_ref().unwrap().len();
            let said = output.headers.get("dlq.bytes").map(<[u8]>::to_vec);
            assert_eq!(said, (kept < value).then(|| value.to_string().into_bytes()));
        }
        let whole = letter(DeadLetterContent::Full, b"k", Some(&large[..990_000]), b"v");
        assert_eq!(whole.value.unwrap().len(), 990_000);
    }

    #[test]
    fn what_names_its_record_is_small_whatever_the_record_is() {
        let large = vec![b'x'; 1_200_000];
        let meta = RecordMeta {
            topic: "t",
            partition: 3,
            offset: RecordOffset(9),
            timestamp: EventTime(1),
            key: Some(&large),
            headers: vec![("h", Some(&large))],
            value_bytes_max: 1,
        };
        let output = name(&Record::new(meta, Some(&large)), Headers::default());
        assert!(bytes(&output) < LETTER_KEY_BYTES_MAX + 100, "{}", bytes(&output));
        assert_eq!((output.value, output.headers.get("dlq.bytes")), (None, Some(&b"1200000"[..])));
    }

    #[test]
    fn a_setting_sends_the_hash_of_a_value_or_nothing() {
        let hash = letter(DeadLetterContent::Hash, b"k", Some(b""), b"v");
        assert_eq!(hash.value.unwrap(), b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(letter(DeadLetterContent::None, b"k", Some(b"secret"), b"v").value, None);
        assert_eq!(letter(DeadLetterContent::Hash, b"k", None, b"v").value, None);
    }
}
