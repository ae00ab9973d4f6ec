//! A replay judged by what people know: labelled stretches, and how sessions ended.
//!
//! A label is a stretch of a session, by the index of its events from 0: a loop, or something that only looks like one. A command
//! belongs to a stretch when the event that caused it lies inside.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::report::Deed;
use crate::report::Said;

/// A labelled stretch of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Session.
    pub session: String,
    /// A loop; else it only looks like one.
    pub is_loop: bool,
    /// Index of its first event.
    pub first: u64,
    /// Index of its last event.
    pub last: u64,
    /// What kind of loop, or of look-alike.
    pub kind: String,
    /// A warning would be defensible either way.
    pub is_ambiguous: bool,
}

/// What is wrong with a row of a file of labels or outcomes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRow(String);

fn object(line: &str) -> Result<Value, BadRow> {
    let value: Value = serde_json::from_str(line).map_err(|error| BadRow(error.to_string()))?;
    if value.is_object() { Ok(value) } else { Err(BadRow("not an object".to_owned())) }
}

fn text(value: &Value, field: &str) -> Result<String, BadRow> {
    value.get(field).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| BadRow(format!("`{field}` is missing, or no text")))
}

impl Label {
    /// Reads a row.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(line: &str) -> Result<Self, BadRow> {
        let value = object(line)?;
        let index = |field: &str| {
            value.get(field).and_then(Value::as_u64).ok_or_else(|| BadRow(format!("`{field}` is missing, or no index")))
        };
        Ok(Self {
            session: text(&value, "session")?,
            is_loop: match text(&value, "label")?.as_str() {
                "loop" => true,
                "ok" => false,
                other => return Err(BadRow(format!("`label` is {other:?}, but must be \"loop\" or \"ok\""))),
            },
            first: index("first_event_index")?,
            last: index("last_event_index")?,
            kind: value.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned(),
            is_ambiguous: value.get("ambiguous").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}

/// Reads a row of outcomes: session, and whether it succeeded; `None` where that is not known.
///
/// # Errors
/// It is none.
pub fn parse_outcome(line: &str) -> Result<(String, Option<bool>), BadRow> {
    let value = object(line)?;
    Ok((text(&value, "session")?, value.get("success").and_then(Value::as_bool)))
}

/// Index of each event of the sessions that have labels.
#[derive(Debug, Clone, Default)]
pub struct EventIndex {
    sessions: BTreeMap<String, BTreeMap<String, u64>>,
}

impl EventIndex {
    /// An index that will know these sessions.
    #[must_use]
    pub fn of(labels: &[Label]) -> Self {
        Self { sessions: labels.iter().map(|label| (label.session.clone(), BTreeMap::new())).collect() }
    }

    /// Notes an event, if its session is one of them. Its index is its `seq`, else how many came before.
    pub fn note(&mut self, session: &[u8], payload: &[u8]) {
        let Some(events) = std::str::from_utf8(session).ok().and_then(|session| self.sessions.get_mut(session)) else { return };
        let Ok(event) = serde_json::from_slice::<Value>(payload) else { return };
        if let Some(id) = event.get("id").and_then(Value::as_str) {
            let index = event.get("seq").and_then(Value::as_u64).unwrap_or(events.len() as u64);
            events.entry(id.to_owned()).or_insert(index);
        }
    }

    /// Adds what another index has seen.
    pub fn add(&mut self, other: Self) {
        for (session, events) in other.sessions {
            self.sessions.entry(session).or_default().extend(events);
        }
    }

    fn get(&self, said: &Said) -> Option<u64> {
        self.sessions.get(&said.subject)?.get(said.event_id.as_ref()?).copied()
    }

    fn has_seen(&self, session: &str) -> bool {
        self.sessions.get(session).is_some_and(|events| !events.is_empty())
    }
}

/// How a replay compares with labels and outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Labelled loops that were replayed, and those with a nudge or block inside.
    pub loops: (u64, u64),
    /// Kinds of the loops that were missed, with their sessions.
    pub missed: BTreeMap<String, Vec<String>>,
    /// Look-alikes replayed, nudged, blocked.
    pub look_alikes: (u64, u64, u64),
    /// Look-alikes that were nudged or blocked, with what was said.
    pub alarms: Vec<(String, String)>,
    /// Labels of sessions that were not replayed.
    pub absent: u64,
    /// Successful sessions, those nudged, those blocked.
    pub successes: (u64, u64, u64),
    /// Other sessions, those nudged, those blocked.
    pub failures: (u64, u64, u64),
}

/// Compares. Shadow commands are no alarms, and find nothing.
#[must_use]
pub fn judge(said: &[Said], labels: &[Label], index: &EventIndex, outcomes: &[(String, Option<bool>)]) -> Judgement {
    let mut judgement = Judgement::default();
    let live: Vec<&Said> = said.iter().filter(|said| !said.is_shadow && said.deed != Deed::Unblock).collect();
    let mut by_session: BTreeMap<&str, Vec<&Said>> = BTreeMap::new();
    for said in &live {
        by_session.entry(&said.subject).or_default().push(said);
    }
    for label in labels {
        if !index.has_seen(&label.session) {
            judgement.absent += 1;
            continue;
        }
        let said = by_session.get(label.session.as_str()).map_or(&[][..], Vec::as_slice);
        let inside: Vec<&&Said> =
            said.iter().filter(|said| index.get(said).is_some_and(|at| (label.first..=label.last).contains(&at))).collect();
        if label.is_loop {
            judgement.loops.0 += 1;
            if inside.is_empty() {
                judgement.missed.entry(label.kind.clone()).or_default().push(label.session.clone());
            } else {
                judgement.loops.1 += 1;
            }
        } else if !label.is_ambiguous {
            judgement.look_alikes.0 += 1;
            judgement.look_alikes.1 += u64::from(inside.iter().any(|said| said.deed == Deed::Nudge));
            judgement.look_alikes.2 += u64::from(inside.iter().any(|said| said.deed == Deed::Block));
            if let Some(said) = inside.first() {
                judgement.alarms.push((label.session.clone(), format!("{} by {}", said.deed.as_str(), said.code)));
            }
        }
    }
    let sessions: BTreeSet<&(String, Option<bool>)> = outcomes.iter().collect();
    for (session, success) in sessions {
        let Some(success) = success else { continue };
        let side = if *success { &mut judgement.successes } else { &mut judgement.failures };
        let said = by_session.get(session.as_str()).map_or(&[][..], Vec::as_slice);
        side.0 += 1;
        side.1 += u64::from(said.iter().any(|said| said.deed == Deed::Nudge));
        side.2 += u64::from(said.iter().any(|said| said.deed == Deed::Block));
    }
    judgement
}

impl Judgement {
    /// For programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let side = |(sessions, nudged, blocked): (u64, u64, u64)| serde_json::json!({ "sessions": sessions, "nudged": nudged, "blocked": blocked });
        let alarms: Vec<Value> =
            self.alarms.iter().map(|(session, what)| serde_json::json!({ "session": session, "said": what })).collect();
        serde_json::json!({
            "loops": { "labelled": self.loops.0, "found": self.loops.1, "missed": self.missed },
            "look_alikes": side(self.look_alikes),
            "alarms": alarms,
            "labels_without_session": self.absent,
            "successful": side(self.successes),
            "unsuccessful": side(self.failures),
        })
    }

