//! A replay judged by labels and endings of sessions.
//!
//! A label is a stretch of a session: a loop, or something that only looks like one. A command belongs to a stretch if the event that
//! caused it lies inside.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::report::index::EventIndex;
use crate::report::labels::{Ending, Label};
use crate::report::quality::{Proportion, Quality, rounded};
use crate::report::{CommandKind, PublishedCommand, Section, Table, counted, plain};

/// Sessions or stretches, and those of them with a nudge and with a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Disturbed {
    pub sessions: u64,
    pub nudged: u64,
    pub blocked: u64,
    /// With either.
    #[serde(skip)]
    pub either: u64,
}

impl Disturbed {
    fn note<'a>(&mut self, commands: impl IntoIterator<Item = &'a PublishedCommand>) {
        let kinds: BTreeSet<CommandKind> = commands.into_iter().map(|command| command.kind).collect();
        self.sessions += 1;
        self.nudged += u64::from(kinds.contains(&CommandKind::Nudge));
        self.blocked += u64::from(kinds.contains(&CommandKind::Block));
        self.either += u64::from(!kinds.is_empty());
    }
}

/// A look-alike with a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Alarm {
    session: String,
    said: String,
}

/// What all detectors found together, or one of them, or in stretches of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    quality: Quality,
    /// Events from the beginning of each loop to its first command, ascending.
    delays: Vec<u64>,
}

/// A detector as a row, or all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct JudgementRow {
    detector: String,
    loops_found: u64,
    recall: Option<f64>,
    false_alarms: u64,
    precision: Option<f64>,
    /// The median.
    delay_events: Option<u64>,
}

/// A replay compared with labels and endings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    all: Found,
    by_detector: BTreeMap<String, Found>,
    by_kind: BTreeMap<String, Found>,
    /// Sessions of missed loops, by the kind of the loop.
    missed: BTreeMap<String, Vec<String>>,
    pub look_alikes: Disturbed,
    pub alarms: Vec<Alarm>,
    /// Labels of sessions that are not in the input.
    pub absent: u64,
    /// Labels of stretches in which their session, or their agent, has no event.
    pub off: u64,
    /// Endings of sessions that are not in the input.
    pub endings_absent: u64,
    pub successes: Disturbed,
    /// The same by commands outside of their labelled loops: those within are right.
    pub successes_outside: Disturbed,
    pub failures: Disturbed,
}

/// Commands by tenant and session.
type BySession<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a PublishedCommand>>;

/// Compares. Commands of detectors in shadow mode do not count. Labels and endings of sessions that are not in the input are counted apart.
pub fn judge(commands: &[PublishedCommand], labels: &[Label], index: &EventIndex, endings: &[Ending]) -> Judgement {
    let mut judgement = Judgement::default();
    let mut by_session = BySession::new();
    for command in commands.iter().filter(|command| command.is_in_force() && !command.is_swarm) {
        by_session.entry((&command.tenant, &command.subject)).or_default().push(command);
    }
    for label in labels {
        judgement.note_label(label, index, &by_session);
    }
    judgement.all.delays.sort_unstable();
    let Quality { loops, look_alikes, .. } = judgement.all.quality;
    for found in judgement.by_detector.values_mut() {
        (found.quality.loops.of, found.quality.look_alikes.of) = (loops.of, look_alikes.of);
        found.delays.sort_unstable();
    }
    let mut known = BTreeSet::new();
    for ending in endings.iter().filter(|ending| known.insert((&ending.tenant, &ending.session))) {
        judgement.note_ending(ending, (labels, index), &by_session);
    }
    judgement
}

