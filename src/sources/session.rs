//! Whose a record is: the session of a trace, decided once.

use std::collections::btree_map::{BTreeMap, Entry};

use crate::recent::Recent;

/// Traces whose session is remembered, and sessions whose source is. The longest unused are forgotten.
pub(crate) const SESSIONS_MAX: usize = 16_384;
/// Spans remembered as the parents of calls that were counted already.
const PARENTS_MAX: usize = 16_384;

pub(crate) type TraceId = [u8; 16];
/// Id of a span in its trace.
pub(crate) type SpanId = [u8; 8];

/// What is remembered between bodies. Bounded; what was not used for long is forgotten, as all of it is with the process.
#[derive(Debug)]
pub struct Sessions {
    by_trace: Recent<TraceId, String>,
    counted: Recent<(TraceId, SpanId), ()>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { by_trace: Recent::new(SESSIONS_MAX), counted: Recent::new(PARENTS_MAX) }
    }
}

impl Sessions {
    /// The session of a trace, for good: the one it has, else `named`, else the id of the trace. A conversation id often stands on the
    /// parent of a call only, which arrives later; to follow it then would split the run in two.
    pub(crate) fn of_trace(&mut self, trace: TraceId, named: Option<&str>) -> String {
        if let Some(session_id) = self.by_trace.get(&trace) {
            return session_id.clone();
        }
        let session_id = named.map_or_else(|| hex(&trace), str::to_owned);
        self.by_trace.insert(trace, session_id.clone());
        session_id
    }

    /// Notes that some span of a trace names a session, unless the trace has one.
    pub(crate) fn name_trace(&mut self, trace: TraceId, named: &str) {
        if self.by_trace.get(&trace).is_none() {
            self.by_trace.insert(trace, named.to_owned());
        }
    }

    /// Notes that the call of this span was counted through a span inside of it.
    pub(crate) fn count_inner(&mut self, trace: TraceId, parent: SpanId) {
        self.counted.insert((trace, parent), ());
    }

    pub(crate) fn was_counted(&mut self, trace: TraceId, span: SpanId) -> bool {
        self.counted.get(&(trace, span)).is_some()
    }
}

/// The names that the spans of one body have for the session of their trace: those of calls before those of other spans.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<TraceId, (bool, String)>);

impl Names {
    pub(crate) fn add(&mut self, trace: TraceId, is_call: bool, named: String) {
        match self.0.entry(trace) {
            Entry::Vacant(entry) => _ = entry.insert((is_call, named)),
            Entry::Occupied(mut entry) if is_call && !entry.get().0 => _ = entry.insert((true, named)),
            Entry::Occupied(_) => {}
        }
    }

    pub(crate) fn apply(self, sessions: &mut Sessions) {
        for (trace, (_, named)) in self.0 {
            sessions.name_trace(trace, &named);
        }
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{Names, Sessions};

    #[test]
    fn a_trace_keeps_the_session_it_began_with() {
        let mut sessions = Sessions::default();
        let trace = [0xab; 16];
        assert_eq!(sessions.of_trace(trace, None), "ab".repeat(16));
        assert_eq!(sessions.of_trace(trace, Some("late")), "ab".repeat(16));
        sessions.name_trace(trace, "late");
        assert_eq!(sessions.of_trace(trace, None), "ab".repeat(16));
        assert_eq!(sessions.of_trace([1; 16], Some("named")), "named");
        assert_eq!(sessions.of_trace([1; 16], Some("other")), "named");
    }

    #[test]
    fn of_one_body_the_first_call_that_names_its_session_counts_before_any_other_span() {
        let (mut sessions, mut names) = (Sessions::default(), Names::default());
        for (is_call, named) in [(false, "of a chat"), (true, "of a call"), (true, "of the next")] {
            names.add([1; 16], is_call, named.to_owned());
        }
        names.apply(&mut sessions);
        assert_eq!(sessions.of_trace([1; 16], None), "of a call");
    }
}
