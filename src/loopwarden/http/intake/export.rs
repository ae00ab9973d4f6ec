//! `GET /v1/events`: the events that are kept, one a line, as `loopwarden replay` reads them.
//!
//! Partitions come merged by record time, each in its own order, up to where they end when it is asked for. Each line says where it
//! stood (`_record`), so that a replay puts it there again.

use std::{collections::VecDeque, io, io::Write as _, ops::ControlFlow, sync::Arc};

use axum::extract::{Query, State};
use axum::{Extension, body::Body, http::StatusCode, response::Response};
use futures_util::{StreamExt as _, stream};
use loopwarden_core::event::{Stage, TaskId};
use loopwarden_log::LogError;
use loopwarden_log::embedded::{EmbeddedEvent, EmbeddedReader};
use loopwarden_sources::Tenants;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::views::query::{Pairs, Parameters};
use crate::{
    http::access::principal::Principal, http::answer, http::answer::Refusal, http::listener::phase::Answering,
    http::shared::Embedded, http::shared::Process,
};

/// Lines are sent in pieces of about so many bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// Bytes of a partition that wait for those of others, at most, and one event.
const HELD_BYTES: usize = 256 * 1024;
/// Events looked at before others may use the thread.
const LOOKED_AT_MAX: usize = 10_000;

/// A partition on its way out.
struct PartitionExport {
    task: TaskId,
    next: u64,
    end: u64,
    held: VecDeque<EmbeddedEvent>,
}

/// What is left of an export.
struct Export {
    reader: EmbeddedReader,
    places: Vec<PartitionExport>,
    topic: String,
    /// Of one session; none: all.
    session_id: Option<String>,
    /// Those that whoever asks may read of.
    tenants: Tenants,
}

impl Export {
    /// The next lines; nothing where others should have a turn. `None` at the end.
    fn piece(&mut self) -> Result<Option<Vec<u8>>, LogError> {
        let mut piece = Vec::new();
        let mut looked_at = 0;
        while piece.len() < PIECE_BYTES && looked_at < LOOKED_AT_MAX {
            for place in &mut self.places {
                fill(&self.reader, place)?;
            }
            let first = |place: &&mut PartitionExport| place.held.front().map_or(i64::MAX, |event| event.timestamp_ms);
            let Some(place) = self.places.iter_mut().filter(|place| !place.held.is_empty()).min_by_key(first) else {
                return Ok(Some(piece).filter(|piece| !piece.is_empty()));
            };
            let Some(event) = place.held.pop_front() else { continue };
            looked_at += 1;
            let is_asked_for = self.session_id.as_ref().is_none_or(|session_id| session_id.as_bytes() == event.key);
            if is_asked_for && is_of(&self.tenants, &event.value) {
                put(&mut piece, &event, &self.topic, place.task.partition);
            }
        }
        Ok(Some(piece))
    }
}

/// The tenant of an event, as it was written.
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    tenant: Option<String>,
}

/// Whether an event is of one of these tenants. What cannot be read is of nobody's.
fn is_of(tenants: &Tenants, event: &[u8]) -> bool {
    let named = || serde_json::from_slice::<Named>(event);
    tenants.are_all() || named().is_ok_and(|named| tenants.have(named.tenant.as_deref().unwrap_or_default()))
}

