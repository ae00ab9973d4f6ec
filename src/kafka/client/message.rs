//! A message of the client as a record of the lane.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loopwarden_core::event::{EventTime, Record, RecordMeta, RecordOffset, TaskId};
use loopwarden_core::limits;
use loopwarden_log::Flow;
use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};

/// What a header counts for in a poll, whatever it holds. Bytes.
const HEADER_BYTES: usize = 64;

/// Bytes a record counts for in a poll, which must be over long before the lane is missed.
pub(crate) fn weight<H: Headers>(message: &BorrowedMessage<'_>, headers: Option<&H>) -> usize {
    // Each header is taken apart by the client before one is read, those that are left out too.
    message.payload_len() + message.key_len() + headers.map_or(0, |headers| headers.count() * HEADER_BYTES)
}

pub(crate) fn hand_over<H: Headers>(
    message: &BorrowedMessage<'_>,
    headers: Option<&H>,
    task: TaskId,
    value_bytes_max: usize,
    handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow,
) -> Flow {
    let meta = RecordMeta {
        topic: message.topic(),
        partition: task.partition,
        offset: RecordOffset(message.offset().max(0) as u64),
        timestamp: EventTime(message.timestamp().to_millis().unwrap_or(0)),
        key: message.key(),
        headers: headers.map_or_else(Vec::new, read_headers),
        value_bytes_max,
    };
    handler(task, &Record::new(meta, message.payload()))
}
/// The first headers of a record, up to one whose name is not UTF-8: the client's only accessor panics on it, which costs too much to be
/// done for each of many, and any producer may write them.
pub(crate) fn read_headers<H: Headers>(headers: &H) -> Vec<(&str, Option<&[u8]>)> {
    (0..headers.count().min(limits::HEADERS_MAX))
        .map_while(|at| catch_unwind(AssertUnwindSafe(|| headers.try_get(at))).ok().flatten())
        .map(|header| (header.key, header.value))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rdkafka::message::Header;

    use super::*;

    /// So many headers; reading the one at `bad` panics as the client's do.
    struct Fake {
        count: usize,
        bad: usize,
        asked: Cell<usize>,
    }

    impl Headers for Fake {
        fn count(&self) -> usize {
            self.count
        }

        fn try_get(&self, at: usize) -> Option<Header<'_, &[u8]>> {
            self.asked.set(self.asked.get() + 1);
            if at >= self.bad {
                // Like a panic, but without a line on stderr.
                std::panic::resume_unwind(Box::new("not UTF-8"));
            }
            Some(Header { key: "name", value: Some(b"value") })
        }
    }

    fn read(count: usize, bad: usize) -> (usize, usize) {
        let headers = Fake { count, bad, asked: Cell::new(0) };
        (read_headers(&headers).len(), headers.asked.get())
    }

    #[test]
    fn of_very_many_headers_the_first_are_read() {
        assert_eq!(read(3, usize::MAX), (3, 3));
        assert_eq!(read(300_000, usize::MAX), (limits::HEADERS_MAX, limits::HEADERS_MAX));
    }

    #[test]
    fn very_many_names_that_are_no_text_cost_one_panic() {
        assert_eq!(read(300_000, 2), (2, 3));
        assert_eq!(read(300_000, 0), (0, 1));
    }
}