impl Judgement {
    fn note_label(&mut self, label: &Label, index: &EventIndex, by_session: &BySession<'_>) {
        if !index.has_seen(&label.tenant, &label.session) {
            self.absent += 1;
            return;
        }
        if !index.has_event_in(label) {
            self.off += 1;
            return;
        }
        let commands = by_session.get(&(label.tenant.as_str(), label.session.as_str())).map_or(&[][..], Vec::as_slice);
        // With the number of events from the beginning of the stretch.
        let inside: Vec<(&PublishedCommand, u64)> =
            commands.iter().filter_map(|command| Some((*command, index.inside(label, command)? - label.first))).collect();
        let first = inside.iter().map(|(_, delay)| *delay).min();
        let kind = self.by_kind.entry(label.kind.clone()).or_default();
        if label.is_ambiguous && !label.is_loop {
            return;
        }
        kind.note(label, first);
        self.all.note(label, first);
        if label.is_loop {
            if first.is_none() {
                self.missed.entry(label.kind.clone()).or_default().push(named(label));
            }
        } else {
            self.look_alikes.note(inside.iter().map(|(command, _)| *command));
            if let Some((command, _)) = inside.first() {
                self.alarms.push(Alarm { session: named(label), said: format!("{} by {}", command.kind.as_str(), command.code) });
            }
        }
        let mut by_detector: BTreeMap<&str, u64> = BTreeMap::new();
        for (command, delay) in &inside {
            by_detector.entry(&command.code).and_modify(|first| *first = *delay.min(first)).or_insert(*delay);
        }
        for (code, delay) in by_detector {
            self.by_detector.entry(code.to_owned()).or_default().note(label, Some(delay));
        }
    }

    fn note_ending(&mut self, ending: &Ending, (labels, index): (&[Label], &EventIndex), by_session: &BySession<'_>) {
        if !index.has_seen(&ending.tenant, &ending.session) {
            self.endings_absent += 1;
            return;
        }
        let commands = by_session.get(&(ending.tenant.as_str(), ending.session.as_str()));
        let commands = || commands.into_iter().flatten().copied();
        match ending.success {
            Some(true) => {
                let is_of = |label: &&Label| label.is_loop && label.tenant == ending.tenant && label.session == ending.session;
                let loops: Vec<&Label> = labels.iter().filter(is_of).collect();
                let is_outside = |command: &&PublishedCommand| loops.iter().all(|label| index.inside(label, command).is_none());
                self.successes.note(commands());
                self.successes_outside.note(commands().filter(is_outside));
                self.all.quality.successes.note(commands().any(|command| is_outside(&command)));
            }
            Some(false) => self.failures.note(commands()),
            None => {}
        }
    }

    /// Of all detectors together.
    pub const fn quality(&self) -> Quality {
        self.all.quality
    }

    /// Median of the events from the beginning of a loop to its first command.
    pub fn delay(&self) -> Option<u64> {
        self.all.delay()
    }

    /// Whether any stretch was judged.
    pub const fn has_labels(&self) -> bool {
        self.all.quality.loops.of + self.all.quality.look_alikes.of > 0
    }

    /// A row for each detector with a command in a stretch, and one for all together.
    pub fn rows(&self) -> Vec<JudgementRow> {
        let row = |detector: &str, found: &Found| JudgementRow {
            detector: detector.to_owned(),
            loops_found: found.quality.loops.hit,
            recall: found.quality.recall().map(rounded),
            false_alarms: found.quality.look_alikes.hit,
            precision: found.quality.precision().map(rounded),
            delay_events: found.delay(),
        };
        self.by_detector.iter().map(|(name, found)| row(name, found)).chain([row("all", &self.all)]).collect()
    }

    /// Found loops and false alarms by kind, where labels have kinds.
    fn kinds_to_text(&self) -> Option<String> {
        let part = |share: Proportion, what: &str| (share.of > 0).then(|| format!("{} of {} {what}", share.hit, share.of));
        let kinds = self.by_kind.iter().filter(|(kind, _)| !kind.is_empty()).filter_map(|(kind, found)| {
            let parts = [part(found.quality.loops, "found"), part(found.quality.look_alikes, "alarmed")];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            (!parts.is_empty()).then(|| format!("{} {}", plain(kind), parts.join(", ")))
        });
        let parts: Vec<String> = kinds.collect();
        (!parts.is_empty()).then(|| format!("          by kind: {}", parts.join("; ")))
    }

