//! What a command says: the detector's own words, what several detectors recommend together, and what holds for all of them.

use crate::detect::{Advice, Detector, Flags, Said, Words};
use crate::engine::deciding::fusion::Recommended;
use crate::policy::Policy;

/// The words of a command. `recommended`: where the detectors decide together.
pub(crate) fn say(policy: &Policy, words: &Words<'_>, recommended: Option<Recommended>) -> Said {
    let finding = words.finding;
    let mut said = policy.detectors.words(words);
    if let Some(text) = recommended.and_then(|recommended| together(words, recommended)) {
        said.text = text;
    }
    if finding.tier == 0 && words.nudges > 0 && !words.is_block && !counts_itself(finding.detector) {
        said.text = format!("Reminder {}: {}", words.nudges, said.text);
    }
    if words.flags.has(Flags::POLL) && !words.is_block {
        said.text.push_str(" It may not be ready: wait longer before asking again, or do something else meanwhile.");
    }
    said.advice = match recommended {
        Some(Recommended::Replan) => Advice::Replan,
        Some(Recommended::Backtrack) => Advice::Backtrack,
        Some(Recommended::Escalate) => Advice::AskHuman,
        None if words.is_block && words.blocks_all => Advice::Stop,
        None if words.flags.has(Flags::POLL) => Advice::Wait,
        None => said.advice,
    };
    said
}

/// IronCurtain's warnings count themselves.
const fn counts_itself(detector: Detector) -> bool {
    matches!(detector, Detector::Stagnation | Detector::Stuck)
}

/// What several detectors say together; a block has the words of its detector.
fn together(words: &Words<'_>, recommended: Recommended) -> Option<String> {
    let n = words.count();
    let lead = format!("{}: {n} {}", words.tool, if n == 1 { "step shows" } else { "steps show" });
    match recommended {
        Recommended::Replan => Some(format!("[System] {lead} signs of a loop. Make a new plan.")),
        Recommended::Backtrack => {
            Some(format!("[System] {lead} signs of a dead end. Undo to the point before the repeated error."))
        }
        Recommended::Escalate if !words.is_block => {
            Some(format!("[System] {lead} signs of a loop that goes on. Stop and ask a human for help."))
        }
        Recommended::Escalate => None,
    }
}
