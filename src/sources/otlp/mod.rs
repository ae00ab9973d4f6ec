//! OpenTelemetry: traces and logs in OTLP, protobuf and JSON.
//!
//! A span is exported after it has ended, seconds later: what comes this way is found out and reported, and no call is stopped in time by it.
//! Records that are no calls are accepted and ignored.

mod answer;
pub(crate) mod call;
pub(crate) mod convention;
mod envelope;
mod frameworks;
pub(crate) mod meaning;
mod message;
pub(crate) mod view;

use std::collections::BTreeSet;

pub use answer::{failure, success};
use convention::{Convention, Reader};
use envelope::Origin;
pub use envelope::{Form, Signal};
use loopwarden_core::event::{EventTime, Reason, Rejected};
use loopwarden_core::native::{NativeEvent, id_of};
use meaning::Meaning;
use message::{LogRecord, Span};
use serde_json::Value;
use view::{LogView, SpanView, checked_session};

use crate::batch::{Batch, Bounds, Made};
use crate::senders::{Calls, Received};
use crate::session::{Names, Sessions, SpanId, TraceId, hex};
use crate::{agents::AGENTS, body::Fault};

/// The form of all senders here.
pub const FORM: &str = "OpenTelemetry";

/// A record that is an event, before its session is known.
struct Pending {
    index: usize,
    sender: usize,
    meaning: Meaning,
    convention: &'static Convention,
    /// Absent for log records outside of a trace.
    trace: Option<TraceId>,
    span: Option<SpanId>,
    parent: Option<SpanId>,
    named: Option<String>,
    time: Option<EventTime>,
    duration_ms: Option<u64>,
}

/// Reads the body of an export, already inflated. `now` is the time of the record that carries it.
///
/// # Errors
/// Why nothing of it can be read: then no event of it may be used.
pub fn read(
    (signal, form): (Signal, Form),
    body: &[u8],
    sessions: &mut Sessions,
    now: EventTime,
    event_bytes_max: usize,
) -> Result<Batch, Fault> {
    let (mut batch, mut names, mut pending) = (Batch::default(), Names::default(), Vec::new());
    envelope::each(form, signal, body, &mut |origin, source| {
        let sender = batch.senders.place(FORM, origin.as_ref().map_or("", |origin| &origin.service));
        let index = batch.count(sender);
        let read = match signal {
            Signal::Traces => read_span(form, origin, source, &mut names),
            Signal::Logs => read_log(form, origin, source, &mut names),
        };
        match read {
            Ok(Some(Pending { meaning: Meaning::LeftToLogs, convention, .. })) => {
                let row = batch.senders.row(sender);
                row.left_to_logs += 1;
                row.hints.insert(convention.hint);
                batch.ignore(sender);
            }
            Ok(Some(found)) => pending.push(Pending { index, sender, ..found }),
            Ok(None) => batch.ignore(sender),
            Err(rejected) => batch.refuse(index, sender, rejected),
        }
    })?;
    names.apply(sessions);
    let outer: BTreeSet<(TraceId, SpanId)> =
        pending.iter().filter(|found| matches!(found.meaning, Meaning::Call(_))).filter_map(Pending::place).collect();
    let bounds = Bounds { event_bytes_max, now };
    for found in pending {
        let (index, sender, convention) = (found.index, found.sender, found.convention);
        match finish(found, &outer, sessions, bounds) {
            Ok(Some(made)) => {
                note(batch.senders.row(sender), convention, &made);
                batch.push(sender, made);
            }
            Ok(None) => batch.ignore(sender),
            Err(rejected) => batch.refuse(index, sender, rejected),
        }
    }
    batch.refused.sort_by_key(|refused| refused.index);
    batch.sort();
    Ok(batch)
}

/// Notes which convention a call is of, and what could be switched on for more.
fn note(row: &mut Received, convention: &Convention, made: &Made) {
    let Calls { made: calls, without_args, without_results, .. } = made.calls;
    if calls > 0 {
        row.conventions.insert(convention.name);
    }
    if without_args + without_results > 0 && !convention.hint.is_empty() {
        row.hints.insert(convention.hint);
    }
}

/// All conventions. The first that knows a record reads it. Those of agents come first: a framework may use their names in part.
fn conventions() -> impl Iterator<Item = &'static Convention> {
    AGENTS.iter().filter_map(|agent| agent.telemetry.as_ref()).chain(&frameworks::CONVENTIONS)
}

/// What the first convention that knows a record makes of it.
fn meaning_of<V: Copy>(
    view: V,
    reader: fn(&Convention) -> Reader<V>,
) -> Result<Option<(Meaning, &'static Convention)>, Rejected> {
    for convention in conventions() {
        match reader(convention)(view)? {
            Meaning::Other => {}
            Meaning::Nothing => return Ok(None),
            meaning => return Ok(Some((meaning, convention))),
        }
    }
    Ok(None)
}

