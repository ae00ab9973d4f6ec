//! The kill loop of the embedded log: processes without a broker, each with a log and a client of its own, at full speed. Each must tell
//! every command of the uninterrupted run, once, under numbers without a gap.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fmt, thread};
use std::{sync::Arc, sync::mpsc::sync_channel, thread::JoinHandle, time::Duration};

use loopwarden::clock::{Deadline, Stopwatch};
use loopwarden::{clock, event::EventTime, exit_code};

use crate::client::{Client, PARTITIONS, expected, is_event, settings, watch_process};
use crate::fleet::{Dice, Event, Fleet};
use crate::guards::{Guards, Place};
use crate::people::{People, SENT_MAX};
use crate::victims::{Group, Victims};
use crate::{acts::Judged, kill_loop::Plan, process::Process};
use crate::{process, report};

/// Processes that work and die side by side, each with its part of kills and events.
const LOGS: u64 = 2;
/// The fleet lived so long ago, and so much slower: all of its events lie behind every clock, also behind one that has jumped back.
const AGO_MS: i64 = 6 * 3_600_000;
const SLOWER: i64 = 100;
/// No timer fires, wherever the clock is: what fires when would hang on the moment of a tick.
const LATENESS_MS: i64 = 12 * 3_600_000;
/// More than so long ago and a long run, less than so long ago and a jump: a clock that is believed at once deletes what was not read.
const RETENTION_MS: i64 = 27_000_000;
/// So long without a command, and nothing more will come.
const QUIET: Duration = Duration::from_secs(10);
/// A process that does not come back is stuck.
const STUCK: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(5);
/// Guards beside each process, which is one too.
const GUARDS: usize = 2;

/// The events of one log.
fn events(seed: u64, begin_ms: i64, count: u64) -> impl Iterator<Item = Event> + Send {
    Fleet::beginning(seed, begin_ms, SLOWER).filter(is_event).take(count as usize)
}

/// The same with what people have sent, each with how many events came before.
fn with_people(events: impl Iterator<Item = Event>, acted: Vec<(u64, Event)>) -> impl Iterator<Item = Event> {
    let (mut events, mut acted, mut taken) = (events, acted.into_iter().peekable(), 0);
    std::iter::from_fn(move || {
        if let Some((_, event)) = acted.next_if(|(before, _)| *before <= taken) {
            return Some(event);
        }
        taken += 1;
        events.next().or_else(|| acted.next().map(|(_, event)| event))
    })
}

/// Where a process listens in all of its lives, as no other one on this machine does: its guards know it by that.
fn address(at: u64) -> String {
    let id = std::process::id();
    format!("127.{}.{}.{}:9464", 1 + id % 250, 1 + id / 250 % 250, at + 2)
}

/// The process of a log.
struct Alone {
    processes: [Process; 1],
    exits: Vec<String>,
    problems: Vec<String>,
}

impl Alone {
    fn note(&mut self, status: std::process::ExitStatus) {
        // Its disk may fail, and nothing else may.
        if status.code() != Some(i32::from(exit_code::STORE)) {
            self.problems.push(format!("ended with {status}: {:?}", self.processes[0].said_last(5)));
        }
        self.exits.push(status.to_string());
    }
}

impl Group for Alone {
    fn processes(&mut self) -> &mut [Process] {
        &mut self.processes
    }

    fn start(&mut self, at: usize, _is_timed: bool, _dice: &mut Dice) {
        self.processes[at].start();
    }

    fn kill(&mut self, at: usize) {
        self.processes[at].kill();
    }

    fn finish(&mut self, at: usize) {
        let status = self.processes[at].finish("TERM");
        if !process::has_obeyed(status) {
            self.note(status);
        }
    }

    fn ended(&mut self) -> Vec<usize> {
        let Some(status) = self.processes[0].ended() else { return Vec::new() };
        self.note(status);
        vec![0]
    }
}

/// A client at work.
struct Working {
    /// Events that may be posted so far.
    target: Arc<AtomicU64>,
    told: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Client>,
}

