//! Asks the guard before and after each call. Without an answer the call runs, unless a stop that fails closed was the last answer.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{io::Write as _, time::Duration};

use loopwarden_ask::{GuardEndpoint, Reply};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::circuit::{Circuit, Clock};
use crate::events::{Call, name};

/// Longest text for a model; a longer one is cut. Characters.
const MESSAGE_CHARS_MAX: usize = 4_096;
/// Longest name of a server inside of a session's. Characters.
const SERVER_CHARS_MAX: usize = 64;

/// A question for the guard.
#[derive(Serialize)]
struct CheckRequest<'a> {
    v: u32,
    event: Box<RawValue>,
    client: Client<'a>,
    deadline_ms: u64,
}

#[derive(Serialize)]
struct Client<'a> {
    name: &'static str,
    version: &'static str,
    can: &'a [&'a str],
}

/// What the guard answers, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Answer {
    v: u32,
    decision: Decision,
    #[serde(default)]
    action: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Allow,
    Deny,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallAnswer {
    /// It runs.
    Nothing,
    /// It runs, and the model reads a text behind the result.
    Text(String),
    /// It does not; the model reads the text in its place.
    Refused(String),
}

/// An answer of the guard, and what the head of [`Reply`] says of it.
struct Heard {
    answer: CallAnswer,
    refuse_for: Option<Duration>,
    is_fresh: bool,
}

/// A stop that fails closed, as long as it is remembered.
#[derive(Debug)]
struct HeldStop {
    text: String,
    /// Since the start of the process.
    until: Duration,
}

/// One agent's side of the guard.
#[derive(Debug)]
pub(crate) struct Desk {
    place: GuardEndpoint,
    wait: Duration,
    session: String,
    /// Begins the ids of this process: a session may have several.
    start: String,
    calls: AtomicU64,
    clock: Clock,
    circuit: Mutex<Circuit>,
    /// For this the session was refused last. Where no guard answers, it is refused on.
    stop: Mutex<Option<HeldStop>>,
}

impl Desk {
    pub(crate) fn new(place: GuardEndpoint, wait: Duration, server: &str, session: Option<&str>) -> Self {
        // Keys of hashes are random; two numbers of them are unique enough for an id.
        let random = || RandomState::new().hash_one(std::process::id());
        let start = format!("{:016x}{:016x}", random(), random());
        let server: String = server.chars().filter(|letter| !letter.is_control()).take(SERVER_CHARS_MAX).collect();
        let session = session.map_or_else(|| format!("mcp-{server}-{start}"), name);
        let circuit = Mutex::new(Circuit::default());
        Self { place, wait, session, start, calls: AtomicU64::new(0), clock: Clock::start(), circuit, stop: Mutex::default() }
    }

