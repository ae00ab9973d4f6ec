//! What lies behind a head: since format 2 texts of people and of the agent, and what the session has spent; since format 3 the score;
//! since format 4 what people let be.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use loopwarden_core::detect::{OwnTexts, Score, Spent};
use loopwarden_core::engine::{Exemption, Head};
use loopwarden_core::event::EventTime;
use loopwarden_core::identity::{Hash64, Sketch};
use loopwarden_core::limits::{BUDGET_TOOLS_MAX, OWN_TEXTS_MAX, USER_NAMING_TEXTS_MAX, USER_TEXTS_MAX, USER_WORDS_MAX};

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
