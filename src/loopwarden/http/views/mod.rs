//! What a process shows: health, commands, state, and the live page.

pub(crate) mod admin;
pub(crate) mod commands;
pub(crate) mod page;
pub(super) mod pages;
pub(crate) mod process_status;
pub(crate) mod query;
pub(crate) mod sessions;
pub(crate) mod sidecar;
pub(crate) mod state;
