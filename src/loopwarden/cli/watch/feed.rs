//! The commands of a running process, asked over HTTP: of its own log, which has all that are kept, or with Kafka the last ones of it.

use std::time::Duration;

use serde_json::Value;

use crate::cli::shared::ask::{RunningProcess, Unanswered};
use crate::failure::Failure;
use crate::operate::api::{Commands, Overview};

/// Longest wait for an answer, beyond the one that is asked for.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Where commands come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The process's own log: every place is for ever the same.
    Log,
    /// The last commands of a process on Kafka: places count since its start.
    Recent,
}

/// A place in the commands of a process.
#[derive(Debug)]
pub(super) struct Feed {
    process: RunningProcess,
    pub(super) source: Source,
    /// Commands up to and including the last one that was read.
    pub(super) after: u64,
}

/// What one question brought.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Slice {
    pub(super) commands: Vec<Value>,
    /// Commands that are not kept any more.
    pub(super) missed: u64,
    /// The process began to count anew.
    pub(super) is_anew: bool,
    /// Nothing more is there now.
    pub(super) is_end: bool,
}

impl Feed {
    /// At the end of what a process has.
    ///
    /// # Errors
    /// It does not answer, or lets nobody in.
    pub(super) fn at_end(process: RunningProcess) -> Result<Self, Failure> {
        let mut feed = Self { process, source: Source::Log, after: 0 };
        let path = "/v1/commands?after=latest&wait=0s";
        let answer = feed.process.heard(path, ANSWER_WAIT, ANSWER_BYTES_MAX)?;
        if answer.code == "404" {
            // A process on Kafka has no feed, and a guard nothing of both.
            feed.source = Source::Recent;
            feed.after = feed.recent(u64::MAX)?.1;
        } else {
            feed.after = feed.process.read::<Commands>(path, &answer)?.place();
        }
        Ok(feed)
    }

    /// What comes behind the place; waits for it where there is nothing yet, and goes on there.
    ///
    /// # Errors
    /// As [`Feed::at_end`].
    pub(super) fn read(&mut self, wait: Duration) -> Result<Slice, Unanswered> {
        match self.source {
            Source::Log => {
                let path = format!("/v1/commands?after={}&wait={}ms", self.after, wait.as_millis());
                let answer = self.process.heard(&path, ANSWER_WAIT + wait, ANSWER_BYTES_MAX)?;
                if answer.code == "410" {
                    self.after = 0;
                    return Ok(Slice { is_anew: true, ..Slice::default() });
                }
                let answer: Commands = self.process.read(&path, &answer)?;
                let before = std::mem::replace(&mut self.after, answer.place());
                let Commands { commands, missed, .. } = answer;
                Ok(Slice { missed, is_anew: false, is_end: before == self.after, commands })
            }
            Source::Recent => {
                let (commands, last) = self.recent(self.after)?;
                let before = std::mem::replace(&mut self.after, last);
                let missed = last.saturating_sub(before).saturating_sub(commands.len() as u64);
                if commands.is_empty() && !wait.is_zero() {
                    std::thread::park_timeout(wait.min(Duration::from_secs(1)));
                }
                Ok(Slice { missed, is_anew: last < before, is_end: commands.is_empty() && last == before, commands })
            }
        }
    }

    /// Its last commands after a place, where it has no feed, and the number of the last one.
    fn recent(&self, after: u64) -> Result<(Vec<Value>, u64), Unanswered> {
        let found: Overview = self.process.json(&format!("/overview?after={after}"), ANSWER_WAIT, ANSWER_BYTES_MAX)?;
        Ok((found.recent.unwrap_or_default(), found.recent_last.unwrap_or_default()))
    }
}
