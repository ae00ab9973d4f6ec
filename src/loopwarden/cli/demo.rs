//! `demo`: the embedded log and RocksDB on a sample fleet, in a temporary directory that is gone afterwards.
//!
//! Record timestamps are the events' own times and commits come at places in the input, so the commands are the same bytes each time.
//! On a terminal the fleet comes in slices with pauses between, to be watched; otherwise at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{collections::BTreeMap, io::IsTerminal as _, path::PathBuf, sync::Arc, sync::mpsc::sync_channel, time::Duration};

use loopwarden_core::{engine::SessionEngine, event::EventTime, policy::Policy};
use loopwarden_lab::report::{CommandKind, PublishedCommand, Table};
use loopwarden_lane::{CommitTrigger, Exit, InlineRestorer, Lane, LaneSettings, Leases, Order, ProcessMode, SystemClock, Turn};
use loopwarden_log::clock::Deadline;
use loopwarden_log::embedded::{Append, EmbeddedBroker, EmbeddedOptions, EmbeddedReader, Feed};
use loopwarden_state::{RocksOptions, RocksStore, StoreOwner};
use serde::Serialize;
use serde_json::Value;

use crate::cli::args::{DemoArgs, DemoFormat, LogArgs};
use crate::failure::{Failure, Outcome};
use crate::{cli::shared::setup, output::Output, server::SWARM};
use crate::{output, signals};

/// The sample fleet; `config/demo/make_fleet.py` explains it.
const FLEET: &str = include_str!("../../../config/demo/fleet.ndjson");
/// Records between two commits.
const COMMIT_RECORDS: usize = 4_096;
/// Records of a slice that is to be watched.
const SLICE_RECORDS: usize = 24;
/// Pause after a slice that is to be watched: 28 slices, well below ten seconds together.
const SLICE_PAUSE: Duration = Duration::from_millis(140);
/// Longest wait for the disk.
const SYNC_WAIT: Duration = Duration::from_secs(30);

/// A directory that is gone with this value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind it is a few megabytes below the temporary directory, which is what that is for.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Demo {
    broker: EmbeddedBroker,
    reader: EmbeddedReader,
    policy: Arc<Policy>,
    leases: Leases,
    settings: Arc<LaneSettings>,
    clock: SystemClock,
    next_command: u64,
}

/// Shows the program at work.
///
/// # Errors
/// The temporary directory cannot be written.
pub fn run(args: &DemoArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let stop = signals::stop_flag()?;
    let scratch = Scratch(std::env::temp_dir().join(format!("loopwarden-demo-{}", std::process::id())));
    let mut demo = Demo::open(&scratch)?;
    let mut out = Output::stdout();
    match args.output {
        DemoFormat::Ndjson => {
            for json in demo.feed(FLEET.lines(), COMMIT_RECORDS)? {
                out.text(String::from_utf8_lossy(&json))?;
                out.line("")?;
            }
        }
        DemoFormat::Table => show(&mut demo, &mut out, &stop)?,
    }
    Ok(out.flush()?)
}

fn show(demo: &mut Demo, out: &mut Output, stop: &AtomicBool) -> Outcome {
    let is_watched = std::io::stdout().is_terminal();
    let lines: Vec<&str> = FLEET.lines().collect();
    out.line(format!(
        "A sample fleet: {} events, ten minutes of 22 sessions. Policy {}; embedded log, no Kafka, no network.\n",
        lines.len(),
        demo.policy.profile
    ))?;
    let mut commands = Vec::new();
    let slice_records = if is_watched { SLICE_RECORDS } else { COMMIT_RECORDS };
    for slice in lines.chunks(slice_records) {
        if stop.load(Ordering::Acquire) {
            break;
        }
        for json in demo.feed(slice.iter().copied(), slice_records)? {
            if let Some(command) = PublishedCommand::parse(&json).filter(|command| !command.is_shadow) {
                if is_watched {
                    out.line(live(&command))?;
                }
                commands.push((command, json));
            }
        }
        if is_watched {
            out.flush()?;
            pause(stop);
        }
    }
    if is_watched {
        out.line("")?;
    }
    out.table(&table(&commands), output::OutputFormat::Table)?;
    if let Some((command, json)) = commands.first() {
        let value: Value = serde_json::from_slice(json).unwrap_or_default();
        let message = value.get("message").and_then(Value::as_str).unwrap_or_default();
        out.line(format!("\nWhat {} was told, for example:\n  {}", command.subject, message.replace('\n', "\n  ")))?;
    }
    out.text(
        "\nNext:\n  \
         loopwarden demo --output ndjson            the commands themselves, as workers read them\n  \
         loopwarden replay events.ndjson            the same on events of your own\n  \
         loopwarden run --data-dir ./lw             one machine: events and commands over HTTP\n",
    )?;
    Ok(())
}

/// Waits, unless somebody wants it to end.
fn pause(stop: &AtomicBool) {
    let deadline = Deadline::after(SLICE_PAUSE);
    while !deadline.is_over() && !stop.load(Ordering::Acquire) {
        std::thread::park_timeout(deadline.left().min(Duration::from_millis(20)));
    }
}

fn live(command: &PublishedCommand) -> String {
    let issued_at = command.issued_at.map(EventTime::to_rfc3339).unwrap_or_default();
    let time = issued_at.get(11..19).unwrap_or_default();
    let (on, off) = match (output::is_styled(), command.kind) {
        (true, CommandKind::Nudge) => ("\x1b[33m", "\x1b[0m"),
        (true, CommandKind::Block) => ("\x1b[31m", "\x1b[0m"),
        _ => ("", ""),
    };
    format!("{time}  {on}{:7}{off}  {:14} {}", command.kind.as_str(), command.subject, command.summary)
}

