//! A replay judged by what people know: labelled stretches, and how sessions ended.
//!
//! A label is a stretch of a session, by the index of its events from 0: a loop, or something that only looks like one. A command
//! belongs to a stretch when the event that caused it lies inside.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::report::summary::counted;
use crate::report::{Column, Deed, EventIndex, Said, Table, plain};

/// A labelled stretch of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Tenant; empty = none.
    pub tenant: String,
    /// Session.
    pub session: String,
    /// Only the events of this agent are counted and judged; without, all of the session.
    pub agent: Option<String>,
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

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Tenant; empty = none.
    pub tenant: String,
    /// Session.
    pub session: String,
    /// Whether it succeeded; `None` where that is not known.
    pub success: Option<bool>,
}

/// What is wrong with a row of a file of labels or outcomes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRow(pub String);

fn object(line: &str) -> Result<Value, BadRow> {
    let value: Value = serde_json::from_str(line).map_err(|error| BadRow(error.to_string()))?;
    if value.is_object() { Ok(value) } else { Err(BadRow("not an object".to_owned())) }
}

fn text(value: &Value, field: &str) -> Result<String, BadRow> {
    text_if_any(value, field)?.ok_or_else(|| BadRow(format!("`{field}` is missing, or no text")))
}

fn text_if_any(value: &Value, field: &str) -> Result<Option<String>, BadRow> {
    match value.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(BadRow(format!("`{field}` is no text"))),
    }
}

fn is_true(value: &Value, field: &str) -> Result<Option<bool>, BadRow> {
    match value.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(is_true)) => Ok(Some(*is_true)),
        Some(other) => Err(BadRow(format!("`{field}` is {other}, but must be true, false or null"))),
    }
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
        let (first, last) = (index("first_event_index")?, index("last_event_index")?);
        if first > last {
            return Err(BadRow(format!("`first_event_index` is {first}, behind `last_event_index`, {last}")));
        }
        Ok(Self {
            tenant: text_if_any(&value, "tenant")?.unwrap_or_default(),
            session: text(&value, "session")?,
            agent: text_if_any(&value, "agent")?,
            is_loop: match text(&value, "label")?.as_str() {
                "loop" => true,
                "ok" => false,
                other => return Err(BadRow(format!("`label` is {other:?}, but must be \"loop\" or \"ok\""))),
            },
            first,
            last,
            kind: text_if_any(&value, "kind")?.unwrap_or_default(),
            is_ambiguous: is_true(&value, "ambiguous")?.unwrap_or_default(),
        })
    }
}

impl Ending {
    /// Reads a row.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(line: &str) -> Result<Self, BadRow> {
        let value = object(line)?;
        if value.get("success").is_none() {
            return Err(BadRow("`success` is missing".to_owned()));
        }
        Ok(Self {
            tenant: text_if_any(&value, "tenant")?.unwrap_or_default(),
            session: text(&value, "session")?,
            success: is_true(&value, "success")?,
        })
    }
}

/// How one detector compares with labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DetectorJudgement {
    /// Labelled loops it spoke in.
    pub found: u64,
    /// Look-alikes it spoke in.
    pub alarms: u64,
    /// Events from the beginning of each stretch to its first command there, ascending.
    pub delays: Vec<u64>,
}

impl DetectorJudgement {
    /// The delay in the middle. Events.
    #[must_use]
    pub fn delay(&self) -> Option<u64> {
        median(&self.delays)
    }

    /// Share of the labelled stretches it spoke in that are loops.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        ratio(self.found, self.found + self.alarms)
    }
}

/// How a replay compares with labels and outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Each detector that spoke in a labelled stretch.
    pub by_detector: BTreeMap<String, DetectorJudgement>,
    /// Events from the beginning of each loop that was found to the first command in it, ascending.
    pub delays: Vec<u64>,
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
    /// Labels of stretches in which their session, or their agent, has no event.
    pub off: u64,
    /// Outcomes of sessions that were not replayed.
    pub endings_absent: u64,
    /// Successful sessions, those nudged, those blocked.
    pub successes: (u64, u64, u64),
    /// Other sessions, those nudged, those blocked.
    pub failures: (u64, u64, u64),
    /// Successful sessions that were nudged or blocked, each once.
    pub disturbed: u64,
    /// Other sessions that were nudged or blocked, each once.
    pub failures_disturbed: u64,
}

