//! Why a finding led to no command of its own.

use loopwarden_core::detect::Finding;
use loopwarden_core::engine::{Action, Command, Session};
use loopwarden_core::policy::{Mode, Policy};

use crate::cases::stepped::Answer;

/// Why a finding led to no command of its own; empty where it did.
pub(super) fn of_finding(finding: &Finding, answer: &Answer, session: &Session, policy: &Policy) -> String {
    // A shadow's word keeps no live finding silent.
    let hushes = |command: &&Command| command.action != Action::Unblock && (!command.is_shadow || finding.mode == Mode::Shadow);
    let spoke = answer.commands.iter().find(hushes);
    if let Some(command) = spoke {
        let by = command.reason.as_str();
        return match () {
            () if by == finding.detector.as_str() => String::new(),
            () if command.also.contains(&finding.detector) => format!("agrees with {by}"),
            () => format!("{by} spoke; an event gets one command"),
        };
    }
    if !finding.is_current {
        return "this event takes no part in it".to_owned();
    }
    let episodes = if finding.mode == Mode::Shadow { &session.head.shadow_episodes } else { &session.head.episodes };
    let Some(episode) = episodes.iter().find(|episode| episode.identity == finding.identity) else {
        return "another finding of this event goes first".to_owned();
    };
    let block_until = episode.block_until.filter(|until| *until > session.head.time);
    let rules = &policy.episodes;
    let hits = if block_until.is_some() { rules.renudge_hits } else { rules.hits_until_nudge(episode.nudges) };
    let more = hits.saturating_sub(episode.hits_since_nudge).max(1);
    let or_sooner = if block_until.is_none() && finding.tier > 0 && episode.tier < 3 { ", or at the next tier" } else { "" };
    let again = format!("told at {} of this loop, again after {more} more{or_sooner}", episode.count);
    match block_until {
        Some(until) => format!("blocked until {}; {again}", until.to_rfc3339()),
        None if finding.block_at > finding.count && finding.mode == Mode::Block => {
            format!("{again}; block at {}", finding.block_at)
        }
        None => again,
    }
}
