//! What an agent does just now, in a word. Lists, pages, command lines and sums show this word and find no other one.

use crate::detect::Advice;
use crate::engine::deciding::episode::Episode;
use crate::engine::{command::Action, session::Head};
use crate::event::EventTime;
use crate::policy::Detector;

/// The state of an agent. Of several that apply, the last one in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AgentState {
    #[default]
    Running,
    /// It waits: its last call looked whether something is done.
    Polling,
    /// Its last call belongs to a loop that was spoken about, and nothing is in force any more.
    Looping,
    /// In shadow mode, or in the control arm of a trial.
    WouldNudge,
    /// Likewise.
    WouldBlock,
    Nudged,
    /// What was sent last asks for a person.
    AsksHuman,
    Blocked,
    /// By an operator.
    Stopped,
    Ended,
}

impl AgentState {
    pub const ALL: [Self; 10] = [
        Self::Running,
        Self::Polling,
        Self::Looping,
        Self::WouldNudge,
        Self::WouldBlock,
        Self::Nudged,
        Self::AsksHuman,
        Self::Blocked,
        Self::Stopped,
        Self::Ended,
    ];

    /// Its word in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Polling => "polling",
            Self::Looping => "looping",
            Self::WouldNudge => "would_nudge",
            Self::WouldBlock => "would_block",
            Self::Nudged => "nudged",
            Self::AsksHuman => "asks_human",
            Self::Blocked => "blocked",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
        }
    }

    /// Whether it goes round in circles, whatever is done about it.
    #[must_use]
    pub const fn loops(self) -> bool {
        matches!(self, Self::Looping | Self::WouldNudge | Self::WouldBlock | Self::Nudged | Self::AsksHuman | Self::Blocked)
    }
}

/// What the state of an agent depends on beside its head.
#[derive(Debug, Clone, Copy, Default)]
pub struct Surroundings {
    /// Number of its next call.
    pub next_sequence: u64,
    /// Its last call waits for something.
    pub polls: bool,
    /// A stop binds it.
    pub is_stopped: bool,
    /// What is published is to be obeyed: false in shadow mode.
    pub binds: bool,
    pub now: EventTime,
}

/// The state of an agent, and of one that loops who found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentStanding {
    pub state: AgentState,
    pub detector: Option<Detector>,
    /// When it was first spoken about.
    pub since: Option<EventTime>,
}

impl AgentStanding {
    #[must_use]
    pub fn of(head: &Head, around: &Surroundings) -> Self {
        if head.has_ended {
            return Self { state: AgentState::Ended, ..Self::default() };
        }
        let found = Self::placed(head, around).or_else(|| Self::unsent(head, around)).or_else(|| Self::unended(head, around));
        let calm = if around.polls { AgentState::Polling } else { AgentState::Running };
        let found = found.unwrap_or(Self { state: calm, ..Self::default() });
        if around.is_stopped { Self { state: AgentState::Stopped, ..found } } else { found }
    }

    /// By what is in force. A block outweighs what was said since.
    fn placed(head: &Head, around: &Surroundings) -> Option<Self> {
        let in_force = || head.board.verdicts.iter().filter(|verdict| verdict.expires_at > around.now);
        let gravest = in_force().max_by_key(|verdict| (verdict.action == Action::Block, verdict.issued_at))?;
        let state = match (gravest.action == Action::Block, around.binds) {
            (true, true) => AgentState::Blocked,
            (true, false) => AgentState::WouldBlock,
            (false, true) if gravest.advice == Some(Advice::AskHuman) => AgentState::AsksHuman,
            (false, true) => AgentState::Nudged,
            (false, false) => AgentState::WouldNudge,
        };
        Some(Self { state, detector: gravest.detector(), since: in_force().map(|verdict| verdict.issued_at).min() })
    }

    /// By what would be in force had it been sent.
    fn unsent(head: &Head, around: &Surroundings) -> Option<Self> {
        let of_control = head.episodes.iter().filter(|episode| episode.is_control);
        let unsent = || of_control.clone().chain(&head.shadow_episodes).filter(|episode| episode.until > around.now);
        let is_block = |episode: &Episode| episode.block_until.is_some_and(|until| until > around.now);
        let gravest = unsent().max_by_key(|episode| (is_block(episode), episode.until))?;
        let state = if is_block(gravest) { AgentState::WouldBlock } else { AgentState::WouldNudge };
        Some(Self { state, detector: Some(gravest.detector), since: unsent().map(|episode| episode.begun).min() })
    }