/// A session with commands.
#[derive(Serialize, Default)]
struct SessionRow<'a> {
    session: &'a str,
    /// The first one with a command.
    detector: &'a str,
    what_was_found: &'a str,
    count: Option<u64>,
    command: String,
}

impl<'a> SessionRow<'a> {
    fn of(session: &'a str, commands: &[&'a PublishedCommand]) -> Option<Self> {
        let detector = commands.first()?.code.as_str();
        // Its last command says how far the loop went.
        let last = commands.iter().rev().find(|command| command.code == detector)?;
        let sent = [CommandKind::Nudge, CommandKind::Block].into_iter().filter_map(|kind| {
            match commands.iter().filter(|command| command.kind == kind).count() {
                0 => None,
                1 => Some(kind.as_str().to_owned()),
                times => Some(format!("{} ×{times}", kind.as_str())),
            }
        });
        let command = sent.collect::<Vec<_>>().join(", ");
        Some(Self { session, detector, what_was_found: &last.summary, count: last.count, command })
    }
}

fn table(commands: &[(PublishedCommand, Vec<u8>)]) -> Table {
    let mut sessions: BTreeMap<&str, Vec<&PublishedCommand>> = BTreeMap::new();
    for (command, _) in commands.iter().filter(|(command, _)| command.kind != CommandKind::Unblock) {
        sessions.entry(&command.subject).or_default().push(command);
    }
    Table::of(sessions.iter().filter_map(|(session, commands)| SessionRow::of(session, commands)))
}

impl Demo {
    fn open(scratch: &Scratch) -> Result<Self, Failure> {
        let owner = StoreOwner { app: "loopwarden".to_owned(), instance: "demo".to_owned(), cluster: None };
        let sizes = RocksOptions { block_cache_bytes: 8 << 20, write_buffer_bytes: 16 << 20, ..RocksOptions::default() };
        let store = RocksStore::open(&scratch.0, &sizes, &owner)?;
        // One partition: commands come in the order of the events.
        let options = EmbeddedOptions { instance: "demo".to_owned(), partitions: 1, ..EmbeddedOptions::default() };
        let broker = EmbeddedBroker::open(store, options)?;
        let settings = LaneSettings {
            mode: ProcessMode::Live,
            trigger: CommitTrigger::EveryRecords(COMMIT_RECORDS as u64),
            swarm: SWARM,
            poll_ms_max: 0,
            ..LaneSettings::default()
        };
        Ok(Self {
            reader: broker.reader(),
            broker,
            policy: setup::policy("default")?,
            leases: Leases::new(),
            settings: Arc::new(settings),
            clock: SystemClock::start(),
            next_command: 0,
        })
    }

    /// Takes events through both stages, `batch` records to a commit. Returns the commands that came of them.
    fn feed<'a>(&mut self, lines: impl Iterator<Item = &'a str>, batch: usize) -> Result<Vec<Vec<u8>>, Failure> {
        let lines: Vec<&str> = lines.collect();
        for batch in lines.chunks(batch) {
            let fields: Vec<(String, i64)> = batch.iter().map(|line| key_and_time(line)).collect();
            let appends: Vec<Append<'_>> = batch
                .iter()
                .zip(&fields)
                .map(|(line, (key, time))| Append {
                    key: key.as_bytes(),
                    value: line.as_bytes(),
                    headers: Vec::new(),
                    timestamp_ms: *time,
                })
                .collect();
            self.broker.append_unsynced(&appends)?;
            self.turn_until_idle()?;
        }
        self.take_commands()
    }

    /// Lets a lane do all there is to do and commit it; again, for what the session stage sent to the swarm stage.
    fn turn_until_idle(&mut self) -> Result<(), Failure> {
        let stages = if SWARM { 2 } else { 1 };
        for _ in 0..stages {
            let (orders, receiver) = sync_channel(1);
            let store = self.broker.store();
            let restorer = Box::new(InlineRestorer::new(store.clone(), None, Arc::clone(&self.settings)));
            let engine = SessionEngine::new("loopwarden", Arc::clone(&self.policy));
            let mut lane =
                Lane::new(self.broker.lane(0), store, engine, restorer, self.leases.clone(), Arc::clone(&self.settings))
                    .with_orders(receiver);
            loop {
                match lane.turn(&self.clock) {
                    Turn::Idle if lane.is_ready() => {
                        let _ = orders.try_send(Order::Stop { leave: false });
                    }
                    Turn::Worked | Turn::Idle => {}
                    Turn::Ended(Exit::Stopped | Exit::Done) => break,
                    Turn::Ended(exit) => return Err(exit.into()),
                }
            }
        }
        Ok(())
    }

    fn take_commands(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        // Readers see only what is synced; asking for no rows waits for just that.
        self.reader.rows(b"", &|_| true, 0, SYNC_WAIT)?;
        let mut commands = Vec::new();
        self.next_command = self.reader.read(Feed::Commands, self.next_command, &mut |output| {
            commands.extend(output.value);
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(commands)
    }
}

/// Record key and timestamp of a line: session and event time.
fn key_and_time(line: &str) -> (String, i64) {
    let value: Value = serde_json::from_str(line).unwrap_or_default();
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    (text("session_id").to_owned(), EventTime::parse_rfc3339(text("time")).map_or(0, |time| time.0))
}