/// Compares. Shadow commands are no alarms, and find nothing. What is known of sessions that were not replayed is counted apart.
#[must_use]
pub fn judge(said: &[Said], labels: &[Label], index: &EventIndex, endings: &[Ending]) -> Judgement {
    let mut judgement = Judgement::default();
    let live: Vec<&Said> = said.iter().filter(|said| said.counts() && !said.is_swarm).collect();
    let mut by_session: BTreeMap<(&str, &str), Vec<&Said>> = BTreeMap::new();
    for said in &live {
        by_session.entry((&said.tenant, &said.subject)).or_default().push(said);
    }
    for label in labels {
        if !index.has_seen(&label.tenant, &label.session) {
            judgement.absent += 1;
            continue;
        }
        if !index.has_event_in(label) {
            judgement.off += 1;
            continue;
        }
        let said = by_session.get(&(label.tenant.as_str(), label.session.as_str())).map_or(&[][..], Vec::as_slice);
        let inside: Vec<(&Said, u64)> = said.iter().filter_map(|said| Some((*said, index.inside(label, said)?))).collect();
        let name = named(&label.tenant, &label.session);
        judgement.note_detectors(label, &inside);
        if label.is_loop {
            judgement.loops.0 += 1;
            if let Some(first) = inside.iter().map(|(_, at)| at - label.first).min() {
                judgement.loops.1 += 1;
                judgement.delays.push(first);
            } else {
                judgement.missed.entry(label.kind.clone()).or_default().push(name);
            }
        } else if !label.is_ambiguous {
            judgement.look_alikes.0 += 1;
            judgement.look_alikes.1 += u64::from(inside.iter().any(|(said, _)| said.deed == Deed::Nudge));
            judgement.look_alikes.2 += u64::from(inside.iter().any(|(said, _)| said.deed == Deed::Block));
            if let Some((said, _)) = inside.first() {
                judgement.alarms.push((name, format!("{} by {}", said.deed.as_str(), said.code)));
            }
        }
    }
    judgement.delays.sort_unstable();
    for judged in judgement.by_detector.values_mut() {
        judged.delays.sort_unstable();
    }
    let mut known = BTreeSet::new();
    for ending in endings {
        let session = (ending.tenant.as_str(), ending.session.as_str());
        if !known.insert(session) {
            continue;
        }
        if !index.has_seen(&ending.tenant, &ending.session) {
            judgement.endings_absent += 1;
            continue;
        }
        let (side, disturbed) = match ending.success {
            Some(true) => (&mut judgement.successes, &mut judgement.disturbed),
            Some(false) => (&mut judgement.failures, &mut judgement.failures_disturbed),
            None => continue,
        };
        let said = by_session.get(&session).map_or(&[][..], Vec::as_slice);
        *disturbed += u64::from(!said.is_empty());
        side.0 += 1;
        side.1 += u64::from(said.iter().any(|said| said.deed == Deed::Nudge));
        side.2 += u64::from(said.iter().any(|said| said.deed == Deed::Block));
    }
    judgement
}

impl Judgement {
    fn note_detectors(&mut self, label: &Label, inside: &[(&Said, u64)]) {
        if !label.is_loop && label.is_ambiguous {
            return;
        }
        let mut first: BTreeMap<&str, u64> = BTreeMap::new();
        for (said, at) in inside {
            let at = at - label.first;
            first.entry(&said.code).and_modify(|first| *first = at.min(*first)).or_insert(at);
        }
        for (code, delay) in first {
            let judged = self.by_detector.entry(code.to_owned()).or_default();
            if label.is_loop {
                judged.found += 1;
                judged.delays.push(delay);
            } else {
                judged.alarms += 1;
            }
        }
    }

