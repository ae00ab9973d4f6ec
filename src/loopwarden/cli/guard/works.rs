//! What a guard does beside answering.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::http::check::Desk;

/// What works beside the listener: threads that end when the flag is raised, and what they have to say.
pub(super) struct Works {
    pub(super) desk: Arc<Desk>,
    pub(super) threads: Vec<JoinHandle<()>>,
    /// Events that were taken, and those lost on their way.
    pub(super) deliveries: Box<dyn Fn() -> (u64, u64) + Send + Sync>,
    pub(super) place: String,
}
