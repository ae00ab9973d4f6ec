//! Answers as labels: who holds a published loop for one, who for a false alarm, and what that makes of it.

use std::collections::{BTreeMap, BTreeSet};

use loopwarden_core::{event::Judged, policy::Detector};
use serde::Serialize;

use super::answered::{Answered, PublishedLoop};
use crate::report::labels::Label;

/// A published loop with at least one answer about what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredLoop {
    pub about: PublishedLoop,
    /// Its session has other agents too: the label names the agent, and counts its events alone.
    pub(super) names_agent: bool,
    /// Who holds it for a loop.
    pub right: BTreeSet<String>,
    /// Who holds it for a false alarm.
    pub false_alarm: BTreeSet<String>,
}

/// What the answers to a loop come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    Loop,
    FalseAlarm,
    /// As many actors hold it for this as for that.
    Contradicted,
    /// Fewer actors agree than the quorum asks for.
    TooFew,
}

/// What became of the answers of an input, and the loops that they are about.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Answers {
    /// Events of kind `answer` in the input.
    pub given: u64,
    /// An actor answered the same loop again: the last answer counts.
    pub superseded: u64,
    /// They allow a loop, whatever it is: no label.
    pub allowed: u64,
    /// About a budget: its limit is meant, and no loop.
    pub of_budgets: u64,
    /// This input, judged by this policy, publishes no such episode.
    pub unknown: u64,
    /// Answers beyond those that are kept.
    pub left_out: u64,
    #[serde(skip)]
    pub loops: Vec<AnsweredLoop>,
}

/// A label with where it comes from, in the form that `fit` and `replay --labels` read.
#[derive(Debug, Clone, Default, Serialize)]
struct LabelRow<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    tenant: &'a str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    label: &'static str,
    first_event_index: u64,
    last_event_index: u64,
    kind: &'static str,
    answered_by: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    contradicted_by: Vec<&'a str>,
}

impl Answers {
    /// The answers by loop. Loops of one stretch, as two tracks or two episodes have it, are one.
    #[must_use]
    pub fn of(answered: &Answered) -> Self {
        let mut answers = Self { left_out: answered.left_out, ..Self::default() };
        let mut votes: BTreeMap<(&str, &str), BTreeMap<&str, bool>> = BTreeMap::new();
        for given in &answered.answers {
            answers.given += 1;
            let is_loop = match given.judged {
                Judged::Right => true,
                Judged::FalseAlarm => false,
                Judged::Allowed(_) => {
                    answers.allowed += 1;
                    continue;
                }
            };
            match answered.loops.get(&(given.tenant.clone(), given.episode.clone())) {
                None => answers.unknown += 1,
                Some(about) if about.detector == Detector::Budget => answers.of_budgets += 1,
                Some(_) => {
                    let votes = votes.entry((&given.tenant, &given.episode)).or_default();
                    answers.superseded += u64::from(votes.insert(&given.actor, is_loop).is_some());
                }
            }
        }
        let mut loops: BTreeMap<(&str, &str, &str, u64, u64), AnsweredLoop> = BTreeMap::new();
        for ((tenant, episode), votes) in votes {
            let Some(about) = answered.loops.get(&(tenant.to_owned(), episode.to_owned())) else { continue };
            let several =
                answered.agents.get(&(about.tenant.clone(), about.session.clone())).is_some_and(|(_, several)| *several);
            let key = (tenant, about.session.as_str(), about.agent.as_str(), about.first.index, about.last.index);
            let known = loops.entry(key).or_insert_with(|| AnsweredLoop {
                about: about.clone(),
                names_agent: several,
                right: BTreeSet::new(),
                false_alarm: BTreeSet::new(),
            });
            for (actor, is_loop) in votes {
                (if is_loop { &mut known.right } else { &mut known.false_alarm }).insert(actor.to_owned());
            }
        }
        answers.loops = loops.into_values().collect();
        answers
    }

    /// The labels of the loops that at least so many actors agree about.
    #[must_use]
    pub fn labels(&self, quorum: usize) -> Vec<Label> {
        self.loops.iter().filter_map(|answered| answered.label(quorum)).collect()
    }

    /// The same as lines of a file of labels.
    pub fn lines(&self, quorum: usize) -> impl Iterator<Item = String> {
        self.loops.iter().filter_map(move |answered| Some(answered.line(&answered.label(quorum)?)))
    }

    /// How many loops have this ruling.
    #[must_use]
    pub fn ruled(&self, quorum: usize, ruling: Ruling) -> u64 {
        self.loops.iter().filter(|answered| answered.ruling(quorum) == ruling).count() as u64
    }

    /// Takes the answers of these actors out; loops that nobody else answered go.
    pub(super) fn without(&mut self, actors: &BTreeSet<String>) {
        for answered in &mut self.loops {
            answered.right.retain(|actor| !actors.contains(actor));
            answered.false_alarm.retain(|actor| !actors.contains(actor));
        }
        self.loops.retain(|answered| !(answered.right.is_empty() && answered.false_alarm.is_empty()));
    }
}

