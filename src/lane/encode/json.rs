//! JSON objects written in place, in the order of the calls: one buffer for a whole document. Nothing here can fail.

use std::fmt::Write as _;

use loopwarden_core::event::EventTime;
use serde_json::{Number, Value};

/// Room for an ordinary command.
const DOCUMENT_BYTES: usize = 1_536;

/// An object that is being written.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    out: &'a mut String,
    is_empty: bool,
}

pub(crate) fn document(write: impl FnOnce(&mut Object<'_>)) -> String {
    let mut out = String::with_capacity(DOCUMENT_BYTES);
    object(&mut out, write);
    out
}

/// Writes an object where the document stands.
pub(crate) fn object(out: &mut String, write: impl FnOnce(&mut Object<'_>)) {
    out.push('{');
    write(&mut Object { out, is_empty: true });
    out.push('}');
}

/// Writes a text where the document stands.
pub(crate) fn text(out: &mut String, text: &str) {
    // No early end: the whole of a text is looked at faster than its bytes one by one.
    if text.bytes().fold(false, |has, byte| has | matches!(byte, 0..=0x1F | b'"' | b'\\')) {
        // The library escapes.
        _ = write!(out, "{}", Value::from(text));
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

impl Object<'_> {
    /// Begins a field.
    fn field(&mut self, name: &str) -> &mut String {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(',');
        }
        text(self.out, name);
        self.out.push(':');
        self.out
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        text(self.field(name), value);
    }

    pub(crate) fn texts<T: AsRef<str>>(&mut self, name: &str, texts: impl IntoIterator<Item = T>) {
        self.list(name, texts, |value, out| text(out, value.as_ref()));
    }

    pub(crate) fn number(&mut self, name: &str, number: impl Into<Number>) {
        // Writing into a String cannot fail.
        _ = write!(self.field(name), "{}", number.into());
    }

    /// Four decimals: what binary fractions add behind them says nothing. What is not a number is no JSON; the wire then says nothing
    /// certain.
    pub(crate) fn ratio(&mut self, name: &str, value: f64) {
        let rounded = (value * 10_000.0).round() / 10_000.0;
        self.number(name, Number::from_f64(rounded).unwrap_or_else(|| 0.into()));
    }

    pub(crate) fn time(&mut self, name: &str, time: EventTime) {
        _ = write!(self.field(name), "\"{time}\"");
    }

    pub(crate) fn object(&mut self, name: &str, write: impl FnOnce(&mut Object<'_>)) {
        object(self.field(name), write);
    }

    pub(crate) fn list<T>(&mut self, name: &str, items: impl IntoIterator<Item = T>, write: impl Fn(T, &mut String)) {
        let out = self.field(name);
        out.push('[');
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write(item, out);
        }
        out.push(']');
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::EventTime;

    use super::{document, object};

    #[test]
    fn a_document_is_written_in_the_order_of_the_calls() {
        let written = document(|json| {
            json.text("plain", "größe");
            json.text("e\"scaped", "a\"b\\\n\u{1f}\u{7f}");
            json.object("empty", |_| ());
            json.object("inner", |inner| {
                inner.number("n", -5_i64);
                inner.ratio("r", 1.0);
                inner.ratio("sum", 0.4 + 0.55);
                inner.ratio("none", f64::NAN);
            });
            json.texts("list", ["a", "\t"]);
            json.texts("nothing", [""; 0]);
            json.list("objects", [1_u64, 2], |n, out| object(out, |json| json.number("n", n)));
            json.time("at", EventTime(0));
        });
        let expected =
            r#"{"plain":"größe","e\"scaped":"a\"b\\\n\u001f","empty":{},"inner":{"n":-5,"r":1.0,"sum":0.95,"none":0},"list":["a","\t"],"#
                .replace("u001f", "u001f\u{7f}")
                + r#""nothing":[],"objects":[{"n":1},{"n":2}],"at":"1970-01-01T00:00:00.000Z"}"#;
        assert_eq!(written, expected);
    }
}
