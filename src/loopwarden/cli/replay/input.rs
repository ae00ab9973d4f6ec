//! What a replay reads: files or a range of a topic, and what is to be known of their live run.

use std::path::PathBuf;

use loopwarden_core::limits::RECORD_BYTES_MAX_DEFAULT;
use loopwarden_kafka::readers::range::KafkaRange;
use loopwarden_lab::file::{FileInput, FileOptions, LogsRead, REPLAY_PARTITIONS, RecordedInput};
use loopwarden_lab::report::{grouped, plain};
use loopwarden_lane::LaneSettings;
use loopwarden_log::InputNames;

use crate::cli::args::{ConfigArgs, LogArgs, RangeArgs};
use crate::cli::shared::{range, setup};
use crate::{cli::shared::range::TopicRange, exit_code, failure::Failure};

/// Where events come from.
pub(crate) enum Source {
    /// The files, and the largest event that is read. Bytes.
    Files(Vec<FileInput>, usize),
    Topic(Box<TopicRange>),
}

impl Source {
    /// The source that the arguments name: a range of a topic, under these settings, or files.
    pub(crate) fn of(files: &[PathBuf], range: &RangeArgs, settings: Vec<String>, log: &LogArgs) -> Result<Self, Failure> {
        if range.topic.is_some() {
            let topic = range::open(range, settings, log)?;
            return Ok(topic.map_or_else(|| Self::files(files), |topic| Self::Topic(Box::new(topic))));
        }
        let (limits, settings): (Vec<String>, Vec<String>) = settings.into_iter().partition(|set| range::is_limit(set));
        // Says what of them is about a topic.
        range::open(range, settings, log)?;
        if limits.is_empty() {
            return Ok(Self::files(files));
        }
        let config = setup::load(&ConfigArgs { set: limits, ..ConfigArgs::default() }, log)?.config;
        Ok(Self::Files(Self::inputs(files), config.limits.record_bytes_max))
    }

    /// Files, and what they are called.
    fn files(files: &[PathBuf]) -> Self {
        Self::Files(Self::inputs(files), RECORD_BYTES_MAX_DEFAULT)
    }

    fn inputs(files: &[PathBuf]) -> Vec<FileInput> {
        files.iter().map(|file| FileInput::from_argument(&file.to_string_lossy())).collect()
    }

    /// Name of the application: part of every command id.
    pub(crate) fn app(&self) -> &str {
        match self {
            Self::Files(..) => "loopwarden",
            Self::Topic(topic) => topic.config.app(),
        }
    }

    /// The policy, where the command line names none: that of the live run.
    pub(crate) fn policy(&self) -> &str {
        match self {
            Self::Files(..) => "default",
            Self::Topic(topic) => &topic.config.policy,
        }
    }

    /// How far event times of one partition may lie apart. Milliseconds.
    pub(crate) fn lateness_ms(&self) -> i64 {
        match self {
            Self::Files(..) => LaneSettings::default().lateness_ms,
            Self::Topic(topic) => topic.config.time.lateness_ms,
        }
    }

    /// Begins to read, for so many lanes; `is_strict`: to the first line that is no event. May be done again: a pipe is then at
    /// its end.
    pub(crate) fn open(&self, lanes: u32, is_strict: bool) -> Result<RecordedInput, Failure> {
        let lanes = lanes.clamp(1, REPLAY_PARTITIONS);
        let options = FileOptions { lanes, is_strict, ..FileOptions::default() };
        Ok(match self {
            Self::Files(inputs, value_bytes_max) => {
                RecordedInput::open(inputs.clone(), &FileOptions { value_bytes_max: *value_bytes_max, ..options })?
            }
            Self::Topic(topic) => {
                let TopicRange { extent, options: kafka, config } = &**topic;
                let options = FileOptions {
                    app: config.app().to_owned(),
                    names: InputNames {
                        events: kafka.topics.input.clone(),
                        swarm_counts: kafka.input_topic(loopwarden_core::event::Stage::Swarm),
                    },
                    value_bytes_max: config.limits.record_bytes_max,
                    ..options
                };
                RecordedInput::open_topic(KafkaRange::read(kafka, extent)?, &options)?
            }
        })
    }
}

/// What the arguments name, for a report.
pub(crate) fn names(files: &[PathBuf], range: &RangeArgs) -> Vec<String> {
    match &range.topic {
        Some(topic) => vec![format!("topic {topic}")],
        None => files.iter().map(|file| file.display().to_string()).collect(),
    }
}

/// Refuses standard input and pipes, whose contents are there once, to those who read them again and again.
pub(crate) fn must_last(files: &[PathBuf], why: &str) -> Result<(), Failure> {
    let once = Source::inputs(files).into_iter().find(FileInput::is_read_once);
    let told = |once: FileInput| {
        Failure::new(exit_code::USAGE, format!("error: {why}, and {} is there once; save it to a file", once.name()))
    };
    once.map_or(Ok(()), |once| Err(told(once)))
}

/// What was read of logs of agents and what was not, a line for each kind.
pub(crate) fn told(recorded: &RecordedInput) -> Vec<String> {
    let (names, skipped) = recorded.skipped();
    let mut lines: Vec<String> = recorded.agent_logs().iter().map(|(format, read)| line(format.as_str(), read)).collect();
    if skipped > 0 {
        let more = skipped.saturating_sub(names.len() as u64);
        let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
        lines.push(format!("no known log, and not read: {}{more}", plain(&names.join(", "))));
    }
    lines
}

fn line(name: &str, read: &LogsRead) -> String {
    let by_kind = |counts: &mut dyn Iterator<Item = (String, u64)>| -> String {
        let mut counts: Vec<(String, u64)> = counts.collect();
        counts.sort_by(|(one, many), (other, more)| more.cmp(many).then_with(|| one.cmp(other)));
        let named: Vec<String> = counts.iter().map(|(kind, count)| format!("{} {kind}", grouped(*count))).collect();
        if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
    };
    let tally = &read.tally;
    format!(
        "{name}: {} {} read as {} events{}; {} entries ignored{}",
        grouped(read.logs),
        if read.logs == 1 { "log" } else { "logs" },
        grouped(tally.events.values().sum()),
        by_kind(&mut tally.events.iter().map(|(kind, count)| ((*kind).to_owned(), *count))),
        grouped(tally.ignored.values().sum()),
        by_kind(&mut tally.ignored.iter().map(|(kind, count)| (kind.clone(), *count))),
    )
}
