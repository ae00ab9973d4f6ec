//! What the lanes of a process are made of.

use std::path::Path;
use std::sync::{Arc, Mutex};

use loopwarden_core::policy::Policy;
use loopwarden_lane::{CommitTrigger, KillerFile, LaneSettings, Suspect, SystemClock};
use loopwarden_settings::Config;
use loopwarden_sources::Sources;
use loopwarden_state::{RocksOptions, RocksStore, StoreError, StoreOwner};

use crate::{failure::Failure, server::kafka_options::SWARM};

/// What a deployment is made of.
pub(super) struct DeploymentSpec<'a> {
    pub(super) config: &'a Config,
    pub(super) policy: &'a Arc<Policy>,
    pub(super) data_dir: &'a Path,
    /// Files that the database may hold open.
    pub(super) open_files: u32,
    pub(super) clock: SystemClock,
    /// Which source reports which session.
    pub(super) sources: Arc<Mutex<Sources>>,
}

impl DeploymentSpec<'_> {
    /// Settings of its lanes, but for what depends on their log.
    pub(super) fn settings(&self) -> LaneSettings {
        let Config { commit, limits, .. } = self.config;
        let kafka = self.config.kafka.as_ref();
        LaneSettings {
            mode: self.config.mode,
            lateness_ms: self.config.time.lateness_ms,
            trigger: CommitTrigger::Timed { max_ms: commit.commit_ms_max, min_ms: commit.commit_ms_min },
            cache_bytes_max: limits.session_cache_bytes / self.config.lanes.max(1) as usize,
            overlay_bytes_max: commit.overlay_bytes_max,
            overlay_records_max: commit.overlay_records_max,
            on_input_loss: kafka.map(|kafka| kafka.on_input_loss).unwrap_or_default(),
            on_bad_records: kafka.map(|kafka| kafka.on_bad_records).unwrap_or_default(),
            dead_letters: kafka.map(|kafka| kafka.dlq_content).unwrap_or_default(),
            swarm: SWARM,
            aligns_sources: true,
            ..LaneSettings::default()
        }
    }

    pub(super) fn store(&self, cluster: Option<String>) -> Result<RocksStore, Failure> {
        let limits = &self.config.limits;
        let owner = StoreOwner { app: self.config.app().to_owned(), instance: self.config.instance.clone(), cluster };
        let sizes = RocksOptions {
            block_cache_bytes: limits.block_cache_bytes,
            write_buffer_bytes: limits.write_buffer_bytes,
            open_files_max: self.open_files,
            ..RocksOptions::default()
        };
        Ok(RocksStore::open(&self.data_dir.join("state"), &sizes, &owner)?)
    }

    pub(super) fn suspects(&self) -> Result<Vec<Suspect>, Failure> {
        let reading = || format!("cannot read {}", self.data_dir.display());
        Ok(KillerFile::leftovers(self.data_dir).map_err(|error| StoreError::of_io(reading(), &error))?)
    }
}
