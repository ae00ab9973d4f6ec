//! The server: the lanes until they are told to stop, or one of them ends.

mod deployment;
mod follow;
mod housekeeping;
mod intakes;
mod kafka_options;
mod listen;
mod memory;
mod reload;
mod sd_notify;
mod spec;
mod state;
mod status;
mod topics;
mod webhooks;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{net::SocketAddr, path::PathBuf, sync::mpsc::RecvTimeoutError, time::Duration};

use deployment::Deployment;
use follow::Following;
use housekeeping::Housekeeping;
pub use housekeeping::Upkeep;
pub(crate) use intakes::mappings;
pub use kafka_options::{SWARM, kafka_options};
pub use listen::door;
use loopwarden_core::policy::Policy;
use loopwarden_lab::report::counted;
use loopwarden_lane::{Exit, LaneSettings, SystemClock};
use loopwarden_log::clock::{Deadline, Stopwatch};
use loopwarden_settings::{Config, Loaded};
use loopwarden_state::StoreError;
use sd_notify::SdNotify;
use spec::DeploymentSpec;
use state::{Facts, InForce, ServerState};
use status::{StatusLine, Sum};
pub use topics::{topic_problem, topic_problems};
pub(crate) use webhooks::prepare as webhooks;

use crate::failure::{Failure, Outcome};
use crate::output::{Output, say};
use crate::{clock, descriptors, private, task};
use crate::{input_quality::InputQuality, mapping_file, signals, signals::Asked, telemetry::logging::LogControl};

/// How often the process looks after its lanes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often state that was left behind is looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// Runs until told to stop; on SIGHUP it reads the `settings` again. The logs of agents below directories to `follow` are further
/// events; they need a log of its own.
///
/// # Errors
/// By fate: configuration, brokers, store, identity.
pub fn run(
    loaded: &Loaded,
    control: &LogControl,
    settings: &dyn Fn() -> Result<Loaded, Failure>,
    (follow, on_ready): (&[PathBuf], &dyn Fn(SocketAddr)),
) -> Outcome {
    private::by_default();
    let open_files = descriptors::raise()?;
    let loaded_policy = reload::load(&loaded.config.policy)?;
    let in_force = reload::in_force(&loaded_policy);
    let policy = Arc::clone(&in_force.policy);
    // Before anything slow: a signal during the start is a wish to stop too, and while brokers are asked nobody else listens to it.
    let has_begun = Arc::new(AtomicBool::new(loaded.config.kafka.is_none()));
    let signals = signals::listen_from(Arc::clone(&has_begun))?;
    let config = &loaded.config;
    // Before anything is opened: it is a mistake of the settings.
    let door = listen::door(config)?;
    let mapping = mapping_file::of_settings(config)?;
    let mappings = mappings(config)?;
    let prepared = webhooks(config)?;
    let data_dir = config.data_dir()?;
    let place = data_dir.display();
    private::dir(data_dir).map_err(|error| StoreError::of_io(format!("cannot make data_dir {place}"), &error))?;
    reload::keep(data_dir, &loaded_policy)
        .map_err(|error| StoreError::of_io(format!("cannot write to data_dir {place}"), &error))?;
    let quality = Arc::new(InputQuality::default());
    let spec =
        DeploymentSpec { config, policy: &policy, data_dir, open_files, clock: SystemClock::start(), sources: quality.sources() };
    let mut deployment = match &config.kafka {
        Some(kafka) => deployment::kafka(&spec, kafka, mappings, prepared)?,
        None => deployment::embedded(&spec, prepared)?,
    };
    has_begun.store(true, Ordering::Release);
    deployment.watch()?;
    let mut manager = SdNotify::of_environment();
    let state = Arc::new(state(loaded, in_force, control, (&spec.clock, quality), &deployment));
    let server = listen::start(config, (door, mapping), &state)?;
    let address = server.address().unwrap_or(config.http.listen);
    let housekeeping =
        deployment.broker.clone().map(|broker| Housekeeping::start(broker, config.embedded.retention_ms)).transpose()?;
    let following = match &deployment.broker {
        Some(broker) if !follow.is_empty() => {
            Some(Following::start(follow, (broker.clone(), deployment.backlog.clone()), data_dir)?)
        }
        _ => None,
    };
    let ended = look_after(
        &deployment,
        &signals,
        (&mut manager, control),
        &|| reload::reload(settings, loaded, control, &deployment, &state),
        &|sum| {
            ready(config, &policy, &deployment, sum, address);
            on_ready(address);
        },
    );
    manager.tell("STOPPING=1");
    state.is_draining.store(true, Ordering::Release);
    let leave = ended == Ended::Asked(Asked::Leave);
    let mut poisoned = deployment.sum().poisoned;
    poisoned.extend(deployment.intake_reports().into_iter().flat_map(|report| report.stopped));
    let Deployment { fleet, intakes, webhooks, pools, store, broker, .. } = deployment;
    webhooks.stop();
    if let Some(following) = following {
        following.stop();
    }
    let ended_intakes = intakes.stop(leave);
    let ended_lanes = fleet.stop(leave);
    let gravest = if ended_lanes == Exit::Stopped { ended_intakes } else { ended_lanes };
    // After the lanes: their last commands still reach whoever follows.
    server.stop();
    webhooks.join();
    if let Some(housekeeping) = housekeeping {
        housekeeping.stop();
    }
    drop(state);
    for pool in pools.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        pool.stop();
    }
    drop((broker, store));
    match (ended, gravest) {
        (Ended::Lane(exit), _) | (Ended::Asked(_), exit) if !matches!(exit, Exit::Stopped | Exit::Done) => Err(exit.into()),
        _ if !poisoned.is_empty() => Err(Failure::coded(
            "E0301",
            format!("stopped, with tasks that had stopped themselves before: {}", poisoned.join("; ")),
        )),
        _ => Ok(()),
    }
}

