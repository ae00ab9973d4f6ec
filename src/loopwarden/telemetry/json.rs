//! Log lines as JSON, written in place. The library makes the same lines through a serializer and a check of each piece of them, and a
//! process that finds much writes many.

use std::fmt::{self, Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::{fmt::format::Writer, fmt::time::FormatTime, registry::LookupSpan};

/// Room for an ordinary line.
const LINE_BYTES: usize = 384;

/// The format: time, level, fields in their order, target.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonLines<T>(pub(super) T);

impl<S, N, T> FormatEvent<S, N> for JsonLines<T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    T: FormatTime,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = String::with_capacity(LINE_BYTES);
        line.push_str("{\"timestamp\":\"");
        self.0.format_time(&mut Writer::new(&mut line))?;
        line.push_str("\",\"level\":\"");
        line.push_str(event.metadata().level().as_str());
        line.push('"');
        event.record(&mut Fields(&mut line));
        line.push_str(",\"target\":");
        text(&mut line, event.metadata().target());
        line.push_str("}\n");
        writer.write_str(&line)
    }
}

/// The fields of a line. Writing into a String cannot fail.
struct Fields<'a>(&'a mut String);

impl Fields<'_> {
    fn name(&mut self, field: &Field) {
        self.0.push(',');
        text(self.0, field.name());
        self.0.push(':');
    }

    fn plain(&mut self, field: &Field, value: impl fmt::Display) {
        self.name(field);
        _ = write!(self.0, "{value}");
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.name(field);
        let start = self.0.len();
        self.0.push('"');
        _ = write!(self.0, "{value:?}");
        if self.0.get(start + 1..).is_some_and(is_plain) {
            self.0.push('"');
        } else {
            let said = self.0.split_off(start + 1);
            self.0.truncate(start);
            text(self.0, &said);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.name(field);
        text(self.0, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // The shortest that reads back as the same; what is no number is null.
        self.plain(field, serde_json::Value::from(value));
    }
}

/// Whether a text stands in JSON as it is.
fn is_plain(text: &str) -> bool {
    !text.bytes().any(|byte| matches!(byte, 0..=0x1F | b'"' | b'\\'))
}

fn text(line: &mut String, text: &str) {
    if is_plain(text) {
        line.push('"');
        line.push_str(text);
        line.push('"');
    } else {
        _ = write!(line, "{}", serde_json::Value::from(text));
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tracing_subscriber::{Layer, layer::SubscriberExt as _};

    use super::*;
    use crate::telemetry::written::Written;

    struct Noon;

    impl FormatTime for Noon {
        fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
            writer.write_str("2026-11-26T12:00:00.000000Z")
        }
    }

    fn lines<L: Layer<tracing_subscriber::Registry> + Send + Sync>(layer: impl FnOnce(Written) -> L) -> String {
        let written = Written::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer(written.clone())), || {
            let _span = tracing::info_span!("around", more = 1).entered();
            let error = io::Error::other("a \"quoted\" cause\n");
            tracing::info!(target: "loopwarden::finding", task = %"session/3", offset = 7_u64, detector = "no_news", "finding");
            tracing::info!(confidence = 0.85, whole = 1.0, small = 1e-9, none = f64::NAN, fresh = true, "finding");
            tracing::warn!(negative = -5_i64, count = 3_u32, size = 9_usize, large = u128::MAX, debug = ?Some("x\\y"), "a {}", "text");
            tracing::error!(error = &error as &dyn std::error::Error, shown = %error, "größe \u{7f} \u{1} \"q\"");
            tracing::debug!(empty = "", list = ?[1, 2]);
            tracing::trace!(some = Some(4_u64), nothing = None::<u64>, "trace");
        });
        written.text()
    }

    #[test]
    fn lines_are_those_of_the_library() {
        let ours =
            lines(|written| tracing_subscriber::fmt::layer().with_writer(move || written.clone()).event_format(JsonLines(Noon)));
        let theirs = lines(|written| {
            tracing_subscriber::fmt::layer()
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false)
                .with_timer(Noon)
                .with_writer(move || written.clone())
        });
        assert_eq!(ours, theirs);
        assert_eq!(ours.lines().count(), 6);
        for line in ours.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}
