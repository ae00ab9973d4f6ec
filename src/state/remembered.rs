//! What lies behind a head: since format 2 texts of people and of the agent, and what the session has spent; since format 3 the score;
//! since format 4 what people let be; since format 5 costs of open calls, and what a trial watches; since format 6 a place in a tree of
//! agents.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use loopwarden_core::detect::{DetectorBits, OwnTexts, Score, Spent};
use loopwarden_core::engine::{Exemption, Head, OpenCost, OpenCosts, Tree, Watch, WatchedAgent};
use loopwarden_core::identity::{Hash64, Sketch};
use loopwarden_core::limits::{
    BUDGET_TOOLS_MAX, OPEN_COSTS_MAX, OWN_TEXTS_MAX, USER_NAMING_TEXTS_MAX, USER_TEXTS_MAX, USER_WORDS_MAX,
};
use loopwarden_core::{event::EventTime, policy::Arm};

use crate::verdict::{corrupt, detector};
use crate::{KeyFamily, StoreError, codec, migrate};

/// The score, and what people's last texts name.
#[derive(Serialize, Deserialize)]
pub(crate) struct Scored {
    sum: i32,
    raised_by: u64,
    user_words: Vec<Vec<u16>>,
    /// Event of the agent's last text, and the step that followed it.
    last_text: (u64, u64),
}

impl Scored {
    pub(crate) fn of(head: &Head) -> Self {
        let (Score { sum, raised_by }, last) = (head.streaks.score, head.streaks.texts.last);
        Self {
            sum,
            raised_by,
            user_words: head.user_words.iter().map(|words| words.to_vec()).collect(),
            last_text: (last.0.0, last.1),
        }
    }

    /// Into a head. What is beyond the bounds is dropped.
    pub(crate) fn put_into(self, head: &mut Head) {
        head.streaks.score = Score { sum: self.sum, raised_by: self.raised_by };
        head.streaks.texts.last = (Hash64(self.last_text.0), self.last_text.1);
        let texts = self.user_words.into_iter().take(USER_NAMING_TEXTS_MAX);
        head.user_words = texts.map(|words| words.into_iter().take(USER_WORDS_MAX).collect()).collect();
    }
}

/// Loops that people let be.
#[derive(Serialize, Deserialize)]
pub(crate) struct LetBe {
    /// Loop identity, until when, and the last step.
    exempt: Vec<(u64, i64, u64)>,
}

impl LetBe {
    pub(crate) fn of(head: &Head) -> Self {
        Self { exempt: head.exempt.iter().map(|held| (held.identity.0, held.until.0, held.seen)).collect() }
    }

    pub(crate) fn put_into(self, head: &mut Head) {
        let one = |(identity, until, seen)| Exemption { identity: Hash64(identity), until: EventTime(until), seen };
        head.exempt = self.exempt.into_iter().map(one).collect();
    }
}

/// Costs of open calls, and what a trial watches. Most sessions have neither.
#[derive(Serialize, Deserialize)]
pub(crate) struct Watched {
    open_costs: Vec<(u64, u64, u64, DetectorBits)>,
    forgotten: u64,
    /// Places of the episodes that the control arm began.
    control: Vec<u16>,
    agent: Option<StoredAgent>,
}

/// The numbers are stored and never reused.
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

impl Watched {
    pub(crate) fn of(head: &Head) -> Option<Self> {
        let places = 0_u16..head.episodes.len() as u16;
        let control: Vec<u16> = places.zip(&head.episodes).filter(|(_, episode)| episode.is_control).map(|(at, _)| at).collect();
        if head.open_costs == OpenCosts::default() && head.watched.is_none() && control.is_empty() {
            return None;
        }
        let OpenCosts { calls, forgotten } = &head.open_costs;
        let open_costs = calls.iter().map(|open| (open.sequence, open.tokens, open.micro_usd, open.counted)).collect();
        Some(Self { open_costs, forgotten: *forgotten, control, agent: head.watched.as_ref().map(StoredAgent::of) })
    }

