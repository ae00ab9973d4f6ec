//! What the engine makes of one session or swarm, event by event, decided anew; and the records of one task.

mod note;
mod session;
mod sum;
mod swarm;
mod task;
mod why;

pub(crate) use note::step_of;
pub use session::SessionTrace;
pub use swarm::SwarmTrace;
pub use task::{TaskTrace, facts};

use serde_json::Value;

use crate::report::Section;

/// What an inspection shows: a document, and the same for people.
pub struct Shown {
    pub json: Value,
    pub sections: Vec<Section>,
}

/// What is to be explained.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Id of the session or swarm.
    pub id: &'a str,
    pub tenant: Option<&'a str>,
    /// Newest events, or rows, that are shown.
    pub limit: usize,
    /// Whether the beginnings of what agents wrote and read are shown.
    pub show_content: bool,
}

impl Wanted<'_> {
    fn of_tenant(&self) -> String {
        self.tenant.map(|tenant| format!(" of tenant {tenant:?}")).unwrap_or_default()
    }
}
