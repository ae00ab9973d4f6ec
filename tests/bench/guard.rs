//! The fixed work that `make bench-guard` counts instructions of: decode, identify and detect, without log or store. Counts do not depend on
//! how busy the machine is.
//!
//! `guard PROFILE`: the sample fleet, again and again; its sessions are short. `guard PROFILE FILE [EVENTS]`: so many events of a file, or all.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a broken benchmark must stop and say so")]

use std::{collections::BTreeMap, sync::Arc};

use loopwarden::engine::{Effects, Input, Session, SessionEngine, SourcePosition, SubjectKey};
use loopwarden::event::{EventTime, RecordMeta, RecordOffset, decode};

/// Rounds over the fleet: enough that start-up weighs little.
const ROUNDS: usize = 20;
const FLEET: &str = include_str!("../../config/demo/fleet.ndjson");

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let profile = arguments.next().unwrap_or_else(|| "default".to_owned());
    let stream = arguments.next().map(|file| std::fs::read_to_string(file).unwrap());
    let events_max = arguments.next().map_or(usize::MAX, |count| count.parse().unwrap());
    let policy = Arc::new(loopwarden::config::policy::load(&profile).map_err(|problems| problems.to_string()).unwrap());
    let engine = SessionEngine::new("loopwarden", Arc::clone(&policy));
    let (lines, rounds) = stream.as_ref().map_or((FLEET, ROUNDS), |stream| (stream.as_str(), 1));
    let mut effects = Effects::default();
    let (mut events, mut commands) = (0_usize, 0_usize);
    for _ in 0..rounds {
        let mut sessions: BTreeMap<String, (SubjectKey, Session)> = BTreeMap::new();
        for (at, line) in lines.lines().take(events_max).enumerate() {
            let meta = RecordMeta {
                topic: "bench",
                partition: 0,
                offset: RecordOffset(at as u64),
                timestamp: EventTime(4_102_444_800_000),
                key: None,
                headers: Vec::new(),
                value_bytes_max: 1 << 20,
            };
            let event = decode(Some(line.as_bytes()), &meta).unwrap();
            let key = SubjectKey::session_key(event.tenant.as_deref(), &event.session_id, &event.agent_id);
            let (subject, session) =
                sessions.entry(key).or_insert_with(|| (SubjectKey::of_event(&event), Session::new(policy.history_steps)));
            effects.clear();
            let place = SourcePosition { topic: "bench", partition: 0, offset: at as u64, watermark: event.time };
            engine.apply(subject, session, Input::Event(&event, place), &mut effects);
            session.changed_steps.clear();
            events += 1;
            commands += effects.commands.len();
        }
    }
    println!("{events} events, {commands} commands");
}
