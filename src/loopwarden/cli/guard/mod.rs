//! `guard`: answers the checks of agents on this host, and lets every call run where it knows of no verdict.

mod kafka;
mod kept;
mod queue;
mod upstream;
mod works;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::{io::ErrorKind, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use loopwarden_core::limits::REWRITTEN_BYTES_MAX;
use loopwarden_guard::{Options, STALE_AFTER_MS, WithoutChannel};
use loopwarden_log::clock::Deadline;
use loopwarden_settings::{LocalClients, read_secret};
use works::{Deliveries, Works};

use crate::cli::args::{ConfigArgs, LogArgs};
use crate::cli::guard::kept::KeptFile;
use crate::failure::{Failure, Outcome};
use crate::http::{Door, Endpoint, Principals, Roles, Server, Token};
use crate::{
    cli::shared::setup, http::check::Desk, output::Output, signals::Asked, telemetry::guard::GuardReport, telemetry::metrics,
};
use crate::{private, signals};

/// For the verdicts in force, before the first question is answered. What is away for longer holds up nobody.
const VERDICTS_WAIT: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(10);

/// `guard`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden guard --state kafka --set kafka.bootstrap_servers=localhost:9092
      beside agents of a fleet: follows the state topic, sends events to the input topic
  loopwarden guard --upstream http://127.0.0.1:9464 --listen 127.0.0.1:9466
      beside agents of a process with a log of its own

An agent asks POST /v1/check before and after each call. Whatever is out of reach, the answer is
allow: a guard never holds up an agent.")]
#[command(group(clap::ArgGroup::new("verdicts").required(true).args(["state", "upstream"])))]
pub struct GuardArgs {
    /// Where verdicts come from: the state topic
    #[arg(long, value_enum)]
    pub state: Option<StateSource>,
    /// Where verdicts come from: a process with a log of its own, as http://127.0.0.1:9464
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// File with the token of that process
    #[arg(long, value_name = "FILE", requires = "upstream")]
    pub upstream_token_file: Option<PathBuf>,
    /// Socket file to listen on; default: loopwarden/guard.sock in $XDG_RUNTIME_DIR, else .loopwarden/guard.sock in $HOME
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    pub socket: Option<PathBuf>,
    /// Address to listen on instead; other hosts than this one need --token-file
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<std::net::SocketAddr>,
    /// File with the token that agents must send
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token_file: Option<PathBuf>,
    /// Nudges for agents that can only refuse a call
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub nudge_without_channel: NudgeWithoutChannel,
    /// Verdicts older than this are stale; known blocks stand three times as long
    #[arg(long, default_value_t = STALE_AFTER_MS, value_parser = clap::value_parser!(i64).range(100..=3_600_000), value_name = "MS")]
    pub stale_after_ms: i64,
    /// File in which it keeps what binds over a restart; default: a file in loopwarden in $XDG_STATE_HOME, else in .local/state of $HOME
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    /// Settings.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// `guard --state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateSource {
    /// The compacted state topic of Kafka.
    Kafka,
}

/// `guard --nudge-without-channel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum NudgeWithoutChannel {
    /// The call that would be the repeat is refused once.
    #[default]
    DenyOnce,
    /// Not given.
    Drop,
}

/// Answers until a signal asks it to stop.
///
/// # Errors
/// Settings; the place to listen on.
pub fn run(args: &GuardArgs, log: &LogArgs) -> Outcome {
    private::by_default();
    let loaded = setup::load(&args.config, log)?;
    setup::log_as_configured(&loaded.config)?;
    let place = place(args)?;
    let door = door(args)?;
    let signals = signals::listen()?;
    let stop = Arc::new(AtomicBool::new(false));
    let options = Options {
        event_bytes_max: event_bytes_max(loaded.config.limits.record_bytes_max, args.upstream.is_some()),
        without_channel: match args.nudge_without_channel {
            NudgeWithoutChannel::DenyOnce => WithoutChannel::DenyOnce,
            NudgeWithoutChannel::Drop => WithoutChannel::Drop,
        },
        stale_after_ms: args.stale_after_ms,
    };
    let works = match &args.upstream {
        Some(url) => upstream::start(url, args.upstream_token_file.as_deref(), options, &stop)?,
        None => kafka::start(&loaded.config, options, &stop)?,
    };
    let Works { desk, mut threads, deliveries, place: source } = works;
    let kept = KeptFile::of(args.keep.as_deref(), &source, &place);
    let (binds, writer) = kept.start(&desk, &stop)?;
    threads.extend(writer);
    // Who knows what binds listens at once: nobody gets through meanwhile.
    if binds || await_verdicts(&desk, &signals) {
        serve(&place, door, desk, deliveries, &source, &signals)?;
    }
    stop.store(true, Ordering::Release);
    for thread in threads {
        thread.thread().unpark();
        // It does not panic; if it did, there is nothing left to do about it.
        let _ = thread.join();
    }
    Ok(())
}

