//! `run`: the lanes until they are told to stop, or one of them ends.

mod memory;
mod notify;
mod reload;
mod serve;
mod station;
mod status;
mod upkeep;
mod world;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwarden_core::policy::Policy;
use loopwarden_lane::{Exit, LaneSettings, SystemClock};
use loopwarden_log::clock::{Deadline, Stopwatch};
use loopwarden_settings::{Config, Loaded};
use notify::Manager;
use station::{Facts, InForce, Station};
use status::{StatusLine, Sum};
use upkeep::Upkeep;
use world::{Parts, World};

use crate::cli::args::{LogArgs, RunArgs};
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::{Output, say};
use crate::cli::signals::Asked;
use crate::cli::{setup, signals};
use crate::http::{Server, Token};
use crate::telemetry::logging::LogControl;
use crate::{clock, task};

/// How often the process looks after its lanes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often state that was left behind is looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// Runs until told to stop.
///
/// # Errors
/// By fate: configuration, brokers, store, identity.
pub fn run(args: &RunArgs, log: &LogArgs) -> Outcome {
    let loaded = setup::load(&args.config, log)?;
    let control = setup::log_as_configured(&loaded.config)?;
    let loaded_policy = reload::load(&loaded.config.policy)?;
    let in_force = reload::in_force(&loaded_policy);
    let policy = Arc::clone(&in_force.policy);
    // Before anything slow: a signal during the start is a wish to stop too, and while brokers are asked nobody else listens to it.
    let has_begun = Arc::new(AtomicBool::new(loaded.config.kafka.is_none()));
    let signals = signals::listen_from(Arc::clone(&has_begun))?;
    let config = &loaded.config;
    // Before anything is opened: it is a mistake of the settings.
    let token = config.http.token()?.map(Token::new);
    let data_dir = config.data_dir()?;
    std::fs::create_dir_all(data_dir)
        .map_err(|error| Failure::coded("E0406", format!("cannot make data_dir {}: {error}", data_dir.display())))?;
    reload::keep(data_dir, &loaded_policy)
        .map_err(|error| Failure::coded("E0406", format!("cannot write to data_dir {}: {error}", data_dir.display())))?;
    let parts = Parts { config, policy: &policy, data_dir, clock: SystemClock::start() };
    let mut world = match &config.kafka {
        Some(kafka) => world::kafka(&parts, kafka)?,
        None => world::embedded(&parts)?,
    };
    has_begun.store(true, Ordering::Release);
    world.fleet.watch()?;
    let mut manager = Manager::of_environment();
    let station = Arc::new(station(&loaded, in_force, &control, &parts.clock, &world));
    let server = serve::start(config, token, &station)?;
    let upkeep = world.broker.clone().map(|broker| Upkeep::start(broker, config.embedded.retention_ms)).transpose()?;
    let ended = look_after(
        &world,
        &signals,
        (&mut manager, &control),
        &|| reload::reload(args, log, &loaded, &control, &world, &station),
        &|sum| {
            ready(config, &policy, &world, sum, &server);
        },
    );
    manager.tell("STOPPING=1");
    station.is_draining.store(true, Ordering::Release);
    let leave = ended == Ended::Told(Asked::Leave);
    let poisoned = Sum::of(world.fleet.handles(), world.tasks_min()).poisoned;
    let World { fleet, pools, store, broker, .. } = world;
    let gravest = fleet.stop(leave);
    // After the lanes: their last commands still reach whoever follows.
    server.stop();
    if let Some(upkeep) = upkeep {
        upkeep.stop();
    }
    drop(station);
    for pool in pools.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        pool.stop();
    }
    drop((broker, store));
    match (ended, gravest) {
        (Ended::Lane(exit), _) | (Ended::Told(_), exit) if !matches!(exit, Exit::Stopped | Exit::Done) => Err(exit.into()),
        _ if !poisoned.is_empty() => Err(Failure::coded(
            "E0301",
            format!("stopped, with tasks that had stopped themselves before: {}", poisoned.join("; ")),
        )),
        _ => Ok(()),
    }
}