    /// Asks before a call.
    pub(crate) fn before(&self, tool: &str, arguments: Option<&RawValue>) -> (Call, CallAnswer) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", self.start);
        let mut call = Call { session: self.session.clone(), id, tool: name(tool), text: None };
        let said = self.decided(self.ask(call.before(arguments), &["deny", "context_after"]));
        if let CallAnswer::Text(text) = &said {
            call.text = Some(text.clone());
        }
        (call, said)
    }

    /// Tells what came of it; the text to be added to the result, if one can be.
    pub(crate) fn after(&self, call: &Call, event: Option<Box<RawValue>>, can_add: bool) -> Option<String> {
        let can: &[&str] = if can_add { &["deny", "context_after"] } else { &["deny"] };
        let said = match self.ask(event, can) {
            Some(Heard { answer: CallAnswer::Text(text), .. }) => Some(text),
            _ => None,
        };
        let texts: Vec<&str> = [call.text.as_deref(), said.as_deref()].into_iter().flatten().collect();
        (can_add && !texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// What becomes of a call; none: no guard has answered. Only one that knows releases, and one that has just started knows of no stop.
    fn decided(&self, heard: Option<Heard>) -> CallAnswer {
        match heard {
            Some(Heard { answer, refuse_for, is_fresh }) if is_fresh || refuse_for.is_some() => {
                self.note(&answer, refuse_for);
                answer
            }
            heard => match (self.refused_on(), heard) {
                (CallAnswer::Nothing, Some(heard)) => heard.answer,
                (held, _) => held,
            },
        }
    }

    /// A stop that fails closed is remembered, and any other answer ends it.
    fn note(&self, said: &CallAnswer, refuse_for: Option<Duration>) {
        let stop = match (said, refuse_for) {
            (CallAnswer::Refused(text), Some(span)) => Some(HeldStop { text: text.clone(), until: self.clock.elapsed() + span }),
            _ => None,
        };
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = stop;
    }

    /// What becomes of a call where no guard answers.
    fn refused_on(&self) -> CallAnswer {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        let stop = stop.as_ref().filter(|stop| self.clock.elapsed() < stop.until);
        stop.map_or(CallAnswer::Nothing, |stop| CallAnswer::Refused(stop.text.clone()))
    }

    /// None: nobody has answered.
    fn ask(&self, event: Option<Box<RawValue>>, can: &[&str]) -> Option<Heard> {
        let event = event?;
        if !self.circuit().lets_through(self.clock.elapsed()) {
            return None;
        }
        let client = Client { name: "mcp-proxy", version: env!("CARGO_PKG_VERSION"), can };
        let check = CheckRequest { v: 1, event, client, deadline_ms: (self.wait.as_millis() as u64).max(1) };
        let check = serde_json::to_vec(&check).ok()?;
        let answer = loopwarden_ask::post(self.place.clone(), "/v1/check".to_owned(), || Ok(check), self.wait);
        let now = self.clock.elapsed();
        match answer {
            Ok(Reply { body, refuse_for, is_fresh }) => {
                if let Some(answer) = read(&body) {
                    self.circuit().succeeded();
                    return Some(Heard { answer, refuse_for, is_fresh });
                }
                self.failed(now, &"its answer is not understood");
            }
            Err(error) if loopwarden_ask::is_of_the_request(&error) => {
                self.circuit().succeeded();
                if self.circuit().may_warn(now) {
                    self.warn(&format!("did not take an event: {error}"));
                }
            }
            Err(error) => self.failed(now, &error),
        }
        None
    }

    fn failed(&self, now: Duration, why: &dyn std::fmt::Display) {
        if self.circuit().failed(now) {
            self.warn(&format!("does not answer: {why}. Calls run without it"));
        }
    }

    fn warn(&self, what: &str) {
        // Whoever started the server may show or keep it; if not, nothing is lost.
        let _ = writeln!(std::io::stderr(), "loopwarden: the guard at {} {what}", self.place.address);
    }

    fn circuit(&self) -> std::sync::MutexGuard<'_, Circuit> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that is understood whole.
fn read(answer: &[u8]) -> Option<CallAnswer> {
    let answer: Answer = serde_json::from_slice(answer).ok().filter(|answer: &Answer| answer.v == 1)?;
    let text = answer.message.as_deref().map(clean).filter(|text| !text.is_empty());
    match (answer.decision, text, answer.action.as_deref()) {
        (Decision::Deny, Some(text), _) => Some(CallAnswer::Refused(text)),
        (Decision::Deny, None, _) => None,
        (Decision::Allow, Some(text), Some("nudge" | "block")) => Some(CallAnswer::Text(text)),
        (Decision::Allow, ..) => Some(CallAnswer::Nothing),
    }
}

/// Text for a model: no control characters but tabs and line feeds, bounded.
fn clean(text: &str) -> String {
    let kept = text.chars().take(MESSAGE_CHARS_MAX).filter(|letter| !letter.is_control() || matches!(letter, '\t' | '\n'));
    kept.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_is_understood_whole_does_anything() {
        let refused = |text: &str| Some(CallAnswer::Refused(text.to_owned()));
        assert_eq!(read(br#"{"v":1,"decision":"deny","message":" no\u0007 "}"#), refused("no"));
        assert_eq!(read(br#"{"v":1,"decision":"allow","action":"nudge","message":"m"}"#), Some(CallAnswer::Text("m".to_owned())));
        assert_eq!(read(br#"{"v":1,"decision":"allow","action":"sing","message":"m"}"#), Some(CallAnswer::Nothing));
        assert_eq!(read(br#"{"v":1,"decision":"allow"}"#), Some(CallAnswer::Nothing));
        for bad in [
            &b""[..],
            b"[]",
            br#"{"v":2,"decision":"deny","message":"m"}"#,
            br#"{"v":1,"decision":"maybe"}"#,
            br#"{"v":1,"decision":"deny"}"#,
            br#"{"v":1,"decision":"deny","message":"\u0000"}"#,
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_stop_is_remembered_until_its_end_or_until_the_guard_lets_a_call_run() {
        let place = GuardEndpoint { address: "127.0.0.1:1".to_owned(), token: None, uid: None, marker: None };
        let desk = Desk::new(place, Duration::from_secs(10), "s", None);
        let refused = CallAnswer::Refused("no".to_owned());
        let hour = Some(Duration::from_secs(3_600));
        for (said, refuse_for, expected) in [
            (&refused, hour, &refused),
            (&refused, None, &CallAnswer::Nothing),
            (&refused, Some(Duration::ZERO), &CallAnswer::Nothing),
            (&CallAnswer::Nothing, hour, &CallAnswer::Nothing),
        ] {
            desk.note(&refused, hour);
            desk.note(said, refuse_for);
            assert_eq!(desk.refused_on(), *expected, "{said:?} {refuse_for:?}");
        }
        let allowed = |is_fresh| Some(Heard { answer: CallAnswer::Nothing, refuse_for: None, is_fresh });
        desk.note(&refused, hour);
        assert_eq!([None, allowed(false)].map(|heard| desk.decided(heard)), [refused.clone(), refused], "nobody who knows");
        assert_eq!([allowed(true), allowed(false), None].map(|heard| desk.decided(heard)), [const { CallAnswer::Nothing }; 3]);
    }
}
