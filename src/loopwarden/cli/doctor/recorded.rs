//! A file of what senders would send: exports of OpenTelemetry in JSON, CloudEvents, events, or JSON that a mapping reads.

use std::{fs::File, io::Read as _, path::Path};

use loopwarden_core::event::{EventTime, RecordMeta, decode, json};
use loopwarden_core::{limits::RECORD_BYTES_MAX_DEFAULT, native::is_native};
use loopwarden_lab::report::grouped;
use loopwarden_log::clock;
use loopwarden_sources::otlp::{Form, Signal};
use loopwarden_sources::{Batch, Became, Calls, Fault, NATIVE_FORM, Senders, Sessions, Sources, cloudevents, mapping, otlp};
use loopwarden_sources::{INFLATED_BYTES_MAX, cloudevents::Transport, mapping::Mapping};

use super::{finding::Finding, input};
use crate::cli::shared::lines::{lines, unreadable};
use crate::{exit_code, failure::Failure};
use crate::{input_quality, mapping_file};

/// What was found so far.
struct Look {
    senders: Senders,
    sources: Sources,
    sessions: Sessions,
    mapping: Option<Mapping>,
    /// Records of no form that is read.
    unknown: u64,
    records: u64,
}

/// What is to be said of a file.
///
/// # Errors
/// The file or the mapping cannot be read.
pub(super) fn findings(file: &Path, mapping: Option<&Path>) -> Result<Vec<Finding>, Failure> {
    let wrong = |cause: String| Failure::new(exit_code::CONFIG, format!("error: {cause}"));
    let mapping = mapping.map(mapping_file::read).transpose().map_err(wrong)?.map(|(_, mapping)| mapping);
    let mut look = Look {
        senders: Senders::default(),
        sources: Sources::default(),
        sessions: Sessions::default(),
        mapping,
        unknown: 0,
        records: 0,
    };
    for line in lines(file, INFLATED_BYTES_MAX)? {
        let line = line.map_err(|error| unreadable(file, &error))?;
        // One document over several lines.
        if look.records == 0 && !is_json(&line) && file != Path::new("-") {
            let mut whole = Vec::new();
            let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
            opened.take(INFLATED_BYTES_MAX as u64 + 1).read_to_end(&mut whole).map_err(|error| unreadable(file, &error))?;
            if is_json(&whole) {
                look.take(&whole);
                break;
            }
        }
        look.take(&line);
    }
    Ok(look.findings())
}

fn is_json(bytes: &[u8]) -> bool {
    json::text(bytes).is_some_and(json::is_valid)
}

impl Look {
    fn take(&mut self, record: &[u8]) {
        self.records += 1;
        let now = EventTime(clock::now_ms());
        let text =
            json::text(record).filter(|text| record.len() <= INFLATED_BYTES_MAX && json::is_valid(text)).map(str::trim_ascii);
        let Some(text) = text else {
            self.unknown += 1;
            return;
        };
        let has = |name: &str| text.starts_with('{') && json::fields(text).any(|(key, _)| key == name);
        let cloud_event = |media: &[u8]| {
            let headers: [(&str, &[u8]); 1] = [("content-type", media)];
            cloudevents::read(Transport::Http, &headers, record, self.mapping.as_ref(), now, RECORD_BYTES_MAX_DEFAULT)
        };
        let signal = [("resourceSpans", Signal::Traces), ("resourceLogs", Signal::Logs)].into_iter().find(|(name, _)| has(name));
        if let Some((_, signal)) = signal {
            let read = otlp::read((signal, Form::Json), record, &mut self.sessions, now, RECORD_BYTES_MAX_DEFAULT);
            self.add(otlp::FORM, read);
        } else if has("resourceMetrics") {
            self.senders.count((otlp::FORM, ""), Became::Ignored);
        } else if has("specversion") {
            let read = cloud_event(b"application/cloudevents+json");
            self.add(cloudevents::FORM, read.map(Option::unwrap_or_default));
        } else if text.starts_with('[') {
            let read = cloud_event(b"application/cloudevents-batch+json");
            self.add(cloudevents::FORM, read.map(Option::unwrap_or_default));
        } else if is_native(text) {
            self.native(record, now);
        } else if let Some(mapping) = &self.mapping {
            let mut batch = Batch::default();
            batch.take((mapping::FORM, ""), mapping.map(record, now, RECORD_BYTES_MAX_DEFAULT));
            self.add(mapping::FORM, Ok(batch));
        } else {
            self.unknown += 1;
        }
    }

    fn add(&mut self, form: &'static str, read: Result<Batch, Fault>) {
        match read {
            Ok(mut batch) => {
                self.sources.note_all(&mut batch);
                self.senders.add(&batch.senders);
            }
            Err(_) => self.senders.count((form, ""), Became::Refused),
        }
    }

    fn native(&mut self, record: &[u8], now: EventTime) {
        let meta = RecordMeta::without_place(now, RECORD_BYTES_MAX_DEFAULT);
        let became = decode(Some(record), &meta).map_or(Became::Refused, |event| {
            let calls = Calls::of(&event);
            if calls.ended > 0 {
                self.sources.note(&event.session_id, NATIVE_FORM);
            }
            Became::Event(calls)
        });
        self.senders.count((NATIVE_FORM, ""), became);
    }

    fn findings(&self) -> Vec<Finding> {
        let rows: Vec<input_quality::Row<'_>> = input_quality::Row::all(None, &self.senders).collect();
        let twofold = self.sources.twofold();
        let found = input_quality::findings(&rows, twofold);
        let mut findings = input::findings(&input_quality::shown(&rows, self.senders.others().records, twofold, &found));
        if self.records == 0 {
            findings.push(Finding::todo("there is no record in this file").coded("W0304"));
        }
        if self.unknown > 0 {
            let message = format!("{} of {} records are of no form that is read", grouped(self.unknown), grouped(self.records));
            let help = "read are exports of OpenTelemetry in JSON, CloudEvents and events, one a line; other JSON with --mapping";
            findings.push(Finding::todo(message).coded("W0308").help(help));
        }
        findings
    }
}
