//! A task: its states, who owns it, its timers, and what it shows of itself.

pub(crate) mod census;
pub(crate) mod lease;
pub(crate) mod listing;
pub(crate) mod operated;
pub(crate) mod query;
pub(crate) mod retention;
pub(crate) mod share;
pub(crate) mod state;
pub(crate) mod stops;
pub(crate) mod tasks;
pub(crate) mod timers;
pub(crate) mod uncommitted;
pub(crate) mod view;
