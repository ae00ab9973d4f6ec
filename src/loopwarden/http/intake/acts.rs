//! Acts of people on their way in: to the embedded log, or to the topic of events. However far lanes are behind, they are taken: whoever
//! stops a flood must not wait for it.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use loopwarden_core::event::{ACTOR, EventTime, Reach, Reason, RecordMeta, allowed, decode};
use loopwarden_core::limits;
use loopwarden_log::clock::Deadline;
use loopwarden_log::{LogError, embedded::Append};
use loopwarden_sources::Grant;
use tokio::time::{sleep, timeout};

use crate::http::intake::durable::{refused, synced};
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

/// How far an act has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Became {
    /// It is judged, and holds.
    InForce,
    /// It is durable, and not judged so far, or elsewhere.
    Waits,
    /// It is judged, and changed nothing.
    Nothing(Unchanged),
}

/// Why an act changed nothing, and what is in force instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unchanged {
    /// None of whom it releases was stopped.
    NothingToRelease,
    /// Its loop is over, or was let be by another answer.
    NoOpenLoop,
    /// The tenant has as many stops as one task takes.
    TooManyStops,
    /// A stop of somebody who reaches farther stands until then.
    WiderStop(EventTime),
    /// It was taken, and something that came after it holds: a stop until then, or none.
    NotInForce(Option<EventTime>),
}

impl Unchanged {
    /// A word for programs, and a sentence for people.
    pub(crate) fn words(self) -> (&'static str, String) {
        let stopped = |until: EventTime| format!("they are stopped until {}", until.to_rfc3339());
        match self {
            Self::NothingToRelease => ("nothing_to_release", "nobody of these was stopped, and nobody is".to_owned()),
            Self::NoOpenLoop => {
                let why = "it is kept, and changes nothing: this loop is over, was let be before, or is a budget, which no false alarm ends";
                ("no_open_loop", why.to_owned())
            }
            Self::TooManyStops => {
                let why = "stops of this tenant are in force in this partition, and no more are taken: release some, or stop the tenant";
                (Reason::TooManyStops.as_str(), format!("{} {why}", limits::STOPS_MAX))
            }
            Self::WiderStop(until) => {
                let why = "an operator of all tenants has placed this stop, and only such a one ends it";
                (Reason::WiderStop.as_str(), format!("{why}: {}", stopped(until)))
            }
            Self::NotInForce(until) => {
                let now = until.map_or_else(|| "nobody of these is stopped".to_owned(), stopped);
                ("not_in_force", format!("this act was taken, and has ended, or another came after it: {now}"))
            }
        }
    }

    /// The answer to whoever acts: nothing was changed.
    pub(crate) fn refusal(self) -> Refusal {
        let (word, why) = self.words();
        answer::error(StatusCode::CONFLICT, word, why).into()
    }
}

/// Takes an act in the name of whoever asks: its event is written, and judged soon. What became of it is what binds then, as far as a
/// process knows: what lanes elsewhere judge waits.
///
/// # Errors
/// It would bind, and this process runs in shadow; it is no event, or not his; the disk or the brokers do not take it.
pub(crate) async fn take(process: &Arc<Process>, who: &Principal, act: Act) -> Result<Became, Refusal> {
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
    if is_judged(process, &places).await? { standing::became(process, &act, reach, open).await } else { Ok(Became::Waits) }
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
