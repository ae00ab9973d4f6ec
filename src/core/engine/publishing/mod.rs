//! A decision becomes a command, with its words, and a verdict in force.

pub(crate) mod board;
pub(crate) mod command;
pub(crate) mod message;
pub(crate) mod publish;
