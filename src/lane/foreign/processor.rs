//! What becomes of the records of a foreign topic: outputs in the order of the records, and what they count for.

use std::sync::{Arc, Mutex, PoisonError};

use loopwarden_core::event::{Reason, Record, Rejected, TaskId};
use loopwarden_core::limits::{BREAKER_RECORDS, BREAKER_SENDERS};
use loopwarden_log::{Destination, Headers, InputEnd, Output};
use loopwarden_sources::{Grant, Senders, Sources};

use crate::encode::{dead_letter, dead_letter_why};
use crate::foreign::form::{Event, Form, Read};
use crate::metrics::intake::{Counted, IntakeReport, IntakeStats};
use crate::task::tasks::{Slot, Tasks};
use crate::{commit::overlay::Overlay, metrics::stats::Stats, settings::DeadLetterContent, task::poison::guarded};

/// Header of an event: topic, partition and offset of the record that it was made of.
const SOURCE: &str = "lw_source";
/// Largest event with its key and headers. Bytes. The client sends no record above 1,000,000, and what it refuses would be tried for ever.
const WRITTEN_BYTES_MAX: usize = 990_000;
/// Bytes a header counts for besides its name and value.
const HEADER_BYTES: usize = 16;
/// Nothing is said about missing arguments before there were so many calls.
const CALLS_MIN: u64 = 100;

/// What a foreign topic is, and what its senders may do. Valid values only.
#[derive(Debug, Clone)]
pub struct ForeignSettings {
    /// Name of the application, for dead letters.
    pub app: String,
    pub topic: String,
    /// What its senders may report.
    pub grant: Grant,
    /// The word of its form.
    pub form: &'static str,
    /// Largest event. Bytes.
    pub event_bytes_max: usize,
}

/// Makes events of the records of a foreign topic.
pub struct Foreign {
    form: Form,
    settings: ForeignSettings,
    /// Which source reports which session: shared with what else the process takes in.
    sources: Arc<Mutex<Sources>>,
    stats: IntakeStats,
    senders: Senders,
    has_hinted: bool,
}

impl Foreign {
    pub fn new(form: Form, settings: ForeignSettings, sources: Arc<Mutex<Sources>>) -> Self {
        Self { form, settings, sources, stats: IntakeStats::default(), senders: Senders::default(), has_hinted: false }
    }

    /// Takes a record into the overlay. Whether nothing came of it but a dead letter, because it has another form.
    pub(crate) fn take(&self, task: TaskId, record: &Record<'_>, overlay: &mut Overlay, content: DeadLetterContent) -> bool {
        let settings = &self.settings;
        let read = guarded(|| {
            let mut read = self.form.read(record, settings.event_bytes_max);
            read.admit(&settings.grant, record, settings.event_bytes_max);
            read
        });
        let mut read = read.unwrap_or_else(|_| Read {
            refused: 1,
            cause: Some(Rejected { reason: Reason::Panic, field: String::new() }),
            ..Read::default()
        });
        let cause_of = (task, record.meta.offset);
        let source = format!("{}/{}/{}", record.meta.topic, record.meta.partition, record.meta.offset.0);
        let mut written = 0;
        for event in read.events.drain(..) {
            let reported = event.ends_call_of.map(|source| (event.session_id.clone(), source));
            let output = written_as(event, &source, record.meta.timestamp.0);
            if bytes_of(&output) > WRITTEN_BYTES_MAX {
                read.refused += 1;
                read.cause.get_or_insert(Rejected { reason: Reason::TooLarge, field: String::new() });
                continue;
            }
            written += 1;
            overlay.foreign.sources.extend(reported);
            overlay.push_output(cause_of, output);
        }
        overlay.records += 1;
        let stats = &mut overlay.foreign.stats;
        stats.records += 1;
        stats.events += written;
        stats.ignored += read.ignored as u64;
        stats.refused += read.refused as u64;
        let calls = read.senders.total().calls;
        stats.calls += calls.made;
        stats.without_args += calls.without_args;
        stats.without_results += calls.without_results;
        overlay.foreign.senders.add(&read.senders);
        let Some(cause) = &read.cause else { return false };
        overlay.foreign.stats.dead_letters += 1;
        overlay.push_output(cause_of, dead_letter(record, content, self.why(record, cause, read.refused)));
        written == 0 && cause.reason.is_of_the_form()
    }

    /// Headers of a dead letter. One letter stands for all parts of its record: read again as a whole, what was good has its old ids.
    fn why(&self, record: &Record<'_>, cause: &Rejected, refused: usize) -> Headers {
        let mut own = dead_letter_why(record, cause, &self.settings.app);
        own.push("dlq.form", self.settings.form);
        own.push_display("dlq.refused", refused);
        own.push("dlq.version", env!("CARGO_PKG_VERSION"));
        own
    }

    /// Why a partition has stopped itself, for people.
    pub(crate) fn why_stopped(&self, task: TaskId) -> String {
        let ForeignSettings { topic, form, .. } = &self.settings;
        format!(
            "{topic}/{}: more than {BREAKER_SENDERS} senders sent what is no {form}, within {BREAKER_RECORDS} records",
            task.partition
        )
    }

    /// A commit has made this true.
    pub(crate) fn committed(&mut self, counted: &Counted) {
        self.stats.add(&counted.stats);
        self.senders.add(&counted.senders);
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        for (session_id, source) in &counted.sources {
            sources.note(session_id, source);
        }
        drop(sources);
        let stats = &self.stats;
        if !self.has_hinted && stats.calls >= CALLS_MIN && stats.without_args * 2 > stats.calls {
            self.has_hinted = true;
            let hints: Vec<&str> = counted.senders.total().hints.into_iter().collect();
            tracing::warn!(
                code = "W0301",
                topic = self.settings.topic,
                calls = stats.calls,
                without_args = stats.without_args,
                without_results = stats.without_results,
                hints = hints.join("; "),
                "calls have no arguments: only names can be compared"
            );
        }
    }

    /// What it shows of itself. `lane` are the counters of its lane, `ends` where its partitions end.
    pub(crate) fn report(&self, lane: &Stats, tasks: &Tasks, ends: &[InputEnd]) -> IntakeReport {
        let [committed, failed @ ..] = lane.transactions;
        let behind = ends.iter().filter_map(|end| {
            let task = tasks.get(end.task)?;
            Some(end.end.saturating_sub(task.committed.next_offset.0))
        });
        let stopped = tasks.iter().filter_map(|(_, slot)| match slot {
            Slot::Poisoned(task) => Some(task.state.why.clone()),
            _ => None,
        });
        IntakeReport {
            topic: self.settings.topic.clone(),
            form: self.settings.form,
            stats: IntakeStats { committed, failed: failed.iter().sum(), input_lost: lane.input_lost, ..self.stats.clone() },
            senders: self.senders.clone(),
            stopped: stopped.collect(),
            lag_records: (!ends.is_empty()).then(|| behind.sum()),
        }
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
