//! Acts of people on their way in: to the embedded log, or to the topic of events. However far lanes are behind, they are taken: whoever
//! stops a flood must not wait for it.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use loopwarden_core::event::{ACTOR, Reach, Reason, RecordMeta, allowed, decode};
use loopwarden_core::limits;
use loopwarden_log::clock::Deadline;
use loopwarden_log::{LogError, embedded::Append};
use loopwarden_sources::Grant;
use tokio::time::{sleep, timeout};

use crate::http::intake::durable::{refused, synced};
use crate::http::intake::effect::ActEffect;
use crate::operate::act::{Act, Does};
use crate::{
    http::access::gate::foreign_tenant, http::access::principal::Principal, http::answer, http::answer::Refusal,
    http::intake::standing, http::shared::Process,
};

/// Longest wait until what was written is judged. Whether it was is in the answer.
const JUDGED_WAIT: Duration = Duration::from_secs(2);

/// Between two looks at how far lanes of a topic have come.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Where an act is: partitions and offsets of the log.
type Places = Vec<(u32, u64)>;

/// Takes an act in the name of whoever asks: its event is written, and judged soon. What became of it is what binds then, as far as a
/// process knows: what lanes elsewhere judge waits.
///
/// # Errors
/// It would bind, and this process runs in shadow; it is no event, or not his; the disk or the brokers do not take it.
pub(crate) async fn take(process: &Arc<Process>, who: &Principal, act: Act) -> Result<ActEffect, Refusal> {
    let mut act = act;
    act.labels.insert(ACTOR, who.name.to_string());
    let is_shadow = || process.status.version().get("mode").is_some_and(|mode| mode == "shadow");
    if matches!(act.does, Does::Stop { .. } | Does::Release) && is_shadow() {
        let message = "this process runs in shadow, and what it publishes binds nobody; set mode = \"live\"";
        return Err(answer::error(StatusCode::CONFLICT, "shadow", message).into());
    }
    let reach = if who.tenants.are_all() { Reach::All } else { Reach::Tenant };
    let open = match &act.does {
        Does::Answer { episode, .. } => standing::open_loop(process, &act.whom, act.agent_id.as_deref(), episode).await?,
        _ => None,
    };
    let places = write(process, who, &act).await?;
    if is_judged(process, &places).await? { standing::became(process, &act, reach, open).await } else { Ok(ActEffect::Waits) }
}

/// Waits until what was written is judged. False: not within the wait, or by another process.
async fn is_judged(process: &Arc<Process>, places: &[(u32, u64)]) -> Result<bool, Refusal> {
    if let Some(desk) = &process.shared.desk {
        return Ok(timeout(JUDGED_WAIT, desk.settled(places)).await.is_ok());
    }
    let deadline = Deadline::after(JUDGED_WAIT);
    let Some(&(partition, offset)) = places.first() else { return Ok(false) };
    loop {
        let found = process.ask_lanes(move |view| Ok(view.has_judged(partition, offset))).await?.unwrap_or_default();
        match found.into_iter().flatten().next() {
            Some(false) if !deadline.is_over() => sleep(LOOK_PAUSE).await,
            is_judged => return Ok(is_judged.unwrap_or_default()),
        }
    }
}

/// Writes the event of an act as whoever acts may send it, and waits until it is durable.
async fn write(process: &Arc<Process>, who: &Principal, act: &Act) -> Result<Places, Refusal> {
    let meta = RecordMeta::without_place(act.at, process.shared.event_bytes_max);
    let (json, key) = (act.event().to_string().into_bytes(), act.whom.record_key().to_owned());
    // It has the name of whoever acts already.
    let grant = Grant { actor: None, ..who.grant() };
    let admitted = decode(Some(&json), &meta).and_then(|event| grant.admit(&event, &json, &meta));
    let value = admitted.map_err(|rejected| match rejected.reason {
        Reason::NotPermitted | Reason::ForeignTenant => foreign_tenant(who),
        reason => {
            let what = allowed(&rejected).unwrap_or_else(|| reason.as_str().to_owned());
            answer::problem(StatusCode::BAD_REQUEST, reason.as_str(), &format!("{}: {what}", rejected.field), &rejected.field)
                .into()
        }
    })?;
    let value = value.unwrap_or(json);
    let places = match (&process.embedded, &process.topic_writer) {
        (Some(log), _) => {
            let broker = log.broker.clone();
            let timestamp_ms = act.at.0;
            let append = move || {
                let headers = Vec::new();
                broker.append_unsynced(&[Append { key: key.as_bytes(), value: &value, headers, timestamp_ms }])
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
            let failed = |error: LogError| answer::later(StatusCode::SERVICE_UNAVAILABLE, "log_failed", error.to_string(), 5);
            written.map_err(failed)?.into_iter().collect()
        }
        (None, None) => return Err(answer::embedded_only().into()),
    };
    tracing::info!(actor = &*who.name, kind = act.kind(), "an operator acts");
    Ok(places)
}