    /// Share of the labelled loops that were found.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        ratio(self.loops.1, self.loops.0)
    }

    /// Share of the labelled stretches with a command inside that are loops.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        ratio(self.loops.1, self.loops.1 + self.alarms.len() as u64)
    }

    /// The delay in the middle: events from the beginning of a loop to the first command in it.
    #[must_use]
    pub fn delay(&self) -> Option<u64> {
        median(&self.delays)
    }

    /// A row per detector that spoke in a labelled stretch, and one for all together.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            Column::text("detector"),
            Column::number("loops_found"),
            Column::number("recall"),
            Column::number("false_alarms"),
            Column::number("precision"),
            Column::number("delay_events"),
        ]);
        let mut add = |name: &str, found: u64, alarms: u64, delay: Option<u64>| {
            let share = |part: Option<f64>| part.map_or(Value::Null, |part| Value::from((1_000.0 * part).round() / 1_000.0));
            table.row(vec![
                name.into(),
                found.into(),
                share(ratio(found, self.loops.0)),
                alarms.into(),
                share(ratio(found, found + alarms)),
                delay.into(),
            ]);
        };
        for (name, judged) in &self.by_detector {
            add(name, judged.found, judged.alarms, judged.delay());
        }
        add("all", self.loops.1, self.alarms.len() as u64, self.delay());
        table
    }

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
            "recall": self.recall(),
            "precision": self.precision(),
            "delay_events": self.delay(),
            "detectors": self.table().to_objects(),
            "labels_without_session": self.absent,
            "labels_without_event": self.off,
            "outcomes_without_session": self.endings_absent,
            "successful": side(self.successes),
            "unsuccessful": side(self.failures),
        })
    }

    /// For people, a line each.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut lines = Vec::new();
        if self.loops.0 + self.look_alikes.0 + self.absent + self.off > 0 {
            let (labelled, found) = self.loops;
            let delay = self.delay().map_or_else(String::new, |delay| format!(", {} after they begin", counted(delay, "event")));
            lines.push(format!("labels    {found} of {} found ({}){delay}", counted(labelled, "loop"), percent(found, labelled)));
            for (kind, sessions) in &self.missed {
                let many = sessions.len() as u64;
                let what = if kind.is_empty() { counted(many, "loop") } else { format!("{many} {}", plain(kind)) };
                lines.push(format!(
                    "            missed: {what}, as {}",
                    sessions.first().map(|session| plain(session)).unwrap_or_default()
                ));
            }
            let (all, nudged, blocked) = self.look_alikes;
            lines.push(format!("          of {} {nudged} nudged, {blocked} blocked", counted(all, "look-alike")));
            for (session, what) in &self.alarms {
                lines.push(format!("            false alarm: {what} in {}", plain(session)));
            }
            if self.absent > 0 {
                lines.push(format!("          not in this input: the sessions of {}", counted(self.absent, "label")));
            }
            if self.off > 0 {
                let labels = counted(self.off, "label");
                lines.push(format!(
                    "          not judged: {labels} of a stretch in which the session, or the agent named, has no event"
                ));
            }
        }
        for (name, (all, nudged, blocked)) in [("successful", self.successes), ("unsuccessful", self.failures)] {
            if all > 0 {
                lines.push(format!(
                    "outcomes  of {} {blocked} blocked ({}), {nudged} nudged ({})",
                    counted(all, &format!("{name} session")),
                    percent(blocked, all),
                    percent(nudged, all)
                ));
            }
        }
        if self.endings_absent > 0 {
            lines.push(format!("          not in this input: the sessions of {}", counted(self.endings_absent, "outcome")));
        }
        lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

