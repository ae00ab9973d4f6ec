//! The soak of the embedded log (T21): two processes, each with a log of its own, fed over HTTP with the same events. One is left alone and
//! watched; the other dies every minute, as the power goes or asked to, often with a request on its way. Both must tell every command of
//! the uninterrupted run, once, under numbers without a gap.

use std::{fmt, fs, thread};
use std::{path::Path, time::Duration};

use loopwarden::clock::{Deadline, Stopwatch};
use loopwarden::{clock, event::EventTime};

use crate::client::{Client, PARTITIONS, PATIENCE, expected, is_event, settings};
use crate::flat::{SAMPLE_EVERY, Series};
use crate::fleet::{Event, Fleet};
use crate::process::Process;
use crate::{flat, report};

/// Of the fleet's time against that of the kill loop: some 750 events a second, for each of the two.
const SLOWER: i64 = 8;
/// Longer than a process takes to come back: until then events wait.
const LATENESS_MS: i64 = 20_000;
const RETENTION_MS: i64 = 60_000;
const DISTURB_EVERY_MS: u64 = 60_000;
const PAUSE: Duration = Duration::from_millis(10);

/// One soak.
pub(crate) struct Soak {
    minutes: u64,
    events: usize,
    commands: usize,
    watched: Series,
    disturbed: u64,
    again: u64,
    problems: Vec<String>,
}

/// The fleet as its agents post it.
fn events(minutes: u64, begin_ms: i64) -> impl Iterator<Item = Event> {
    Fleet::beginning(minutes, begin_ms, SLOWER)
        .filter(is_event)
        .take_while(move |event| event.timestamp_ms < begin_ms + minutes as i64 * 60_000)
}

/// A process and its client.
struct Side {
    process: Process,
    client: Client,
}

impl Side {
    fn new(root: &Path, name: &str, events: impl Iterator<Item = Event> + Send + 'static) -> Self {
        let mut process = Process::embedded(root, name, 2, &settings(LATENESS_MS, RETENTION_MS));
        process.start();
        let client = Client::new(root, &process, events);
        Self { process, client }
    }

    /// Ends it, one way or the other, and starts it again.
    fn disturb(&mut self, number: u64) {
        if number.is_multiple_of(3) {
            self.finish();
        } else {
            // Half of the time a request is on its way.
            let on_its_way = if number.is_multiple_of(2) { self.client.begin_post() } else { None };
            self.client.again += u64::from(on_its_way.is_some());
            self.process.kill();
        }
        self.client.forget_address();
        self.process.start();
    }

    fn finish(&mut self) {
        let status = self.process.finish("TERM");
        if !status.success() {
            self.client.problems.push(format!("ended with {status}"));
        }
        self.client.forget_address();
    }
}

/// Works for so many minutes.
pub(crate) fn run(minutes: u64) -> Soak {
    // What is far from the clock would be forgotten, or clamped, with the first tick of the log.
    let begin_ms = clock::now_ms();
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{}", std::process::id()));
    let mut sides = ["watched", "killed"].map(|name| Side::new(&root, name, events(minutes, begin_ms)));
    let watch = Stopwatch::start();
    let now_ms = || watch.elapsed().as_millis() as u64;
    let mut watched = Series::new("left alone".to_owned(), minutes * 60_000);
    let (mut disturbed, mut next) = (0, Deadline::after(SAMPLE_EVERY));
    while now_ms() < minutes * 60_000 {
        for side in &mut sides {
            side.client.post(u64::MAX);
            side.client.listen();
        }
        if next.is_over() {
            next = Deadline::after(SAMPLE_EVERY);
            watched.note(&sides[0].process, now_ms());
        }
        if now_ms() >= (disturbed + 1) * DISTURB_EVERY_MS {
            disturbed += 1;
            sides[1].disturb(disturbed);
            let [first, second] = [&sides[0], &sides[1]].map(|side| side.client.told.len());
            println!("{:>4} s: {first} and {second} commands told", now_ms() / 1_000);
        }
        thread::park_timeout(PAUSE);
    }
    for side in &mut sides {
        let mut quiet = Deadline::after(PATIENCE);
        while !quiet.is_over() {
            side.client.post(u64::MAX);
            if side.client.listen() {
                quiet = Deadline::after(PATIENCE);
            }
            thread::park_timeout(PAUSE);
        }
        // What comes only with the end, or with another life, would be too many.
        side.finish();
        side.process.start();
        while side.client.address().is_none() {
            thread::park_timeout(PAUSE);
        }
        side.client.listen();
        side.finish();
    }
    let again = sides[1].client.again;
    let (mut commands, mut problems) = (0, Vec::new());
    for Side { process, client } in sides {
        let expected = expected(events(minutes, begin_ms), LATENESS_MS, &root, &process.name);
        commands = expected.outputs.values().map(Vec::len).sum();
        problems.extend(client.differences(expected));
    }
    if problems.is_empty() {
        let _ = fs::remove_dir_all(&root);
    }
    Soak { minutes, events: events(minutes, begin_ms).count(), commands, watched, disturbed, again, problems }
}

impl Soak {
    pub(crate) fn is_good(&self) -> bool {
        self.commands > 0 && !self.watched.is_empty() && self.watched.grown().is_empty() && self.problems.is_empty()
    }
}

impl fmt::Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minutes, events, commands, disturbed, again, problems, .. } = self;
        writeln!(f, "# Soak of the embedded log: {}\n", if self.is_good() { "flat" } else { "FAILED" })?;
        writeln!(
            f,
            "    LOOPWARDEN_SOAK_MINUTES={minutes} LOOPWARDEN_SOAK_LOG=embedded cargo test --release --locked --test chaos\n"
        )?;
        writeln!(f, "| | |\n|---|---|")?;
        writeln!(f, "| when | {} |", EventTime(clock::now_ms()).to_rfc3339())?;
        writeln!(f, "| machine | {} |", report::machine())?;
        writeln!(
            f,
            "| processes | two of 2 lanes and {PARTITIONS} partitions, retention a minute; one was ended {disturbed} times |"
        )?;
        writeln!(f, "| events | {events} for each, as their times come |")?;
        writeln!(f, "| commands of the uninterrupted run | {commands} |")?;
        writeln!(f, "| requests of the one that were sent again | {again} |")?;
        writeln!(f, "| lost, doubled, reordered, without a number, refused, ended by itself | **{}** |", problems.len())?;
        writeln!(f, "\nWhat the one that was left alone took, mean of each quarter:\n\n{}{}", flat::HEAD, self.watched.rows())?;
        for words in self.watched.grown().iter().chain(problems.iter().take(20)) {
            writeln!(f, "\n**{words}**")?;
        }
        Ok(())
    }
}
