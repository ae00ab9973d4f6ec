//! What was read since the last commit: outputs in the order of the records, and what they count for.

use std::collections::BTreeSet;

use loopwarden_core::event::{Reason, Record, Rejected};
use loopwarden_ingest::Senders;
use loopwarden_lane::{dead_letter, dead_letter_why, guarded};
use loopwarden_log::{Destination, Headers, Output};

use crate::form::{Event, Form, Read};
use crate::settings::IntakeSettings;
use crate::stats::IntakeStats;

/// Header of an event: topic, partition and offset of the record that it was made of.
const SOURCE: &str = "lw_source";
/// Largest event with its key and headers. Bytes. The client sends no record above 1,000,000, and what it refuses would be tried for ever.
const WRITTEN_BYTES_MAX: usize = 990_000;
/// Bytes a header counts for besides its name and value.
const HEADER_BYTES: usize = 16;

/// What a transaction will hold. Nothing leaves the process before it.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) outputs: Vec<Output>,
    pub(crate) bytes: usize,
    pub(crate) stats: IntakeStats,
    /// The same by sender.
    pub(crate) senders: Senders,
    /// Sessions with who reports ends of their calls.
    pub(crate) sources: BTreeSet<(String, &'static str)>,
    /// When the first of its records came, monotonic ms.
    pub(crate) since_ms: Option<u64>,
}

impl Pending {
    /// Takes a record. Whether nothing came of it but a dead letter, because it has another form.
    pub(crate) fn take(&mut self, record: &Record<'_>, form: &Form, settings: &IntakeSettings) -> bool {
        let read = guarded(|| {
            let mut read = form.read(record, settings.event_bytes_max);
            read.admit(&settings.grant, record, settings.event_bytes_max);
            read
        });
        let mut read = read.unwrap_or_else(|_| Read {
            refused: 1,
            cause: Some(Rejected { reason: Reason::Panic, field: String::new() }),
            ..Read::default()
        });
        let source = format!("{}/{}/{}", record.meta.topic, record.meta.partition, record.meta.offset.0);
        let mut written = 0;
        for event in read.events.drain(..) {
            let reported = event.ends_call_of.map(|source| (event.session_id.clone(), source));
            let output = written_as(event, &source, record.meta.timestamp.0);
            let bytes = bytes_of(&output);
            if bytes > WRITTEN_BYTES_MAX {
                read.refused += 1;
                read.cause.get_or_insert(Rejected { reason: Reason::TooLarge, field: String::new() });
                continue;
            }
            written += 1;
            self.sources.extend(reported);
            self.bytes += bytes;
            self.outputs.push(output);
        }
        let stats = &mut self.stats;
        stats.records += 1;
        stats.events += written;
        stats.ignored += read.ignored as u64;
        stats.refused += read.refused as u64;
        let calls = read.senders.total().calls;
        stats.calls += calls.made;
        stats.without_args += calls.without_args;
        stats.without_results += calls.without_results;
        self.senders.add(&read.senders);
        let Some(cause) = &read.cause else { return false };
        stats.dead_letters += 1;
        let letter = dead_letter(record, settings.dead_letters, why(record, cause, read.refused, settings));
        self.bytes += bytes_of(&letter);
        self.outputs.push(letter);
        written == 0 && cause.reason.is_of_the_form()
    }
}

fn written_as(event: Event, source: &str, timestamp_ms: i64) -> Output {
    let mut headers = Headers::default();
    for (name, value) in event.headers.iter().filter(|(name, _)| *name != SOURCE) {
        headers.push(name.to_owned(), value);
    }
    headers.push(SOURCE, source);
    Output {
        destination: Destination::Events,
        key: event.session_id.into_bytes(),
        value: Some(event.json),
        headers,
        timestamp_ms,
    }
}

fn bytes_of(output: &Output) -> usize {
    let headers: usize = output.headers.iter().map(|(name, value)| name.len() + value.len() + HEADER_BYTES).sum();
    output.key.len() + output.value.as_ref().map_or(0, Vec::len) + headers
}

/// Headers of a dead letter. One letter stands for all parts of its record: read again as a whole, what was good has its old ids.
fn why(record: &Record<'_>, cause: &Rejected, refused: usize, settings: &IntakeSettings) -> Headers {
    let mut own = dead_letter_why(record, cause, &settings.app);
    own.push("dlq.form", settings.form);
    own.push_display("dlq.refused", refused);
    own.push("dlq.version", env!("CARGO_PKG_VERSION"));
    own
}
