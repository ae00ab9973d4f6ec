//! The head of a session as bytes: what its ring needs to be read again, and all of the session but its steps.
//!
//! The engine's types know nothing of bytes; the private mirrors below are the format. Numbers of variants are stored and never reused.

use std::collections::VecDeque;

use loopwarden_core::detect::{
    Category, DetectorBits, Explored, Matrix, OutcomeRun, OwnTexts, Run, Score, Spent, Streaks, Tally, Texts,
};
use loopwarden_core::engine::{
    CommandId, Cost, Episode, Exemption, Head, OpenCost, OpenCosts, PendingNudge, TimerKind, TimerTable, Tree, Watch,
    WatchedAgent,
};
use loopwarden_core::identity::{Hash64, Sketch};
use loopwarden_core::limits::{
    BUDGET_TOOLS_MAX, HISTORY_STEPS_MAX, OPEN_COSTS_MAX, OWN_TEXTS_MAX, USER_NAMING_TEXTS_MAX, USER_TEXTS_MAX, USER_WORDS_MAX,
};
use loopwarden_core::{event::EventTime, policy::Arm};
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::board::{Hashes, StoredBoard, corrupt, detector, pack, unpack};
use crate::codec::{H64, H128, pack64, pack128, unpack64, unpack128};
use crate::ring::StoredRing;

/// A text: the hashes of its sketch.
type Text = Vec<u32>;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredHead<'a> {
    capacity: u32,
    next_sequence: u64,
    floor: u64,
    len: u32,
    #[serde(borrow)]
    board: StoredBoard<'a>,
    shadow_seq: u64,
    time: i64,
    lag_ms: i64,
    swarm_id: &'a str,
    #[serde(borrow)]
    tree: Option<StoredTree<'a>>,
    world: H64,
    producer_seq: u64,
    pending_turn: u64,
    sent_texts: Hashes,
    user_texts: Vec<Text>,
    user_words: Vec<Vec<u16>>,
    streaks: Option<StoredStreaks>,
    episodes: Vec<StoredEpisode>,
    shadow_episodes: Vec<StoredEpisode>,
    idle_due: Option<i64>,
    open_due: Option<i64>,
    verdict_due: Option<i64>,
    has_ended: bool,
    policy: H64,
    /// Loop identity, until when, and the last step.
    exempt: Vec<(u64, i64, u64)>,
    loops_total: u64,
    pending_nudge: Option<(u8, H128)>,
    open_costs: Vec<(u64, u64, u64, DetectorBits)>,
    open_costs_forgotten: u64,
    /// Tokens, and millionths of a US dollar.
    used: (u64, u64),
    watched: Option<StoredAgent>,
}

impl<'a> StoredHead<'a> {
    pub(super) fn of(head: &'a Head, ring: &StoredRing) -> Self {
        let due = |kind| head.timers.due(kind).map(|due| due.0);
        Self {
            capacity: ring.capacity as u32,
            next_sequence: ring.next_sequence,
            floor: ring.floor,
            len: ring.len as u32,
            board: StoredBoard::of(&head.board),
            shadow_seq: head.shadow_seq,
            time: head.time.0,
            lag_ms: head.lag_ms,
            swarm_id: &head.swarm_id,
            tree: head.tree.as_deref().map(StoredTree::of),
            world: pack64(head.world),
            producer_seq: head.producer_seq,
            pending_turn: head.pending_turn,
            sent_texts: pack(&head.sent_texts),
            user_texts: texts(&head.user_texts),
            user_words: head.user_words.iter().map(|words| words.to_vec()).collect(),
            streaks: (head.streaks != Streaks::default()).then(|| StoredStreaks::of(&head.streaks)),
            episodes: head.episodes.iter().map(StoredEpisode::of).collect(),
            shadow_episodes: head.shadow_episodes.iter().map(StoredEpisode::of).collect(),
            idle_due: due(TimerKind::Idle),
            open_due: due(TimerKind::OpenCalls),
            verdict_due: due(TimerKind::Verdicts),
            has_ended: head.has_ended,
            policy: pack64(head.policy),
            exempt: head.exempt.iter().map(|held| (held.identity.0, held.until.0, held.seen)).collect(),
            loops_total: head.loops_total,
            pending_nudge: head.pending_nudge.map(|nudge| (nudge.detector.number(), pack128(nudge.call))),
            open_costs: head
                .open_costs
                .calls
                .iter()
                .map(|open| (open.sequence, open.tokens, open.micro_usd, open.counted))
                .collect(),
            open_costs_forgotten: head.open_costs.forgotten,
            used: (head.used.tokens, head.used.micro_usd),
            watched: head.watched.as_ref().map(StoredAgent::of),
        }
    }