/// A session's name, with its tenant where it has one.
fn named(tenant: &str, session: &str) -> String {
    if tenant.is_empty() { session.to_owned() } else { format!("{session} of tenant {tenant}") }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn median(ascending: &[u64]) -> Option<u64> {
    ascending.get(ascending.len() / 2).copied()
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(session: &str, is_loop: bool) -> Label {
        let text = r#"{"session":"","label":"loop","first_event_index":1,"last_event_index":2,"kind":"exact"}"#;
        Label { session: session.to_owned(), is_loop, ..Label::parse(text).unwrap() }
    }

    fn ending(session: &str, success: Option<bool>) -> Ending {
        Ending { tenant: String::new(), session: session.to_owned(), success }
    }

    fn said(session: &str, event: &str, deed: Deed, is_shadow: bool) -> Said {
        Said { is_shadow, event_id: Some(event.to_owned()), ..crate::report::said::tests::said(session, "exact_repeat", deed) }
    }

    #[test]
    fn a_command_finds_a_loop_only_from_inside_the_stretch_and_only_if_it_counts() {
        let labels = [label("a", true), label("b", true), label("c", true), label("d", false), label("gone", true)];
        let endings = [ending("d", Some(true)), ending("a", Some(false)), ending("c", None), ending("gone", Some(true))];
        let mut index = EventIndex::of(&labels, &endings);
        for session in ["a", "b", "c", "d"] {
            for id in 0..5 {
                index.note(("", session, "main"), &format!("e{id}"), None);
            }
        }
        let said = [
            said("a", "e2", Deed::Nudge, false),
            said("b", "e3", Deed::Nudge, false),
            said("c", "e2", Deed::Nudge, true),
            said("d", "e1", Deed::Block, false),
        ];
        let judged = judge(&said, &labels, &index, &endings);
        assert_eq!(judged.loops, (3, 1));
        assert_eq!(judged.missed["exact"], ["b", "c"]);
        assert_eq!(judged.look_alikes, (1, 0, 1));
        assert_eq!((judged.absent, judged.endings_absent), (1, 1));
        assert_eq!((judged.successes, judged.failures), ((1, 0, 1), (1, 1, 0)));
        let text = judged.to_text();
        assert!(text.contains("1 of 3 loops found (33.3 %), 1 event after they begin"), "{text}");
        assert!(text.contains("of 1 successful session 1 blocked") && text.contains("the sessions of 1 outcome\n"), "{text}");
        let by = &judged.by_detector["exact_repeat"];
        assert_eq!((by.found, by.alarms, by.delay(), by.precision()), (1, 1, Some(1), Some(0.5)));
        assert_eq!(judged.table().to_csv().lines().last(), Some("all,1,0.333,1,0.5,1"));
    }

    #[test]
    fn sessions_of_one_name_are_judged_by_tenant_and_agents_by_their_own_events() {
        let labels = [
            Label { tenant: "t".to_owned(), ..label("a", true) },
            Label { kind: String::new(), ..label("a", true) },
            Label { agent: Some("helper".to_owned()), ..label("b", true) },
        ];
        let mut index = EventIndex::of(&labels, &[]);
        for tenant in ["", "t"] {
            (0..3).for_each(|id| index.note((tenant, "a", "main"), &format!("e{id}"), None));
        }
        (0..9).for_each(|id| index.note(("", "b", "main"), &format!("m{id}"), None));
        (0..3).for_each(|id| index.note(("", "b", "helper"), &format!("h{id}"), None));
        let of_tenant = Said { tenant: "t".to_owned(), ..said("a", "e1", Deed::Nudge, false) };
        let judged = judge(&[of_tenant, said("b", "h2", Deed::Nudge, false)], &labels, &index, &[]);
        assert_eq!((judged.loops, judged.absent), ((3, 2), 0));
        assert!(judged.to_text().contains("missed: 1 loop, as a\n"), "{}", judged.to_text());
    }

    #[test]
    fn a_row_that_is_none_says_why() {
        let label = |rest: &str| Label::parse(&format!(r#"{{"session":"a",{rest}}}"#)).unwrap_err().to_string();
        assert!(label(r#""label":"maybe","first_event_index":1,"last_event_index":1"#).contains("maybe"));
        assert!(label(r#""label":"loop","first_event_index":60,"last_event_index":5"#).contains("behind `last_event_index`, 5"));
        assert!(label(r#""label":"ok","first_event_index":1,"last_event_index":1,"ambiguous":"no""#).contains("ambiguous"));
        for bad in ["[]", r#"{"session":"a"}"#, r#"{"session":"a","success":"yes"}"#, r#"{"success":true}"#] {
            assert!(Ending::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Ending::parse(r#"{"session":"a","success":null}"#).unwrap(), ending("a", None));
    }
}
