//! How far logs are read, as it is kept between two processes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// How far one log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadPosition {
    /// Of a log of lines: its bytes.
    Bytes(u64),
    /// Of a document, which is written anew each time: its events.
    Events(u64),
}

/// How far everything is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPositions {
    /// Directories that were followed.
    pub dirs: BTreeSet<String>,
    /// Logs below them, by the path of their first file.
    pub logs: BTreeMap<String, ReadPosition>,
}
