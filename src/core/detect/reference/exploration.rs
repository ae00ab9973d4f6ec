//! `exploration`: reading file after file, changing none (attocode's saturation). Page `detection`.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, steps::history::History};
use crate::event::EventTime;
use crate::limits::EXPLORED_TURNS_MAX;
use crate::setting::{MODE, Mode, Needs, SharedSettings, count, settings, steps};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "an agent that only reads may have been asked to";
        threshold: u32 = "10", count(1), "distinct files of a finding";
        turns: u32 = "15", count(1), "or so many turns";
        slice_turns: u32 = "3", steps(1, EXPLORED_TURNS_MAX), "turns looked at for new files, at most 8";
        slice_files: u32 = "2", count(0), "fewer new files than this in the slice is saturation";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Reading without ever editing.",
        rule: "Before the first edit, the agent reads `threshold` different files. Or it has made `turns` turns, \
            and the last `slice_turns` showed fewer than `slice_files` new files.",
        example: "Ten files are read and none is changed.",
        silent: &[
            "It is off by default: reading is the whole job of some agents (`rules/exploration-10`).",
            "An edit was made, whether it worked or not.",
        ],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::Exploration, self.mode, self.threshold)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { read_target: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let n = context.count();
        let text = format!(
            "[System] You have read {n} files and changed none. Make the first edit, or say which fact is still missing."
        );
        CommandText::new(text, format!("{n} files read, none changed"))
    }
}

/// `exploration`: only before the first edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Explored {
    /// A call of class `mutates` was made: over.
    pub has_edited: bool,
    /// Number of distinct files that were read.
    pub files: u32,
    pub turns: u32,
    /// Last turn + 1; 0 = unknown.
    pub last_turn: u64,
    /// New targets in each of the latest turns, newest first.
    pub slice: [u8; EXPLORED_TURNS_MAX],
    /// Sequence of the first step that read a file.
    pub first: u64,
    /// Time of the last read.
    pub last_time: EventTime,
}

/// Takes a counted call: an edit ends it, a read of a new target counts, and so does its turn.
pub fn observe(settings: &Settings, explored: &mut Explored, history: &History, step: &Step) -> Option<Finding> {
    if explored.has_edited || step.flags.contains(Flags::MUTATES) {
        explored.has_edited = true;
        return None;
    }
    if step.turn == 0 || step.turn != explored.last_turn {
        explored.last_turn = step.turn;
        explored.turns = explored.turns.saturating_add(1);
        explored.slice.rotate_right(1);
        if let Some(newest) = explored.slice.first_mut() {
            *newest = 0;
        }
    }
    let is_new = step.read_target.is_some()
        && !history.counted_back().any(|earlier| earlier.sequence < step.sequence && earlier.read_target == step.read_target);
    if is_new {
        if explored.files == 0 {
            explored.first = step.sequence;
        }
        explored.files = explored.files.saturating_add(1);
        if let Some(newest) = explored.slice.first_mut() {
            *newest = newest.saturating_add(1);
        }
    }
    let in_slice: u32 = explored.slice.iter().take(settings.slice_turns as usize).map(|files| u32::from(*files)).sum();
    let is_saturated = explored.turns >= settings.turns && in_slice < settings.slice_files;
    (explored.files >= settings.threshold || (is_saturated && explored.files > 0)).then(|| {
        let identity = loop_identity(Family::Explore, &[]);
        let finding = Finding::new(Detector::Exploration, settings.mode, identity, explored.files, settings.threshold);
        Finding { confidence: 0.4, ..finding.spanning(explored.first, step.sequence) }
    })
}