    /// In words, and as rows where a command lies in a stretch.
    pub(super) fn sections(&self) -> Vec<Section> {
        let rows = (!self.by_detector.is_empty()).then(|| Section::rows("", Table::of(self.rows())));
        std::iter::once(Section::text(self.to_text().trim_end())).chain(rows).collect()
    }

    /// For people, a line each.
    pub fn to_text(&self) -> String {
        let mut lines = Vec::new();
        if self.has_labels() || self.absent + self.off > 0 {
            let loops = self.all.quality.loops;
            let delay = self.delay().map_or_else(String::new, |delay| format!(", {} after they begin", counted(delay, "event")));
            lines.push(format!("labels    {} of {} found ({}){delay}", loops.hit, counted(loops.of, "loop"), loops.percent()));
            lines.extend(self.kinds_to_text());
            for (kind, sessions) in &self.missed {
                let many = sessions.len() as u64;
                let what = if kind.is_empty() { counted(many, "loop") } else { format!("{many} {}", plain(kind)) };
                let first = sessions.first().map(|session| plain(session)).unwrap_or_default();
                lines.push(format!("            missed: {what}, as {first}"));
            }
            let Disturbed { sessions, nudged, blocked, .. } = self.look_alikes;
            lines.push(format!("          of {} {nudged} nudged, {blocked} blocked", counted(sessions, "look-alike")));
            for alarm in &self.alarms {
                lines.push(format!("            false alarm: {} in {}", alarm.said, plain(&alarm.session)));
            }
            if self.absent > 0 {
                lines.push(format!("          not in this input: the sessions of {}", counted(self.absent, "label")));
            }
            if self.off > 0 {
                let labels = counted(self.off, "label");
                let why = "of a stretch in which the session, or the agent named, has no event";
                lines.push(format!("          not judged: {labels} {why}"));
            }
        }
        for (name, side) in [("successful session", self.successes), ("unsuccessful session", self.failures)] {
            let Disturbed { sessions, nudged, blocked, .. } = side;
            if sessions > 0 {
                let [of_nudged, of_blocked] = [nudged, blocked].map(|hit| Proportion { of: sessions, hit }.percent());
                let all = counted(sessions, name);
                lines.push(format!("outcomes  of {all} {blocked} blocked ({of_blocked}), {nudged} nudged ({of_nudged})"));
            }
        }
        let Disturbed { sessions, nudged, blocked, .. } = self.successes_outside;
        if self.has_labels() && sessions > 0 {
            let all = counted(sessions, "successful session");
            lines.push(format!("          of {all} {blocked} blocked, {nudged} nudged outside of labelled loops"));
        }
        if self.endings_absent > 0 {
            lines.push(format!("          not in this input: the sessions of {}", counted(self.endings_absent, "outcome")));
        }
        lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

impl Serialize for Judgement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Quality { loops, .. } = self.all.quality;
        let of_kind = |found: &Found| {
            let Quality { loops, look_alikes, .. } = found.quality;
            json!({ "loops": loops.of, "found": loops.hit, "look_alikes": look_alikes.of, "alarms": look_alikes.hit })
        };
        let kinds: Map<String, Value> = self.by_kind.iter().map(|(kind, found)| (kind.clone(), of_kind(found))).collect();
        json!({
            "loops": { "labelled": loops.of, "found": loops.hit, "missed": self.missed },
            "look_alikes": self.look_alikes,
            "alarms": self.alarms,
            "recall": self.all.quality.recall(),
            "precision": self.all.quality.precision(),
            "delay_events": self.delay(),
            "detectors": self.rows(),
            "kinds": kinds,
            "labels_without_session": self.absent,
            "labels_without_event": self.off,
            "outcomes_without_session": self.endings_absent,
            "successful": self.successes,
            "successful_outside_loops": self.successes_outside,
            "unsuccessful": self.failures,
        })
        .serialize(serializer)
    }
}

impl Found {
    /// Notes a stretch; `delay`: the events up to its first command, if there is one.
    fn note(&mut self, label: &Label, delay: Option<u64>) {
        let share = if label.is_loop { &mut self.quality.loops } else { &mut self.quality.look_alikes };
        share.note(delay.is_some());
        self.delays.extend(delay.filter(|_| label.is_loop));
    }

