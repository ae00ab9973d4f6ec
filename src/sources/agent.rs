//! All that is known of an agent.

use crate::{hook::contract::Hook, install::Install, otlp::convention::Convention, transcript::log::Log};

/// All that is known of one agent. What it does not have is absent.
#[derive(Debug)]
pub struct Agent {
    /// Its name in addresses and on the command line.
    pub name: &'static str,
    pub title: &'static str,
    /// What it reports to hooks, and what it reads of them.
    pub hook: Option<Hook>,
    /// What makes it start or call a hook.
    pub install: Option<Install>,
    /// The log that it leaves on disk.
    pub(crate) log: Option<Log>,
    /// What it exports by OpenTelemetry.
    pub(crate) telemetry: Option<Convention>,
}