/// What the listener may know of all this.
fn station(loaded: &Loaded, in_force: InForce, control: &LogControl, clock: &SystemClock, world: &World) -> Station {
    Station {
        facts: Facts {
            mode: loaded.config.mode.as_str(),
            place: world.place.clone(),
            topic: world.topic.clone(),
            partitions: world.partitions,
            tasks_min: world.tasks_min(),
            lateness_ms: loaded.config.time.lateness_ms,
            config: station::values(loaded.effective()),
        },
        lanes: world.fleet.handles().to_vec(),
        clock: *clock,
        store: world.store.clone(),
        broker: world.broker.clone(),
        recent: world.recent.clone(),
        control: control.clone(),
        in_force: Mutex::new(in_force),
        since: Stopwatch::start(),
        has_started: AtomicBool::new(false),
        is_draining: AtomicBool::new(false),
    }
}

/// Why the lanes are to end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    Told(Asked),
    Lane(Exit),
}

fn look_after(
    world: &World,
    signals: &std::sync::mpsc::Receiver<Asked>,
    (manager, control): (&mut Manager, &LogControl),
    reload: &dyn Fn(),
    ready: &dyn Fn(&Sum),
) -> Ended {
    let mut status = StatusLine::new(world.broker.is_some(), world.partitions);
    let mut is_ready = false;
    let mut sweep = Deadline::after(SWEEP_EVERY);
    loop {
        match signals.recv_timeout(LOOK_EVERY) {
            Ok(Asked::Reload) => {
                manager.tell("RELOADING=1");
                reload();
                manager.tell("READY=1");
            }
            Ok(asked) => return Ended::Told(asked),
            Err(RecvTimeoutError::Timeout) => {}
            // Its thread is gone, which cannot be; without signals nobody could stop the process.
            Err(RecvTimeoutError::Disconnected) => return Ended::Told(Asked::Stop),
        }
        if let Some((_, exit)) = world.fleet.next_exit(Duration::ZERO) {
            return Ended::Lane(exit);
        }
        if !is_ready {
            let sum = Sum::of(world.fleet.handles(), world.tasks_min());
            if sum.is_restored() {
                is_ready = true;
                ready(&sum);
                manager.tell("READY=1");
            }
        }
        manager.lives();
        control.tell_left_out();
        if sweep.is_over() {
            sweep = Deadline::after(SWEEP_EVERY);
            sweep_released(world);
        }
        status.due(|| Sum::of(world.fleet.handles(), world.tasks_min())).iter().for_each(say);
    }
}

/// Removes state that was left behind by tasks of other processes. The embedded log holds all of its tasks for ever.
fn sweep_released(world: &World) {
    if world.broker.is_some() {
        return;
    }
    let kept_ms = LaneSettings::default().delete_retention_ms;
    // A failed write ends the lanes too, with its code.
    if let Err(error) = task::sweep(&mut world.store.clone(), &world.leases, clock::now_ms(), kept_ms) {
        say(format!("warning: {error}"));
    }
}

/// One line for people and scripts, on standard output, once every assigned task was restored.
fn ready(config: &Config, policy: &Policy, world: &World, sum: &Sum, server: &Server) {
    let hash: String = policy.hash.to_string().chars().take(12).collect();
    let stopped = match sum.poisoned.len() {
        0 => String::new(),
        count => format!(", {count} of them stopped already"),
    };
    let line = format!(
        "ready: mode {}, policy {} ({hash}), {}, {} tasks in {} lanes{stopped}",
        config.mode.as_str(),
        policy.profile,
        world.place,
        sum.tasks,
        config.lanes
    );
    let mut out = Output::stdout();
    // Nobody has to read it.
    let first = serve::first_contact(config, server, world.broker.is_some());
    let _ =
        out.line(line).and_then(|()| out.line(memory::told(config))).and_then(|()| out.line(first)).and_then(|()| out.flush());
}