    /// By a loop that goes on although nothing is in force any more. An agent that has been silent since, or for as long as what it
    /// was sent was in force, is not known to go on.
    fn unended(head: &Head, around: &Surroundings) -> Option<Self> {
        let is_heard = |episode: &Episode| {
            let held_ms = episode.until.0 - episode.begun.0;
            head.time > episode.until && around.now < head.time.plus_ms(held_ms)
        };
        let mut episodes = head.episodes.iter().chain(&head.shadow_episodes);
        let going_on = episodes.find(|episode| episode.last_seen + 1 >= around.next_sequence && is_heard(episode))?;
        Some(Self { state: AgentState::Looping, detector: Some(going_on.detector), since: Some(going_on.begun) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::command::CommandId;
    use crate::identity::Hash64;

    const NOW: EventTime = EventTime(1_000);

    fn episode(until: i64, block_until: Option<i64>, is_control: bool) -> Episode {
        Episode {
            identity: Hash64(1),
            detector: Detector::Stuck,
            count: 3,
            tier: 1,
            nudges: 1,
            hits_since_nudge: 0,
            last_seen: 4,
            block_until: block_until.map(EventTime),
            level: 1,
            id: CommandId([1; 16]),
            is_control,
            begun: EventTime(500),
            until: EventTime(until),
        }
    }

    fn of(head: &Head, around: Surroundings) -> AgentState {
        AgentStanding::of(head, &Surroundings { now: NOW, next_sequence: 9, binds: true, ..around }).state
    }

    #[test]
    fn what_was_not_sent_is_as_long_and_as_grave_as_what_was() {
        for (until, block_until, expected) in [
            (1_001, None, AgentState::WouldNudge),
            (1_001, Some(1_001), AgentState::WouldBlock),
            (1_001, Some(1_000), AgentState::WouldNudge),
            (1_000, None, AgentState::Running),
        ] {
            let episode = episode(until, block_until, true);
            let control = Head { episodes: vec![episode], ..Head::default() };
            let shadow = Head { shadow_episodes: vec![Episode { is_control: false, ..episode }], ..Head::default() };
            for head in [control, shadow] {
                assert_eq!(of(&head, Surroundings::default()), expected, "{until} {block_until:?}");
            }
        }
        // An episode of the live track says nothing beside its verdict.
        let sent = Head { episodes: vec![episode(1_001, None, false)], ..Head::default() };
        assert_eq!(of(&sent, Surroundings::default()), AgentState::Running);
    }

    #[test]
    fn a_loop_goes_on_until_a_call_leaves_it_and_ends_with_its_agent() {
        let mut head = Head { episodes: vec![episode(900, None, false)], time: EventTime(950), ..Head::default() };
        let at = |next_sequence| Surroundings { next_sequence, now: NOW, binds: true, ..Surroundings::default() };
        assert_eq!(AgentStanding::of(&head, &at(5)).state, AgentState::Looping);
        let later = Surroundings { now: EventTime(1_350), ..at(5) };
        assert_eq!(AgentStanding::of(&head, &later).state, AgentState::Running, "silent for as long as the nudge held");
        let silent = Head { time: EventTime(900), ..head.clone() };
        assert_eq!(AgentStanding::of(&silent, &at(5)).state, AgentState::Running, "not heard of since");
        assert_eq!(AgentStanding::of(&head, &at(5)).since, Some(EventTime(500)));
        assert_eq!(AgentStanding::of(&head, &at(6)).state, AgentState::Running);
        assert_eq!(of(&head, Surroundings { polls: true, ..Surroundings::default() }), AgentState::Polling);
        assert_eq!(of(&head, Surroundings { polls: true, is_stopped: true, ..Surroundings::default() }), AgentState::Stopped);
        head.has_ended = true;
        assert_eq!(of(&head, Surroundings { is_stopped: true, ..Surroundings::default() }), AgentState::Ended);
    }
}
