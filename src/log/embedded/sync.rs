//! The thread that syncs: at once when the log was quiet, else after at most 5 ms or 1 MiB, for everybody who waits.

use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use crate::{LogError, embedded::scan::fatal, embedded::shared::Shared};

/// Dropping it syncs what is left and ends the thread.
pub(super) struct SyncThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub(super) fn start(shared: Arc<Shared>) -> Result<Self, LogError> {
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lw-sync".to_owned()).spawn(move || run(&of_thread));
        let thread = thread
            .map_err(|error| LogError::Fatal { code: "E0406", message: format!("cannot start the sync thread: {error}") })?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.shared.writer().closing = true;
        self.shared.dirty.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, there is nothing left to do about it.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    let mut synced = 0;
    loop {
        let writer = shared.writer();
        let waiting =
            shared.dirty.wait_while(writer, |writer| writer.written == synced && !writer.closing && writer.failed.is_none());
        let mut writer = waiting.unwrap_or_else(PoisonError::into_inner);
        if writer.failed.is_some() || (writer.closing && writer.written == synced) {
            return;
        }
        let (written, feeds) = (writer.written, writer.feeds.clone());
        writer.unsynced_bytes = 0;
        drop(writer);
        if let Err(error) = shared.store.sync_wal() {
            let error = fatal(error);
            shared.fail(&mut shared.writer(), &error);
            return;
        }
        synced = written;
        let mut durable = shared.durable();
        durable.written = written;
        durable.feeds = feeds;
        drop(durable);
        shared.synced.notify_all();
        for callback in shared.callbacks.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            callback();
        }
        // Who comes within the next moments shares one sync.
        let (wait, bytes) = (shared.options.sync_wait_max, shared.options.sync_bytes);
        let pause =
            shared.dirty.wait_timeout_while(shared.writer(), wait, |writer| writer.unsynced_bytes < bytes && !writer.closing);
        drop(pause);
    }
}
