//! What befalls the processes of a kill loop, their disks, their clocks and their broker, drawn from a seed; and what follows of it.

use std::{collections::BTreeMap, collections::btree_map::Entry};

use loopwarden::clock::Stopwatch;

use crate::{disk, disk::Disk, fleet::Dice, process::Process, wall_clock::WallClock};

/// Longer than a session (10 s): who wakes up after it is a zombie.
const FREEZE_MS: u64 = 10_500;
/// How far a clock is off at most. Deletions are kept for three days: state that seems older is not trusted, and rightly so.
const CLOCK_S_MAX: u64 = 2 * 3_600;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Kill,
    KillAll,
    Freeze,
    Restart,
    LoseDisk,
    DiskFull,
    DiskFullAtStart,
    DiskFails,
    DiskReadOnlyAtStart,
    DiskHangs,
    ClockJumps,
    BrokerDies,
}

/// Words of the report, and how often of a hundred an action is drawn.
const ACTIONS: [(Action, &str, u64); 12] = [
    (Action::Kill, "process killed", 60),
    (Action::KillAll, "all processes killed at once", 7),
    (Action::Freeze, "process frozen beyond its session", 4),
    (Action::Restart, "process asked to end, and started", 4),
    (Action::LoseDisk, "process killed, disk lost", 4),
    (Action::DiskFull, "disk full", 3),
    (Action::DiskFullAtStart, "process killed, disk full when it starts", 2),
    (Action::DiskFails, "disk read-only from one moment to the next, what was not synced is gone", 3),
    (Action::DiskReadOnlyAtStart, "process killed, disk read-only when it starts", 2),
    (Action::DiskHangs, "disk hangs for one to three seconds", 4),
    (Action::ClockJumps, "wall clock jumps by up to two hours", 5),
    (Action::BrokerDies, "broker killed", 2),
];

/// What is going to happen to a process, in ms of the run.
#[derive(Debug, Clone, Copy)]
enum Due {
    Start(u64),
    Thaw(u64),
    Room(u64),
    Repair(u64),
    Unhang(u64),
}

impl Due {
    const fn at_ms(self) -> u64 {
        let (Self::Start(at) | Self::Thaw(at) | Self::Room(at) | Self::Repair(at) | Self::Unhang(at)) = self;
        at
    }
}

/// What a process has of its machine.
#[derive(Debug, Default)]
struct Machine {
    disk: Option<Disk>,
    clock: Option<WallClock>,
}

/// The processes that things are done to.
pub(crate) trait Group {
    fn processes(&mut self) -> &mut [Process];
    /// Starts one. `is_timed`: nothing but its own end keeps it from its first commit.
    fn start(&mut self, at: usize, is_timed: bool, dice: &mut Dice);
    /// `kill -9`.
    fn kill(&mut self, at: usize);
    /// Asks one to end, and waits for it.
    fn finish(&mut self, at: usize);
    /// Notes those that ended by themselves.
    fn ended(&mut self) -> Vec<usize>;
    /// Whether others take over from one that is away, and hold its state: an embedded log is all there is.
    fn has_others(&self) -> bool {
        false
    }
    /// Nobody's first commit is waited for any more.
    fn forget_starts(&mut self) {}
    /// Whether there is a broker that may die.
    fn has_broker(&self) -> bool {
        false
    }
    fn kill_broker(&mut self) {}
    fn revive_broker(&mut self) {}
}

/// Everything that is done and due.
pub(crate) struct Victims {
    dice: Dice,
    watch: Stopwatch,
    machines: Vec<Machine>,
    due: BTreeMap<usize, Due>,
    /// Who ended by itself while its disk failed, and when it is started again in vain, as a supervisor does.
    in_vain: BTreeMap<usize, u64>,
    broker_due: Option<u64>,
    /// What is done first: at least one of each in a short run.
    script: Vec<Action>,
    /// Mean time between two actions. Milliseconds.
    pause_ms: u64,
    /// Processes killed with `kill -9`.
    pub(crate) kills: u64,
    done: BTreeMap<Action, u64>,
    /// What could not be done here, and why.
    skipped: Vec<String>,
}

