//! `GET /v1/commands`: the feed of commands, as server-sent events or by long poll.
//!
//! A position is the number of commands up to and including one, for ever the same; 0 is the beginning. What is behind the retention
//! is gone: a reader that comes later is told how many it missed.

use std::{collections::VecDeque, io, ops::ControlFlow, sync::Arc, time::Duration};

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse as _, Response, Sse};
use futures_util::stream;
use loopwarden_core::whom::Kind;
use loopwarden_core::{engine::BY_STOP, limits, wire};
use loopwarden_log::embedded::{EmbeddedReader, Feed};
use loopwarden_log::{LogError, clock::Deadline};
use loopwarden_sources::Tenants;
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

use crate::http::shared::{Embedded, Process};
use crate::http::views::query::{Pairs, Parameters};
use crate::{
    http::access::gate::foreign_tenant, http::access::principal::Principal, http::answer, http::answer::Refusal,
    http::listener::phase::Answering,
};

/// Commands looked at in one read, whether they are wanted or not.
const LOOKED_AT_MAX: u64 = 10_000;
/// How soon a client that lost its connection should come again.
const RETRY: Duration = Duration::from_secs(2);

/// What a client wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wanted {
    /// Position to go on from; none: the beginning.
    after: Option<After>,
    /// Of one tenant; empty: of none.
    tenant: Option<String>,
    /// About these: each a kind, and a name of it. Empty: about any.
    about: Vec<(Kind, String)>,
    /// Those that whoever asks may read of.
    tenants: Tenants,
    /// Long poll with this wait; none: a stream.
    wait: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Position(u64),
    /// Only what comes from now on.
    Latest,
}

impl Wanted {
    fn parse(pairs: &[(String, String)], headers: &HeaderMap) -> Result<Self, String> {
        let query = Parameters::of(pairs, &["after", "tenant", "session_id", "swarm_id", "wait"])?;
        let mut wanted = Self::default();
        // A client that comes again sends the header along with its first address: the header is newer.
        let last = headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default().trim());
        let after = last.filter(|id| !id.is_empty()).or(query.get("after"));
        wanted.after = after.map(parse_after).transpose()?;
        wanted.tenant = query.get("tenant").map(str::to_owned);
        let named = |kind: Kind| Some((kind, query.get(kind.field()?)?.to_owned()));
        wanted.about = [Kind::Session, Kind::Swarm].into_iter().filter_map(named).collect();
        wanted.wait = query.get("wait").map(parse_wait).transpose()?;
        Ok(wanted)
    }

    /// Whether a command with this key and text is one of those.
    fn wants(&self, key: &[u8], value: &str) -> bool {
        let Self { tenant, about, tenants, .. } = self;
        if about.is_empty() && tenant.is_none() && tenants.are_all() {
            return true;
        }
        // Most that are not wanted need not be read for that. A stop of more than a session or swarm has another key.
        let may_be_stop = value.contains("\"by\":\"stop\"");
        if !about.is_empty() && !may_be_stop && !about.iter().any(|(_, name)| name.as_bytes() == key) {
            return false;
        }
        let Ok(command) = serde_json::from_str::<wire::Command<'_>>(value) else { return false };
        let Some(whom) = command.whom() else { return false };
        if !whom.kind.is_in_tenant() {
            return true;
        }
        // A swarm may have the name of a session: the key alone does not tell which of them it is.
        let is_about = |(kind, name): &(Kind, String)| *kind == whom.kind && *name == whom.name;
        let is_meant = if command.scope.by.as_deref() == Some(BY_STOP) {
            // Which agents a stop binds is not known here: who follows one session hears of all but those of another one.
            about.iter().all(|asked| asked.0 != whom.kind || is_about(asked))
        } else {
            about.is_empty() || about.iter().any(is_about)
        };
        is_meant && tenant.as_ref().is_none_or(|tenant| *tenant == whom.tenant) && tenants.have(&whom.tenant)
    }
}

fn parse_after(text: &str) -> Result<After, String> {
    match text {
        "latest" => Ok(After::Latest),
        _ => text
            .parse()
            .map(After::Position)
            .map_err(|_| "a position is a number, as `id` or `next` gave it, or \"latest\"".to_owned()),
    }
}