/// Reads a partition on of which nothing is held.
fn fill(reader: &EmbeddedReader, place: &mut PartitionExport) -> Result<(), LogError> {
    if !place.held.is_empty() || place.next >= place.end {
        return Ok(());
    }
    let mut bytes = 0;
    let held = &mut place.held;
    place.next = reader.events(place.task, place.next, place.end, &mut |event| {
        bytes += event.key.len() + event.value.len();
        held.push_back(event);
        if bytes >= HELD_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(())
}

/// An event as a line. What was taken is an object of JSON; over how many lines it was written does not matter to it.
fn put(piece: &mut Vec<u8>, event: &EmbeddedEvent, topic: &str, partition: u32) {
    let Some(open) = event.value.trim_ascii().strip_suffix(b"}") else { return };
    piece.extend(open.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    let record = json!({ "topic": topic, "partition": partition, "offset": event.offset, "timestamp": event.timestamp_ms });
    // Last, where it counts: an event that was exported before has one already.
    let _ = writeln!(piece, ",\"_record\":{record}}}");
}

/// Answers.
pub(crate) async fn get(
    State(process): State<Arc<Process>>,
    Extension(answering): Extension<Answering>,
    Extension(who): Extension<Principal>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    let embedded = process.log()?;
    let query = Parameters::of(&pairs, &["session_id"]).map_err(answer::bad_request)?;
    let permit = process.take_stream("too many clients read")?;
    let places = (0..embedded.broker.partitions().session).map(|partition| {
        let task = TaskId { stage: Stage::Session, partition };
        let range = embedded.broker.input_range(task);
        PartitionExport { task, next: range.start, end: range.end, held: VecDeque::new() }
    });
    let export = Export {
        reader: embedded.reader.clone(),
        places: places.collect(),
        topic: process.topic.clone(),
        session_id: query.get("session_id").map(str::to_owned),
        tenants: who.tenants,
    };
    // What fails before the first line has a status of its own.
    let (first, export) = piece_of(embedded, export).await?;
    let first = first.map_err(|error| answer::unread(&error))?;
    let rest = first.is_some().then(|| (export, Arc::clone(&process), permit, answering));
    let first = first.filter(|piece| !piece.is_empty()).map(Ok);
    let pieces = stream::iter(first).chain(stream::unfold(rest, next));
    Ok(answer::with_type(StatusCode::OK, "application/x-ndjson", Body::from_stream(pieces)))
}

/// An export, and what it holds as long as it goes on.
type Going = (Export, Arc<Process>, OwnedSemaphorePermit, Answering);

/// The next lines of an export, which comes back.
async fn piece_of(embedded: &Embedded, mut export: Export) -> Result<(Result<Option<Vec<u8>>, LogError>, Export), Refusal> {
    answer::blocking(&embedded.reads, move || (export.piece(), export)).await
}

/// An error cuts the answer: whoever reads it must not take a part for all of it.
async fn next(going: Option<Going>) -> Option<(io::Result<Vec<u8>>, Option<Going>)> {
    let (mut export, process, permit, answering) = going?;
    let embedded = process.embedded.as_ref()?;
    loop {
        let Ok((piece, left)) = piece_of(embedded, export).await else { return Some((Err(io::Error::other("busy")), None)) };
        export = left;
        match piece {
            Ok(Some(piece)) if piece.is_empty() => {}
            Ok(Some(piece)) => {
                let going = (export, Arc::clone(&process), permit, answering);
                return Some((Ok(piece), Some(going)));
            }
            Ok(None) => return None,
            Err(error) => {
                answer::note_unread(&error);
                return Some((Err(io::Error::other(error.to_string())), None));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_another_tenant_and_those_that_nobody_can_read_are_left_out() {
        let acme = Tenants::only(&["acme".to_owned()]);
        assert!(is_of(&acme, br#"{"id":"1","tenant":"acme"}"#) && is_of(&acme, br#"{"id":"1","\u0074enant":"acme"}"#));
        for other in [r#"{"id":"1"}"#, r#"{"id":"1","tenant":"globex"}"#, r#"{"args":{"tenant":"acme"}}"#, "{", ""] {
            assert!(!is_of(&acme, other.as_bytes()), "{other}");
            assert!(is_of(&Tenants::ALL, other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn an_event_of_several_lines_becomes_one_and_its_last_place_counts() {
        let value = b" {\n \"a\": \"x\\ny\",\r\n \"_record\": {\"partition\": 9}}\n".to_vec();
        let event = EmbeddedEvent { offset: 7, timestamp_ms: 5, key: b"s".to_vec(), value };
        let mut piece = Vec::new();
        put(&mut piece, &event, "events", 3);
        let line = String::from_utf8(piece).unwrap();
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["a"], "x\ny");
        assert_eq!(read["_record"], json!({ "topic": "events", "partition": 3, "offset": 7, "timestamp": 5 }));
    }
}
