//! The settings of a process, and what they demand of one another.

pub(crate) mod config;
pub(crate) mod native;
pub(crate) mod relations;
pub(crate) mod rules;
pub(crate) mod token;
pub(crate) mod webhook;