/// Waits until the verdicts in force are known, but not for ever: else whom an operator has stopped would get through at each guard that has just
/// been started. Whether there is to be one still.
fn await_verdicts(desk: &Desk, signals: &Receiver<Asked>) -> bool {
    let deadline = Deadline::after(VERDICTS_WAIT);
    while !desk.has_verdicts() && !deadline.is_over() {
        match signals.recv_timeout(LOOK) {
            Ok(Asked::Reload) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Asked::Stop | Asked::Leave) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    true
}

/// Answers until told to stop.
fn serve(
    place: &Endpoint,
    door: Door,
    desk: Arc<Desk>,
    deliveries: Box<dyn Fn() -> Deliveries + Send + Sync>,
    source: &str,
    signals: &Receiver<Asked>,
) -> Outcome {
    let shown = Arc::clone(&desk);
    let server = Server::of_guard(place, door, desk, move || metrics::render_guard(report(&shown, deliveries())))
        .map_err(|error| Failure::listen(&error, format!("cannot listen on {place:?}: {error}")))?;
    let mut out = Output::stdout();
    // Nobody has to read it.
    let _ = out.line(format!("guard: {}, verdicts from {source}", server.endpoint())).and_then(|()| out.flush());
    while signals.recv().is_ok_and(|asked| asked == Asked::Reload) {}
    server.stop();
    Ok(())
}

/// What an agent may send: with what is added to it, the process that takes it must take it too. A lane has room for that, a listener does
/// not know who added it.
const fn event_bytes_max(record_bytes_max: usize, is_posted: bool) -> usize {
    if is_posted { record_bytes_max.saturating_sub(REWRITTEN_BYTES_MAX) } else { record_bytes_max }
}

/// Who is let in: programs of this user, and who has the token.
fn door(args: &GuardArgs) -> Result<Door, Failure> {
    let token = args.token_file.as_ref().map(|file| read_secret(file, "--token-file")).transpose()?;
    let mut principals = Principals::default();
    if let Some(token) = token {
        principals.add(Token::new(token), "--token-file", Roles::ALL, None);
    }
    Ok(Door::new(principals, LocalClients::OwnUser))
}

fn report(desk: &Desk, deliveries: Deliveries) -> GuardReport {
    let Deliveries { delivered, rejected, lost } = deliveries;
    let report = desk.report();
    let events_dropped = report.events_dropped + lost;
    GuardReport { events_sent: Some(delivered), events_rejected: Some(rejected), events_dropped, ..report }
}

fn place(args: &GuardArgs) -> Result<Endpoint, Failure> {
    if let Some(address) = args.listen {
        return Ok(Endpoint::Address(address));
    }
    if let Some(path) = &args.socket {
        return Ok(Endpoint::Socket(path.clone()));
    }
    let of = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let dir = of("XDG_RUNTIME_DIR").map(|dir| dir.join("loopwarden")).or_else(|| Some(of("HOME")?.join(".loopwarden")));
    let missing =
        || Failure::listen(&ErrorKind::NotFound.into(), "neither XDG_RUNTIME_DIR nor HOME is set; give --socket or --listen");
    dir.map(|dir| Endpoint::Socket(dir.join("guard.sock"))).ok_or_else(missing)
}
