//! What a guard does beside answering.

use std::{sync::Arc, thread::JoinHandle};

use crate::http::check::Desk;

/// What became of events that were sent on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deliveries {
    pub(super) delivered: u64,
    /// Those that are no events to who got them.
    pub(super) rejected: u64,
    pub(super) lost: u64,
}

/// What works beside the listener: threads that end when the flag is raised, and what they have to say.
pub(super) struct Works {
    pub(super) desk: Arc<Desk>,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) deliveries: Box<dyn Fn() -> Deliveries + Send + Sync>,
    pub(super) place: String,
}