impl Working {
    /// Posts and listens until it is over: all is posted, and nothing more is told.
    fn start(mut client: Client) -> Self {
        let (target, told, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (until, count, may_end) = (Arc::clone(&target), Arc::clone(&told), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let mut quiet = Deadline::after(QUIET);
            loop {
                let has_posted = client.post(until.load(Ordering::Acquire));
                let has_heard = client.listen();
                count.store(client.told.len() as u64, Ordering::Release);
                let is_at_end = may_end.load(Ordering::Acquire) && client.is_acknowledged() && client.is_at_end();
                if has_posted || has_heard || !is_at_end {
                    quiet = Deadline::after(QUIET);
                }
                if quiet.is_over() {
                    return client;
                }
                if !has_posted && !has_heard {
                    thread::park_timeout(PAUSE);
                }
            }
        });
        Self { target, told, is_over, thread }
    }
}

/// What one log came to.
struct Part {
    kills: u64,
    guards_killed: u64,
    judged: Judged,
    done: String,
    again: u64,
    commands: u64,
    exits: Vec<String>,
    took_ms: u64,
    problems: Vec<String>,
}

fn part(at: u64, plan: &Plan, root: &Path, program: &Path) -> Part {
    let (kills, count, seed) = (plan.kills.div_ceil(LOGS), plan.events.div_ceil(LOGS), plan.seed.wrapping_add(at));
    let begin_ms = clock::now_ms() - AGO_MS;
    let mut sets = settings(LATENESS_MS, RETENTION_MS);
    let address = address(at);
    sets.push(format!("http.listen={address}"));
    let mut process = Process::embedded(root, &format!("log-{at}"), 2, &sets);
    process.program = program.to_owned();
    let (submit, acts) = sync_channel(SENT_MAX);
    let client = Client::new(root, &process, events(seed, begin_ms, count)).with(acts);
    let guards = Guards::of_process(process.dir(), &process.program, &address, GUARDS);
    let mut guards = guards.disturbed(seed, plan.pause_ms * 3);
    let mut group = Alone { processes: [process], exits: Vec::new(), problems: Vec::new() };
    let mut victims = Victims::new(&mut group, seed ^ 0xc4a05, plan.pause_ms);
    let working = Working::start(client);
    let places: Vec<Place> = guards.places().into_iter().chain([Place::Address(address.clone())]).collect();
    let watch = move |shared, answering| watch_process(&address, &shared, answering);
    // No stop ends by itself: on a clock that has jumped ahead it would be over when it comes.
    let people = People::start(seed, None, &places, submit, watch);
    let step = count / (kills + 1);
    let mut told_ms = 0;
    while victims.kills < kills || victims.is_busy() {
        working.target.store((step * (victims.kills + 1)).min(count), Ordering::Release);
        let pause = Deadline::after(Duration::from_millis(victims.pause_ms()));
        while !pause.is_over() {
            victims.tend(&mut group);
            guards.tend();
            thread::park_timeout(PAUSE);
        }
        if victims.now_ms() > told_ms + 15_000 {
            told_ms = victims.now_ms();
            let (told, of) = (working.told.load(Ordering::Acquire), working.target.load(Ordering::Acquire));
            println!("{:>4} s: log {at}: {} kills, {told} commands told of {of} events", told_ms / 1_000, victims.kills);
        }
        if victims.kills < kills {
            victims.strike(&mut group);
        }
    }
    guards.calm();
    people.end();
    while !people.have_acted() {
        victims.tend(&mut group);
        thread::park_timeout(PAUSE);
    }
    let judged = people.finish();
    working.target.store(count, Ordering::Release);
    working.is_over.store(true, Ordering::Release);
    println!("{:>4} s: log {at}: calm", victims.now_ms() / 1_000);
    while !working.thread.is_finished() {
        victims.tend(&mut group);
        thread::park_timeout(PAUSE);
    }
    let mut client = working.thread.join().expect("the client");
    let took_ms = victims.now_ms();
    // What comes only with the end, or with another life, would be too many.
    group.finish(0);
    group.processes[0].start();
    client.forget_address();
    let watch = Stopwatch::start();
    while client.address().is_none() {
        assert!(watch.elapsed() < STUCK, "log {at} is not ready: see {}", group.processes[0].log().display());
        thread::park_timeout(PAUSE);
    }
    while client.listen() {}
    group.finish(0);
    let (again, acted) = (client.again, std::mem::take(&mut client.acted));
    let events = with_people(events(seed, begin_ms, count), acted);
    let expected = expected(events, LATENESS_MS, root, &format!("log-{at}"));
    let commands = expected.outputs.values().map(Vec::len).sum::<usize>() as u64;
    let mut problems = std::mem::take(&mut group.problems);
    problems.extend(client.differences(expected));
    problems.extend(judged.problems());
    Part {
        kills: victims.kills,
        guards_killed: guards.kills,
        judged,
        done: victims.rows(),
        again,
        commands,
        exits: group.exits,
        took_ms,
        problems,
    }
}

