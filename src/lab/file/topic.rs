//! The thread that reads a range of a topic: records keep the place, time, key and headers they have there.
//!
//! Partitions are merged by record timestamp, each in its own order: what a group that kept up with the topic would have read, and
//! the same at every reading.

use std::{sync::Arc, time::Duration};

use loopwarden_core::event::decode;
use loopwarden_kafka::readers::range::KafkaRange;
use loopwarden_log::{Flow, LogError, LogEvent};

use crate::file::chunk::{Given, Placing};
use crate::file::rounds::{Rounds, Taken};
use crate::{file::options::FileOptions, file::read::ReadState};

/// One wait for records; between two it is looked whether anybody still wants them.
const TURN: Duration = Duration::from_millis(200);

pub(super) fn start(range: KafkaRange, options: &FileOptions, state: Arc<ReadState>) -> Result<Taken, LogError> {
    let name = range.topic().to_owned();
    state.read().note_file(0, format!("topic {name}"));
    let (mut rounds, taken) = Rounds::new(options.lanes, Arc::clone(&state));
    let is_strict = options.is_strict;
    let spawned =
        std::thread::Builder::new().name("lw-read".to_owned()).spawn(move || state.end(read(range, &mut rounds, is_strict)));
    spawned.map(|_| taken).map_err(|error| LogError::Fatal {
        code: "E0101",
        message: format!("cannot start the thread that reads topic \"{name}\": {error}"),
    })
}

fn read(mut range: KafkaRange, rounds: &mut Rounds, is_strict: bool) -> Result<(), LogError> {
    let topic: Arc<str> = Arc::from(range.topic());
    loop {
        let (mut is_wanted, mut is_cut) = (true, false);
        let polled = range.poll(TURN, &mut |partition, record| {
            let meta = &record.meta;
            rounds.put(&Placing {
                value: record.value.map(Given::Bytes),
                key: meta.key,
                headers: &meta.headers,
                partition,
                offset: meta.offset.0,
                timestamp_ms: meta.timestamp.0,
                topic: Some(Arc::clone(&topic)),
            });
            rounds.state().note_read(1);
            // Its lane says again what is wrong with it: it is the last that any lane reads.
            is_cut = is_strict && decode(record.value, meta).is_err();
            is_wanted = rounds.end_if_full();
            if is_wanted && !is_cut { Flow::Continue } else { Flow::Stop }
        });
        if is_cut {
            rounds.state().read().is_cut = true;
        }
        match polled {
            Ok(LogEvent::End) => {
                rounds.end();
                return Ok(());
            }
            Ok(_) if is_cut => {
                rounds.end();
                return Ok(());
            }
            Ok(_) if is_wanted && !rounds.state().is_abandoned() => {}
            Ok(_) => return Ok(()),
            Err(error) => {
                // What was read before is good.
                rounds.end();
                return Err(error);
            }
        }
    }
}
