//! How a lane is made over a log of a known type, and looked at between two turns by who made it.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, mpsc::Receiver};

use loopwarden_core::engine::SessionEngine;
use loopwarden_log::Log;
use loopwarden_state::StateStore;

use crate::stage::context::{Observer, Work};
use crate::task::poison::{KillerFile, Suspect};
use crate::thread::lane::{Lane, Order, Phase};
use crate::thread::pace::{Keeping, Pace};
use crate::{
    commit::pacing::CommitPacing, commit::recent::Recent, foreign::processor::Foreign, health::Health, metrics::stats::Stats,
    settings::LaneSettings, sums::sources::SourcePacing, task::lease::Leases, task::outcome::Restorer, task::tasks::Tasks,
};

impl<L: Log + 'static> Deref for Lane<L> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        self
    }
}

impl<L: Log + 'static> DerefMut for Lane<L> {
    fn deref_mut(&mut self) -> &mut Lane {
        self
    }
}

impl<L: Log + 'static> Lane<L> {
    /// A lane over a log and a store. `leases` is shared by the lanes of the process.
    pub fn new(
        log: L,
        store: impl StateStore + 'static,
        engine: SessionEngine,
        restorer: Box<dyn Restorer>,
        leases: Leases,
        settings: Arc<LaneSettings>,
    ) -> Self {
        Self {
            work: Work::new(Box::new(store), engine, Arc::clone(&settings)),
            tasks: Tasks::new(restorer, leases),
            pacing: CommitPacing::new(settings.trigger),
            settings,
            phase: Phase::Feeding,
            health: Health::default(),
            stats: Stats::default(),
            rebalancing_since_us: None,
            unknown: BTreeMap::new(),
            recent: None,
            orders: None,
            exit: None,
            turned_ms: 0,
            sources: SourcePacing::default(),
            keeping: Keeping::default(),
            log,
        }
    }

    /// Shows somebody what the engine makes of each input.
    pub fn with_observer(mut self, observer: Box<dyn Observer>) -> Self {
        self.work.observer = Some(observer);
        self
    }

    /// Takes orders from a channel.
    pub fn with_orders(mut self, orders: Receiver<Order>) -> Self {
        self.orders = Some(orders);
        self
    }

    /// Shows its commands, once they are committed, in a ring that the lanes of the process share.
    pub fn with_recent(mut self, recent: Recent) -> Self {
        self.recent = Some(recent);
        self
    }

    /// Makes events of a foreign topic of the records it reads, instead of judging them.
    pub fn with_foreign(mut self, foreign: Foreign) -> Self {
        self.work.foreign = Some(foreign);
        self
    }

    /// Notes what it applies in a file, and treats as poison what kept killing the process (rule I11).
    pub fn with_killer_file(mut self, file: KillerFile, suspects: &[Suspect]) -> Self {
        self.work.guard(file, suspects);
        self
    }

    /// Waits for slow partitions with the other lanes of its process.
    pub fn with_pace(mut self, pace: &Pace) -> Self {
        self.keeping = Keeping { lane: pace.join(), pace: pace.clone(), ..Keeping::default() };
        self
    }

    /// The log, to look at.
    pub const fn log(&self) -> &L {
        &self.log
    }

    /// The log, for a caller that feeds it between two turns.
    pub const fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }
}
