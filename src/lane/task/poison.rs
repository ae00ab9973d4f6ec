//! What is wrong with a record: panics, waves of dead letters, records that kill the process.
//!
//! A panic leaves a session half changed, so the lane drops the overlay, rewinds and runs again with that record marked (rule I9).
//! This is the only file that catches panics.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::{fs, io};

use loopwarden_core::event::{EventTime, Reason, Record, Stage, TaskId};
use loopwarden_core::identity::hash_bytes;
use loopwarden_core::limits::{BREAKER_PANICS, BREAKER_RECORDS, BREAKER_SENDERS, CAREFUL_RECORDS, CRASHES_MAX};

/// A detector panicked. Its message may hold content, so it is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs what may panic. What it was changing must be dropped afterwards.
///
/// # Errors
/// It panicked.
pub(crate) fn guarded<R>(work: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
}

/// What must not be applied (again): it becomes a dead letter when it is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Culprit {
    /// The record at this offset.
    Record(u64),
    /// The timer with this key.
    Timer(Vec<u8>),
}

/// Culprits of a lane.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: BTreeMap<(TaskId, Culprit), Reason>,
}

impl Marks {
    pub(crate) fn add(&mut self, task: TaskId, culprit: Culprit, reason: Reason) {
        self.marks.insert((task, culprit), reason);
    }

    pub(crate) fn get(&self, task: TaskId, culprit: &Culprit) -> Option<Reason> {
        // Nearly always empty: asked for every record.
        if self.marks.is_empty() { None } else { self.marks.get(&(task, culprit.clone())).copied() }
    }

    /// Forgets what a commit has left behind: records below `next`. A timer's mark goes when a record behind it is committed, and
    /// that is any: the timer is gone with it.
    pub(crate) fn committed(&mut self, task: TaskId, next: u64) {
        self.marks.retain(|(of, culprit), _| *of != task || matches!(culprit, Culprit::Record(offset) if *offset >= next));
    }

    /// What killed the process would kill it again when the task comes back.
    pub(crate) fn remove_task(&mut self, task: TaskId) {
        self.marks.retain(|(of, _), reason| *of != task || *reason == Reason::Crash);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }
}

/// Who sent a record, as far as a record says so: its key. Records without one have nobody in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sender(u64);

impl Sender {
    /// The sender of a record.
    pub(crate) fn of(record: &Record<'_>) -> Self {
        match record.meta.key {
            Some(key) if !key.is_empty() => Self::named(key),
            _ => Self::named(&record.meta.offset.0.to_be_bytes()),
        }
    }

    /// The sender with this key, or the subject with this one.
    pub(crate) fn named(key: &[u8]) -> Self {
        Self(hash_bytes(key).hash64().0)
    }

    /// Its name where senders are counted.
    pub(crate) fn name(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The last records of a task: which senders sent what has not the form of an event, and when detectors panicked on whose records
/// (rule I10). What one sender does counts once, so that nobody stops a task for the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeadLetterWindow {
    /// Records so far.
    at: u64,
    /// Senders with the number of their last such record, in that order; those of the window, and one more than may be.
    malformed: VecDeque<(Sender, u64)>,
    panics: VecDeque<(Sender, EventTime)>,
}

impl DeadLetterWindow {
    /// Notes a record that was an event.
    pub(crate) fn note_event(&mut self) {
        self.at += 1;
    }

    /// Notes a record that was none; true when there were too many senders of such ones among the last records.
    pub(crate) fn note_malformed(&mut self, sender: Sender) -> bool {
        self.at += 1;
        let begin = self.at.saturating_sub(BREAKER_RECORDS as u64);
        self.malformed.retain(|(of, at)| *of != sender && *at > begin);
        self.malformed.push_back((sender, self.at));
        // Where nothing stops, the oldest makes room: as many are held as decide.
        while self.malformed.len() > BREAKER_SENDERS + 1 {
            self.malformed.pop_front();
        }
        self.malformed.len() > BREAKER_SENDERS
    }

    /// Notes a panic at a record time; true when it is that of one sender too many within a minute.
    pub(crate) fn note_panic(&mut self, sender: Sender, time: EventTime) -> bool {
        self.panics.retain(|(of, _)| *of != sender);
        self.panics.push_back((sender, time));
        if self.panics.len() > BREAKER_PANICS {
            self.panics.pop_front();
        }
        let first = self.panics.front().map_or(time, |(_, first)| *first);
        self.panics.len() == BREAKER_PANICS && time.0.saturating_sub(first.0) <= 60_000
    }
}

/// What a lane was doing when its process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suspect {
    pub task: TaskId,
    /// The record, or the first of the batch.
    pub offset: u64,
    /// Deaths so far, this one included.
    pub deaths: u8,
    /// Whether it is known to have been this very record.
    pub is_exact: bool,
}

impl Suspect {
    const BYTES: usize = 15;

    /// Whether the record is to become a dead letter.
    pub const fn is_condemned(&self) -> bool {
        self.is_exact && self.deaths >= CRASHES_MAX
    }

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut at = bytes.as_mut_slice();
        let parts: [&[u8]; 5] = [
            &[self.task.stage as u8],
            &self.task.partition.to_be_bytes(),
            &self.offset.to_be_bytes(),
            &[self.deaths],
            &[u8::from(self.is_exact)],
        ];
        for part in parts {
            // The slice has room for exactly these.
            let _ = at.write(part);
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (stage, bytes) = bytes.split_first()?;
        let stage = [Stage::Session, Stage::Swarm].into_iter().find(|known| *known as u8 == *stage)?;
        let (partition, bytes) = bytes.split_first_chunk()?;
        let (offset, bytes) = bytes.split_first_chunk()?;
        let &[deaths, is_exact] = bytes else { return None };
        let task = TaskId { stage, partition: u32::from_be_bytes(*partition) };
        Some(Self { task, offset: u64::from_be_bytes(*offset), deaths, is_exact: is_exact != 0 })
    }
}

