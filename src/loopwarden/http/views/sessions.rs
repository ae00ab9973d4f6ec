//! `GET /sessions`: a question over all sessions, those that matter first.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::{Extension, response::Response};
use loopwarden_core::event::EventTime;
use loopwarden_lane::{Listing, SessionOrder, SessionState};

use crate::http::views::query::{Pairs, Parameters};
use crate::{
    clock, http::access::gate::foreign_tenant, http::access::principal::Principal, http::answer, http::answer::Refusal,
    http::shared::Process, operate::sessions::sessions,
};

/// Rows where a request asks for no other number, and the most it may ask for.
const ROWS: usize = 50;
const ROWS_MAX: usize = 1_000;

/// The first of the agents' sessions that are wanted, of the tenants of whoever asks.
pub(crate) async fn get(
    State(process): State<Arc<Process>>,
    Extension(who): Extension<Principal>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    let listing = asked(&who, &pairs)?;
    Ok(answer::ok(&process.ask(move |status| sessions(status, listing)).await??))
}

fn asked(who: &Principal, pairs: &[(String, String)]) -> Result<Listing, Refusal> {
    let bad = |message: String| Refusal::from(answer::bad_request(message));
    let query = Parameters::of(pairs, &["state", "sort", "tenant", "limit"]).map_err(bad)?;
    let Ok(rows_max @ 1..=ROWS_MAX) = query.get("limit").map_or(Ok(ROWS), str::parse) else {
        return Err(bad(format!("limit is a number from 1 to {ROWS_MAX}")));
    };
    let tenant = query.get("tenant").map(str::to_owned);
    if tenant.as_ref().is_some_and(|tenant| !who.tenants.have(tenant)) {
        return Err(foreign_tenant(who));
    }
    Ok(Listing {
        tenants: match tenant {
            Some(tenant) => Some([tenant].into()),
            None => who.tenants.names().map(|names| names.iter().cloned().collect()),
        },
        state: word("state", query.get("state"), SessionState::WORDS).map_err(bad)?,
        order: word("sort", query.get("sort"), SessionOrder::WORDS).map_err(bad)?,
        rows_max,
        now: EventTime(clock::now_ms()),
        ..Listing::default()
    })
}

/// What a word of a closed list stands for; without a word, the first.
fn word<T: Copy + Default>(name: &str, given: Option<&str>, known: &[(&str, T)]) -> Result<T, String> {
    let Some(given) = given else { return Ok(T::default()) };
    let found = known.iter().find(|(word, _)| *word == given).map(|(_, what)| *what);
    let words = || known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("{name} is one of {}", words()))
}
