//! The text of a command: that of its detector, what several detectors recommend together, and what holds for all of them.

use crate::detect::{Advice, CommandText, Detector, Flags, TextContext};
use crate::engine::deciding::fusion::Recommended;
use crate::policy::Policy;

/// After so many nudges that changed nothing, the next one that no block may follow asks for a person.
const NUDGES_UNHEEDED: u32 = 2;

/// The text of a command. `recommended`: where the detectors decide together.
pub(crate) fn text(policy: &Policy, context: &TextContext<'_>, recommended: Option<Recommended>) -> CommandText {
    let finding = context.finding;
    let CommandText { mut text, summary, advice } = policy.detectors.text(context);
    if let Some(fused) = recommended.and_then(|recommended| together(context, recommended)) {
        text = fused;
    }
    let is_waiting = context.flags.contains(Flags::POLL) || finding.poll_factor > 1;
    let may_block = context.is_block || finding.can_block();
    let asks_human = context.nudges >= NUDGES_UNHEEDED && !may_block && !is_waiting;
    if finding.tier == 0 && context.nudges > 0 && !context.is_block && !counts_itself(finding.detector) {
        let ask = if asks_human { " If you cannot, ask a person." } else { "" };
        text = format!("Reminder {}: {text}{ask}", context.nudges);
    }
    if context.flags.contains(Flags::POLL) && !context.is_block {
        text.push_str(" It may not be ready: wait longer before asking again, or do something else meanwhile.");
    }
    text.push_str(context.bound);
    let advice = match recommended {
        Some(Recommended::Replan) => Advice::Replan,
        Some(Recommended::Backtrack) => Advice::Backtrack,
        Some(Recommended::Escalate) => Advice::AskHuman,
        None if context.is_block && context.blocks_all => Advice::Stop,
        None if context.flags.contains(Flags::POLL) => Advice::Wait,
        None if asks_human => Advice::AskHuman,
        None => advice,
    };
    CommandText { text, summary, advice }
}

/// Whether the texts of a detector hold its count already, as IronCurtain's warnings do.
const fn counts_itself(detector: Detector) -> bool {
    matches!(detector, Detector::Stagnation | Detector::Stuck)
}

/// The text for what several detectors recommend together; a block has the text of its detector.
fn together(context: &TextContext<'_>, recommended: Recommended) -> Option<String> {
    let n = context.count();
    let lead = format!("{}: {n} {}", context.tool, if n == 1 { "step shows" } else { "steps show" });
    match recommended {
        Recommended::Replan => Some(format!("[System] {lead} signs of a loop. Make a new plan.")),
        Recommended::Backtrack => {
            Some(format!("[System] {lead} signs of a dead end. Undo to the point before the repeated error."))
        }
        Recommended::Escalate if !context.is_block => {
            Some(format!("[System] {lead} signs of a loop that goes on. Stop and ask a human for help."))
        }
        Recommended::Escalate => None,
    }
}
