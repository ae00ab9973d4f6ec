//! The decision itself: a function of what is in force, what the caller can do and which nudges it had. It changes nothing.

use std::sync::Arc;

use crate::{
    staleness::Trust, table::place::Class, wire::answer::Placement, wire::capabilities::Capabilities, wire::verdict::Verdict,
};

/// What a caller gets of a nudge that can only refuse calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WithoutChannel {
    /// A call that would have been the repeat is refused once, with the nudge as the reason. Never another one.
    #[default]
    DenyOnce,
    /// The nudge does not reach the model.
    Drop,
}

/// Where an agent is in its turn, by the kind of its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A call is about to run.
    Before,
    /// A call has ended, with or without success.
    After,
    /// Between calls: the model has spoken.
    Turn,
    /// No answer is expected here.
    Other,
}

/// A verdict in force, seen from one event.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) verdict: Arc<Verdict>,
    /// What it is about. A stop holds until its end, however old the news is, and over all that detectors have placed; what comes from the
    /// history of many is due at a call that it binds, and at no other.
    pub(crate) class: Class,
    /// It binds the call of the event.
    pub(crate) matches: bool,
    /// A nudge that may be handed out now.
    pub(crate) is_due: bool,
}

impl Candidate {
    fn holds(&self, trust: Trust) -> bool {
        trust != Trust::Gone || self.class == Class::Stop
    }
}

/// All that a decision depends on.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) phase: Phase,
    pub(crate) can: Capabilities,
    pub(crate) without_channel: WithoutChannel,
    pub(crate) trust: Trust,
    pub(crate) candidates: &'a [Candidate],
}

/// What is decided. Verdicts by reference into the candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome<'a> {
    Nothing,
    /// The call is refused; whether the turn ends with it.
    Refuse {
        block: &'a Arc<Verdict>,
        stop: bool,
    },
    /// The call would be refused, but the caller cannot; whether a text can reach the model.
    CannotRefuse {
        block: &'a Arc<Verdict>,
        has_channel: bool,
    },
    /// The turn ends after the call.
    Stop {
        block: &'a Arc<Verdict>,
    },
    /// A nudge is handed out.
    Nudge {
        nudge: &'a Arc<Verdict>,
        placement: Placement,
    },
    /// A nudge is handed out as the refusal of one call.
    RefuseOnce {
        nudge: &'a Arc<Verdict>,
    },
    /// These nudges wait for the end of the call.
    Hold {
        nudges: Vec<&'a Arc<Verdict>>,
    },
}

/// Decides by where the agent is.
pub(crate) fn decide<'a>(question: &Question<'a>) -> Outcome<'a> {
    match question.phase {
        Phase::Before => before(question),
        Phase::After => after(question),
        Phase::Turn if question.can.context_before || question.can.context_after => {
            strongest(question, |nudge| !nudge.class.is_of_many())
                .map_or(Outcome::Nothing, |nudge| Outcome::Nudge { nudge: &nudge.verdict, placement: Placement::NextTurn })
        }
        Phase::Turn | Phase::Other => Outcome::Nothing,
    }
}

fn before<'a>(question: &Question<'a>) -> Outcome<'a> {
    let can = question.can;
    let refuses = |held: &&Candidate| held.verdict.is_block() && held.matches && held.holds(question.trust);
    if let Some(block) = question.candidates.iter().filter(refuses).max_by_key(|held| rank(held)) {
        let block = &block.verdict;
        return if can.deny {
            Outcome::Refuse { block, stop: can.stop && block.stops() }
        } else {
            Outcome::CannotRefuse { block, has_channel: can.context_before }
        };
    }
    if can.context_before {
        return strongest(question, |_| true)
            .map_or(Outcome::Nothing, |nudge| Outcome::Nudge { nudge: &nudge.verdict, placement: Placement::Before });
    }
    if can.speaks_after() {
        let nudges: Vec<_> = due(question).filter(|nudge| nudge.class.is_of_many()).map(|nudge| &nudge.verdict).collect();
        return if nudges.is_empty() { Outcome::Nothing } else { Outcome::Hold { nudges } };
    }
    if can.deny && question.without_channel == WithoutChannel::DenyOnce {
        let is_repeat = |nudge: &Candidate| nudge.matches && nudge.verdict.scope.fingerprint.is_some();
        return strongest(question, is_repeat).map_or(Outcome::Nothing, |nudge| Outcome::RefuseOnce { nudge: &nudge.verdict });
    }
    Outcome::Nothing
}

