//! Recorded events: files and transcripts as a log that ends, and the reports on what the engine makes of them.

pub mod file;

pub mod follow;

pub mod report;

pub mod known_sessions;

pub mod cases;

pub mod explain;

pub mod fit;

pub mod replay;
