//! The two deployments of a process: with Kafka, or with the embedded log. Each opens its store and starts its lanes.

use std::sync::{Arc, Mutex, PoisonError};
use std::{path::Path, time::Duration};

use loopwarden_core::{engine::SessionEngine, event::Stage, limits::REWRITTEN_BYTES_MAX};
use loopwarden_kafka::admin::topics::Admin;
use loopwarden_kafka::{KafkaLog, KafkaOptions};
use loopwarden_lane::{
    Clock, Exit, Fleet, InlineRestorer, IntakeReport, KillerFile, Lane, LaneHandle, LaneSettings, Leases, Pace, Recent,
    RestorePool, Suspect,
};
use loopwarden_log::embedded::{EmbeddedBroker, EmbeddedOptions, TICK_HEADER};
use loopwarden_log::{Changelog, InputNames, Log};
use loopwarden_settings::{Config, KafkaConfig};
use loopwarden_sources::mapping::Mapping;
use loopwarden_state::{RocksStore, StoreError};

use crate::http::{Backlog, BacklogLimits};
use crate::server::kafka_options::{SWARM, kafka_options};
use crate::server::webhooks::{Prepared, Webhooks};
use crate::{
    failure::Failure, output::say, server::intakes, server::spec::DeploymentSpec, server::status::Sum,
    server::topics::prepare_topics, server::webhooks,
};

/// Restore threads of a lane: a restore waits for the network most of its time.
const RESTORE_THREADS: usize = 2;

/// Restore threads of all lanes, to be ended after the lanes.
pub(super) type Pools = Arc<Mutex<Vec<RestorePool>>>;

/// A process with its lanes running.
pub(super) struct Deployment {
    /// The lanes.
    pub(super) fleet: Fleet,
    /// What reads other topics, if anything does.
    pub(super) intakes: Fleet,
    /// What sends commands on.
    pub(super) webhooks: Webhooks,
    /// Their restore threads.
    pub(super) pools: Pools,
    /// The database.
    pub(super) store: RocksStore,
    /// Which lane holds which task.
    pub(super) leases: Leases,
    /// The embedded log, in embedded mode.
    pub(super) broker: Option<EmbeddedBroker>,
    /// What waits in it to be judged.
    pub(super) backlog: Option<Arc<Backlog>>,
    /// With Kafka, its last commands.
    pub(super) recent: Recent,
    /// Topics and brokers, for people.
    pub(super) place: String,
    /// Topic of events.
    pub(super) topic: String,
    pub(super) partitions: Option<u32>,
}

impl Deployment {
    /// Lanes and intakes, summed.
    pub(super) fn sum(&self) -> Sum {
        let handles: Vec<LaneHandle> = self.fleet.handles().iter().chain(self.intakes.handles()).cloned().collect();
        Sum::of(&handles, self.tasks_min())
    }

    /// What the intakes show of themselves.
    pub(super) fn intake_reports(&self) -> Vec<IntakeReport> {
        intakes::reports(self.intakes.handles())
    }

    /// Watches the heartbeats of all threads.
    pub(super) fn watch(&mut self) -> std::io::Result<()> {
        self.fleet.watch()?;
        self.intakes.watch()
    }

    /// A thread that ended by itself.
    pub(super) fn next_exit(&self) -> Option<Exit> {
        self.fleet.next_exit(Duration::ZERO).or_else(|| self.intakes.next_exit(Duration::ZERO)).map(|(_, exit)| exit)
    }

    /// Tasks that the process has in any case: on the embedded log all there are; members of a group may have none.
    pub(super) fn tasks_min(&self) -> usize {
        self.broker.as_ref().map_or(0, |broker| {
            let partitions = broker.partitions();
            (partitions.session + partitions.swarm) as usize
        })
    }
}

/// Gives a lane its note of what it applies.
fn noted<L: Log + 'static>(lane: Lane<L>, dir: &Path, number: u32, suspects: &[Suspect]) -> Result<Lane<L>, Exit> {
    let file = KillerFile::open(&KillerFile::path(dir, number as usize), suspects);
    let file = file.map_err(|error| Exit::Store(StoreError::of_io(format!("cannot write to {}", dir.display()), &error)))?;
    Ok(lane.with_killer_file(file, suspects))
}