fn after<'a>(question: &Question<'a>) -> Outcome<'a> {
    let stops = |held: &&Candidate| held.verdict.stops() && !held.class.is_of_many() && held.holds(question.trust);
    if question.can.stop
        && let Some(block) = question.candidates.iter().filter(stops).max_by_key(|held| rank(held))
    {
        return Outcome::Stop { block: &block.verdict };
    }
    if !question.can.speaks_after() {
        return Outcome::Nothing;
    }
    strongest(question, |_| true)
        .map_or(Outcome::Nothing, |nudge| Outcome::Nudge { nudge: &nudge.verdict, placement: Placement::AppendToResult })
}

fn due<'a>(question: &Question<'a>) -> impl Iterator<Item = &'a Candidate> {
    let is_fresh = question.trust == Trust::Fresh;
    question.candidates.iter().filter(move |held| is_fresh && held.is_due && !held.verdict.is_block())
}

fn strongest<'a>(question: &Question<'a>, is_meant: impl Fn(&Candidate) -> bool) -> Option<&'a Candidate> {
    due(question).filter(|nudge| is_meant(nudge)).max_by_key(|held| rank(held))
}

/// That of an operator first, then the firmer one, then the later one, then any, but always the same.
fn rank(held: &Candidate) -> (bool, u8, i64, &str) {
    (held.class == Class::Stop, held.verdict.level, held.verdict.issued_at.0, &held.verdict.command_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{wire::verdict::read_command, wire::verdict::tests::command};

    fn candidate(id: &str, action: &str, level: u8) -> Candidate {
        let mut command = command(id, action, 1);
        command["level"] = level.into();
        if level == 4 {
            command["advice"] = "stop".into();
        }
        let verdict = read_command(command.to_string().as_bytes()).unwrap().verdict.unwrap();
        Candidate { verdict: Arc::new(verdict), class: Class::Own, matches: true, is_due: true }
    }

    /// What is decided, in a word, and about which command.
    fn decided(phase: Phase, can: Capabilities, trust: Trust, candidates: &[Candidate]) -> String {
        let question = Question { phase, can, without_channel: WithoutChannel::DenyOnce, trust, candidates };
        match decide(&question) {
            Outcome::Nothing => "nothing".to_owned(),
            Outcome::Refuse { block, stop } => format!("refuse {} {stop}", block.command_id),
            Outcome::CannotRefuse { block, has_channel } => format!("cannot {} {has_channel}", block.command_id),
            Outcome::Stop { block } => format!("stop {}", block.command_id),
            Outcome::Nudge { nudge, placement } => format!("nudge {} {placement:?}", nudge.command_id),
            Outcome::RefuseOnce { nudge } => format!("once {}", nudge.command_id),
            Outcome::Hold { nudges } => format!("hold {}", nudges.len()),
        }
    }

    fn can(words: &[&str]) -> Capabilities {
        serde_json::from_value(serde_json::json!(words)).unwrap()
    }

    #[test]
    fn a_block_refuses_the_calls_it_binds_the_firmest_first() {
        let held = [candidate("a", "block", 3), candidate("b", "block", 4), candidate("n", "nudge", 2)];
        assert_eq!(decided(Phase::Before, Capabilities::DENY, Trust::Fresh, &held), "refuse b false");
        assert_eq!(decided(Phase::Before, Capabilities::ALL, Trust::Fresh, &held), "refuse b true");
        assert_eq!(decided(Phase::Before, can(&["context_before"]), Trust::Fresh, &held), "cannot b true");
        assert_eq!(decided(Phase::Before, Capabilities::NOTHING, Trust::Fresh, &held), "cannot b false");
        assert_eq!(decided(Phase::After, Capabilities::ALL, Trust::Fresh, &held), "stop b");
        assert_eq!(decided(Phase::After, can(&["deny", "context_after"]), Trust::Fresh, &held), "nudge n AppendToResult");
        let foreign = [Candidate { matches: false, ..candidate("a", "block", 3) }];
        assert_eq!(decided(Phase::Before, Capabilities::ALL, Trust::Fresh, &foreign), "nothing");
        assert_eq!(decided(Phase::Other, Capabilities::ALL, Trust::Fresh, &held), "nothing");
    }

    #[test]
    fn blocks_outlive_the_news_and_nudges_do_not() {
        let held = [candidate("a", "block", 3)];
        assert_eq!(decided(Phase::Before, Capabilities::DENY, Trust::Aging, &held), "refuse a false");
        assert_eq!(decided(Phase::Before, Capabilities::DENY, Trust::Gone, &held), "nothing");
        let nudge = [candidate("n", "nudge", 1)];
        assert_eq!(decided(Phase::Before, Capabilities::ALL, Trust::Aging, &nudge), "nothing");
    }

    #[test]
    fn a_nudge_goes_where_the_caller_can_speak() {
        let held = [candidate("n", "nudge", 1), candidate("m", "nudge", 2)];
        assert_eq!(decided(Phase::Before, can(&["deny", "context_before"]), Trust::Fresh, &held), "nudge m Before");
        assert_eq!(decided(Phase::Before, can(&["deny", "context_after"]), Trust::Fresh, &held), "nothing");
        assert_eq!(decided(Phase::After, can(&["replace_result"]), Trust::Fresh, &held), "nudge m AppendToResult");
        assert_eq!(decided(Phase::After, can(&["deny", "context_before"]), Trust::Fresh, &held), "nothing");
        assert_eq!(decided(Phase::Turn, can(&["context_after"]), Trust::Fresh, &held), "nudge m NextTurn");
        assert_eq!(decided(Phase::Turn, Capabilities::DENY, Trust::Fresh, &held), "nothing");
        let had_already = [Candidate { is_due: false, ..candidate("n", "nudge", 1) }];
        assert_eq!(decided(Phase::Before, Capabilities::ALL, Trust::Fresh, &had_already), "nothing");
        let of_others = [Candidate { class: Class::Shared, ..candidate("n", "nudge", 1) }];
        assert_eq!(decided(Phase::Before, can(&["context_after"]), Trust::Fresh, &of_others), "hold 1");
        assert_eq!(decided(Phase::Turn, can(&["context_after"]), Trust::Fresh, &of_others), "nothing");
    }

    #[test]
    fn who_can_only_refuse_refuses_the_repeat_once_and_no_other_call() {
        let held = [candidate("n", "nudge", 1)];
        assert_eq!(decided(Phase::Before, Capabilities::DENY, Trust::Fresh, &held), "once n");
        let foreign = [Candidate { matches: false, ..held[0].clone() }];
        assert_eq!(decided(Phase::Before, Capabilities::DENY, Trust::Fresh, &foreign), "nothing");
        let mut wide = (*held[0].verdict).clone();
        wide.scope.fingerprint = None;
        let wide = [Candidate { verdict: Arc::new(wide), ..held[0].clone() }];
        assert_eq!(decided(Phase::Before, Capabilities::DENY, Trust::Fresh, &wide), "nothing");
        let question = Question {
            phase: Phase::Before,
            can: Capabilities::DENY,
            without_channel: WithoutChannel::Drop,
            trust: Trust::Fresh,
            candidates: &held,
        };
        assert_eq!(decide(&question), Outcome::Nothing);
    }
}
