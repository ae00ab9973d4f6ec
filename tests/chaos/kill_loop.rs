//! The kill loop on a real broker: a group of processes, a feeder, the auditor, and whatever befalls them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{sync::Arc, sync::mpsc::sync_channel, time::Duration};

use loopwarden::{clock, clock::Deadline, exit_code};

use crate::fleet::{Dice, Fleet};
use crate::people::{Ends, People, SENT_MAX, watch_topics};
use crate::scenario::{Exit, Scenario};
use crate::victims::{Group, Victims};
use crate::{broker, number, process, report};
use crate::{broker::Broker, guards::Guards, process::Process, report::Run, world::World};

const LOOK: Duration = Duration::from_millis(10);
/// An event of the fleet takes no more of its time, in the mean; and all of it is past, also on a clock that has jumped back. Ms.
const EVENT_MS: i64 = 8;
const AGO_MS: i64 = 3 * 3_600_000;
/// Guards of a group.
const GUARDS: usize = 2;
/// Stops that end by themselves do so by the clock of a guard, long before the fleet's time is there.
const ENDS: Ends = Ends { min_ms: 1_500, more_ms: 3_000 };

/// How long a run is.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) kills: u64,
    pub(crate) events: u64,
    pub(crate) seed: u64,
    /// Mean time between two actions. Milliseconds.
    pub(crate) pause_ms: u64,
    pub(crate) processes: usize,
    pub(crate) lanes: u32,
    pub(crate) partitions: u32,
    /// Somebody asked for this length: it is kept.
    pub(crate) is_kept: bool,
    /// An earlier program beside this one.
    pub(crate) old: Option<PathBuf>,
}

impl Plan {
    pub(crate) fn of_environment() -> Self {
        let number = |name: &str| number(&format!("LOOPWARDEN_CHAOS_{name}"));
        let kills = number("KILLS");
        Self {
            kills: kills.unwrap_or(6),
            events: number("EVENTS").unwrap_or(20_000),
            seed: number("SEED").unwrap_or_else(|| if kills.is_some() { clock::now_ms() as u64 } else { 1 }),
            pause_ms: number("PAUSE_MS").unwrap_or(2_000),
            processes: 3,
            lanes: 2,
            partitions: 12,
            is_kept: kills.is_some(),
            old: std::env::var_os("LOOPWARDEN_CHAOS_OLD").map(PathBuf::from),
        }
    }

    /// What a start may run; the group begins with the first.
    fn programs(&self, folder: &Path) -> Vec<PathBuf> {
        self.old.iter().cloned().chain([process::program_of_run(folder)]).collect()
    }
}

/// The group, its broker, and which program its processes run.
struct Killed {
    scenario: Scenario,
    broker: Option<Broker>,
    programs: Vec<PathBuf>,
    /// How often each of them was drawn.
    starts: Vec<u64>,
}

impl Group for Killed {
    fn processes(&mut self) -> &mut [Process] {
        &mut self.scenario.processes
    }

    fn start(&mut self, at: usize, is_timed: bool, dice: &mut Dice) {
        let is_first = self.scenario.processes[at].starts == 0;
        if !is_first && self.programs.len() > 1 {
            let drawn = dice.below(self.programs.len() as u64) as usize;
            self.scenario.processes[at].program.clone_from(&self.programs[drawn]);
            self.starts[drawn] += 1;
        }
        if is_timed { self.scenario.start(at) } else { self.scenario.processes[at].start() }
    }

    fn kill(&mut self, at: usize) {
        self.scenario.kill(at);
    }

    fn finish(&mut self, at: usize) {
        let status = self.scenario.processes[at].finish("TERM");
        if !process::has_obeyed(status) {
            let exit = Exit::of(&self.scenario.processes[at], status);
            self.scenario.exits.push(exit);
        }
    }

    fn ended(&mut self) -> Vec<usize> {
        self.scenario.ended()
    }

    fn forget_starts(&mut self) {
        self.scenario.forget_births();
    }

    fn has_others(&self) -> bool {
        true
    }

    fn has_broker(&self) -> bool {
        self.broker.is_some()
    }

    fn kill_broker(&mut self) {
        self.broker.iter_mut().for_each(Broker::kill);
    }

    fn revive_broker(&mut self) {
        self.broker.iter_mut().for_each(Broker::revive);
    }
}

/// Whether a process may end by itself like that: its disk fails, or its broker was away for long.
fn is_documented(exit: &Exit) -> bool {
    let codes = [exit_code::STORE, exit_code::UNAVAILABLE].map(|code| Some(i32::from(code)));
    codes.contains(&exit.status.code())
}