impl Victims {
    /// Prepares the machines of processes that were not started yet.
    pub(crate) fn new(group: &mut impl Group, seed: u64, pause_ms: u64) -> Self {
        disk::sweep();
        let mut skipped = Vec::new();
        let machines = group.processes().iter_mut().map(|process| Machine::of(process, &mut skipped)).collect();
        skipped.dedup();
        skipped.iter().for_each(|why| println!("skipped: {why}"));
        let mut victims = Self {
            dice: Dice::new(seed),
            watch: Stopwatch::start(),
            machines,
            due: BTreeMap::new(),
            in_vain: BTreeMap::new(),
            broker_due: None,
            script: Vec::new(),
            pause_ms,
            kills: 0,
            done: BTreeMap::new(),
            skipped,
        };
        let script = ACTIONS.iter().map(|(action, ..)| *action).filter(|action| victims.can(*action, group));
        victims.script = script.collect();
        for at in 0..victims.machines.len() {
            group.start(at, false, &mut victims.dice);
        }
        victims
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.watch.elapsed().as_millis() as u64
    }

    /// Whether something is to follow of what was done.
    pub(crate) fn is_busy(&self) -> bool {
        !self.due.is_empty() || self.broker_due.is_some()
    }

    /// How long to wait until the next action. Milliseconds.
    pub(crate) fn pause_ms(&mut self) -> u64 {
        self.pause_ms / 10 + self.dice.below(self.pause_ms * 9 / 5 + 1)
    }

    fn can(&self, action: Action, group: &impl Group) -> bool {
        match action {
            Action::DiskFull | Action::DiskFullAtStart | Action::DiskFails | Action::DiskReadOnlyAtStart | Action::DiskHangs => {
                self.machines.iter().all(|machine| machine.disk.is_some())
            }
            Action::ClockJumps => self.machines.iter().all(|machine| machine.clock.is_some()),
            Action::BrokerDies => group.has_broker(),
            Action::KillAll => self.machines.len() > 1,
            Action::LoseDisk | Action::Freeze => group.has_others(),
            Action::Kill | Action::Restart => true,
        }
    }

    /// Does what is due.
    pub(crate) fn tend(&mut self, group: &mut impl Group) {
        let now_ms = self.now_ms();
        if self.broker_due.is_some_and(|at_ms| at_ms <= now_ms) {
            self.broker_due = None;
            group.revive_broker();
        }
        let ready: Vec<(usize, Due)> =
            self.due.iter().filter(|(_, due)| due.at_ms() <= now_ms).map(|(at, due)| (*at, *due)).collect();
        for (at, due) in ready {
            self.due.remove(&at);
            self.in_vain.remove(&at);
            let disk = self.machines[at].disk.as_ref();
            match (due, disk) {
                (Due::Thaw(_), _) => group.processes()[at].thaw(),
                (Due::Unhang(_), Some(disk)) => disk.go_on(),
                (Due::Room(_), Some(disk)) => disk.empty(),
                (Due::Repair(_), Some(disk)) => {
                    if group.processes()[at].is_running() {
                        group.kill(at);
                        self.kills += 1;
                    }
                    disk.repair();
                }
                _ => {}
            }
            if !group.processes()[at].is_running() {
                // How long it takes is measured where nobody is frozen, since the group would wait for that one, and the directory is there.
                let is_timed = matches!(due, Due::Start(_)) && !self.is_busy() && group.processes()[at].state_dir().exists();
                group.start(at, is_timed, &mut self.dice);
            }
        }
        for at in group.ended() {
            let again_ms = self.now_ms() + self.dice.below(1_000);
            match self.due.entry(at) {
                Entry::Occupied(_) => _ = self.in_vain.insert(at, again_ms),
                Entry::Vacant(none) => _ = none.insert(Due::Start(again_ms)),
            }
        }
        let again: Vec<usize> = self.in_vain.iter().filter(|(_, at_ms)| **at_ms <= now_ms).map(|(at, _)| *at).collect();
        for at in again {
            self.in_vain.remove(&at);
            group.start(at, false, &mut self.dice);
        }
    }