    /// For people, a line each.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut lines = Vec::new();
        if self.loops.0 + self.look_alikes.0 + self.absent > 0 {
            let (labelled, found) = self.loops;
            lines.push(format!("labels    {found} of {labelled} loops found ({})", percent(found, labelled)));
            for (kind, sessions) in &self.missed {
                lines.push(format!("            missed: {} {kind}, as {}", sessions.len(), plain(sessions.first())));
            }
            let (all, nudged, blocked) = self.look_alikes;
            lines.push(format!("          of {all} look-alikes {nudged} nudged, {blocked} blocked"));
            for (session, what) in &self.alarms {
                lines.push(format!("            false alarm: {what} in {}", plain(Some(session))));
            }
            if self.absent > 0 {
                lines.push(format!("          {} labels name sessions that are not in these files", self.absent));
            }
        }
        for (name, (all, nudged, blocked)) in [("successful", self.successes), ("unsuccessful", self.failures)] {
            if all > 0 {
                lines.push(format!(
                    "outcomes  of {all} {name} sessions {blocked} blocked ({}), {nudged} nudged ({})",
                    percent(blocked, all),
                    percent(nudged, all)
                ));
            }
        }
        lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

/// A session's name, as far as a terminal may see it.
fn plain(session: Option<&String>) -> String {
    session.map(|session| session.chars().filter(|letter| !letter.is_control()).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(session: &str, is_loop: bool) -> Label {
        Label { session: session.to_owned(), is_loop, first: 1, last: 2, kind: "exact".to_owned(), is_ambiguous: false }
    }

    fn said(session: &str, event: &str, deed: Deed, is_shadow: bool) -> Said {
        Said {
            deed,
            is_shadow,
            code: "exact_repeat".to_owned(),
            subject: session.to_owned(),
            agent: None,
            summary: String::new(),
            count: None,
            event_id: Some(event.to_owned()),
            issued_at: String::new(),
        }
    }

    #[test]
    fn a_command_finds_a_loop_only_from_inside_the_stretch_and_only_if_it_counts() {
        let labels = [label("a", true), label("b", true), label("c", true), label("d", false), label("gone", true)];
        let mut index = EventIndex::of(&labels);
        for session in ["a", "b", "c", "d"] {
            for id in 0..5 {
                index.note(session.as_bytes(), format!("{{\"id\":\"e{id}\"}}").as_bytes());
            }
        }
        let said = [
            said("a", "e2", Deed::Nudge, false),
            said("b", "e3", Deed::Nudge, false),
            said("c", "e2", Deed::Nudge, true),
            said("d", "e1", Deed::Block, false),
        ];
        let outcomes = [("d".to_owned(), Some(true)), ("a".to_owned(), Some(false)), ("x".to_owned(), None)];
        let judged = judge(&said, &labels, &index, &outcomes);
        assert_eq!(judged.loops, (3, 1));
        assert_eq!(judged.missed["exact"], ["b", "c"]);
        assert_eq!(judged.look_alikes, (1, 0, 1));
        assert_eq!(judged.absent, 1);
        assert_eq!((judged.successes, judged.failures), ((1, 0, 1), (1, 1, 0)));
        assert!(judged.to_text().contains("1 of 3 loops found (33.3 %)"));
    }

    #[test]
    fn the_counter_of_the_producer_is_the_index_where_there_is_one() {
        let mut index = EventIndex::of(&[label("a", true)]);
        index.note(b"a", br#"{"id":"x","seq":7}"#);
        index.note(b"other", br#"{"id":"x","seq":9}"#);
        assert_eq!(index.get(&said("a", "x", Deed::Nudge, false)), Some(7));
    }

    #[test]
    fn a_row_that_is_none_says_why() {
        assert!(Label::parse("{\"session\":\"a\",\"label\":\"maybe\"}").unwrap_err().to_string().contains("maybe"));
        assert!(parse_outcome("[]").is_err());
    }
}