impl AnsweredLoop {
    /// What the answers come to: the side of more actors, if these are as many as the quorum.
    #[must_use]
    pub fn ruling(&self, quorum: usize) -> Ruling {
        let (right, wrong) = (self.right.len(), self.false_alarm.len());
        if right == wrong {
            Ruling::Contradicted
        } else if right.max(wrong) < quorum {
            Ruling::TooFew
        } else if right > wrong {
            Ruling::Loop
        } else {
            Ruling::FalseAlarm
        }
    }

    fn label(&self, quorum: usize) -> Option<Label> {
        let is_loop = match self.ruling(quorum) {
            Ruling::Loop => true,
            Ruling::FalseAlarm => false,
            Ruling::Contradicted | Ruling::TooFew => return None,
        };
        let PublishedLoop { tenant, session, agent, detector, first, last, .. } = &self.about;
        let counted = |place: &super::places::EventPlace| if self.names_agent { place.in_agent } else { place.index };
        // A producer's counter may go back.
        let (one, other) = (counted(first), counted(last));
        Some(Label {
            tenant: tenant.clone(),
            session: session.clone(),
            agent: self.names_agent.then(|| agent.clone()),
            is_loop,
            first: one.min(other),
            last: one.max(other),
            kind: detector.as_str().to_owned(),
            is_ambiguous: false,
        })
    }

    fn line(&self, label: &Label) -> String {
        let (agree, contradict) = if label.is_loop { (&self.right, &self.false_alarm) } else { (&self.false_alarm, &self.right) };
        let row = LabelRow {
            tenant: &label.tenant,
            session: &label.session,
            agent: label.agent.as_deref(),
            label: if label.is_loop { "loop" } else { "ok" },
            first_event_index: label.first,
            last_event_index: label.last,
            kind: self.about.detector.as_str(),
            answered_by: agree.iter().map(String::as_str).collect(),
            contradicted_by: contradict.iter().map(String::as_str).collect(),
        };
        serde_json::json!(row).to_string()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fit::answered::GivenAnswer;
    use crate::fit::places::EventPlace;

    /// A loop of a session, held for one by the first and for a false alarm by the second.
    pub(in crate::fit) fn answered(session: &str, right: &[&str], false_alarm: &[&str]) -> AnsweredLoop {
        let of = |actors: &[&str]| actors.iter().map(|actor| (*actor).to_owned()).collect();
        let about = PublishedLoop {
            tenant: String::new(),
            session: session.to_owned(),
            agent: "main".to_owned(),
            detector: Detector::SimilarRepeat,
            tool: "t".to_owned(),
            first: EventPlace { index: 2, in_agent: 1 },
            last: EventPlace { index: 5, in_agent: 4 },
        };
        AnsweredLoop { about, names_agent: false, right: of(right), false_alarm: of(false_alarm) }
    }

    #[test]
    fn a_label_needs_as_many_actors_as_the_quorum_and_more_than_contradict_it() {
        let rulings = |quorum| {
            [answered("a", &["x"], &[]), answered("b", &["x"], &["y"]), answered("c", &["z"], &["x", "y"])]
                .map(|answered| answered.ruling(quorum))
        };
        assert_eq!(rulings(1), [Ruling::Loop, Ruling::Contradicted, Ruling::FalseAlarm]);
        assert_eq!(rulings(2), [Ruling::TooFew, Ruling::Contradicted, Ruling::FalseAlarm]);
        assert_eq!(rulings(3)[2], Ruling::TooFew);
    }

    #[test]
    fn answers_of_a_topic_are_those_of_one_actor() {
        let about = answered("s", &[], &[]).about;
        let given = |actor: &str| GivenAnswer {
            tenant: String::new(),
            episode: "e".to_owned(),
            actor: actor.to_owned(),
            judged: Judged::FalseAlarm,
        };
        let mut all = Answered::default();
        all.answers.extend(["ann", "bob", "eve"].map(given));
        all.loops.insert((String::new(), "e".to_owned()), about);
        assert_eq!(Answers::of(&all).labels(2).len(), 1);
        all.forget_names();
        let answers = Answers::of(&all);
        assert_eq!((answers.labels(1).len(), answers.labels(2).len(), answers.superseded), (1, 0, 2));
    }

    #[test]
    fn a_line_is_a_label_and_names_who_answered() {
        let one = answered("c", &["z"], &["x", "y"]);
        let label = one.label(2).unwrap();
        let line = one.line(&label);
        assert_eq!(Label::parse(&line).unwrap(), label);
        assert!(line.contains(r#""answered_by":["x","y"]"#) && line.contains(r#""contradicted_by":["z"]"#), "{line}");
        let of_several = AnsweredLoop { names_agent: true, ..one };
        let label = of_several.label(1).unwrap();
        assert_eq!((label.agent.as_deref(), label.first, label.last), (Some("main"), 1, 4));
        assert_eq!(Label::parse(&of_several.line(&label)).unwrap(), label);
    }
}