    /// Into a head with its episodes. What is beyond the bounds is dropped.
    pub(crate) fn put_into(self, head: &mut Head) -> Result<(), StoreError> {
        let open = |(sequence, tokens, micro_usd, counted)| OpenCost { sequence, tokens, micro_usd, counted };
        let calls = self.open_costs.into_iter().take(OPEN_COSTS_MAX).map(open).collect();
        head.open_costs = OpenCosts { calls, forgotten: self.forgotten };
        for at in self.control {
            head.episodes.get_mut(usize::from(at)).ok_or_else(|| corrupt("no such episode"))?.is_control = true;
        }
        head.watched = self.agent.map(StoredAgent::into_agent).transpose()?;
        Ok(())
    }
}

/// A place among agents that start each other.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredTree {
    name: Box<str>,
    parent: Box<str>,
    depth: u32,
    spawns: u32,
}

impl StoredTree {
    /// Format of the head of an agent in a tree. All others have the one before: a program before trees reads it.
    pub(crate) const FORMAT: u8 = migrate::newest(KeyFamily::Head);

    pub(crate) const fn format(head: &Head) -> u8 {
        if head.tree.is_some() { Self::FORMAT } else { Self::FORMAT - 1 }
    }

    /// Writes it behind a head's other parts, where there is one.
    pub(crate) fn append(bytes: Vec<u8>, head: &Head) -> Result<Vec<u8>, StoreError> {
        let Some(tree) = &head.tree else { return Ok(bytes) };
        let Tree { name, parent, depth, spawns } = (**tree).clone();
        codec::append(bytes, &Self { name, parent, depth, spawns })
    }

    pub(crate) fn put_into(self, head: &mut Head) {
        let Self { name, parent, depth, spawns } = self;
        head.tree = Some(Box::new(Tree { name, parent, depth, spawns }));
    }
}

/// A text: the hashes of its sketch.
type Text = Vec<u32>;

#[derive(Serialize, Deserialize)]
pub(crate) struct Remembered {
    user_texts: Vec<Text>,
    own_texts: Option<(Vec<Text>, u64)>,
    spent: Option<StoredSpent>,
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

impl Remembered {
    pub(crate) fn of(head: &Head) -> Self {
        let texts = |texts: &VecDeque<Sketch>| texts.iter().map(|text| text.hashes().to_vec()).collect();
        let (own, spent) = (&head.streaks.own_texts, &head.streaks.spent);
        Self {
            user_texts: texts(&head.user_texts),
            own_texts: (*own != OwnTexts::default()).then(|| (texts(&own.texts), own.next_step)),
            spent: (*spent != Spent::default()).then(|| StoredSpent {
                began: spent.began.0,
                calls: spent.calls,
                turns: spent.turns,
                turn: spent.turn,
                tokens: spent.tokens,
                cost_micro_usd: spent.cost_micro_usd,
                tools: spent.tools.iter().map(|(tool, calls)| (tool.0, *calls)).collect(),
            }),
        }
    }

    /// Into a head. What is beyond the bounds is dropped.
    pub(crate) fn put_into(self, head: &mut Head) {
        let sketches = |texts: Vec<Text>, most: usize| texts.into_iter().take(most).map(Sketch::of_hashes).collect();
        head.user_texts = sketches(self.user_texts, USER_TEXTS_MAX);
        head.streaks.own_texts = self
            .own_texts
            .map_or_else(OwnTexts::default, |(texts, next_step)| OwnTexts { texts: sketches(texts, OWN_TEXTS_MAX), next_step });
        head.streaks.spent = self.spent.map_or_else(Spent::default, |spent| Spent {
            began: EventTime(spent.began),
            calls: spent.calls,
            turns: spent.turns,
            turn: spent.turn,
            tokens: spent.tokens,
            cost_micro_usd: spent.cost_micro_usd,
            tools: spent.tools.into_iter().take(BUDGET_TOOLS_MAX).map(|(tool, calls)| (Hash64(tool), calls)).collect(),
        });
    }
}
