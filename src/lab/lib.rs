//! Recorded events: files and transcripts as a log that ends, and the reports on what the engine makes of them.

pub mod transcript;

pub mod file;

pub mod report;