/// One run.
pub(crate) struct Run {
    plan: Plan,
    parts: Vec<Part>,
}

/// Runs it.
pub(crate) fn run(plan: &Plan) -> Run {
    let root: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("embedded-{}", std::process::id()));
    process::remove(&root);
    // Before there are threads: what one of them starts would hold the file open that another one writes, which nobody can run then.
    let program = process::program_of_run(&root);
    let parts = thread::scope(|scope| {
        let (root, program) = (&root, &program);
        let threads: Vec<_> = (0..LOGS).map(|at| scope.spawn(move || part(at, plan, root, program))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a log")).collect()
    });
    let run = Run { plan: plan.clone(), parts };
    if run.is_good() {
        process::remove(&root);
    }
    run
}

impl Run {
    fn judged(&self) -> Judged {
        let mut judged = Judged::default();
        self.parts.iter().for_each(|part| judged.add(part.judged.clone()));
        judged
    }

    fn sum(&self, of: impl Fn(&Part) -> u64) -> u64 {
        self.parts.iter().map(of).sum()
    }

    pub(crate) fn is_good(&self) -> bool {
        self.is_exact() && (self.judged().is_in_time() || !self.plan.is_kept)
    }

    /// As in the loop with a broker: without what came late.
    fn is_exact(&self) -> bool {
        self.sum(|part| part.kills) >= self.plan.kills
            && self.parts.iter().all(|part| part.commands > 0 && part.problems.is_empty())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { kills, events, seed, pause_ms, .. } = &self.plan;
        let title = if self.is_exact() { "exactly once" } else { "FAILED" };
        writeln!(f, "# Kill loop of the embedded log: {title}{}\n", self.judged().title())?;
        writeln!(
            f,
            "    LOOPWARDEN_CHAOS_LOG=embedded LOOPWARDEN_CHAOS_KILLS={kills} LOOPWARDEN_CHAOS_EVENTS={events} LOOPWARDEN_CHAOS_SEED={seed} LOOPWARDEN_CHAOS_PAUSE_MS={pause_ms} cargo test --release --locked --test chaos\n"
        )?;
        writeln!(f, "| | |\n|---|---|")?;
        writeln!(f, "| when | {} |", EventTime(clock::now_ms()).to_rfc3339())?;
        writeln!(f, "| machine | {} |", report::machine())?;
        writeln!(f, "| logs | {LOGS} of 2 lanes and {PARTITIONS} partitions, each with its part of kills and events |")?;
        writeln!(f, "| events, accepted over HTTP | {events} |")?;
        writeln!(f, "| `kill -9` of processes | {} |", self.sum(|part| part.kills))?;
        writeln!(f, "| `kill -9` of guards that follow their commands | {} |", self.sum(|part| part.guards_killed))?;
        write!(f, "{}", self.judged())?;
        writeln!(f, "| requests that were sent again, as nobody had answered | {} |", self.sum(|part| part.again))?;
        writeln!(f, "| commands of the uninterrupted run | {} |", self.sum(|part| part.commands))?;
        let problems = self.sum(|part| part.problems.len() as u64);
        writeln!(
            f,
            "| lost, doubled, reordered, different, without a number, refused, ended without a reason | **{problems}** |"
        )?;
        let exits: Vec<String> = self.parts.iter().flat_map(|part| part.exits.iter().cloned()).collect();
        writeln!(f, "| processes that ended by themselves | {} |", report::exit_counts(&exits))?;
        let took: Vec<String> = self.parts.iter().map(|part| format!("{} s", part.took_ms / 1_000)).collect();
        writeln!(f, "| until all was told | {} |", took.join(", "))?;
        for (at, part) in self.parts.iter().enumerate() {
            writeln!(f, "\nLog {at}, what was done:\n\n| | |\n|---|---|\n{}", part.done)?;
            for words in part.problems.iter().take(20) {
                writeln!(f, "\n**{words}**")?;
            }
        }
        Ok(())
    }
}
