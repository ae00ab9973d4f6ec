//! `sessions`: a question over all sessions of a running process, once or again and again.

use std::io::{self, IsTerminal as _};
use std::{thread, time::Duration};

use loopwarden_core::event::EventTime;
use loopwarden_lab::report::{Table, counted, grouped};
use serde::Serialize;

use crate::cli::args::{LogArgs, PlainFormat};
use crate::cli::shared::ask::{self, RunningProcess, Unanswered};
use crate::output::{Output, OutputFormat, say};
use crate::{cli::shared::setup, cli::watch::args::SessionsArgs, clock, failure::Outcome, operate::api};

/// Longest wait: lanes are asked for one slice of their sessions after the other.
const WAIT: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read; a thousand rows have less.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// An agent of a session as a row of the table, with what is not known left out.
#[derive(Debug, Clone, Serialize, Default)]
struct Row {
    session: String,
    agent: String,
    tenant: Option<String>,
    state: String,
    detector: Option<String>,
    loop_since: Option<String>,
    calls: u64,
    tokens: Option<u64>,
    cost_usd: Option<f64>,
    seen: String,
    stopped: Option<String>,
}

/// Asks, and prints a table or the answer.
///
/// # Errors
/// The process does not answer, or lets nobody in.
pub fn run(args: &SessionsArgs, log: &LogArgs) -> Outcome {
    let config = setup::load(&args.process.config, log)?.config;
    let process = RunningProcess::of(args.process.address.as_deref(), &config)?;
    let tenant = args.tenant.as_ref().map(|tenant| format!("&tenant={}", ask::path_part(tenant))).unwrap_or_default();
    let path = format!("/sessions?state={}&sort={}&limit={}{tenant}", args.state().as_str(), args.sort.as_str(), args.limit);
    // What nobody sees being drawn again is printed once.
    let is_watched = args.watch && args.output == PlainFormat::Text && io::stdout().is_terminal();
    let mut is_away = false;
    loop {
        match process.json::<api::Sessions>(&path, WAIT, ANSWER_BYTES_MAX) {
            Ok(found) => {
                show(args.output, &found, is_watched)?;
                is_away = false;
            }
            Err(Unanswered::Away(why)) if is_watched => {
                if !std::mem::replace(&mut is_away, true) {
                    say(format!("waiting for the process: {}", why.lines().next().unwrap_or_default()));
                }
            }
            Err(unanswered) => return Err(unanswered.into()),
        }
        if !is_watched {
            return Ok(());
        }
        thread::park_timeout(EVERY);
    }
}

fn show(format: PlainFormat, found: &api::Sessions, is_watched: bool) -> Outcome {
    let mut out = Output::stdout();
    if format == PlainFormat::Json {
        out.line(serde_json::to_string(found).unwrap_or_default())?;
        return Ok(out.flush()?);
    }
    if is_watched {
        // Home, and what is below is gone.
        out.text(format!("\x1b[H\x1b[2J{}  ", EventTime(clock::now_ms()).to_rfc3339()))?;
    }
    let (count, all) = (found.sessions.len(), found.found);
    let shown = if count as u64 == all { String::new() } else { format!(", the first {count} shown") };
    let more = if found.more && shown.is_empty() { "; there may be others" } else { "" };
    out.line(format!("{} of {} looked at{shown}{more}", counted(all, "agent"), grouped(found.looked_at)))?;
    if count > 0 {
        out.line("")?;
        out.table(&Table::of(found.sessions.iter().map(row)), OutputFormat::Table)?;
        if found.sessions.iter().all(|row| row.spent.cost_micro_usd.is_none()) {
            out.line("\nno cost reported")?;
        }
    }
    if is_watched {
        out.line("\nevent by event: loopwarden inspect session ID    end: ^C")?;
    }
    Ok(out.flush()?)
}

fn row(row: &api::SessionRow) -> Row {
    let seconds = |time: &String| time.split_once('.').map_or_else(|| time.clone(), |(seconds, _)| format!("{seconds}Z"));
    Row {
        session: row.session_id.clone(),
        agent: row.names.agent_id.clone(),
        tenant: row.names.tenant.clone(),
        state: row.standing.words().to_owned(),
        detector: row.standing.code.clone(),
        loop_since: row.standing.loops_since.as_ref().map(seconds),
        calls: row.spent.calls,
        tokens: row.spent.tokens,
        cost_usd: row.spent.cost_micro_usd.map(|micro| (micro as f64 / 100.0).round() / 1e4),
        seen: seconds(&row.seen),
        stopped: row.stop.as_ref().map(api::StopName::words),
    }
}