/// Events come in over HTTP, everything stays in the directory.
pub(super) fn embedded(spec: &DeploymentSpec<'_>, prepared: Vec<Prepared>) -> Result<Deployment, Failure> {
    let config = spec.config;
    let store = spec.store(None)?;
    let options = EmbeddedOptions {
        app: config.app().to_owned(),
        instance: config.instance.clone(),
        partitions: config.embedded.partitions,
        lanes: config.lanes,
        value_bytes_max: config.limits.record_bytes_max + REWRITTEN_BYTES_MAX,
        ..EmbeddedOptions::default()
    };
    let broker = EmbeddedBroker::open(store.clone(), options)?;
    let limits = BacklogLimits { lag_ms_max: config.http.intake_lag_ms_max, share_ms_max: config.http.intake_share_ms_max };
    let backlog = Backlog::open(&broker, limits)?;
    let settings =
        Arc::new(LaneSettings { partitions: Some(broker.partitions()), tick_header: Some(TICK_HEADER), ..spec.settings() });
    let suspects = Arc::new(spec.suspects()?);
    let (leases, alignment) = (Leases::new(), Pace::new());
    let mut fleet = Fleet::new(spec.clock, config.lanes as usize);
    for number in 0..config.lanes {
        let (broker, settings, leases, suspects) = (broker.clone(), Arc::clone(&settings), leases.clone(), Arc::clone(&suspects));
        let alignment = alignment.clone();
        let (policy, dir) = (Arc::clone(spec.policy), spec.data_dir.to_owned());
        fleet.spawn(move || {
            let store = broker.store();
            let restorer = Box::new(InlineRestorer::new(store.clone(), None, Arc::clone(&settings)));
            let engine = SessionEngine::new("loopwarden", policy);
            let lane = Lane::new(broker.lane(number), store, engine, restorer, leases, settings).with_pace(&alignment);
            noted(lane, &dir, number, &suspects)
        })?;
    }
    let webhooks = webhooks::embedded(prepared, &broker, spec.data_dir)?;
    let place = format!("embedded log in {}", spec.data_dir.display());
    let (topic, partitions) = (InputNames::default().events, Some(broker.partitions().session));
    Ok(Deployment {
        fleet,
        intakes: Fleet::new(spec.clock, 0),
        webhooks,
        pools: Pools::default(),
        store,
        leases,
        broker: Some(broker),
        backlog: Some(backlog),
        recent: Recent::default(),
        place,
        topic,
        partitions,
    })
}

/// Lanes of a process on Kafka: those that were asked for read events, and one more reads the sums of all swarms.
pub(super) const fn kafka_lanes(config: &Config) -> u32 {
    if SWARM { config.lanes + 1 } else { config.lanes }
}

/// The fleet's Kafka.
pub(super) fn kafka(
    spec: &DeploymentSpec<'_>,
    kafka: &KafkaConfig,
    mappings: Vec<Option<Mapping>>,
    prepared: Vec<Prepared>,
) -> Result<Deployment, Failure> {
    let config = spec.config;
    let options = kafka_options(config, kafka, 0)?;
    let admin = Admin::new(&options)?;
    let cluster = admin.cluster_id(&|told| say(told))?;
    prepare_topics(&admin, &options)?;
    let store = spec.store(Some(cluster))?;
    let settings = Arc::new(spec.settings());
    let suspects = Arc::new(spec.suspects()?);
    let (leases, alignment, pools, recent) = (Leases::new(), Pace::new(), Pools::default(), Recent::default());
    let lanes = kafka_lanes(config);
    let mut fleet = Fleet::new(spec.clock, lanes as usize);
    for number in 0..lanes {
        // Sums are few: one lane of a process reads them, whatever the number of those that read events.
        let reads: &[Stage] = if number < config.lanes { &[Stage::Session] } else { &[Stage::Swarm] };
        let options = KafkaOptions { lane: number, reads, ..options.clone() };
        let (settings, leases, suspects, pools, recent) =
            (Arc::clone(&settings), leases.clone(), Arc::clone(&suspects), Arc::clone(&pools), recent.clone());
        let (store, policy, dir, clock) = (store.clone(), Arc::clone(spec.policy), spec.data_dir.to_owned(), spec.clock);
        let alignment = alignment.clone();
        fleet.spawn(move || {
            let app = options.app.clone();
            let log = KafkaLog::open(options)?;
            let settings = Arc::new(LaneSettings { partitions: Some(log.partitions()), ..(*settings).clone() });
            let mut readers: Vec<Box<dyn Changelog>> = Vec::new();
            for _ in 0..RESTORE_THREADS {
                readers.extend(log.changelog()?);
            }
            let clock: Arc<dyn Clock + Send + Sync> = Arc::new(clock);
            let pool = RestorePool::start(store.clone(), Arc::clone(&settings), readers, &clock);
            let pool = pool.map_err(|error| Exit::Failed(format!("cannot start a restore thread: {error}")))?;
            let restorer = pool.client();
            pools.lock().unwrap_or_else(PoisonError::into_inner).push(pool);
            let lane = Lane::new(log, store, SessionEngine::new(&app, policy), restorer, leases, settings);
            let lane = lane.with_recent(recent).with_pace(&alignment);
            noted(lane, &dir, number, &suspects)
        })?;
    }
    let place = format!(
        "Kafka {}, group {}, {} → {}",
        options.bootstrap_servers, options.app, options.topics.input, options.topics.commands
    );
    let partitions = admin.describe(&options.topics.input)?.map(|facts| facts.partitions);
    let intakes = intakes::start(spec, &options, mappings)?;
    let webhooks = webhooks::kafka(prepared, &options)?;
    let topic = options.topics.input;
    Ok(Deployment {
        fleet,
        intakes,
        webhooks,
        pools,
        store,
        leases,
        broker: None,
        backlog: None,
        recent,
        place,
        topic,
        partitions,
    })
}
