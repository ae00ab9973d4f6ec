//! How a policy case is written: one JSON object a line, or YAML documents. Users' cases and the golden ones have one form.

use loopwarden_core::event::EventTime;
use serde::Deserialize;
use serde_json::Value;

/// A case: a policy, events, what must be answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name; with the profile it is the case's id.
    pub name: String,
    /// Profile the policy starts from.
    #[serde(default = "default_profile")]
    pub profile: String,
    /// What differs from the profile: the tables and keys of a policy file.
    #[serde(default)]
    pub policy: Value,
    /// Native events. What a case need not say is filled in: `id` (`e0`, `e1` …), `session_id` (`s`), `kind` (`tool`), `time` (a second
    /// after the one before). `times: 5` stands for five such events; `{n}` in a text is their number, from 1. `{"kind": "restart"}`
    /// writes all state out and loads it again, with `policy` under other settings.
    pub events: Vec<Value>,
    /// What must be answered.
    #[serde(default)]
    pub expect: Vec<Expectation>,
    /// Nudges of the whole case, at most; for work that an operator would rather not see commented.
    #[serde(default)]
    pub nudges_max: Option<usize>,
    /// Blocks of the whole case, at most.
    #[serde(default)]
    pub blocks_max: Option<usize>,
    /// Facts about identity.
    #[serde(default, rename = "assert")]
    pub facts: Facts,
    /// Where the expectation comes from; for people.
    #[serde(default)]
    pub basis: Option<String>,
    /// The reference system whose answer it is, and where it was read.
    #[serde(default)]
    pub origin: Option<String>,
    /// Why the case is there; for people.
    #[serde(default)]
    pub why: Option<String>,
}

fn default_profile() -> String {
    "default".to_owned()
}

/// The answer to one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No finding, no command, no active block over this call.
    None,
    /// A finding, whatever command follows.
    Loop,
    /// A nudge is published.
    Nudge,
    /// A block is published, or an active one covers this call.
    Block,
    /// A block is lifted.
    Unblock,
}

/// What must be answered to one event.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expectation {
    /// Index of the event, from 0.
    pub after: usize,
    /// The verdict may come at any event up to this one instead.
    pub at_or_before: Option<usize>,
    /// The answer.
    pub verdict: Option<Verdict>,
    /// Any answer but this.
    pub not_verdict: Option<Verdict>,
    /// Any of these answers.
    pub verdict_in: Option<Vec<Verdict>>,
    /// Who gave the command, or has the finding; with `none`, whose counters are meant.
    pub detector: Option<String>,
    /// Count of the finding; with `none` the detector's running count.
    pub count: Option<u32>,
    /// Distinct agents in the swarm's count.
    pub workers: Option<u32>,
    /// Confidence of the finding, within 1e-9.
    pub confidence: Option<f64>,
    /// Fusion over the findings of this event.
    pub combined_confidence: Option<f64>,
    /// Fusion's loudest finding.
    pub primary: Option<String>,
    /// Fusion's advice.
    pub recommended: Option<String>,
    /// Class of the step in the progress matrix.
    pub category: Option<String>,
    /// Tool of the command.
    pub tool: Option<String>,
    /// Agent addressed.
    pub agent: Option<String>,
    /// `true`: the verdict is meant of a detector in mode `shadow`.
    pub shadow: bool,
    /// Rung of the ladder of the command: 1 nudge, 2 firmer, 3 block of calls, 4 block of everything.
    pub level: Option<u8>,
    /// What the command binds: `fingerprint`, `tool`, `agent`.
    pub scope: Option<String>,
    /// Code of the command: a detector, or of an `unblock` what lifted it.
    pub reason: Option<String>,
    /// Lifetime of the command, ms.
    pub expires_ms: Option<i64>,
    /// Event whose command began the same loop.
    pub episode_same_as: Option<usize>,
    /// Supporting detectors, all of them.
    pub also: Option<Vec<String>>,
    /// Phrases the published text must have.
    pub message_contains: Vec<String>,
    /// Phrases it must not have.
    pub message_not_contains: Vec<String>,
    /// Where it is weaker than the case's own basis; for people.
    pub basis: Option<String>,
    /// For people.
    pub why: Option<String>,
}

/// Facts about identity; indices point at the event that carries the arguments, of `outcome_equal` the result.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Facts {
    /// Whether two calls share a fingerprint.
    pub fingerprint_equal: Vec<(usize, usize, bool)>,
    /// Text of a fingerprint before hashing.
    pub fingerprint_is: Vec<(usize, String)>,
    /// Part of it.
    pub fingerprint_contains: Vec<(usize, String)>,
    /// File a simple shell read names.
    pub shell_read_path: Vec<(usize, Option<String>)>,
    /// Whether two answers are one.
    pub outcome_equal: Vec<(usize, usize, bool)>,
    /// RFC 8785 arguments.
    pub canonical_args: Vec<(usize, String)>,
    /// Hex SHA-256 of tool, line feed, canonical arguments.
    pub call_sha256: Vec<(usize, String)>,
    /// Whether the tool is of class `poll`.
    pub is_poll: Vec<(usize, bool)>,
}

/// One thing that did not come as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Index of the event; none for a case that could not run, or a fact.
    pub event: Option<usize>,
    /// What was to come.
    pub expected: String,
    /// What came.
    pub got: String,
}

/// Events of a case may repeat an entry so often.
const TIMES_MAX: u64 = 10_000;

