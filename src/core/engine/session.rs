//! The state of one session: its history, and the small head that goes with it.

use std::collections::VecDeque;

use crate::detect::{History, Streaks};
use crate::engine::cost::{Cost, OpenCost, OpenCosts};
use crate::engine::deciding::episode::{Episode, Track};
use crate::engine::publishing::board::{Board, Verdict};
use crate::engine::timer::TimerTable;
use crate::engine::tree::Tree;
use crate::engine::{exemptions::Exemptions, subject::SubjectKey, watched::Watch, watched::WatchedAgent};
use crate::event::EventTime;
use crate::identity::{Hash64, Hash128, Sketch, hash_text};
use crate::policy::Detector;
use crate::whom::Who;

/// Everything of a session but its steps. Small: it is written at every commit that touches the session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Head {
    pub board: Board,
    /// Number of shadow commands so far.
    pub shadow_seq: u64,
    /// Largest event time so far.
    pub time: EventTime,
    /// How far that was behind its task's event time at an event, the most while the timer of open calls stands, else at the last: a
    /// producer whose clock lags. Milliseconds.
    pub lag_ms: i64,
    /// Swarm of the last event that named one; empty = none.
    pub swarm_id: Box<str>,
    /// Its place among the agents that start each other; none of whom nobody names, and who starts none.
    pub tree: Option<Box<Tree>>,
    /// Last `state` of the world.
    pub world: Hash64,
    /// Last `seq` of the producer + 1; 0 = none.
    pub producer_seq: u64,
    /// Turn of calls not yet evaluated (`evaluate = "turn"`) + 1; 0 = none.
    pub pending_turn: u64,
    /// Hashes of the texts we sent last: our own messages never count as a person's. At most 8.
    pub sent_texts: VecDeque<Hash64>,
    /// Texts of people, oldest first: one like them is no news. At most `USER_TEXTS_MAX`.
    pub user_texts: VecDeque<Sketch>,
    /// Words of people's last texts that could name something, oldest first; at most `USER_WORDS_MAX` of `USER_NAMING_TEXTS_MAX` texts.
    pub user_words: VecDeque<Box<[u16]>>,
    pub streaks: Streaks,
    /// Episodes of live findings, oldest first.
    pub episodes: Vec<Episode>,
    /// Episodes of shadow findings, oldest first.
    pub shadow_episodes: Vec<Episode>,
    /// Where the timers of the session stand.
    pub timers: TimerTable,
    /// The agent has ended: the state goes after `ended_ms`.
    pub has_ended: bool,
    /// Policy that gave the verdicts, first 8 bytes of its hash: another one may lift blocks.
    pub policy: Hash64,
    /// Loops that people let be.
    pub exempt: Exemptions,
    /// Loops that were published, in total; a reset does not restart it.
    pub loops_total: u64,
    /// The last nudge not yet followed by a step: who gave it, and the call it was about.
    pub pending_nudge: Option<PendingNudge>,
    pub open_costs: OpenCosts,
    /// What all of its events have cost; without calls, which its history numbers. A reset does not restart it.
    pub used: Cost,
    /// The agent of a trial, from its first command on.
    pub watched: Option<WatchedAgent>,
}

impl Head {
    pub(super) const fn episodes_mut(&mut self, track: Track) -> &mut Vec<Episode> {
        match track {
            Track::Live => &mut self.episodes,
            Track::Shadow => &mut self.shadow_episodes,
        }
    }

    /// The episode of a loop.
    pub(super) fn episode(&self, track: Track, identity: Hash64) -> Option<&Episode> {
        let episodes = match track {
            Track::Live => &self.episodes,
            Track::Shadow => &self.shadow_episodes,
        };
        episodes.iter().find(|episode| episode.identity == identity)
    }

    /// Number of the next command of a track.
    pub(super) const fn next_seq(&mut self, track: Track) -> u64 {
        match track {
            Track::Live => self.board.next_seq(),
            Track::Shadow => {
                self.shadow_seq += 1;
                self.shadow_seq
            }
        }
    }

    /// The agent whose head it is, as far as its session knows it; none where the subject is no agent.
    #[must_use]
    pub fn who<'a>(&'a self, of: &'a SubjectKey) -> Option<Who<'a>> {
        let SubjectKey::Agent { tenant, session_id, agent_id } = of else { return None };
        let tree = self.tree.as_ref().map(|tree| &*tree.name);
        Some(Who { tenant, session_id, agent_id, swarm_id: &self.swarm_id, tree, labels: None })
    }

    /// Whether the agent is one of a trial whose outcome is not known yet.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watched.is_some_and(|agent| agent.watch == Watch::Open)
    }

    /// Whether an event that is no call was among the last ones: a `reset` that has been here changes nothing any more.
    #[must_use]
    pub fn knows(&self, event_id: &str) -> bool {
        self.board.has_seen(hash_text(event_id).hash64())
    }
}

/// A nudge whose effect has not shown yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingNudge {
    /// Detector that nudged.
    pub detector: Detector,
    /// The call it was about.
    pub call: Hash128,
}

#[derive(Debug, Clone, Default)]
pub struct Session {
    pub head: Head,
    pub history: History,
    /// Sequences of steps changed since the last commit, each once; the task clears it.
    pub changed_steps: Vec<u64>,
    /// Whether the session was ever applied to: a fresh one has no epoch yet.
    pub has_begun: bool,
}

impl Session {
    /// A session that has not begun.
    #[must_use]
    pub fn new(history_steps: usize) -> Self {
        Self { history: History::new(history_steps), ..Self::default() }
    }

    /// Notes that a step must be written again.
    pub fn touch(&mut self, sequence: u64) {
        if !self.changed_steps.contains(&sequence) {
            self.changed_steps.push(sequence);
        }
    }

    /// Bytes held in memory, for the cache's budget. An estimate from capacities; cheap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let verdicts: usize = self.head.board.verdicts.iter().map(|verdict| verdict.message.len() + size_of::<Verdict>()).sum();
        let streaks = &self.head.streaks;
        let texts = (self.head.user_texts.len() + streaks.own_texts.texts.len()) * size_of::<Sketch>();
        let named: usize = self.head.user_words.iter().map(|words| size_of_val(&**words)).sum();
        let tree = self.head.tree.as_ref().map_or(0, |tree| size_of::<Tree>() + tree.name.len() + tree.parent.len());
        let tools = streaks.spent.tools.len() * size_of::<(Hash64, u32)>();
        size_of::<Self>()
            + self.history.bytes()
            + verdicts
            + texts
            + named
            + tools
            + tree
            + self.head.episodes.len() * size_of::<Episode>()
            + self.head.open_costs.calls.len() * size_of::<OpenCost>()
    }
}