/// Runs it. `None` where there is no broker, which is said aloud.
pub(crate) fn run(plan: &Plan) -> Option<Run> {
    let broker = broker::mortal("killed");
    if broker.is_none() {
        println!("skipped: brokers that die: one that was given cannot be killed");
    }
    let bootstrap = match &broker {
        Some(broker) => broker.bootstrap.clone(),
        None => broker::bootstrap()?.to_owned(),
    };
    // Guards go by the clock: a stop of the fleet's time must not be over.
    let begin_ms = clock::now_ms() - AGO_MS - plan.events as i64 * EVENT_MS;
    let fleet = Fleet::beginning(plan.seed, begin_ms, 1);
    let mut scenario = Scenario::on(World::new(&bootstrap, plan.partitions), "chaos", fleet, plan.partitions);
    let programs = plan.programs(&scenario.root);
    scenario.is_mixed = programs.len() > 1;
    scenario.program.clone_from(&programs[0]);
    for _ in 0..plan.processes {
        scenario.place(plan.lanes, &[]);
    }
    let step = plan.events / (plan.kills + 1);
    let target = Arc::new(AtomicU64::new(step));
    let (submit, acts) = sync_channel(SENT_MAX);
    let feeder = scenario.feeder.take().expect("a feeder").follow(Arc::clone(&target), plan.events, scenario.audit(), acts);
    let guards = Guards::of_topic(&scenario.root, &programs[programs.len() - 1], &scenario.world.options, GUARDS);
    let mut guards = guards.disturbed(plan.seed, plan.pause_ms * 2);
    let (options, partitions) = (scenario.world.options.clone(), plan.partitions);
    let watch = move |shared, answering| watch_topics(&options, partitions, &shared, answering);
    let people = People::start(plan.seed, Some(ENDS), &guards.places(), submit, watch);
    let starts = vec![0; programs.len()];
    let mut group = Killed { scenario, broker, programs, starts };
    let mut victims = Victims::new(&mut group, plan.seed ^ 0xc4a05, plan.pause_ms);
    let mut told_ms = 0;
    while victims.kills < plan.kills || victims.is_busy() {
        let pause = Deadline::after(Duration::from_millis(victims.pause_ms()));
        while !pause.is_over() {
            victims.tend(&mut group);
            guards.tend();
            std::thread::park_timeout(LOOK);
        }
        if victims.now_ms() > told_ms + 15_000 {
            told_ms = victims.now_ms();
            let (processed, exits) = (group.scenario.processed(), group.scenario.exits.len());
            let of = target.load(Ordering::Acquire);
            let audit = group.scenario.look();
            println!(
                "{:>4} s: {} kills, {processed} of {of} events behind a commit, {} outputs, {} commits, {} faults, {exits} exits",
                told_ms / 1_000,
                victims.kills,
                audit.outputs(),
                audit.commits,
                audit.faults.len()
            );
        }
        if victims.kills < plan.kills {
            victims.strike(&mut group);
        }
        target.store((step * (victims.kills + 1)).min(plan.events), Ordering::Release);
    }
    guards.calm();
    people.end();
    while !people.have_acted() {
        victims.tend(&mut group);
        std::thread::park_timeout(LOOK);
    }
    let judged = people.finish();
    target.store(plan.events, Ordering::Release);
    let killed_ms = victims.now_ms();
    println!("{:>4} s: calm", killed_ms / 1_000);
    let Killed { mut scenario, broker, programs, starts } = group;
    scenario.feeder = Some(feeder.join().expect("the feeder"));
    scenario.settle();
    let settled_ms = victims.now_ms();
    println!("{:>4} s: settled", settled_ms / 1_000);
    let told =
        report::TOLD.map(|(name, words)| (name, scenario.processes.iter().map(|process| process.told(words)).sum::<usize>()));
    let exits = std::mem::take(&mut scenario.exits);
    let (produced, acted, written) = (scenario.produced(), scenario.acted(), scenario.written());
    let backlog_max = scenario.feeder.as_ref().map_or(0, |feeder| feeder.backlog_max);
    let root = scenario.root.clone();
    let mut verdict = scenario.verify();
    let unknown = exits.iter().filter(|exit| !is_documented(exit));
    verdict.problems.extend(unknown.map(|exit| ("exit", format!("{} ended with {}: {:?}", exit.name, exit.status, exit.said))));
    verdict.problems.extend(judged.problems().into_iter().map(|words| ("act", words)));
    let run = Run {
        plan: plan.clone(),
        kills: victims.kills,
        guards_killed: guards.kills,
        judged,
        starts: (programs.len() > 1).then(|| (starts[0], starts[1])),
        done: victims.rows(),
        produced,
        acted,
        written,
        backlog_max,
        killed_ms,
        settled_ms,
        took_ms: victims.now_ms(),
        told,
        exits: exits.iter().map(|exit| exit.status.to_string()).collect(),
        verdict,
    };
    // The disks are in the way of the folder.
    drop((victims, guards, broker));
    if run.is_good() {
        process::remove(&root);
    }
    Some(run)
}