    /// The head and its ring. What is beyond the bounds is dropped.
    pub(super) fn into_head(self) -> Result<(Head, StoredRing), StoreError> {
        let ring = StoredRing {
            capacity: self.capacity as usize,
            next_sequence: self.next_sequence,
            floor: self.floor,
            len: self.len as usize,
        };
        if ring.len > ring.capacity.max(1) || ring.len as u64 > ring.next_sequence || ring.capacity > HISTORY_STEPS_MAX {
            return Err(corrupt("impossible ring"));
        }
        let exempt = |(identity, until, seen)| Exemption { identity: Hash64(identity), until: EventTime(until), seen };
        let open = |(sequence, tokens, micro_usd, counted)| OpenCost { sequence, tokens, micro_usd, counted };
        let nudge =
            |(number, call)| -> Result<_, StoreError> { Ok(PendingNudge { detector: detector(number)?, call: unpack128(call) }) };
        let words = self.user_words.into_iter().take(USER_NAMING_TEXTS_MAX);
        let head = Head {
            board: self.board.into_board()?,
            shadow_seq: self.shadow_seq,
            time: EventTime(self.time),
            lag_ms: self.lag_ms,
            swarm_id: self.swarm_id.into(),
            tree: self.tree.map(|tree| Box::new(tree.into_tree())),
            world: unpack64(self.world),
            producer_seq: self.producer_seq,
            pending_turn: self.pending_turn,
            sent_texts: unpack(self.sent_texts),
            user_texts: sketches(self.user_texts, USER_TEXTS_MAX),
            user_words: words.map(|words| words.into_iter().take(USER_WORDS_MAX).collect()).collect(),
            streaks: self.streaks.map(StoredStreaks::into_streaks).transpose()?.unwrap_or_default(),
            episodes: self.episodes.into_iter().map(StoredEpisode::into_episode).collect::<Result<_, _>>()?,
            shadow_episodes: self.shadow_episodes.into_iter().map(StoredEpisode::into_episode).collect::<Result<_, _>>()?,
            timers: TimerTable::restored([
                (TimerKind::Idle, self.idle_due.map(EventTime)),
                (TimerKind::OpenCalls, self.open_due.map(EventTime)),
                (TimerKind::Verdicts, self.verdict_due.map(EventTime)),
            ]),
            has_ended: self.has_ended,
            policy: unpack64(self.policy),
            exempt: self.exempt.into_iter().map(exempt).collect(),
            loops_total: self.loops_total,
            pending_nudge: self.pending_nudge.map(nudge).transpose()?,
            open_costs: OpenCosts {
                calls: self.open_costs.into_iter().take(OPEN_COSTS_MAX).map(open).collect(),
                forgotten: self.open_costs_forgotten,
            },
            used: Cost { calls: 0, tokens: self.used.0, micro_usd: self.used.1 },
            watched: self.watched.map(StoredAgent::into_agent).transpose()?,
        };
        Ok((head, ring))
    }
}

fn texts(texts: &VecDeque<Sketch>) -> Vec<Text> {
    texts.iter().map(|text| text.hashes().to_vec()).collect()
}

fn sketches(texts: Vec<Text>, most: usize) -> VecDeque<Sketch> {
    texts.into_iter().take(most).map(Sketch::of_hashes).collect()
}

/// A place among agents that start each other.
#[derive(Serialize, Deserialize)]
struct StoredTree<'a> {
    name: &'a str,
    parent: &'a str,
    depth: u32,
    spawns: u32,
}

impl<'a> StoredTree<'a> {
    fn of(tree: &'a Tree) -> Self {
        Self { name: &tree.name, parent: &tree.parent, depth: tree.depth, spawns: tree.spawns }
    }

