//! What goes into the engine: events with their place, timers, resets that reach further agents.

use crate::engine::{command::Trigger, timer::TimerKind};
use crate::event::{Event, EventTime};

/// Where the record behind an input lies; copied into the commands it causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcePosition<'a> {
    pub topic: &'a str,
    pub partition: u32,
    pub offset: u64,
    /// How far event time has come in its task, this record included.
    pub watermark: EventTime,
}

impl SourcePosition<'_> {
    /// What caused a command: an event here, at a time of its session.
    pub(super) fn trigger(self, event: &Event<'_>, time: EventTime) -> Trigger {
        Trigger::Event {
            event_id: event.id.clone().into_owned(),
            call_id: event.call_id().map(str::to_owned),
            topic: self.topic.to_owned(),
            partition: self.partition,
            offset: self.offset,
            time,
            traceparent: event.traceparent.as_deref().map(str::to_owned),
        }
    }
}

/// One input of a session.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// An event of this very agent.
    Event(&'a Event<'a>, SourcePosition<'a>),
    /// A `reset` with scope `session` that another agent of the session received.
    Reset(&'a Event<'a>, SourcePosition<'a>),
    /// A timer of this session fell due. The time is its due time.
    Timer(TimerKind, EventTime),
}
