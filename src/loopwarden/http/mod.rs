//! The listener of a process: health, metrics, administration, the live page; in embedded mode events in and commands out. And that of a
//! guard beside an agent: checks, hooks and exports. Both have the same gate and the same limits, and one table says what each serves.
//!
//! A small runtime of its own answers; lanes are asked through [`ProcessStatus`] and never wait for a client. What a client can hold is
//! bounded: connections, heads, bodies, streams, requests per second, and the time for each (`limits.rs`).
//!
//! ```text
//!   connection ──► gate: size, who, rate, access ──► handler ──► lanes (ProcessStatus) or embedded log
//!   (seats, deadlines)   (door, rates, rules)                    on blocking threads, few of them
//! ```

/// Who may ask: the gate in front of every route, and what it knows of who stands there.
mod access {
    pub(crate) mod door;
    pub(crate) mod gate;
    pub(crate) mod host;
    pub(crate) mod principal;
    pub(crate) mod rate;
    pub(crate) mod rule;
}

mod answer;
mod backlog;
pub mod check;

/// Events in, and out again as they came.
mod intake {
    pub(crate) mod acts;
    pub(crate) mod answers;
    pub(crate) mod durable;
    pub(crate) mod effect;
    pub(crate) mod events;
    pub(crate) mod export;
    mod found;
    pub(crate) mod hooks;
    pub(crate) mod links;
    pub(crate) mod otlp;
    pub(crate) mod otlp_sessions;
    mod standing;
    pub(crate) mod stops;
}

/// What the listener is made of: binds, bounds connections and bodies, and knows who is at the other end.
mod listener {
    pub(crate) mod body;
    pub(crate) mod connection;
    pub(crate) mod diag;
    pub(crate) mod endpoint;
    pub(crate) mod metrics;
    pub(crate) mod peer;
    pub(crate) mod phase;
    pub(crate) mod seats;
}

pub mod routes;
mod server;
mod shared;

/// What a process shows: health, commands, state, and the live page.
mod views {
    pub(crate) mod admin;
    pub(crate) mod commands;
    pub(crate) mod page;
    pub(super) mod pages;
    pub(crate) mod process_status;
    pub(crate) mod query;
    pub(crate) mod sessions;
    pub(crate) mod state;
}

pub use access::door::Door;
pub use access::principal::{AnswerLinks, LinkRights, Principals, Role, Roles, Token};
pub use backlog::{Backlog, BacklogLimits, tenant_of};
pub use listener::endpoint::Endpoint;
pub use listener::metrics::Answered;
pub use server::{Options, Server, StartError};
pub use shared::TopicWriter;
pub use views::pages::PAGES;
pub use views::process_status::{Probe, ProcessStatus};
