//! Acts of people on their way in: to the embedded log, or to the topic of events. However far lanes are behind, they are taken: whoever
//! stops a flood must not wait for it.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use loopwarden_core::event::{EventTime, Reason, RecordMeta, allowed, decode};
use loopwarden_core::limits;
use loopwarden_log::embedded::Append;
use serde_json::Value;
use tokio::time::timeout;

use crate::http::intake::durable::{refused, synced};
use crate::{
    http::access::gate::foreign_tenant, http::access::principal::Principal, http::answer, http::answer::Refusal,
    http::shared::Process,
};

/// Longest wait until what was written is judged. Whether it was is in the answer.
const JUDGED_WAIT: Duration = Duration::from_secs(2);

/// Where an act is: partitions and offsets of the embedded log. None on a topic, which others may read.
pub(crate) type Places = Vec<(u32, u64)>;

/// Refuses what would bind somebody where nobody is bound.
///
/// # Errors
/// The process runs in shadow.
pub(crate) fn expect_live(process: &Process) -> Result<(), Refusal> {
    if process.status.version().get("mode").is_some_and(|mode| mode == "shadow") {
        let message = "this process runs in shadow, and what it publishes binds nobody; set mode = \"live\"";
        return Err(answer::error(StatusCode::CONFLICT, "shadow", message).into());
    }
    Ok(())
}

/// Writes the event of an act as whoever acts may send it, and waits until it is durable.
///
/// # Errors
/// It is none, or not his; the disk or the brokers do not take it.
pub(crate) async fn write(
    process: &Arc<Process>,
    who: &Principal,
    key: &str,
    event: &Value,
    now: EventTime,
) -> Result<Places, Refusal> {
    let meta = RecordMeta::without_place(now, process.shared.event_bytes_max);
    let json = event.to_string().into_bytes();
    let admitted = decode(Some(&json), &meta).and_then(|event| who.grant().admit(&event, &json, &meta));
    let value = admitted.map_err(|rejected| match rejected.reason {
        Reason::NotPermitted | Reason::ForeignTenant => foreign_tenant(who),
        reason => {
            let what = allowed(&rejected).unwrap_or_else(|| reason.as_str().to_owned());
            answer::problem(StatusCode::BAD_REQUEST, reason.as_str(), &format!("{}: {what}", rejected.field), &rejected.field)
                .into()
        }
    })?;
    let (value, key) = (value.unwrap_or(json), key.to_owned());
    let places = match (&process.embedded, &process.topic_writer) {
        (Some(log), _) => {
            let broker = log.broker.clone();
            let append = move || {
                let headers = Vec::new();
                broker.append_unsynced(&[Append { key: key.as_bytes(), value: &value, headers, timestamp_ms: now.0 }])
            };
            let appended = answer::blocking(&log.appends, append).await?;
            let (places, written) = appended.map_err(|error| refused(&error))?;
            synced(log, written).await?;
            places
        }
        (None, Some(writer)) => {
            let writer = Arc::clone(writer);
            let written = answer::blocking(&process.acts, move || writer(&key, &value));
            let late = |_| answer::later(StatusCode::SERVICE_UNAVAILABLE, "not_durable", "the brokers did not answer in time", 5);
            let written = timeout(limits::HTTP_SYNC_WAIT, written).await.map_err(late)??;
            written.map_err(|error| answer::later(StatusCode::SERVICE_UNAVAILABLE, "log_failed", error.to_string(), 5))?;
            Vec::new()
        }
        (None, None) => return Err(answer::embedded_only().into()),
    };
    let kind = event.get("kind").and_then(Value::as_str).unwrap_or_default();
    tracing::info!(actor = &*who.name, kind, "an operator acts");
    Ok(places)
}

/// Whether what was written is judged, after a moment.
pub(crate) async fn is_settled(process: &Process, places: &Places) -> bool {
    let Some(desk) = process.shared.desk.as_ref().filter(|_| !places.is_empty()) else { return false };
    timeout(JUDGED_WAIT, desk.settled(places)).await.is_ok()
}