    fn into_tree(self) -> Tree {
        Tree { name: self.name.into(), parent: self.parent.into(), depth: self.depth, spawns: self.spawns }
    }
}

/// The agent of a trial.
#[derive(Serialize, Deserialize)]
struct StoredAgent {
    detector: u8,
    arm: u8,
    was_getting_on: bool,
    calls: u64,
    micro_usd: u64,
    calls_outside: u32,
    watch: u8,
}

const ARMS: [Arm; 2] = [Arm::Treatment, Arm::Control];
const WATCHES: [Watch; 3] = [Watch::Open, Watch::Over, Watch::LetBe];

fn number_of<T: PartialEq>(list: &[T], one: &T) -> u8 {
    list.iter().position(|known| known == one).map_or(0, |at| at as u8)
}

impl StoredAgent {
    fn of(agent: &WatchedAgent) -> Self {
        Self {
            detector: agent.detector.number(),
            arm: number_of(&ARMS, &agent.arm),
            was_getting_on: agent.was_getting_on,
            calls: agent.calls,
            micro_usd: agent.micro_usd,
            calls_outside: agent.calls_outside,
            watch: number_of(&WATCHES, &agent.watch),
        }
    }

    fn into_agent(self) -> Result<WatchedAgent, StoreError> {
        let arm = ARMS.get(usize::from(self.arm)).ok_or_else(|| corrupt("unknown arm"))?;
        let watch = WATCHES.get(usize::from(self.watch)).ok_or_else(|| corrupt("unknown watch"))?;
        Ok(WatchedAgent {
            detector: detector(self.detector)?,
            arm: *arm,
            was_getting_on: self.was_getting_on,
            calls: self.calls,
            micro_usd: self.micro_usd,
            calls_outside: self.calls_outside,
            watch: *watch,
        })
    }
}

/// Length and first step; none is one byte.
type StoredTally = Option<(u32, u64)>;

fn pack_tally(tally: Tally) -> StoredTally {
    (tally != Tally::default()).then_some((tally.count, tally.first))
}

fn unpack_tally(tally: StoredTally) -> Tally {
    tally.map_or_else(Tally::default, |(count, first)| Tally { count, first })
}

#[derive(Serialize, Deserialize)]
struct StoredStreaks {
    exact: (H128, StoredTally),
    near: (H128, StoredTally),
    near_tier: u8,
    outcome: (H64, u32, u32, u64),
    stagnation: (StoredTally, H128),
    stuck: StoredTally,
    category: u8,
    tests: StoredTally,
    shell: StoredTally,
    /// Turns and turn; event of the agent's last text, and the step that followed it.
    texts: (u32, u64, H64, u64),
    exploration: Option<StoredExplored>,
    own_texts: Option<(Vec<Text>, u64)>,
    spent: Option<StoredSpent>,
    /// Sum, and the step that raised it.
    score: (i32, u64),
}

#[derive(Serialize, Deserialize)]
struct StoredExplored {
    has_edited: bool,
    files: u32,
    turns: u32,
    last_turn: u64,
    slice: [u8; 8],
    first: u64,
    last_time: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredSpent {
    began: i64,
    calls: u32,
    turns: u32,
    turn: u64,
    tokens: u64,
    cost_micro_usd: u64,
    tools: Vec<(u64, u32)>,
}

impl StoredStreaks {
    fn of(streaks: &Streaks) -> Self {
        let Streaks { exact, near, near_tier, outcome, matrix, tests, shell, texts: of_texts, .. } = streaks;
        let Streaks { exploration, own_texts, spent, score, .. } = streaks;
        Self {
            exact: (pack128(exact.hash), pack_tally(exact.steps)),
            near: (pack128(near.hash), pack_tally(near.steps)),
            near_tier: *near_tier,
            outcome: (pack64(outcome.key), outcome.count, outcome.triggers, outcome.first),
            stagnation: (pack_tally(matrix.stagnation), pack128(matrix.stagnation_fingerprint)),
            stuck: pack_tally(matrix.stuck),
            category: matrix.category.number(),
            tests: pack_tally(*tests),
            shell: pack_tally(*shell),
            texts: (of_texts.turns, of_texts.turn, pack64(of_texts.last.0), of_texts.last.1),
            exploration: (*exploration != Explored::default()).then_some(StoredExplored {
                has_edited: exploration.has_edited,
                files: exploration.files,
                turns: exploration.turns,
                last_turn: exploration.last_turn,
                slice: exploration.slice,
                first: exploration.first,
                last_time: exploration.last_time.0,
            }),
            own_texts: (*own_texts != OwnTexts::default()).then(|| (texts(&own_texts.texts), own_texts.next_step)),
            spent: (*spent != Spent::default()).then(|| StoredSpent {
                began: spent.began.0,
                calls: spent.calls,
                turns: spent.turns,
                turn: spent.turn,
                tokens: spent.tokens,
                cost_micro_usd: spent.cost_micro_usd,
                tools: spent.tools.iter().map(|(tool, calls)| (tool.0, *calls)).collect(),
            }),
            score: (score.sum, score.raised_by),
        }
    }

