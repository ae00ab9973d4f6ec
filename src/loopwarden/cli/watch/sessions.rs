//! `sessions`: a question over all sessions of a running process.

use std::time::Duration;

use loopwarden_lab::report::{Table, counted, grouped};
use serde::Serialize;
use serde_json::Value;

use crate::cli::args::{LogArgs, PlainFormat};
use crate::cli::shared::ask::{self, RunningProcess};
use crate::cli::shared::{act, setup};
use crate::output::{Output, OutputFormat};
use crate::{cli::watch::args::SessionsArgs, failure::Outcome};

/// Longest wait: lanes are asked for one slice of their sessions after the other.
const WAIT: Duration = Duration::from_secs(30);
/// Bytes of an answer that are read; a thousand rows have less.
const ANSWER_BYTES_MAX: usize = 8 << 20;

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
    let path = format!("/sessions?state={}&sort={}&limit={}{tenant}", args.state(), args.sort.word(), args.limit);
    let answer = process.get(&path, WAIT, ANSWER_BYTES_MAX);
    let answer = answer.map_err(|error| act::refused(&process, "/sessions", &process.nobody(&error)))?;
    let body = act::taken(&process, "/sessions", &["200"], answer)?;
    let mut out = Output::stdout();
    if args.output == PlainFormat::Json {
        out.line(body.trim_end())?;
        return Ok(out.flush()?);
    }
    let found: Value = serde_json::from_str(&body)
        .map_err(|error| act::refused(&process, "/sessions", &format!("no answer that can be understood: {error}")))?;
    let rows: Vec<Row> = found.get("sessions").and_then(Value::as_array).into_iter().flatten().map(row).collect();
    let number = |name: &str| found.get(name).and_then(Value::as_u64).unwrap_or_default();
    let shown = if rows.len() as u64 == number("found") { String::new() } else { format!(", the first {} shown", rows.len()) };
    let more = if found.get("more") == Some(&Value::Bool(true)) && shown.is_empty() { "; there may be others" } else { "" };
    out.line(format!("{} of {} looked at{shown}{more}", counted(number("found"), "agent"), grouped(number("looked_at"))))?;
    if !rows.is_empty() {
        let is_counted = rows.iter().any(|row| row.cost_usd.is_some() || row.tokens.is_some());
        out.line("")?;
        out.table(&Table::of(rows), OutputFormat::Table)?;
        if !is_counted {
            out.line("\ncost and tokens: counted where the policy has detectors.budget, and events have a usage")?;
        }
    }
    Ok(out.flush()?)
}

fn row(row: &Value) -> Row {
    let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    // What is not counted is not known.
    let used = |pointer: &str| row.pointer(pointer).and_then(Value::as_u64).filter(|used| *used > 0);
    let seconds = |time: String| time.split_once('.').map_or_else(|| time.clone(), |(seconds, _)| format!("{seconds}Z"));
    let stop = row.get("stop").filter(|stop| stop.is_object());
    Row {
        session: text("/session_id").unwrap_or_default(),
        agent: text("/agent_id").unwrap_or_default(),
        tenant: text("/tenant"),
        state: text("/state").unwrap_or_default(),
        detector: text("/code"),
        loop_since: text("/loops_since").map(seconds),
        calls: used("/calls").unwrap_or_default(),
        tokens: used("/tokens"),
        cost_usd: used("/cost_micro_usd").map(|micro| (micro as f64 / 100.0).round() / 1e4),
        seen: text("/seen").map(seconds).unwrap_or_default(),
        stopped: stop.map(by),
    }
}

/// The stop that binds it, by what a release names.
fn by(stop: &Value) -> String {
    let of = |name: &str| stop.get(name).and_then(Value::as_str).unwrap_or_default();
    let name = ["session_id", "agent_id", "root_id", "swarm_id", "tenant"].map(of).into_iter().find(|name| !name.is_empty());
    [Some(of("scope")), name].into_iter().flatten().collect::<Vec<_>>().join(" ")
}