    /// Does the next thing to somebody to whom nothing is being done.
    pub(crate) fn strike(&mut self, group: &mut impl Group) {
        let running: Vec<bool> = group.processes().iter().map(Process::is_running).collect();
        let free: Vec<usize> = (0..running.len()).filter(|at| running[*at] && !self.due.contains_key(at)).collect();
        if free.is_empty() {
            return;
        }
        let at = free[self.dice.below(free.len() as u64) as usize];
        let action = self.script.pop().unwrap_or_else(|| self.draw());
        // Who is to leave a group tells its coordinator.
        let is_in_vain = self.broker_due.is_some() && matches!(action, Action::BrokerDies | Action::Restart);
        if is_in_vain || !self.can(action, group) {
            return;
        }
        *self.done.entry(action).or_default() += 1;
        if action != Action::Kill {
            group.forget_starts();
        }
        let now_ms = self.now_ms();
        let due = match action {
            Action::Kill => self.kill(at, group),
            Action::KillAll => {
                for at in free {
                    let due = self.kill(at, group);
                    self.due.insert(at, due);
                }
                return;
            }
            Action::LoseDisk => {
                let due = self.kill(at, group);
                group.processes()[at].lose_disk();
                due
            }
            Action::Freeze => {
                group.processes()[at].freeze();
                Due::Thaw(now_ms + FREEZE_MS + self.dice.below(3_000))
            }
            Action::Restart => {
                group.finish(at);
                Due::Start(now_ms)
            }
            Action::ClockJumps => {
                let offset_s = self.dice.below(2 * CLOCK_S_MAX + 1) as i64 - CLOCK_S_MAX as i64;
                self.machines[at].clock.iter().for_each(|clock| clock.jump_to(offset_s));
                return;
            }
            Action::BrokerDies => {
                group.kill_broker();
                self.broker_due = Some(now_ms + self.dice.below(2_000));
                return;
            }
            Action::DiskFull | Action::DiskFullAtStart | Action::DiskFails | Action::DiskReadOnlyAtStart | Action::DiskHangs => {
                self.spoil(action, at, group)
            }
        };
        self.due.insert(at, due);
    }

    /// Kills one; when it is to be started.
    fn kill(&mut self, at: usize, group: &mut impl Group) -> Due {
        group.kill(at);
        self.kills += 1;
        Due::Start(self.now_ms() + self.dice.below(self.pause_ms * 3 / 2 + 1))
    }

    /// Does something to a disk; when it is to be mended.
    fn spoil(&mut self, action: Action, at: usize, group: &mut impl Group) -> Due {
        let is_at_start = matches!(action, Action::DiskFullAtStart | Action::DiskReadOnlyAtStart);
        if is_at_start {
            self.kill(at, group);
        }
        let at_ms = self.now_ms() + 1_000 + self.dice.below(2_000);
        let disk = self.machines[at].disk.as_ref().expect("a disk");
        let due = match action {
            Action::DiskHangs => {
                disk.hang();
                Due::Unhang(at_ms)
            }
            Action::DiskFails => {
                group.processes()[at].freeze_between_calls();
                disk.fail();
                group.processes()[at].thaw();
                Due::Repair(at_ms)
            }
            Action::DiskReadOnlyAtStart => {
                disk.write_protect();
                Due::Repair(at_ms)
            }
            _ => {
                disk.fill();
                Due::Room(at_ms)
            }
        };
        if is_at_start {
            group.start(at, false, &mut self.dice);
        }
        due
    }

    fn draw(&mut self) -> Action {
        let mut number = self.dice.below(ACTIONS.iter().map(|(.., weight)| *weight).sum());
        for (action, _, weight) in ACTIONS {
            if number < weight {
                return action;
            }
            number -= weight;
        }
        Action::Kill
    }

    /// Rows of the report: what was done how often, and what could not be.
    pub(crate) fn rows(&self) -> String {
        let count = |action: &Action| self.done.get(action).copied().unwrap_or(0);
        let rows = ACTIONS.iter().filter(|(action, ..)| count(action) > 0);
        let done = rows.map(|(action, words, _)| format!("| {words} | {} |\n", count(action)));
        done.chain(self.skipped.iter().map(|why| format!("| not done here | {why} |\n"))).collect()
    }
}

impl Machine {
    /// Gives a process a disk and a clock of its own, as far as that can be had.
    fn of(process: &mut Process, skipped: &mut Vec<String>) -> Self {
        let disk = Disk::mount(&process.data_dir()).map_err(|why| skipped.push(format!("disks that fail: {why}"))).ok();
        let clock = WallClock::new(process.dir()).map_err(|why| skipped.push(format!("clocks that jump: {why}"))).ok();
        process.environment.extend(clock.iter().flat_map(WallClock::environment));
        Self { disk, clock }
    }
}
