//! Which source reports a session. Two that report the same calls make each of them count twice.

use crate::{batch::Batch, recent::Recent, session::SESSIONS_MAX};

/// Sessions of two sources that are named; more are counted.
const NAMED_MAX: usize = 8;

/// A session that two sources report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twofold {
    pub session_id: String,
    /// The first two, by name.
    pub sources: [&'static str; 2],
}

#[derive(Debug)]
struct Reporters {
    first: &'static str,
    second: Option<&'static str>,
}

/// The source of each session, as far as ends of calls tell it. Bounded: what was not used for long is forgotten.
#[derive(Debug)]
pub struct Sources {
    known: Recent<String, Reporters>,
    twofold: u64,
    examples: Vec<Twofold>,
}

impl Default for Sources {
    fn default() -> Self {
        Self { known: Recent::new(SESSIONS_MAX), twofold: 0, examples: Vec::new() }
    }
}

impl Sources {
    /// Notes who reports the end of a call of a session. Another one that did so before, if there is one.
    pub fn note(&mut self, session_id: &str, source: &'static str) -> Option<&'static str> {
        let Some(reporters) = self.known.get_mut(session_id) else {
            self.known.insert(session_id.to_owned(), Reporters { first: source, second: None });
            return None;
        };
        if reporters.first == source {
            return reporters.second;
        }
        if reporters.second.is_none() {
            reporters.second = Some(source);
            self.twofold += 1;
            if self.examples.len() < NAMED_MAX {
                self.examples.push(Twofold { session_id: session_id.to_owned(), sources: [reporters.first, source] });
            }
        }
        Some(reporters.first)
    }

    /// Notes the events of a body, and names in it those of its sessions that another source reports.
    pub fn note_all(&mut self, batch: &mut Batch) {
        for made in &batch.events {
            let other = made.ends_call_of().and_then(|source| self.note(&made.session_id, source));
            if other.is_some() && batch.twofold.len() < NAMED_MAX {
                batch.twofold.insert(made.session_id.clone());
            }
        }
    }

    /// How many sessions of two sources there were, and the first of them.
    pub fn twofold(&self) -> (u64, &[Twofold]) {
        (self.twofold, &self.examples)
    }
}

#[cfg(test)]
mod tests {
    use super::{NAMED_MAX, Sources};

    #[test]
    fn both_sources_of_a_session_are_told_of_the_other_and_it_counts_once() {
        let mut sources = Sources::default();
        assert_eq!((sources.note("s", "a"), sources.note("s", "a")), (None, None));
        assert_eq!((sources.note("s", "b"), sources.note("s", "a"), sources.note("s", "c")), (Some("a"), Some("b"), Some("a")));
        assert_eq!(sources.note("t", "b"), None);
        let (count, examples) = sources.twofold();
        assert_eq!((count, examples[0].session_id.as_str(), examples[0].sources), (1, "s", ["a", "b"]));
    }

    #[test]
    fn of_many_such_sessions_some_are_named_and_all_are_counted() {
        let mut sources = Sources::default();
        for number in 0..100 {
            assert_eq!(sources.note(&number.to_string(), "a"), None);
            assert_eq!(sources.note(&number.to_string(), "b"), Some("a"));
        }
        assert_eq!((sources.twofold().0, sources.twofold().1.len()), (100, NAMED_MAX));
    }
}
