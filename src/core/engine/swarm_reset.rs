//! A swarm's reset: what was counted up to it is forgotten, and blocks in force are lifted.

use crate::engine::command::{Action, Command, Placement, ReasonCode, Trigger, Verdict};
use crate::engine::effects::{Effects, SwarmCallKey};
use crate::engine::publish::command_id;
use crate::engine::swarm::{SwarmCounter, SwarmEngine, forget};
use crate::engine::swarm_verdicts::arm_verdicts;
use crate::event::EventTime;

impl SwarmEngine {
    /// Calls up to this time no longer count; all steps are new. A block in force gets an `unblock`: who follows commands alone would
    /// stand by it until it expires.
    pub(super) fn reset(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, time: EventTime, out: &mut Effects) {
        let floor = counter.floor.map_or(time, |floor| floor.max(time));
        counter.floor = Some(floor);
        for pane in counter.panes.values_mut() {
            pane.agents.retain(|_, agent| agent.last > floor);
            if pane.further_last <= floor {
                pane.further_calls = 0;
            }
        }
        counter.panes.retain(|_, pane| !pane.agents.is_empty() || pane.further_calls > 0);
        if !counter.verdicts.is_empty() {
            let now = floor.max(counter.time);
            let held = std::mem::take(&mut counter.verdicts);
            out.verdicts_changed = true;
            arm_verdicts(counter, out);
            for block in held.iter().filter(|verdict| verdict.action == Action::Block && verdict.expires_at > now) {
                out.commands.extend(self.unblock(key, counter, block, now));
            }
        }
        // What an earlier period told is void behind the floor, so nothing is left that a new counter would not know.
        if counter.panes.is_empty() && counter.periods.values().all(|period| period.epoch < floor.0) {
            forget(counter, out);
        }
    }

    /// The next word of the period that told last: above the block, and with the same id whichever commit it comes in.
    fn unblock(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, block: &Verdict, now: EventTime) -> Option<Command> {
        let period_ms = self.period_ms(key);
        let (start, period) = counter.periods.iter_mut().next_back()?;
        period.seq += 1;
        let end = if period_ms > 0 { start + period_ms } else { 0 };
        let (subject, reason) = (key.subject(), ReasonCode::Reset);
        Some(Command {
            id: command_id(self.app(), &subject, period.epoch, period.seq, Action::Unblock, reason, &end.to_string()),
            action: Action::Unblock,
            subject,
            scope: block.scope.clone(),
            level: block.level,
            epoch: period.epoch,
            seq: period.seq,
            episode: block.episode,
            // A reset says when its agent sent it, which may be before anybody had the block.
            issued_at: now.max(block.issued_at),
            expires_at: block.expires_at,
            is_shadow: false,
            reason,
            also: Vec::new(),
            confidence: None,
            summary: format!("block by {} lifted: {}", block.detector.as_str(), reason.as_str()),
            evidence: Vec::new(),
            message: None,
            placement: Placement::NextTurn,
            advice: None,
            trigger: Trigger::Window { end: EventTime(end) },
            contributors: Vec::new(),
            labels: Vec::new(),
        })
    }
}
