//! `tree`: an agent starts agents, and those start more, without end. Counted by the swarm stage, by the root. Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{Advice, CommandText, TextContext};
use crate::event::json;
use crate::identity::{Arguments, Hash64, Sketch, hash_text, sketch_text};
use crate::limits::{SWARM_PANE_LIFE_MS_MIN, SWARM_PANES_MAX};
use crate::setting::{BlockScope, MODE, Mode, Needs, SharedSettings, count, millis, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""nudge""#, MODE, "a nudge goes to the root, a block refuses calls of class spawn in the whole tree; limits of 0 are none";
        agents: u32 = "24", count(0), "agents that were started in the tree";
        agents_block: u32 = "0", count(0), "the same, of a block; many are no runaway by their number alone";
        repeats: u32 = "6", count(0), "of these, agents with the words of an earlier brief";
        repeats_block: u32 = "16", count(0), "the same, of a block";
        vain: u32 = "6", count(0), "agents that failed, or brought what was known";
        vain_block: u32 = "16", count(0), "the same, of a block";
        depth: u32 = "5", count(0), "levels below the root";
        depth_block: u32 = "8", count(0), "the same, of a block";
        window_ms: i64 = "1_800_000", millis(60_000), "sliding window of these counts, ms of event time";
        cooldown_ms: i64 = "600_000", millis(1_000), "period within which each of both is published once, ms";
    }
}

/// Panes that a window is cut into, where they are not too short.
const PANES: i64 = 30;
/// Panes are kept for some time however short the window is: shorter ones would be too many.
const PANE_MS_MIN: i64 = SWARM_PANE_LIFE_MS_MIN / SWARM_PANES_MAX as i64 + 1;

impl Settings {
    /// Length of a pane. Event time, ms.
    #[must_use]
    pub fn pane_ms(&self) -> i64 {
        (self.window_ms / PANES).max(PANE_MS_MIN)
    }

    /// Limits of a nudge, and of a block, by [`TreeQuantity`]; 0 = none.
    #[must_use]
    pub const fn limits(&self, is_block: bool) -> [u32; TreeQuantity::ALL.len()] {
        if is_block {
            [self.agents_block, self.repeats_block, self.vain_block, self.depth_block]
        } else {
            [self.agents, self.repeats, self.vain, self.depth]
        }
    }
}

/// What a tree has a limit of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeQuantity {
    Agents,
    Repeats,
    Vain,
    Depth,
}

impl TreeQuantity {
    pub const ALL: [Self; 4] = [Self::Agents, Self::Repeats, Self::Vain, Self::Depth];

    /// The word that the evidence of a command has for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Repeats => "repeats",
            Self::Vain => "vain",
            Self::Depth => "depth",
        }
    }

    /// So much of it, in words for the agent.
    fn shown(self, count: u32) -> String {
        match self {
            Self::Agents => format!("{count} agents were started"),
            Self::Repeats => format!("{count} agents were started with a brief that others had"),
            Self::Vain => format!("{count} agents brought nothing new"),
            Self::Depth => format!("agents start agents, {count} levels deep"),
        }
    }
}

/// What an agent is started for, as far as it is compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Brief {
    /// Of its words: the same words are the same brief.
    pub words: Hash64,
    /// Briefs with much the same runs of words are nearly equal.
    pub sketch: Sketch,
}

/// The brief of a call that starts an agent: its longest argument. Names and types of agents are short, and so are descriptions.
#[must_use]
pub fn brief(args: &Arguments<'_>) -> Brief {
    let mut longest = String::new();
    args.members(|_, value| {
        if value.len() > longest.len() {
            value.clone_into(&mut longest);
        }
    });
    let text = if longest.is_empty() { args.text() } else { longest.as_str() };
    let text = if json::is_string(text) { json::unquote(text) } else { text.into() };
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let folded = words.fold(String::new(), |folded, word| folded + &word.to_lowercase() + " ");
    Brief { words: hash_text(&folded).hash64(), sketch: sketch_text(&text).0 }
}

/// The text of a command: what was counted in which time, and what to do. By their number alone agents are no runaway: a person is to say
/// whether they are wanted.
#[must_use]
pub fn text(quantity: TreeQuantity, count: u32, window_ms: i64, is_block: bool) -> CommandText {
    let (what, minutes) = (quantity.shown(count), (window_ms / 60_000).max(1));
    let (counted, summary) = (
        format!("{what} within {minutes} min, from this agent or from those it started"),
        format!("tree: {what} in {minutes} min"),
    );
    if quantity == TreeQuantity::Agents && !is_block {
        let text = format!("[System] MANY AGENTS: {counted}. If nobody has asked for so many, start no more and ask.");
        return CommandText::new(text, summary).advising(Advice::AskHuman);
    }
    let after = if is_block { "No more can be started for a while." } else { "Start no more before these have answered." };
    let text =
        format!("[System] RUNAWAY FAN-OUT: {counted}. {after} Put together what is there, drop what is double, and go on alone.");
    CommandText::new(text, summary).advising(Advice::Replan)
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Agents that start agents without end.",
        rule: "Within `window_ms`, a tree has started `agents` agents, or `repeats` with the words of an earlier brief, or `vain` failed or \
            brought what was known, or it is `depth` levels deep. A tree is a root and all that it started, itself or through others. Their \
            number alone asks for a person, and blocks nothing unless `agents_block` is set.",
        example: "A review starts three agents for each finding with one brief: at the sixth double the root is nudged.",
        silent: &[
            "The events name no root and no parent, and calls that start agents are not of class `spawn` (W0309).",
            "Twenty agents with a brief each (`default/fan-out-of-twenty`).",
            "The root was nudged less than `cooldown_ms` ago.",
        ],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::Tree, self.mode, self.agents).blocking(self.agents_block, BlockScope::Tool)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { evidence: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        text(TreeQuantity::Agents, context.count(), self.window_ms, context.is_block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Content;

    fn of(args: &str) -> Brief {
        brief(&Arguments::of(&Content::Raw(args)))
    }

    #[test]
    fn the_words_of_the_longest_argument_are_the_brief() {
        let one = of(
            r#"{"description":"Audit","prompt":"Audit the invoices of March, and list what is double.","subagent_type":"general"}"#,
        );
        let two = of(r#"{"description":"Audit again","prompt":"audit the invoices of March and list  what is double"}"#);
        let three = of(r#"{"description":"Audit","prompt":"Audit the invoices of April, and list what is double."}"#);
        assert_eq!(one.words, two.words);
        assert_ne!(one.words, three.words, "another month is another brief");
        assert!(one.sketch.view().is_alike(two.sketch.view(), 80));
        assert_eq!(of(r#""plain text""#).words, of(r#"{"prompt":"plain text"}"#).words);
        assert_eq!(of("{}").words, of("{}").words);
    }
}
