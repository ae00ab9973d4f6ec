//! The thread that reads a range of a topic: records keep the place, time, key and headers they have there.
//!
//! Partitions are merged by record timestamp, each in its own order: what a group that kept up with the topic would have read, and
//! the same at every reading.

use std::sync::Arc;
use std::time::Duration;

use loopwarden_core::event::decode;
use loopwarden_kafka::readers::range::KafkaRange;
use loopwarden_log::{Flow, LogError, LogEvent};

use crate::file::exchange::Shared;
use crate::file::options::FileOptions;
use crate::file::rounds::{Given, Placing, Rounds};

/// One wait for records; between two it is looked whether anybody still wants them.
const TURN: Duration = Duration::from_millis(200);

pub(super) fn start(range: KafkaRange, options: &FileOptions, shared: Arc<Shared>) -> Result<(), LogError> {
    let name = range.topic().to_owned();
    shared.read().note_file(0, format!("topic {name}"));
    let rounds = Rounds::new(options.lanes, Arc::clone(&shared));
    let (is_strict, ends_at_damage) = (options.is_strict, options.ends_at_damage);
    let spawned = std::thread::Builder::new().name("lw-read".to_owned()).spawn(move || {
        let failed = read(range, rounds, is_strict).err();
        shared.end(failed, ends_at_damage);
    });
    spawned.map(drop).map_err(|error| LogError::Fatal {
        code: "E0101",
        message: format!("cannot start the thread that reads topic \"{name}\": {error}"),
    })
}

fn read(mut range: KafkaRange, mut rounds: Rounds, is_strict: bool) -> Result<(), LogError> {
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
            rounds.shared().note_read(1);
            // Its lane says again what is wrong with it: it is the last that any lane reads.
            is_cut = is_strict && decode(record.value, meta).is_err();
            is_wanted = rounds.end_if_full();
            if is_wanted && !is_cut { Flow::Continue } else { Flow::Stop }
        });
        if is_cut {
            rounds.shared().read().is_cut = true;
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
            Ok(_) if is_wanted && !rounds.shared().is_abandoned() => {}
            Ok(_) => return Ok(()),
            Err(error) => {
                // What was read before is good.
                rounds.end();
                return Err(error);
            }
        }
    }
}