/// `30s`, `500ms`, `30`.
fn parse_wait(text: &str) -> Result<Duration, String> {
    let (number, unit_ms) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1_000),
        (None, None) => (text, 1_000),
    };
    let wait = number.parse::<u32>().map(|number| Duration::from_millis(u64::from(number) * unit_ms));
    wait.ok()
        .filter(|wait| *wait <= limits::HTTP_POLL_WAIT_MAX)
        .ok_or_else(|| format!("wait is a time up to {} s, as 30s or 500ms", limits::HTTP_POLL_WAIT_MAX.as_secs()))
}

/// A command on its way to a client.
struct Found {
    position: u64,
    json: String,
}

/// What one read brought.
#[derive(Default)]
struct Slice {
    found: Vec<Found>,
    next: u64,
    /// Commands that retention has removed before this client saw them.
    missed: u64,
}

fn read(reader: &EmbeddedReader, from: u64, wanted: &Wanted) -> Result<Slice, LogError> {
    let mut slice = Slice { next: from, ..Slice::default() };
    let (mut first, mut bytes) = (None, 0);
    let next = reader.read(Feed::Commands, from, &mut |output| {
        first.get_or_insert(output.sequence);
        slice.next = output.sequence + 1;
        let json = output.value.map(|value| String::from_utf8_lossy(&value).into_owned()).unwrap_or_default();
        if wanted.wants(&output.key, &json) {
            bytes += json.len();
            slice.found.push(Found { position: slice.next, json });
        }
        if slice.found.len() >= limits::HTTP_COMMANDS_MAX
            || bytes >= limits::HTTP_COMMANDS_BYTES
            || slice.next >= from + LOOKED_AT_MAX
        {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    // Where retention has removed all there was, nothing is visited, and yet the place to go on from is behind it.
    slice.next = slice.next.max(next);
    slice.missed = first.unwrap_or(slice.next).saturating_sub(from);
    Ok(slice)
}

async fn read_slice(embedded: &Embedded, from: u64, wanted: &Wanted) -> Result<Slice, Refusal> {
    let (reader, wanted) = (embedded.reader.clone(), wanted.clone());
    let slice = answer::blocking(&embedded.reads, move || read(&reader, from, &wanted)).await?;
    slice.map_err(|error| answer::unread(&error).into())
}

/// Answers.
pub(crate) async fn get(
    State(process): State<Arc<Process>>,
    Extension(answering): Extension<Answering>,
    Extension(who): Extension<Principal>,
    Query(pairs): Pairs,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let embedded = process.log()?;
    let wanted = Wanted::parse(&pairs, &headers).map_err(answer::bad_request)?;
    if wanted.tenant.as_ref().is_some_and(|tenant| !who.tenants.have(tenant)) {
        return Err(foreign_tenant(&who));
    }
    let wanted = Wanted { tenants: who.tenants, ..wanted };
    let end = *embedded.commands_end.borrow();
    let from = match wanted.after {
        None => 0,
        Some(After::Latest) => end,
        Some(After::Position(position)) => position,
    };
    // What was once shown is never taken back: such a position is of another log.
    if from > end.max(embedded.reader.range(Feed::Commands).end) {
        let message = "the log has no such position; it was begun anew, or is another one: go on with after=0";
        return Err(answer::error(StatusCode::GONE, "no_such_position", message).into());
    }
    let stream = process.take_stream("too many clients wait for commands")?;
    if let Some(wait) = wanted.wait {
        return poll(&process, embedded, &wanted, from, wait).await;
    }
    let following = Following {
        process: Arc::clone(&process),
        wanted,
        next: from,
        found: VecDeque::new(),
        is_told: false,
        _stream: stream,
        _answering: answering,
    };
    let mut response = Sse::new(stream::unfold(following, Following::next))
        .keep_alive(KeepAlive::new().interval(limits::HTTP_COMMENT_PAUSE))
        .into_response();
    // nginx holds back what it may buffer.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

async fn poll(process: &Process, embedded: &Embedded, wanted: &Wanted, from: u64, wait: Duration) -> Result<Response, Refusal> {
    let deadline = Deadline::after(wait);
    let (mut next, mut missed) = (from, 0);
    let found = loop {
        let mut end = embedded.commands_end.clone();
        let slice = read_slice(embedded, next, wanted).await?;
        next = slice.next;
        missed += slice.missed;
        if !slice.found.is_empty() || deadline.is_over() {
            break slice.found;
        }
        if !comes(&mut end, next, process, deadline.left()).await {
            break Vec::new();
        }
    };
    let commands: Vec<String> = found.into_iter().map(|found| found.json).collect();
    // How late verdicts are: those of now are all in this answer, or before it.
    let lag_ms = embedded.backlog.longest_ms();
    Ok(answer::json_text(
        StatusCode::OK,
        format!("{{\"commands\":[{}],\"next\":\"{next}\",\"lag_ms\":{lag_ms},\"missed\":{missed}}}", commands.join(",")),
    ))
}

/// Waits until there is a command beyond a position. Whether there is: not where the time or the process ended first.
async fn comes(end: &mut tokio::sync::watch::Receiver<u64>, next: u64, process: &Process, wait: Duration) -> bool {
    let mut stopping = process.stopping.clone();
    tokio::select! {
        comes = timeout(wait, end.wait_for(|end| *end > next)) => matches!(comes, Ok(Ok(_))),
        _ = stopping.wait_for(|is_stopping| *is_stopping) => false,
    }
}

/// A stream's place.
struct Following {
    process: Arc<Process>,
    wanted: Wanted,
    next: u64,
    found: VecDeque<Found>,
    /// The head has left: a client sees that it is connected before anything happens.
    is_told: bool,
    _stream: OwnedSemaphorePermit,
    _answering: Answering,
}

impl Following {
    async fn next(mut self) -> Option<(io::Result<Event>, Self)> {
        if !self.is_told {
            self.is_told = true;
            return Some((Ok(Event::default().retry(RETRY).comment("commands follow")), self));
        }
        let process = Arc::clone(&self.process);
        let embedded = process.embedded.as_ref()?;
        loop {
            if let Some(found) = self.found.pop_front() {
                // Escaped by the encoder; a bare one would end the field.
                let json = found.json.replace(['\r', '\n'], " ");
                let event = Event::default().event("command").id(found.position.to_string()).data(json);
                return Some((Ok(event), self));
            }
            let mut end = embedded.commands_end.clone();
            // The disk has failed, or everything is busy: no end as of a whole answer, and the client comes again.
            let Ok(slice) = read_slice(embedded, self.next, &self.wanted).await else {
                return Some((Err(io::Error::other("the commands cannot be read")), self));
            };
            self.next = slice.next;
            self.found.extend(slice.found);
            if slice.missed > 0 {
                return Some((Ok(Event::default().event("missed").data(slice.missed.to_string())), self));
            }
            if self.found.is_empty() && !comes(&mut end, self.next, &process, Duration::MAX).await {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_header_of_a_client_that_comes_again_is_newer_than_its_address() {
        let mut headers = HeaderMap::new();
        let wanted = |headers: &HeaderMap| Wanted::parse(&query(&[("after", "3")]), headers).map(|wanted| wanted.after);
        assert_eq!(wanted(&headers), Ok(Some(After::Position(3))));
        headers.insert("last-event-id", HeaderValue::from_static("7"));
        assert_eq!(wanted(&headers), Ok(Some(After::Position(7))));
        headers.insert("last-event-id", HeaderValue::from_static("x"));
        assert!(wanted(&headers).is_err());
    }

    #[test]
    fn a_wait_has_a_unit_and_a_bound() {
        assert_eq!(parse_wait("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_wait("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_wait("0"), Ok(Duration::ZERO));
        for bad in ["61s", "-1s", "s", "", "1h", "99999999999s"] {
            assert!(parse_wait(bad).is_err(), "{bad}");
        }
        assert!(Wanted::parse(&query(&[("sesion_id", "a")]), &HeaderMap::new()).is_err());
    }

    /// A command by what it says beside what each has: `kind` and what names those that are meant.
    fn command(scope: &str, names: &str) -> String {
        format!(
            r#"{{"v":1,"id":"c","action":"block","level":1,"epoch":1,"seq":1,"episode":"c","issued_at":"2026-01-01T00:00:00Z",
            "expires_at":"2026-01-01T00:10:00Z","mode":"live","reason":{{"code":"c"}},"scope":{{{scope}}}{names}}}"#
        )
    }

    fn of_session(name: &str, tenant: &str) -> String {
        let tenant = if tenant.is_empty() { String::new() } else { format!(r#","tenant":"{tenant}""#) };
        command(r#""kind":"session","agent_id":"main""#, &format!(r#","session_id":"{name}"{tenant}"#))
    }

    fn about(kind: Kind, name: &str, wanted: Wanted) -> Wanted {
        Wanted { about: [wanted.about, vec![(kind, name.to_owned())]].concat(), ..wanted }
    }

    #[test]
    fn a_swarm_with_the_name_of_a_session_is_another_one() {
        let wanted = about(Kind::Session, "a", Wanted::default());
        let of_swarm = command(r#""kind":"swarm""#, r#","swarm_id":"a""#);
        assert!(wanted.wants(b"a", &of_session("a", "")));
        assert!(!wanted.wants(b"a", &of_swarm));
        assert!(!wanted.wants(b"b", &of_session("b", "")));
        assert!(about(Kind::Swarm, "a", wanted).wants(b"a", &of_swarm));
        assert!(Wanted::default().wants(b"b", "{}"));
    }

    #[test]
    fn who_follows_a_session_hears_of_each_stop_that_may_bind_it_and_of_no_other() {
        let of = |tenant: &str| Wanted { tenant: Some(tenant.to_owned()), ..about(Kind::Session, "a", Wanted::default()) };
        let stop = |kind: Kind, name: &str, tenant: &str| {
            let named = match kind {
                Kind::Session => format!(r#","session_id":"{name}""#),
                Kind::Swarm => format!(r#","swarm_id":"{name}""#),
                _ => String::new(),
            };
            let scope = format!(r#""kind":"{}","name":"{name}","by":"stop""#, kind.as_str());
            command(&scope, &format!(r#"{named},"tenant":"{tenant}""#))
        };
        for kind in Kind::stopped() {
            assert!(of("t").wants(b"*", &stop(kind, "a", "t")), "{kind:?}");
            assert_eq!(of("t").wants(b"*", &stop(kind, "b", "t")), kind != Kind::Session, "{kind:?}: its agents may be those");
            assert_eq!(of("u").wants(b"*", &stop(kind, "a", "t")), kind == Kind::All, "{kind:?} of another tenant");
            // Without a tenant it may be the session of any.
            let nobodys = about(Kind::Session, "a", Wanted::default());
            assert!(["t", "u"].iter().all(|tenant| nobodys.wants(b"*", &stop(kind, "a", tenant))), "{kind:?} of any tenant");
            let reader = Wanted { tenants: Tenants::only(&["u".to_owned()]), ..about(Kind::Session, "a", Wanted::default()) };
            assert_eq!(reader.wants(b"*", &stop(kind, "a", "t")), kind == Kind::All, "{kind:?} for a reader of another tenant");
        }
    }

    #[test]
    fn a_tenant_narrows_and_none_is_one_too() {
        let of = |tenant: &str| Wanted { tenant: Some(tenant.to_owned()), ..Wanted::default() };
        let (ours, nobodys) = (&of_session("a", "t"), &of_session("a", ""));
        assert!(of("t").wants(b"a", ours) && !of("t").wants(b"a", nobodys));
        assert!(!of("").wants(b"a", ours) && of("").wants(b"a", nobodys));
        assert!(about(Kind::Session, "a", of("t")).wants(b"a", ours));
        assert!(!about(Kind::Session, "b", of("t")).wants(b"a", ours));
    }

    #[test]
    fn whoever_reads_for_a_tenant_sees_nothing_of_another_whatever_he_asks_for() {
        let reader = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Wanted { tenants: Tenants::only(&names), ..Wanted::default() }
        };
        let (ours, nobodys) = (&of_session("a", "t"), &of_session("a", ""));
        assert!(reader(&["t"]).wants(b"a", ours) && !reader(&["t"]).wants(b"a", nobodys));
        assert!(!reader(&["u"]).wants(b"a", ours));
        assert!(reader(&[""]).wants(b"a", nobodys) && !reader(&[""]).wants(b"a", ours));
        assert!(!about(Kind::Session, "a", reader(&["u"])).wants(b"a", ours));
        assert!(!reader(&["t"]).wants(b"a", "no json"));
    }
}
