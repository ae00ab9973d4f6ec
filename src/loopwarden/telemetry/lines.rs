//! Where log lines are written: standard error, each as it comes; the findings of a commit in one go.
//!
//! A lane logs them within a span of the target [`AUDIT`]. One system call each would cost as much again as the lines themselves.

use std::{cell::RefCell, io, io::Write};

use tracing::{Subscriber, span::Id};
use tracing_subscriber::{Layer, fmt::MakeWriter, layer::Context, registry::LookupSpan};

/// Target of findings, and of the span around those of a commit.
pub(super) const AUDIT: &str = "loopwarden::finding";
/// So much is written even before the span is over. Bytes.
const HELD_BYTES_MAX: usize = 64 * 1_024;

thread_local! {
    /// Lines of this thread that are held back; `None` = each is written as it comes.
    static HELD: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Holds lines back between the beginning and the end of a span of findings. A panic ends the span too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Together {
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if context.metadata(id).is_some_and(|metadata| metadata.target() == AUDIT) {
            HELD.with_borrow_mut(|held| _ = held.get_or_insert_default());
        }
    }

    fn on_exit(&self, _: &Id, _: Context<'_, S>) {
        if let Some(held) = HELD.with_borrow_mut(Option::take) {
            // Nobody could be told.
            let _ = io::stderr().lock().write_all(&held);
        }
    }
}

/// Standard error for the lines of the thread that asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line).map(|()| line.len())
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        HELD.with_borrow_mut(|held| match held {
            None => io::stderr().lock().write_all(line),
            Some(held) => {
                held.extend_from_slice(line);
                if held.len() < HELD_BYTES_MAX {
                    return Ok(());
                }
                let written = io::stderr().lock().write_all(held);
                held.clear();
                written
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn held() -> Option<String> {
        HELD.with_borrow(|held| held.as_ref().map(|held| String::from_utf8_lossy(held).into_owned()))
    }

    fn within_a_span(work: impl FnOnce()) {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(Together), || {
            tracing::info_span!(target: AUDIT, "commit").in_scope(work);
        });
    }

    #[test]
    fn findings_of_a_commit_wait_for_one_another() {
        within_a_span(|| {
            writeln!(Lines, "a").unwrap();
            writeln!(Lines, "b").unwrap();
            assert_eq!(held().as_deref(), Some("a\nb\n"));
            Lines.write_all(&vec![b'\n'; HELD_BYTES_MAX]).unwrap();
            assert_eq!(held().as_deref(), Some(""));
        });
        assert_eq!(held(), None);
    }

    #[test]
    fn a_panic_holds_nothing_back() {
        let panicked = std::panic::catch_unwind(|| within_a_span(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(held(), None);
    }
}