impl Case {
    /// The case with each of its events spelled out, so that indices point at them.
    ///
    /// # Errors
    /// What is wrong with an event.
    pub fn spelled_out(&self) -> Result<Self, String> {
        let mut events: Vec<Value> = Vec::new();
        let mut last = FIRST_MS - 1_000;
        for (at, entry) in self.events.iter().enumerate() {
            let Value::Object(entry) = entry else { return Err(format!("event {at} is no object")) };
            let mut entry = entry.clone();
            let times = match entry.remove("times") {
                None => None,
                Some(times) => Some(
                    times
                        .as_u64()
                        .filter(|times| (1..=TIMES_MAX).contains(times))
                        .ok_or_else(|| format!("event {at}: times is no number from 1 to {TIMES_MAX}"))?,
                ),
            };
            for number in 1..=times.unwrap_or(1) {
                let mut event = Value::Object(entry.clone());
                if times.is_some() {
                    number_texts(&mut event, &number.to_string());
                }
                let index = events.len();
                if let Value::Object(fields) = &mut event {
                    fields.entry("kind").or_insert_with(|| "tool".into());
                    fields.entry("id").or_insert_with(|| format!("e{index}").into());
                    fields.entry("session_id").or_insert_with(|| "s".into());
                    let time = fields.entry("time").or_insert_with(|| EventTime(last + 1_000).to_rfc3339().into());
                    last = time.as_str().and_then(EventTime::parse_rfc3339).map_or(last, |time| time.0);
                }
                events.push(event);
            }
        }
        Ok(Self { events, ..self.clone() })
    }
}

/// Time of a case's first event where it says none: 2026-01-01, a boundary of every fixed window.
const FIRST_MS: i64 = 1_767_225_600_000;

fn number_texts(value: &mut Value, number: &str) {
    match value {
        Value::String(text) if text.contains("{n}") => *text = text.replace("{n}", number),
        Value::Array(items) => items.iter_mut().for_each(|item| number_texts(item, number)),
        Value::Object(fields) => fields.values_mut().for_each(|field| number_texts(field, number)),
        _ => {}
    }
}

impl Expectation {
    /// What is wrong with it: it could not fail, or its detector's word is not asked for.
    fn fault(&self) -> Option<&'static str> {
        let is_asked = self.verdict.is_some()
            || self.verdict_in.is_some()
            || self.count.is_some()
            || self.confidence.is_some()
            || self.shadow;
        if self.detector.is_some() && !is_asked {
            return Some("names a detector and not what it should have said, as verdict: nudge");
        }
        let words = Self { after: 0, at_or_before: None, basis: None, why: None, ..self.clone() };
        (words == Self::default()).then_some("checks nothing; say what is expected, as verdict: nudge")
    }
}

impl Case {
    /// What makes a case worthless: it would pass whatever the policy does.
    fn fault(&self) -> Option<String> {
        let is_bounded = self.nudges_max.is_some() || self.blocks_max.is_some();
        if self.expect.is_empty() && self.facts.is_empty() && !is_bounded {
            return Some(format!("case {:?} expects nothing; give it expect, nudges_max, blocks_max or assert", self.name));
        }
        let faults = self.expect.iter().enumerate();
        let mut faults = faults.filter_map(|(at, expectation)| Some((at, expectation.fault()?)));
        faults.next().map(|(at, fault)| format!("case {:?}: expectation {at} {fault}", self.name))
    }
}

impl Facts {
    /// Whether none is stated.
    pub const fn is_empty(&self) -> bool {
        self.fingerprint_equal.is_empty()
            && self.fingerprint_is.is_empty()
            && self.fingerprint_contains.is_empty()
            && self.shell_read_path.is_empty()
            && self.outcome_equal.is_empty()
            && self.canonical_args.is_empty()
            && self.call_sha256.is_empty()
            && self.is_poll.is_empty()
    }
}

/// A case file that cannot be read, with its line where it is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct BadCase {
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// What is wrong with a document, its line, and that line with a mark below the place.
fn located(text: &str, error: &serde_yaml_ng::Error) -> (usize, String) {
    let whole = error.to_string();
    let Some(place) = error.location() else { return (1, whole) };
    let message = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(message, _)| message);
    let line = text.lines().nth(place.line().saturating_sub(1)).unwrap_or_default();
    (place.line(), format!("{message}\n{line}\n{:>width$}", '^', width = place.column()))
}

/// Reads the cases of a file: YAML by its extension, else one JSON object a line.
///
/// # Errors
/// The first case that is none.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>, BadCase> {
    let bad = |line, message| BadCase { file: file.to_owned(), line, message };
    let is_yaml = std::path::Path::new(file)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml"));
    if is_yaml {
        let documents = serde_yaml_ng::Deserializer::from_str(text).map(Case::deserialize);
        let cases = documents.collect::<Result<Vec<_>, _>>().map_err(|error| {
            let (line, message) = located(text, &error);
            bad(line, message)
        })?;
        return match cases.iter().find_map(Case::fault) {
            Some(fault) => Err(bad(1, fault)),
            None => Ok(cases),
        };
    }
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| {
            let case: Case = serde_json::from_str(line).map_err(|error| bad(at + 1, error.to_string()))?;
            case.fault().map_or(Ok(case), |fault| Err(bad(at + 1, fault)))
        })
        .collect()
}
