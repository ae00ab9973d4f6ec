//! Files of labels and outcomes, to judge a replay by.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::report::judge::{Judgement, judge};
use crate::report::labels::{BadRow, Ending, Label};
use crate::report::stats::{ReplayStats, Retain};
use crate::{file::FileInput, report::index::EventIndex};

/// Bytes of a file of labels or outcomes, unpacked.
const ROWS_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Labels and outcomes, where they are given.
#[derive(Debug, Default)]
pub struct KnownSessions {
    labels: Option<Vec<Label>>,
    endings: Option<Vec<Ending>>,
}

impl KnownSessions {
    /// Reads the files that are given.
    ///
    /// # Errors
    /// A file cannot be read, or a row of it; says which.
    pub fn read(labels: Option<&PathBuf>, outcomes: Option<&PathBuf>) -> Result<Self, String> {
        Ok(Self {
            labels: labels.map(|file| rows(file, label_once(BTreeMap::new()))).transpose()?,
            endings: outcomes.map(|file| rows(file, one_each(BTreeMap::new()))).transpose()?,
        })
    }

    /// The rows of all files.
    #[must_use]
    pub fn into_rows(self) -> (Vec<Label>, Vec<Ending>) {
        (self.labels.unwrap_or_default(), self.endings.unwrap_or_default())
    }

    /// Whether there is nothing to judge by.
    pub const fn is_empty(&self) -> bool {
        self.labels.is_none() && self.endings.is_none()
    }

    /// What a replay must retain to be judged by them.
    pub fn retain(&self, outcomes: bool) -> Retain {
        let (labels, endings) = self.all();
        let labelled = labels.iter().map(|label| (label.tenant.clone(), label.session.clone()));
        let ended = endings.iter().map(|ending| (ending.tenant.clone(), ending.session.clone()));
        let index = EventIndex::of(labels, endings);
        Retain { commands_of: labelled.chain(ended).collect(), index, outcomes, only_commands: false }
    }

    fn all(&self) -> (&[Label], &[Ending]) {
        (self.labels.as_deref().unwrap_or_default(), self.endings.as_deref().unwrap_or_default())
    }

    /// Judges a replay by them.
    pub fn judge(&self, replay: &ReplayStats) -> Option<Judgement> {
        let (labels, endings) = self.all();
        (!self.is_empty()).then(|| judge(&replay.commands, labels, &replay.index, endings))
    }
}

/// A stretch: tenant, session, agent, first and last event.
type Stretch = (String, String, Option<String>, u64, u64);

/// Reads labels. A row that comes again says nothing new; one that says something else of the same stretch is refused.
fn label_once(mut known: BTreeMap<Stretch, Label>) -> impl FnMut(&str) -> Result<Option<Label>, BadRow> {
    move |line| {
        let label = Label::parse(line)?;
        let Label { tenant, session, agent, first, last, .. } = &label;
        let before = known.insert((tenant.clone(), session.clone(), agent.clone(), *first, *last), label.clone());
        match before {
            None => Ok(Some(label)),
            Some(before) if before == label => Ok(None),
            Some(_) => Err(BadRow(format!("another row says something else of this stretch of session {:?}", label.session))),
        }
    }
}

/// Reads outcomes, and refuses a second one of a session that says something else.
fn one_each(mut known: BTreeMap<(String, String), Option<bool>>) -> impl FnMut(&str) -> Result<Option<Ending>, BadRow> {
    move |line| {
        let ending = Ending::parse(line)?;
        let before = known.insert((ending.tenant.clone(), ending.session.clone()), ending.success);
        if before.is_some_and(|before| before != ending.success) {
            return Err(BadRow(format!("another row says something else of session {:?}", ending.session)));
        }
        Ok(Some(ending))
    }
}

/// Reads the rows of a file, plain or packed as events may be; those that bring nothing new are left out.
fn rows<T>(file: &Path, mut parse: impl FnMut(&str) -> Result<Option<T>, BadRow>) -> Result<Vec<T>, String> {
    use std::io::Read as _;
    let name = file.display();
    let fail = |cause: String| format!("cannot read {name}: {cause}");
    let mut text = String::new();
    let unpacked = FileInput::Path(file.to_owned()).unpacked();
    let read = unpacked.and_then(|source| source.take(ROWS_BYTES_MAX + 1).read_to_string(&mut text));
    if read.map_err(|error| fail(error.to_string()))? as u64 > ROWS_BYTES_MAX {
        return Err(fail(format!("it holds more than {ROWS_BYTES_MAX} bytes")));
    }
    let lines = text.strip_prefix('\u{feff}').unwrap_or(&text).lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .filter_map(|(at, line)| {
            let bad = |bad: BadRow| format!("{name}:{}: {bad}", at + 1);
            parse(line).map_err(bad).transpose()
        })
        .collect()
}