/// What the listener may know of all this.
fn state(
    loaded: &Loaded,
    in_force: InForce,
    control: &LogControl,
    (clock, quality): (&SystemClock, Arc<InputQuality>),
    deployment: &Deployment,
) -> ServerState {
    ServerState {
        facts: Facts {
            mode: loaded.config.mode.as_str(),
            place: deployment.place.clone(),
            topic: deployment.topic.clone(),
            partitions: deployment.partitions,
            tasks_min: deployment.tasks_min(),
            lateness_ms: loaded.config.time.lateness_ms,
            ready_lag_ms_max: loaded.config.http.ready_lag_ms_max,
            config: state::values(loaded.effective()),
        },
        lanes: deployment.fleet.handles().to_vec(),
        intakes: deployment.intakes.handles().to_vec(),
        webhook_reports: deployment.webhooks.reports.clone(),
        quality,
        clock: *clock,
        store: deployment.store.clone(),
        broker: deployment.broker.clone(),
        backlog: deployment.backlog.clone(),
        recent: deployment.recent.clone(),
        control: control.clone(),
        in_force: Mutex::new(in_force),
        since: Stopwatch::start(),
        agents: Mutex::new(None),
        has_started: AtomicBool::new(false),
        is_draining: AtomicBool::new(false),
    }
}

/// Why the lanes are to end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    Asked(Asked),
    Lane(Exit),
}

fn look_after(
    deployment: &Deployment,
    signals: &std::sync::mpsc::Receiver<Asked>,
    (manager, control): (&mut SdNotify, &LogControl),
    reload: &dyn Fn(),
    ready: &dyn Fn(&Sum),
) -> Ended {
    let mut status = StatusLine::new(deployment.broker.is_some(), deployment.partitions);
    let mut is_ready = false;
    let mut sweep = Deadline::after(SWEEP_EVERY);
    loop {
        match signals.recv_timeout(LOOK_EVERY) {
            Ok(Asked::Reload) => {
                manager.tell("RELOADING=1");
                reload();
                manager.tell("READY=1");
            }
            Ok(asked) => return Ended::Asked(asked),
            Err(RecvTimeoutError::Timeout) => {}
            // Its thread is gone, which cannot be; without signals nobody could stop the process.
            Err(RecvTimeoutError::Disconnected) => return Ended::Asked(Asked::Stop),
        }
        if let Some(exit) = deployment.next_exit() {
            return Ended::Lane(exit);
        }
        if !is_ready {
            let sum = deployment.sum();
            if sum.is_restored() {
                is_ready = true;
                tracing::info!(tasks = sum.tasks, "every task is restored");
                ready(&sum);
                manager.tell("READY=1");
            }
        }
        manager.lives();
        control.tell_left_out();
        if sweep.is_over() {
            sweep = Deadline::after(SWEEP_EVERY);
            sweep_released(deployment);
        }
        status.due(|| deployment.sum()).iter().for_each(say);
    }
}

/// Removes state that was left behind by tasks of other processes. The embedded log holds all of its tasks for ever.
fn sweep_released(deployment: &Deployment) {
    if deployment.broker.is_some() {
        return;
    }
    let kept_ms = LaneSettings::default().delete_retention_ms;
    // A failed write ends the lanes too, with its code.
    if let Err(error) = task::sweep(&mut deployment.store.clone(), &deployment.leases, clock::now_ms(), kept_ms) {
        say(format!("warning: {error}"));
    }
}

/// One line for people and scripts, on standard output, once every assigned task was restored.
fn ready(config: &Config, policy: &Policy, deployment: &Deployment, sum: &Sum, listen: SocketAddr) {
    let hash: String = policy.hash.to_string().chars().take(12).collect();
    let stopped = match sum.poisoned.len() {
        0 => String::new(),
        count => format!(", {count} of them stopped already"),
    };
    let line = format!(
        "ready: mode {}, policy {} ({hash}), {}, {} in {}{stopped}",
        config.mode.as_str(),
        policy.profile,
        deployment.place,
        counted(sum.tasks as u64, "task"),
        counted(u64::from(config.lanes), "lane")
    );
    let mut out = Output::stdout();
    // Nobody has to read it.
    let first = listen::first_contact(config, listen, deployment.broker.is_some());
    let _ =
        out.line(line).and_then(|()| out.line(memory::told(config))).and_then(|()| out.line(first)).and_then(|()| out.flush());
}
