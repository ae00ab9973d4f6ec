//! How the lanes are doing, summed: the ready line, the status line, and whether nothing comes in.

use std::{io::IsTerminal as _, time::Duration};

use loopwarden_core::event::Stage;
use loopwarden_lane::{LaneHandle, Stats, TaskState};
use loopwarden_log::clock::Deadline;
use loopwarden_settings::Diagnostic;

use crate::input_quality;

/// How often the status line is written.
const EVERY: Duration = Duration::from_secs(30);
/// How long nothing may be consumed before it is said.
pub(super) const SILENT_AFTER: Duration = EVERY;

/// Code of silence.
pub(super) const NOTHING_CONSUMED: &str = "W0304";

/// The lanes at one moment.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) stats: Stats,
    pub(super) tasks: usize,
    pub(super) running: usize,
    pub(super) poisoned: Vec<String>,
    /// Lanes whose log is not open yet: what tasks they will have is not known.
    pub(super) opening: usize,
    /// Lanes that cannot commit or read.
    pub(super) held_up: usize,
    /// How long a broker has not answered, where that is too long. Milliseconds.
    pub(super) silent_ms: Option<u64>,
    /// Partitions of inputs that have stopped themselves.
    pub(super) stopped: usize,
    pub(super) sessions_cached: usize,
    /// Begun and not forgotten.
    pub(super) sessions: u64,
    /// Tasks there must be at the least: all of them where no other process has any.
    pub(super) tasks_min: usize,
    /// Records all tasks together are behind; none where no end is known yet.
    pub(super) lag_records: Option<u64>,
    /// The part of it that others wrote: records of inputs. The rest are sums, which lanes write to one another, also where no event comes.
    pub(super) input_lag_records: Option<u64>,
}

impl Sum {
    /// Of all lanes; `tasks_min`: tasks that the process has in any case.
    pub(super) fn of(handles: &[LaneHandle], tasks_min: usize) -> Self {
        let mut sum = Self { tasks_min, ..Self::default() };
        for report in handles.iter().map(LaneHandle::report) {
            sum.stats.add(&report.stats);
            sum.sessions_cached += report.sessions_cached;
            let [sessions, _] = report.census;
            sum.sessions += sessions;
            sum.opening += usize::from(!report.has_opened);
            sum.held_up += usize::from(report.is_held_up);
            sum.silent_ms = sum.silent_ms.max(report.silent_ms);
            sum.stopped += report.intake.as_ref().map_or(0, |intake| intake.stopped.len());
            for task in &report.tasks {
                if let Some(lag) = report.lag(task) {
                    *sum.lag_records.get_or_insert(0) += lag;
                    if task.id.stage == Stage::Session {
                        *sum.input_lag_records.get_or_insert(0) += lag;
                    }
                }
                sum.tasks += 1;
                match &task.state {
                    TaskState::Running => sum.running += 1,
                    TaskState::Poisoned(why) => sum.poisoned.push(format!("{}: {why}", task.id)),
                    TaskState::Restoring => {}
                }
            }
        }
        sum
    }

    /// Every task was restored, and there is one; no lane is held up. A task or an input that has stopped itself since is no hindrance: to
    /// start the process again would help nobody, and send what stopped it to the dead letters once more.
    pub(super) const fn is_restored(&self) -> bool {
        self.has_joined() && self.running + self.poisoned.len() == self.tasks && self.held_up == 0
    }

    /// Every lane takes part, there is a task, and all are there that must be: lanes take theirs one after the other.
    pub(super) const fn has_joined(&self) -> bool {
        self.opening == 0 && self.tasks > 0 && self.tasks >= self.tasks_min
    }

    /// Every task and every input runs, and there is a task; no lane is held up.
    pub(super) const fn is_ready(&self) -> bool {
        self.has_joined() && self.running == self.tasks && self.held_up == 0 && self.stopped == 0
    }

    /// Whether every task runs; one that has stopped itself has a check of its own. A process without any judges nothing, though it may
    /// have had some: it has lost its brokers or its membership, or others have taken all.
    pub(super) fn tasks_run(&self) -> Result<(), String> {
        if self.tasks == 0 {
            return Err("none is assigned".to_owned());
        }
        if self.running + self.poisoned.len() >= self.tasks { Ok(()) } else { Err("restoring".to_owned()) }
    }

    fn events(&self) -> u64 {
        self.stats.events.iter().sum()
    }

    /// Nothing has come in, whatever it would have become.
    fn is_silent(&self) -> bool {
        self.events() == 0 && self.stats.rejected.iter().all(|records| *records == 0) && self.is_ready()
    }

    /// Nothing has come in, and nothing is there to be read: every partition is, and its broker answers.
    pub(super) fn is_idle(&self) -> bool {
        self.is_silent() && self.input_lag_records == Some(0) && self.silent_ms.is_none()
    }

    /// Whether the brokers of what is read answer.
    pub(super) fn brokers(&self) -> Result<(), String> {
        self.silent_ms.map_or(Ok(()), |silent_ms| Err(format!("none for {} s; see the log", silent_ms / 1_000)))
    }

    /// What the events keep detectors from seeing, or that there are none. `partitions` of the events, where they are known.
    pub(super) fn findings(&self, is_embedded: bool, partitions: Option<u32>) -> Vec<Diagnostic> {
        let mut found = input_quality::of_stream(&self.stats, partitions);
        if self.is_silent() {
            found.push(silence(is_embedded));
        }
        found
    }
}

