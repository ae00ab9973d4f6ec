//! What holds after every input of a session, by name. Tests assert all of it after every event of every stream they make;
//! `tests/it/invariants.rs` breaks each on purpose.

use crate::detect::Flags;
use crate::engine::command::{Action, ReasonCode};
use crate::engine::effects::Effects;
use crate::engine::session::Session;
use crate::limits::{ACTIVE_VERDICTS_MAX, RECENT_IDS_MAX, SENT_TEXTS_MAX};
use crate::policy::{Detector, Mode, Policy};

/// Something that always holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// An event gives at most one command beside those that lift blocks.
    /// Broken by `two_commands_for_one_event_are_told`.
    OneCommand,
    /// Commands of a session are numbered 1, 2, 3 …, live and shadow apart.
    /// Broken by `a_gap_in_the_numbers_is_told`.
    NumbersWithoutGap,
    /// A command expires after the event that caused it.
    /// Broken by `a_command_that_has_expired_at_birth_is_told`.
    CommandsExpire,
    /// A block comes from a detector in mode `block`, or from fusion where it decides.
    /// Broken by `a_block_of_a_detector_that_may_not_block_is_told`.
    OnlyBlockersBlock,
    /// Where the policy says so, an episode with a block had a nudge, but for the rates.
    /// Broken by `a_block_without_a_nudge_is_told`.
    NudgeBeforeBlock,
    /// A fresh finding is about a counted step, but for those of `call_rate`, which counts all, and of texts.
    /// Broken by `a_finding_about_a_transparent_step_is_told`.
    FindingsCount,
    /// The ring holds at most `history_steps` steps, and its floor lies within what was counted.
    /// Broken by `a_ring_of_another_size_is_told`.
    RingBounded,
    /// Each ladder holds at most `episodes.kept` episodes, one of an identity.
    /// Broken by `an_episode_too_many_is_told`.
    EpisodesBounded,
    /// At most sixteen verdicts stand, none of them past its time.
    /// Broken by `a_verdict_past_its_time_is_told`.
    VerdictsStand,
    /// At most 64 event ids and 8 texts are remembered.
    /// Broken by `an_id_too_many_is_told`.
    MemoryBounded,
    /// A timer stands where one is needed: idleness always, the earliest end of a verdict, open calls.
    /// Broken by `a_verdict_without_a_timer_is_told`.
    TimersStand,
}

impl Invariant {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::OneCommand,
        Self::NumbersWithoutGap,
        Self::CommandsExpire,
        Self::OnlyBlockersBlock,
        Self::NudgeBeforeBlock,
        Self::FindingsCount,
        Self::RingBounded,
        Self::EpisodesBounded,
        Self::VerdictsStand,
        Self::MemoryBounded,
        Self::TimersStand,
    ];

    /// Those that do not hold after an event. `before` is the live and the shadow number the session had before it.
    #[must_use]
    pub fn broken(policy: &Policy, session: &Session, effects: &Effects, before: (u64, u64)) -> Vec<Self> {
        Self::ALL.into_iter().filter(|invariant| !invariant.holds(policy, session, effects, before)).collect()
    }

    fn holds(self, policy: &Policy, session: &Session, effects: &Effects, before: (u64, u64)) -> bool {
        let head = &session.head;
        let history = &session.history;
        let ladders = [&head.episodes, &head.shadow_episodes];
        match self {
            Self::OneCommand => effects.commands.iter().filter(|command| command.action != Action::Unblock).count() <= 1,
            Self::NumbersWithoutGap => {
                let numbers = |shadow| {
                    effects.commands.iter().filter(move |command| command.is_shadow == shadow).map(|command| command.seq)
                };
                numbers(false).eq(before.0 + 1..=head.live_seq) && numbers(true).eq(before.1 + 1..=head.shadow_seq)
            }
            Self::CommandsExpire => effects.commands.iter().all(|command| command.expires_at > head.time),
            Self::OnlyBlockersBlock => effects.commands.iter().filter(|command| command.action == Action::Block).all(|command| {
                matches!(command.reason, ReasonCode::Detector(detector) if policy.detectors.mode(detector) == Mode::Block)
            }),
            Self::NudgeBeforeBlock => {
                !policy.episodes.nudge_before_block
                    || ladders.into_iter().flatten().all(|episode| {
                        episode.block_until.is_none() || episode.nudges > 0 || episode.detector == Detector::CallRate
                    })
            }
            Self::FindingsCount => effects
                .findings
                .iter()
                .filter(|finding| finding.is_fresh && !matches!(finding.detector, Detector::CallRate | Detector::TextOnly))
                .all(|finding| history.get(finding.last).is_some_and(|step| !step.is_transparent())),
            Self::RingBounded => {
                history.len() <= policy.history_steps
                    && history.capacity() == policy.history_steps
                    && history.floor() <= history.next_sequence()
            }
            Self::EpisodesBounded => ladders.into_iter().all(|episodes| {
                let mut identities: Vec<u64> = episodes.iter().map(|episode| episode.identity.0).collect();
                identities.sort_unstable();
                identities.dedup();
                episodes.len() <= policy.episodes.kept && identities.len() == episodes.len()
            }),
            Self::VerdictsStand => {
                head.verdicts.len() <= ACTIVE_VERDICTS_MAX
                    && head.verdicts.iter().all(|verdict| verdict.expires_at > head.time)
            }
            Self::MemoryBounded => head.recent_events.len() <= RECENT_IDS_MAX && head.sent_texts.len() <= SENT_TEXTS_MAX,
            Self::TimersStand => {
                let has_open = history.ring().any(|step| step.flags.has(Flags::OPEN));
                head.idle_due.is_some()
                    && head.verdict_due == head.verdicts.iter().map(|verdict| verdict.expires_at).min()
                    && (!has_open || head.open_due.is_some())
            }
        }
    }
}
