//! The files of TLS. librdkafka reads them when a client is made: a new certificate needs new clients.

use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf, time::Duration};

use loopwarden_core::limits;
use loopwarden_log::{LogError, clock::Deadline};
use rdkafka::{ClientContext, client::Client};

use crate::{client::fate, client::settings::Security};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// Before files are tried again that brokers did not accept, or while no broker answered.
const AGAIN: Duration = Duration::from_secs(30);

/// What tells one state of a file from another: device, number, time of change, length.
type Stamp = (u64, u64, i64, i64, u64);

pub(crate) struct Certificates {
    files: Vec<PathBuf>,
    seen: Vec<Stamp>,
    look: Deadline,
    /// What is seen is not in use.
    again: Option<Deadline>,
}

impl Certificates {
    pub(crate) fn new(security: &Security) -> Self {
        let files = [&security.ca_file, &security.cert_file, &security.key_file];
        let files: Vec<PathBuf> = files.into_iter().flatten().cloned().collect();
        Self { seen: stamps(&files).unwrap_or_default(), files, look: Deadline::after(LOOK), again: None }
    }

    /// Whether there are files to be tried. True once for each change, and again after [`Certificates::put_off`].
    pub(crate) fn are_new(&mut self) -> bool {
        if self.files.is_empty() || !self.look.is_over() {
            return false;
        }
        self.look = Deadline::after(LOOK);
        // Between two states one may be missing.
        let Some(now) = stamps(&self.files) else { return false };
        let is_new = now != self.seen || self.again.as_ref().is_some_and(Deadline::is_over);
        if is_new {
            (self.seen, self.again) = (now, None);
        }
        is_new
    }

    /// They could not be used; what is wrong may be mended elsewhere.
    pub(crate) fn put_off(&mut self) {
        self.again = Some(Deadline::after(AGAIN));
    }
}

/// Asks something by a client that the new files made.
///
/// # Errors
/// Brokers do not let it in, or none answers.
pub(crate) fn expect_let_in<C: ClientContext>(client: &Client<C>) -> Result<(), LogError> {
    client.fetch_metadata(None, limits::PLACE_ASK_WAIT).map(drop).map_err(|error| fate::of(&error, "connecting"))
}

fn stamps(files: &[PathBuf]) -> Option<Vec<Stamp>> {
    let stamp = |file: &PathBuf| {
        let found = fs::metadata(file).ok()?;
        Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
    };
    files.iter().map(stamp).collect()
}
