//! Whose log it is.

use std::{cmp::Ordering, fmt};

use crate::agents::AGENTS;
use crate::transcript::log::{Log, Reader};

/// The format of a log: the agent that writes it.
#[derive(Clone, Copy)]
pub struct Format {
    name: &'static str,
    title: &'static str,
    log: &'static Log,
}

impl Format {
    /// All formats, in the order in which they are tried.
    pub fn all() -> impl Iterator<Item = Self> {
        AGENTS.iter().filter_map(|agent| Some(Self { name: agent.name, title: agent.title, log: agent.log.as_ref()? }))
    }

    pub const fn as_str(self) -> &'static str {
        self.title
    }

    pub(super) const fn log(self) -> &'static Log {
        self.log
    }

    pub(super) fn open(self, name: &str) -> Box<dyn Reader> {
        (self.log.open)(name)
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

impl PartialOrd for Format {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Format {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(other.name)
    }
}
