//! Appends to the embedded log: finds room for them, waits until they are on disk, and says why they are not.

use std::{borrow::Cow, net::IpAddr};

use axum::http::StatusCode;
use loopwarden_core::{event::Header, limits};
use loopwarden_log::LogError;
use loopwarden_log::embedded::{Append, Written};
use loopwarden_sources::Made;
use tokio::time::timeout;

use crate::http::backlog::{Appended, Sender, tenant_of};
use crate::{http::answer, http::answer::Refusal, http::shared::Embedded};

/// An event on its way in.
pub(crate) struct Keyed<'a> {
    /// Its session.
    pub(crate) key: String,
    /// As the event names it; empty: none.
    pub(crate) tenant: String,
    pub(crate) value: Cow<'a, [u8]>,
    /// Who reports the end of a call with it; none where it is no such event.
    pub(crate) ends_call_of: Option<&'static str>,
    /// It is an act of a person.
    pub(crate) is_act: bool,
}

impl From<Made> for Keyed<'_> {
    fn from(made: Made) -> Self {
        let (ends_call_of, tenant) = (made.ends_call_of(), tenant_of(&made.json));
        Self { ends_call_of, tenant, key: made.session_id, value: Cow::Owned(made.json), is_act: false }
    }
}

/// Appends events that came from an address, if there is room for all of them.
pub(crate) fn append(
    log: &Embedded,
    events: &[Keyed<'_>],
    headers: &[Header<'_>],
    (ip, now_ms): (IpAddr, i64),
) -> Result<(Written, Appended), Refusal> {
    let peer = ip.to_string();
    let senders = events.iter().map(|event| (event.key.as_str(), Sender { tenant: &event.tenant, peer: &peer }));
    let admitted = log.backlog.admit(senders).map_err(answer::full)?;
    let appends = events.iter().map(|Keyed { key, value, .. }| Append {
        key: key.as_bytes(),
        value,
        headers: headers.to_vec(),
        timestamp_ms: now_ms,
    });
    let appends: Vec<Append<'_>> = appends.collect();
    let (places, written) = log.broker.append_unsynced(&appends).map_err(|error| refused(&error))?;
    Ok((written, admitted.appended(&places)))
}

/// Waits until events are on disk, and for a moment where much of their senders is not judged yet.
pub(crate) async fn durable(embedded: &Embedded, (written, appended): (Written, Appended)) -> Result<(), Refusal> {
    synced(embedded, written).await?;
    appended.settled().await;
    Ok(())
}

/// Waits until what was written is on disk.
pub(crate) async fn synced(embedded: &Embedded, written: Written) -> Result<(), Refusal> {
    let mut synced = embedded.synced.clone();
    let wait = async {
        loop {
            // Seen before it is looked at: a sync in between wakes the wait below.
            synced.mark_unchanged();
            if embedded.broker.wait_synced(written, std::time::Duration::ZERO).map_err(|error| refused(&error))? {
                return Ok::<_, Refusal>(());
            }
            let _ = timeout(std::time::Duration::from_secs(1), synced.changed()).await;
        }
    };
    let in_time = timeout(limits::HTTP_SYNC_WAIT, wait).await;
    in_time.unwrap_or_else(|_| {
        let message = "the disk did not answer in time; send the events again, those that arrived are dropped by their id";
        Err(answer::later(StatusCode::SERVICE_UNAVAILABLE, "not_durable", message, 5).into())
    })
}

pub(crate) fn refused(error: &LogError) -> Refusal {
    let response = match error {
        LogError::Transient(cause) => answer::later(StatusCode::TOO_MANY_REQUESTS, "log_full", cause, 5),
        LogError::OutOfRange(cause) | LogError::Damaged(cause) | LogError::Lost(cause) => {
            answer::error(StatusCode::SERVICE_UNAVAILABLE, "log_failed", cause)
        }
        LogError::Fatal { code, message } => {
            answer::error(StatusCode::SERVICE_UNAVAILABLE, "log_failed", format!("{code}: {message}"))
        }
    };
    response.into()
}
