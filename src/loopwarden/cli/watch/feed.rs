//! The commands of a running process, asked over HTTP: of its own log, which has all that are kept, or with Kafka the last ones of it.

use std::time::Duration;

use serde_json::Value;

use crate::cli::shared::ask::{Answer, RunningProcess};
use crate::{cli::shared::ask, exit_code, failure::Failure};

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

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Nobody answers, or not now: another try may help.
    Away(String),
    /// It says no.
    Refused(Failure),
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Away(why) => Self::failed(why),
            Unanswered::Refused(failure) => failure,
        }
    }
}

impl Feed {
    /// At the end of what a process has.
    ///
    /// # Errors
    /// It does not answer, or lets nobody in.
    pub(super) fn at_end(process: RunningProcess) -> Result<Self, Failure> {
        let mut feed = Self { process, source: Source::Log, after: 0 };
        let answer = feed.get("/v1/commands?after=latest&wait=0s", Duration::ZERO)?;
        if answer.code == "404" {
            // A process on Kafka has no feed, and a guard nothing of both.
            feed.source = Source::Recent;
            feed.after = number(&feed.overview(u64::MAX)?, "recent_last");
        } else {
            feed.after = position(&feed.json(&answer)?);
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
                let answer = self.get(&path, wait)?;
                if answer.code == "410" {
                    self.after = 0;
                    return Ok(Slice { is_anew: true, ..Slice::default() });
                }
                let answer = self.json(&answer)?;
                let before = std::mem::replace(&mut self.after, position(&answer));
                let commands = list(&answer, "commands");
                Ok(Slice { missed: number(&answer, "missed"), is_anew: false, is_end: before == self.after, commands })
            }
            Source::Recent => {
                let overview = self.overview(self.after)?;
                let (last, commands) = (number(&overview, "recent_last"), list(&overview, "recent"));
                let before = std::mem::replace(&mut self.after, last);
                let missed = last.saturating_sub(before).saturating_sub(commands.len() as u64);
                if commands.is_empty() && !wait.is_zero() {
                    std::thread::park_timeout(wait.min(Duration::from_secs(1)));
                }
                Ok(Slice { missed, is_anew: last < before, is_end: commands.is_empty() && last == before, commands })
            }
        }
    }

    /// Numbers of the process, and what is in force; commands from a place on, where it has no feed.
    pub(super) fn overview(&self, after: u64) -> Result<Value, Unanswered> {
        self.json(&self.get(&format!("/overview?after={after}"), Duration::ZERO)?)
    }

    /// What it holds of a session; none where it has no such session any more.
    pub(super) fn session(&self, session_id: &str, tenant: Option<&str>) -> Result<Option<Value>, Unanswered> {
        let of = tenant.map(|tenant| format!("&tenant={}", ask::path_part(tenant))).unwrap_or_default();
        let path = format!("/sessions/{}?steps=0{of}", ask::path_part(session_id));
        let answer = self.get(&path, Duration::ZERO)?;
        if answer.code == "404" { Ok(None) } else { self.json(&answer).map(Some) }
    }

    fn get(&self, path: &str, wait: Duration) -> Result<Answer, Unanswered> {
        let away = |why: &str| Unanswered::Away(format!("http://{}: {why}", self.process.address));
        let answer = self.process.get(path, ANSWER_WAIT + wait, ANSWER_BYTES_MAX);
        let answer = answer.map_err(|error| away(&self.process.nobody(&error)))?;
        // A process that ends while somebody waits says nothing more.
        if answer.code.is_empty() { Err(away("the connection ended without an answer")) } else { Ok(answer) }
    }

    fn json(&self, Answer { code, body, .. }: &Answer) -> Result<Value, Unanswered> {
        let json: Option<Value> = serde_json::from_str(body).ok();
        let said = || json.as_ref().and_then(|json| json.get("message")?.as_str()).unwrap_or("no answer that can be understood");
        let hint = if code == "404" { "; a guard has no commands: ask the process it belongs to" } else { ask::way_in(code) };
        let message = format!("http://{}: {}{hint}", self.process.address, said());
        match (code.as_str(), json.is_some()) {
            ("200", true) => Ok(json.unwrap_or_default()),
            ("429" | "503", _) => Err(Unanswered::Away(message)),
            _ => Err(Unanswered::Refused(Failure::new(exit_code::FAILED, format!("error: {message}")))),
        }
    }
}

fn position(answer: &Value) -> u64 {
    answer.get("next").and_then(|next| next.as_str()?.parse().ok()).unwrap_or_default()
}

fn number(json: &Value, name: &str) -> u64 {
    json.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn list(json: &Value, name: &str) -> Vec<Value> {
    json.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}
