//! Appends to the embedded log: finds room for them, waits until they are on disk, and says why they are not.

use std::sync::Arc;

use axum::http::StatusCode;
use loopwarden_core::limits;
use loopwarden_log::LogError;
use loopwarden_log::embedded::{Append, EmbeddedBroker, Written};
use tokio::time::timeout;

use crate::http::answer;
use crate::http::answer::Refusal;
use crate::http::backlog::{Appended, Backlog, Sender};
use crate::http::shared::Embedded;

/// Appends events for which there is room, each with its session and its sender.
pub(crate) fn append<'a>(
    (broker, backlog): (&EmbeddedBroker, &Arc<Backlog>),
    events: &[Append<'_>],
    senders: impl Iterator<Item = (&'a str, Sender<'a>)>,
) -> Result<(Written, Appended), Refusal> {
    let admitted = backlog.admit(senders).map_err(answer::full)?;
    let (places, written) = broker.append_unsynced(events).map_err(|error| refused(&error))?;
    Ok((written, admitted.appended(&places)))
}

/// Waits until events are on disk, and for a moment where much of their senders is not judged yet.
pub(crate) async fn durable(embedded: &Embedded, (written, appended): (Written, Appended)) -> Result<(), Refusal> {
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
    })?;
    appended.settled().await;
    Ok(())
}

fn refused(error: &LogError) -> Refusal {
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