/// What may be the cause where nothing comes in.
fn silence(is_embedded: bool) -> Diagnostic {
    let (message, help): (_, &[&str]) = if is_embedded {
        ("no event has arrived yet", &["POST events to /v1/events at the address above, one JSON object a line"])
    } else {
        (
            "nothing consumed for 30 s",
            &[
                "wrong topic, `start = \"latest\"`, or no permission: loopwarden check --connect",
                "nothing produced: kafka-console-consumer --topic … --from-beginning shows what is there",
            ],
        )
    };
    help.iter().fold(Diagnostic::new(NOTHING_CONSUMED, message), |told, help| told.help(*help))
}

/// Says from time to time how it goes, on a terminal's standard error; and once, anywhere, what the events keep detectors from seeing.
#[derive(Debug)]
pub(super) struct StatusLine {
    is_shown: bool,
    next: Deadline,
    last_events: u64,
    is_embedded: bool,
    /// Of the events.
    partitions: Option<u32>,
    /// Codes of warnings that were given: each is given once.
    told: Vec<&'static str>,
}

impl StatusLine {
    pub(super) fn new(is_embedded: bool, partitions: Option<u32>) -> Self {
        let is_shown = std::io::stderr().is_terminal();
        Self { is_shown, next: Deadline::after(EVERY), last_events: 0, is_embedded, partitions, told: Vec::new() }
    }

    /// What is to be said now, if anything.
    pub(super) fn due(&mut self, sum: impl FnOnce() -> Sum) -> Vec<String> {
        if !self.next.is_over() {
            return Vec::new();
        }
        self.next = Deadline::after(EVERY);
        let sum = sum();
        let events = sum.events();
        let mut lines = Vec::new();
        if self.is_shown {
            let detections: u64 = sum.stats.detections.iter().flatten().sum();
            let commands: u64 = sum.stats.commands.iter().flatten().sum();
            let rate = events.saturating_sub(self.last_events) / EVERY.as_secs();
            let lag = sum.lag_records.map_or_else(|| "unknown".to_owned(), |lag| lag.to_string());
            lines.push(format!(
                "{events} events ({rate}/s), lag {lag}, {} sessions in memory, {detections} findings, {commands} commands, {} of {} tasks \
                 running",
                sum.sessions_cached, sum.running, sum.tasks
            ));
        }
        let mut found = sum.findings(self.is_embedded, self.partitions);
        found.retain(|found| !self.told.contains(&found.code));
        self.told.extend(found.iter().map(|found| found.code));
        lines.extend(found.iter().map(ToString::to_string));
        self.last_events = events;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_stopped_itself_was_restored_and_is_not_ready() {
        let stopped = Sum { tasks: 2, running: 1, poisoned: vec!["0-1: panicked".to_owned()], ..Sum::default() };
        assert!(stopped.is_restored() && !stopped.is_ready());
        let input = Sum { tasks: 2, running: 2, stopped: 1, ..Sum::default() };
        assert!(input.is_restored() && !input.is_ready(), "its input stopped before the tasks were restored");
        let restoring = Sum { tasks: 2, running: 1, ..Sum::default() };
        assert!(!restoring.is_restored() && !restoring.is_ready());
        let half = Sum { tasks: 2, running: 2, tasks_min: 4, ..Sum::default() };
        assert!(!half.is_restored() && !half.is_ready() && !half.has_joined(), "the other lane has not taken its tasks yet");
        let opening = Sum { tasks: 2, running: 2, opening: 1, ..Sum::default() };
        assert!(!opening.is_restored() && !opening.is_ready() && !opening.has_joined(), "the other lane has no identity yet");
    }

    #[test]
    fn a_process_whose_tasks_are_gone_does_not_run_them() {
        let sum = |tasks, running| Sum { tasks, running, ..Sum::default() }.tasks_run();
        assert_eq!((sum(2, 2), sum(2, 1)), (Ok(()), Err("restoring".to_owned())));
        assert_eq!(sum(0, 0), Err("none is assigned".to_owned()));
    }

    #[test]
    fn an_idle_process_is_silent_and_one_that_made_dead_letters_is_not() {
        let sum = |input_lag_records, silent_ms| Sum { tasks: 2, running: 2, input_lag_records, silent_ms, ..Sum::default() };
        assert!(sum(Some(0), None).is_idle());
        assert!(Sum { lag_records: Some(2), ..sum(Some(0), None) }.is_idle(), "sums of other lanes are no work of agents");
        assert!(!sum(None, None).is_idle(), "nothing is known of what is there to be read");
        assert!(!sum(Some(3), None).is_idle() && !sum(Some(0), Some(12_000)).is_idle());
        assert_eq!(sum(Some(0), Some(12_500)).brokers(), Err("none for 12 s; see the log".to_owned()));
        let codes = |sum: &Sum| sum.findings(false, None).iter().map(|found| found.code).collect::<Vec<_>>();
        assert_eq!(codes(&sum(Some(0), None)), ["W0304"]);
        let mut rejecting = sum(Some(0), None);
        rejecting.stats.rejected[0] = 4;
        assert_eq!((codes(&rejecting), rejecting.is_idle()), (vec![], false), "something was consumed");
        let mut judging = sum(Some(0), None);
        judging.stats.events[0] = 1;
        assert_eq!((codes(&judging), judging.is_idle()), (vec![], false));
    }

    #[test]
    fn silence_without_kafka_is_no_matter_of_topics() {
        let told = |is_embedded| silence(is_embedded).to_string();
        assert!(told(true).contains("/v1/events") && !told(true).contains("kafka"), "{}", told(true));
        assert!(told(false).contains("--connect"));
    }
}