    fn delay(&self) -> Option<u64> {
        self.delays.get(self.delays.len() / 2).copied()
    }
}

/// The session of a label, with its tenant if it has one.
fn named(label: &Label) -> String {
    let Label { tenant, session, .. } = label;
    if tenant.is_empty() { session.clone() } else { format!("{session} of tenant {tenant}") }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::command::tests::command;

    /// So many labelled loops, look-alikes and successful sessions, and those of them with a command.
    pub(in crate::report) fn judgement(loops: (u64, u64), look_alikes: (u64, u64), successes: (u64, u64)) -> Judgement {
        let [loops, look_alikes, successes] = [loops, look_alikes, successes].map(|(of, hit)| Proportion { of, hit });
        let quality = Quality { loops, look_alikes, successes };
        Judgement { all: Found { quality, delays: Vec::new() }, ..Judgement::default() }
    }

    fn label(session: &str, is_loop: bool) -> Label {
        let text = r#"{"session":"","label":"loop","first_event_index":1,"last_event_index":2,"kind":"exact"}"#;
        Label { session: session.to_owned(), is_loop, ..Label::parse(text).unwrap() }
    }

    fn ending(session: &str, success: Option<bool>) -> Ending {
        Ending { tenant: String::new(), session: session.to_owned(), success }
    }

    fn caused(session: &str, event: &str, kind: CommandKind, is_shadow: bool) -> PublishedCommand {
        PublishedCommand { is_shadow, event_id: Some(event.to_owned()), ..command(session, "exact_repeat", kind) }
    }

    #[test]
    fn a_command_finds_a_loop_only_from_inside_the_stretch_and_only_if_it_is_in_force() {
        let labels = [label("a", true), label("b", true), label("c", true), label("d", false), label("gone", true)];
        let endings = [ending("d", Some(true)), ending("a", Some(false)), ending("c", None), ending("gone", Some(true))];
        let mut index = EventIndex::of(&labels, &endings);
        for session in ["a", "b", "c", "d"] {
            (0..5).for_each(|id| index.note(("", session, "main"), &format!("e{id}"), None));
        }
        let commands = [
            caused("a", "e2", CommandKind::Nudge, false),
            caused("b", "e3", CommandKind::Nudge, false),
            caused("c", "e2", CommandKind::Nudge, true),
            caused("d", "e1", CommandKind::Block, false),
        ];
        let judged = judge(&commands, &labels, &index, &endings);
        let sides =
            [judged.look_alikes, judged.successes, judged.failures].map(|side| (side.sessions, side.nudged, side.blocked));
        assert_eq!((judged.quality().loops, sides), (Proportion { of: 3, hit: 1 }, [(1, 0, 1), (1, 0, 1), (1, 1, 0)]));
        assert_eq!((judged.missed["exact"].concat(), judged.absent, judged.endings_absent), ("bc".to_owned(), 1, 1));
        let text = judged.to_text();
        assert!(text.contains("1 of 3 loops found (33.3 %), 1 event after they begin"), "{text}");
        assert!(text.contains("of 1 successful session 1 blocked") && text.contains("the sessions of 1 outcome\n"), "{text}");
        let head = "detector,loops_found,recall,false_alarms,precision,delay_events";
        assert_eq!(Table::of(judged.rows()).to_csv(), format!("{head}\nexact_repeat,1,0.333,1,0.5,1\nall,1,0.333,1,0.5,1\n"));
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
        let of_tenant = PublishedCommand { tenant: "t".to_owned(), ..caused("a", "e1", CommandKind::Nudge, false) };
        let judged = judge(&[of_tenant, caused("b", "h2", CommandKind::Nudge, false)], &labels, &index, &[]);
        assert_eq!((judged.quality().loops, judged.absent), (Proportion { of: 3, hit: 2 }, 0));
        assert!(judged.to_text().contains("missed: 1 loop, as a\n"), "{}", judged.to_text());
    }
}