/// The note a lane leaves on disk about what it is applying, so that a record that kills the process is found (rule I11). Not
/// synced: it must survive the process, not the machine.
#[derive(Debug)]
pub struct KillerFile {
    file: fs::File,
    /// Tasks that are run record by record until this offset, and what is known of one of their records.
    careful: BTreeMap<TaskId, (u64, Option<Suspect>)>,
    noted: Vec<TaskId>,
}

impl KillerFile {
    /// Path of a lane's note in a data directory.
    pub fn path(dir: &Path, lane: usize) -> PathBuf {
        dir.join(format!("applying-{lane}"))
    }

    /// Reads what the lanes of the former process were doing. Call it before any lane starts.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn leftovers(dir: &Path) -> io::Result<Vec<Suspect>> {
        let mut suspects = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with("applying-") {
                continue;
            }
            let bytes = fs::read(entry.path())?;
            let found = bytes.chunks_exact(Suspect::BYTES).filter_map(Suspect::decode);
            suspects.extend(found.map(|found| Suspect { deaths: found.deaths.saturating_add(1), ..found }));
        }
        suspects.sort_by_key(|suspect| (suspect.task, suspect.offset));
        Ok(suspects)
    }

    /// Opens a lane's note. `suspects` are those of all lanes: tasks move.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn open(path: &Path, suspects: &[Suspect]) -> io::Result<Self> {
        let file = fs::File::options().create(true).write(true).truncate(true).open(path)?;
        let careful = suspects.iter().map(|suspect| {
            let known = suspect.is_exact.then_some(*suspect);
            (suspect.task, (suspect.offset + CAREFUL_RECORDS, known))
        });
        Ok(Self { file, careful: careful.collect(), noted: Vec::new() })
    }

    /// Before a record is applied.
    pub(crate) fn before(&mut self, task: TaskId, offset: u64) -> io::Result<()> {
        if let Some((until, known)) = self.careful.get(&task).copied() {
            if offset < until {
                let deaths = known.filter(|known| known.offset == offset).map_or(1, |known| known.deaths);
                self.noted.clear();
                return self.write(&Suspect { task, offset, deaths, is_exact: true }.encode());
            }
            self.careful.remove(&task);
        }
        if self.noted.contains(&task) {
            return Ok(());
        }
        // The note of a batch keeps those of the batch's other tasks.
        let note = Suspect { task, offset, deaths: 0, is_exact: false }.encode();
        self.file.seek(SeekFrom::Start((self.noted.len() * Suspect::BYTES) as u64))?;
        self.file.write_all(&note)?;
        self.noted.push(task);
        Ok(())
    }

    /// After a poll.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if !self.noted.is_empty() || !self.careful.is_empty() {
            self.noted.clear();
            self.file.set_len(0)?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 9 };

    #[test]
    fn a_task_that_leaves_takes_its_marks_with_it_except_of_what_killed_the_process() {
        let mut marks = Marks::default();
        marks.add(TASK, Culprit::Record(5), Reason::Crash);
        marks.add(TASK, Culprit::Record(6), Reason::Panic);
        marks.remove_task(TASK);
        let left = [5, 6].map(|offset| marks.get(TASK, &Culprit::Record(offset)));
        assert_eq!(left, [Some(Reason::Crash), None]);
        marks.committed(TASK, 6);
        assert!(marks.is_empty());
    }

    fn sender(number: u64) -> Sender {
        Sender::named(&number.to_be_bytes())
    }

    #[test]
    fn fifty_senders_in_a_thousand_records_pass_and_one_more_does_not() {
        let mut window = DeadLetterWindow::default();
        for number in 0..2_000 {
            if number % 20 == 0 {
                assert!(!window.note_malformed(sender(number)), "{number}");
            } else {
                window.note_event();
            }
        }
        // The first of these takes the place of one that leaves the window.
        assert!(!window.note_malformed(sender(2_000)));
        assert!(window.note_malformed(sender(2_001)));
    }

    #[test]
    fn a_wave_counts_from_the_first_record_and_goes_on_where_nothing_stops() {
        let mut window = DeadLetterWindow::default();
        assert_eq!((0..60).position(|number| window.note_malformed(sender(number))), Some(50));
        assert!((60..5_000).all(|number| window.note_malformed(sender(number))));
        assert_eq!(window.malformed.len(), BREAKER_SENDERS + 1);
    }

    #[test]
    fn one_sender_counts_once_whatever_it_sends() {
        let mut window = DeadLetterWindow::default();
        assert!((0..10_000).all(|number| !window.note_malformed(sender(number % 50))));
        assert!(window.note_malformed(sender(50)));
        let mut window = DeadLetterWindow::default();
        assert!((0..1_000).all(|number| !window.note_panic(sender(number % 9), EventTime(0))));
        assert!(window.note_panic(sender(9), EventTime(0)));
    }

    #[test]
    fn ten_panics_within_a_minute_are_too_many() {
        let mut window = DeadLetterWindow::default();
        for number in 0..30 {
            assert!(!window.note_panic(sender(number), EventTime(number as i64 * 7_000)), "{number}");
        }
        let mut window = DeadLetterWindow::default();
        assert_eq!((0..30).position(|number| window.note_panic(sender(number), EventTime(number as i64 * 6_000))), Some(9));
    }

    #[test]
    fn a_suspect_reads_back() {
        let suspect = Suspect { task: TASK, offset: u64::MAX, deaths: 2, is_exact: true };
        assert_eq!(Suspect::decode(&suspect.encode()), Some(suspect));
    }
}