    fn into_streaks(self) -> Result<Streaks, StoreError> {
        let run = |(hash, steps)| Run { hash: unpack128(hash), steps: unpack_tally(steps) };
        let (key, count, triggers, first) = self.outcome;
        let (turns, turn, last_event, next_step) = self.texts;
        Ok(Streaks {
            exact: run(self.exact),
            near: run(self.near),
            near_tier: self.near_tier,
            outcome: OutcomeRun { key: unpack64(key), count, triggers, first },
            matrix: Matrix {
                stagnation: unpack_tally(self.stagnation.0),
                stuck: unpack_tally(self.stuck),
                stagnation_fingerprint: unpack128(self.stagnation.1),
                category: Category::from_number(self.category).ok_or_else(|| corrupt("unknown category"))?,
            },
            tests: unpack_tally(self.tests),
            shell: unpack_tally(self.shell),
            texts: Texts { turns, turn, last: (unpack64(last_event), next_step) },
            exploration: self.exploration.map_or_else(Explored::default, |explored| Explored {
                has_edited: explored.has_edited,
                files: explored.files,
                turns: explored.turns,
                last_turn: explored.last_turn,
                slice: explored.slice,
                first: explored.first,
                last_time: EventTime(explored.last_time),
            }),
            own_texts: self.own_texts.map_or_else(OwnTexts::default, |(texts, next_step)| OwnTexts {
                texts: sketches(texts, OWN_TEXTS_MAX),
                next_step,
            }),
            spent: self.spent.map_or_else(Spent::default, |spent| Spent {
                began: EventTime(spent.began),
                calls: spent.calls,
                turns: spent.turns,
                turn: spent.turn,
                tokens: spent.tokens,
                cost_micro_usd: spent.cost_micro_usd,
                tools: spent.tools.into_iter().take(BUDGET_TOOLS_MAX).map(|(tool, calls)| (Hash64(tool), calls)).collect(),
            }),
            score: Score { sum: self.score.0, raised_by: self.score.1 },
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredEpisode {
    identity: H64,
    detector: u8,
    count: u32,
    tier: u8,
    nudges: u32,
    hits: u32,
    last_seen: u64,
    block_until: Option<i64>,
    level: u8,
    id: [u8; 16],
    is_control: bool,
    begun: i64,
    until: i64,
}

impl StoredEpisode {
    fn of(episode: &Episode) -> Self {
        Self {
            identity: pack64(episode.identity),
            detector: episode.detector.number(),
            count: episode.count,
            tier: episode.tier,
            nudges: episode.nudges,
            hits: episode.hits_since_nudge,
            last_seen: episode.last_seen,
            block_until: episode.block_until.map(|until| until.0),
            level: episode.level,
            id: episode.id.0,
            is_control: episode.is_control,
            begun: episode.begun.0,
            until: episode.until.0,
        }
    }

    fn into_episode(self) -> Result<Episode, StoreError> {
        Ok(Episode {
            identity: unpack64(self.identity),
            detector: detector(self.detector)?,
            count: self.count,
            tier: self.tier,
            nudges: self.nudges,
            hits_since_nudge: self.hits,
            last_seen: self.last_seen,
            block_until: self.block_until.map(EventTime),
            level: self.level,
            id: CommandId(self.id),
            is_control: self.is_control,
            begun: EventTime(self.begun),
            until: EventTime(self.until),
        })
    }
}