fn read_span(
    form: Form,
    origin: &Result<Origin, Rejected>,
    source: &[u8],
    names: &mut Names,
) -> Result<Option<Pending>, Rejected> {
    let span: Span = form.decode(source)?;
    let origin = origin.as_ref().map_err(Clone::clone)?;
    let view = SpanView::new(&span, origin)?;
    let trace = id(&span.trace_id, "trace_id");
    let session = view.session();
    let found = meaning_of(view, |convention| convention.span)?;
    if let (Ok(Some(trace)), Some(session)) = (&trace, session.filter(|session| checked_session(session).is_ok())) {
        names.add(*trace, found.is_some(), session.to_owned());
    }
    let Some((meaning, convention)) = found else { return Ok(None) };
    Ok(Some(Pending {
        index: 0,
        sender: 0,
        meaning,
        convention,
        trace: trace?,
        span: id(&span.span_id, "span_id")?,
        parent: id(&span.parent_span_id, "parent_span_id")?,
        named: session.map(checked_session).transpose()?.map(str::to_owned),
        time: view.time(),
        duration_ms: view.duration_ms(),
    }))
}

fn read_log(
    form: Form,
    origin: &Result<Origin, Rejected>,
    source: &[u8],
    names: &mut Names,
) -> Result<Option<Pending>, Rejected> {
    let record: LogRecord = form.decode(source)?;
    let origin = origin.as_ref().map_err(Clone::clone)?;
    let view = LogView::new(&record, origin)?;
    let Some((meaning, convention)) = meaning_of(view, |convention| convention.log)? else { return Ok(None) };
    let trace = id(&record.trace_id, "trace_id")?;
    let session = view.session().map(checked_session).transpose()?.map(str::to_owned);
    if let (Some(trace), Some(session)) = (trace, &session) {
        names.add(trace, true, session.clone());
    }
    let (span, parent, duration_ms) = (None, None, view.attributes.number("duration_ms").and_then(|ms| u64::try_from(ms).ok()));
    let (index, sender, time) = (0, 0, view.time());
    Ok(Some(Pending { index, sender, meaning, convention, trace, span, parent, named: session, time, duration_ms }))
}

/// An id of `N` bytes; none where it is empty or all zeros.
fn id<const N: usize>(bytes: &[u8], field: &str) -> Result<Option<[u8; N]>, Rejected> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    bytes.try_into().map(Some).map_err(|_| Rejected::at(Reason::BadValue, field))
}

impl Pending {
    fn place(&self) -> Option<(TraceId, SpanId)> {
        Some((self.trace?, self.span?))
    }

    /// The id of its event. A span's is its place; a log record's is what it says, unless the call has an id in all its reports.
    fn event_id(&self, own: Option<&str>, kind: &str, session_id: &str, event: &NativeEvent<'_>) -> Result<String, Rejected> {
        if let Some(id) = own {
            return Ok(format!("call-{id}"));
        }
        if let Some((trace, span)) = self.place() {
            return Ok(format!("{}-{}", hex(&trace), hex(&span)));
        }
        let time = self.time.ok_or_else(|| Rejected::at(Reason::MissingField, "time"))?.to_string();
        Ok(format!("log-{}", id_of(&[kind, session_id, &time, &event.members()])))
    }
}

/// The event of a record. `None` where the same call is counted through another one.
fn finish(
    mut found: Pending,
    outer: &BTreeSet<(TraceId, SpanId)>,
    sessions: &mut Sessions,
    bounds: Bounds,
) -> Result<Option<Made>, Rejected> {
    let meaning = std::mem::replace(&mut found.meaning, Meaning::Nothing);
    let is_inner = matches!(meaning, Meaning::Inner(_));
    let around = found.trace.zip(found.parent).filter(|_| is_inner);
    let is_call = is_inner || matches!(meaning, Meaning::Call(_));
    let is_counted = |(trace, span)| is_call && sessions.was_counted(trace, span);
    if found.place().is_some_and(is_counted) || around.is_some_and(|around| outer.contains(&around)) {
        return Ok(None);
    }
    let session_id = match (found.trace, &found.named) {
        (Some(trace), named) => sessions.of_trace(trace, named.as_deref()),
        (None, Some(named)) => named.clone(),
        (None, None) => return Err(Rejected::at(Reason::MissingField, "session_id")),
    };
    let mut own_id = None;
    let mut event = NativeEvent::default();
    let kind = match meaning {
        Meaning::Call(mut call) | Meaning::Inner(mut call) => {
            own_id = call.event_id.take();
            event = call.into_event(&session_id);
            "tool"
        }
        Meaning::Prompt(prompt) => {
            event.put("role", "user");
            if let Some(text) = prompt.as_ref().and_then(Value::as_str) {
                event.text(text);
            }
            "message"
        }
        Meaning::End => "session_end",
        Meaning::Other | Meaning::Nothing | Meaning::LeftToLogs => return Ok(None),
    };
    let id = found.event_id(own_id.as_deref(), kind, &session_id, &event)?;
    event.put("traceparent", found.place().map(|(trace, span)| format!("00-{}-{}-01", hex(&trace), hex(&span))));
    event.put("duration_ms", found.duration_ms);
    event.put("time", found.time.map(EventTime::to_rfc3339));
    let mut made = bounds.check(found.convention.name, event.json(kind, &id, &session_id)?.into_bytes())?;
    if is_inner {
        made.source = None;
    }
    if let Some((trace, parent)) = around {
        // The span around it ends later, and may report the same call.
        sessions.count_inner(trace, parent);
    }
    Ok(Some(made))
}
