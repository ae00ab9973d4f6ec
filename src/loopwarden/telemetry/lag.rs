//! How late events are judged, and who is sent away for it.

use loopwarden_core::event::Stage;
use loopwarden_lane::{Samples, Value};

use crate::telemetry::snapshot::{STAGES, Snapshot, list};

/// How far behind each task is: in records, or in seconds.
pub(super) fn lag(in_seconds: bool, snapshot: &Snapshot) -> Samples {
    let mut samples = Vec::new();
    for (lane, task) in snapshot.lanes.iter().flat_map(|lane| lane.tasks.iter().map(move |task| (lane, task))) {
        let (Some(position), Some(records)) = (&task.position, lane.lag(task)) else { continue };
        let value = match (in_seconds, records) {
            (false, _) => records as f64,
            // Nothing to read is no lag, however old the last event.
            (true, 0) => 0.0,
            // Nothing was read yet: nobody knows how old it is.
            (true, _) if position.watermark.0 <= 0 => continue,
            (true, _) => snapshot.now_ms.saturating_sub(position.watermark.plus_ms(snapshot.lateness_ms).0).max(0) as f64 / 1e3,
        };
        samples.push((vec![task.id.stage.as_str().to_owned(), task.id.partition.to_string()], Value::Number(value)));
    }
    samples
}

/// Records behind a transaction that stays open.
pub(super) fn held_back(snapshot: &Snapshot) -> Samples {
    let of = |stage: Stage| -> u64 {
        let ends = snapshot.lanes.iter().flat_map(|lane| &lane.ends);
        ends.filter(|end| end.task.stage == stage).map(|end| end.held_back).sum()
    };
    list(&STAGES, &[of(Stage::Session), of(Stage::Swarm)])
}

/// How long each partition of the embedded log has waited.
pub(super) fn judged(snapshot: &Snapshot) -> Samples {
    let of = |(stage, partition, late_ms): &(Stage, u32, u64)| {
        (vec![stage.as_str().to_owned(), partition.to_string()], Value::Number(*late_ms as f64 / 1e3))
    };
    snapshot.backlog.iter().flat_map(|(late, _)| late).map(of).collect()
}

/// Events that were sent away.
pub(super) fn refused(snapshot: &Snapshot) -> Samples {
    snapshot.backlog.as_ref().map_or_else(Vec::new, |(_, refused)| list(&["behind", "share"], refused))
}
