//! The calls of a session in order: hashes and flags, no content. Bounded: of a long session the first and the last calls stay.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::report::CommandKind;

/// Cells kept of the beginning.
const HEAD_MAX: usize = 110;
/// Cells kept of the end.
const TAIL_MAX: usize = 30;
/// Tools and examples of content that are kept; a further tool has no name.
const NAMES_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    Ok,
    Failed,
    Refused,
}

/// One call, or one text turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CallCell {
    /// Number of the call in its session; a text turn has that of the call before it.
    pub sequence: u64,
    /// Equal calls have equal hashes; 0 = it cannot be compared.
    #[serde(serialize_with = "hex")]
    pub call: u64,
    /// `None` is a text turn; an empty name is a tool beyond the bound.
    #[serde(serialize_with = "name")]
    pub tool: Option<Arc<str>>,
    /// `None` is unknown.
    pub ended: Option<Ended>,
    /// A detector in force counts it as part of a loop.
    pub in_loop: bool,
    /// The command that it caused.
    #[serde(rename = "said")]
    pub command: Option<CommandKind>,
    /// That command is for observation only.
    #[serde(rename = "shadow")]
    pub is_shadow: bool,
}

impl CallCell {
    /// Notes a command that it caused. Of several the gravest in force stays.
    pub(super) fn note(&mut self, kind: CommandKind, is_shadow: bool) {
        let rank = |kind: Option<CommandKind>, is_shadow: bool| (kind.is_some(), !is_shadow, kind);
        if rank(Some(kind), is_shadow) > rank(self.command, self.is_shadow) {
            (self.command, self.is_shadow) = (Some(kind), is_shadow);
        }
    }

    pub const fn is_text(&self) -> bool {
        self.tool.is_none()
    }
}

/// A call that occurs more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatedCall {
    #[serde(serialize_with = "hex")]
    pub call: u64,
    /// `None` is a text.
    #[serde(serialize_with = "name")]
    pub tool: Option<Arc<str>>,
    pub times: u64,
    pub failed: u64,
    /// Its content, where the policy lets excerpts leave.
    #[serde(skip)]
    pub excerpt: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallTimeline {
    pub head: Vec<CallCell>,
    /// Calls between head and tail.
    pub left_out: u64,
    pub tail: VecDeque<CallCell>,
    tools: Vec<Arc<str>>,
    /// Examples of the content of calls, by hash; only where the policy lets excerpts leave.
    excerpts: BTreeMap<u64, String>,
}

impl CallTimeline {
    pub(super) fn push(&mut self, cell: CallCell) {
        if self.head.len() < HEAD_MAX {
            self.head.push(cell);
            return;
        }
        self.tail.push_back(cell);
        if self.tail.len() > TAIL_MAX {
            self.tail.pop_front();
            self.left_out += 1;
        }
    }

    /// Name of a tool, kept once.
    pub(super) fn tool(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.tools.iter().find(|known| ***known == *name) {
            return Arc::clone(known);
        }
        if self.tools.len() >= NAMES_MAX {
            return Arc::default();
        }
        let name: Arc<str> = name.into();
        self.tools.push(Arc::clone(&name));
        name
    }

    /// Notes an example of a call's content.
    pub(super) fn note_excerpt(&mut self, call: u64, excerpt: &str) {
        if !excerpt.is_empty() && self.excerpts.len() < NAMES_MAX {
            self.excerpts.entry(call).or_insert_with(|| excerpt.to_owned());
        }
    }

    pub(super) fn newest(&mut self) -> Option<&mut CallCell> {
        self.tail.back_mut().or(self.head.last_mut())
    }

    /// The calls from this one on, the last first, without text turns.
    pub(super) fn from(&mut self, sequence: u64) -> impl Iterator<Item = &mut CallCell> {
        let cells = self.tail.iter_mut().rev().chain(self.head.iter_mut().rev());
        cells.take_while(move |cell| cell.sequence >= sequence).filter(|cell| !cell.is_text())
    }

    pub fn cells(&self) -> impl Iterator<Item = &CallCell> {
        self.head.iter().chain(&self.tail)
    }

    /// Calls that occur more than once, in the order of their first cells.
    pub fn repeated(&self) -> Vec<RepeatedCall> {
        let mut all: Vec<RepeatedCall> = Vec::new();
        let mut places = BTreeMap::new();
        for cell in self.cells().filter(|cell| cell.call != 0) {
            let at = *places.entry(cell.call).or_insert_with(|| {
                let excerpt = self.excerpts.get(&cell.call).cloned();
                all.push(RepeatedCall { call: cell.call, tool: cell.tool.clone(), times: 0, failed: 0, excerpt });
                all.len() - 1
            });
            if let Some(repeated) = all.get_mut(at) {
                repeated.times += 1;
                repeated.failed += u64::from(cell.ended == Some(Ended::Failed));
            }
        }
        all.retain(|repeated| repeated.times > 1);
        all
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over the field")]
fn hex<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{hash:016x}"))
}

#[expect(clippy::ref_option, reason = "serde hands over the field")]
fn name<S: Serializer>(name: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    name.as_deref().serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(sequence: u64, call: u64) -> CallCell {
        CallCell { sequence, call, tool: Some("Bash".into()), ..CallCell::default() }
    }

    #[test]
    fn of_a_long_session_the_beginning_and_the_end_stay() {
        let mut calls = CallTimeline::default();
        for sequence in 0..500 {
            calls.push(cell(sequence, 1 + sequence % 3));
        }
        assert_eq!((calls.head.len(), calls.left_out, calls.tail.len()), (HEAD_MAX, 360, TAIL_MAX));
        assert_eq!((calls.head[109].sequence, calls.tail[0].sequence, calls.tail[29].sequence), (109, 470, 499));
        for cell in calls.from(105) {
            cell.in_loop = true;
        }
        assert_eq!(calls.cells().filter(|cell| cell.in_loop).count(), 35);
    }

    #[test]
    fn of_several_commands_the_gravest_in_force_is_marked() {
        use CommandKind::{Block, Nudge};
        let mut one = cell(1, 1);
        for (kind, is_shadow, expected) in [
            (Nudge, true, (Some(Nudge), true)),
            (Nudge, false, (Some(Nudge), false)),
            (Block, true, (Some(Nudge), false)),
            (Block, false, (Some(Block), false)),
            (Nudge, false, (Some(Block), false)),
        ] {
            one.note(kind, is_shadow);
            assert_eq!((one.command, one.is_shadow), expected);
        }
        let json = serde_json::json!({ "sequence": 1, "call": "0000000000000001", "tool": "Bash", "ended": null, "in_loop": false,
            "said": "block", "shadow": false });
        assert_eq!(serde_json::to_value(&one).unwrap(), json);
    }

    #[test]
    fn repeated_calls_are_counted() {
        let mut calls = CallTimeline::default();
        for (sequence, call) in [5, 9, 7, 9, 0, 0, 5, 9].into_iter().enumerate() {
            calls.push(CallCell { ended: Some(Ended::Failed), ..cell(sequence as u64, call) });
        }
        let repeated: Vec<(u64, u64, u64)> = calls.repeated().iter().map(|one| (one.call, one.times, one.failed)).collect();
        assert_eq!(repeated, [(5, 2, 2), (9, 3, 3)]);
        assert_eq!(calls.repeated()[0].tool.as_deref(), Some("Bash"));
        let names: Vec<Arc<str>> = (0..=NAMES_MAX).map(|number| calls.tool(&number.to_string())).collect();
        assert_eq!((&*names[NAMES_MAX - 1], &*names[NAMES_MAX]), ("63", ""));
    }
}
