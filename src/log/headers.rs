//! The headers of an output. A command has fourteen and a state row ten, so that a text each for name and value were most of what is
//! allocated for them.

use std::{borrow::Cow, fmt, io::Write as _, ops::Range};

/// Names and values in order; a name may come more than once. The values stand one behind the other in one buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers {
    values: Vec<u8>,
    /// Of each header its name, and where its value stands.
    entries: Vec<(Cow<'static, str>, Range<usize>)>,
}

impl Headers {
    /// None yet, with room for so many whose values have so many bytes together.
    pub fn with_capacity(count: usize, value_bytes: usize) -> Self {
        Self { values: Vec::with_capacity(value_bytes), entries: Vec::with_capacity(count) }
    }

    /// Adds a header behind the others.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: impl AsRef<[u8]>) {
        let start = self.values.len();
        self.values.extend_from_slice(value.as_ref());
        self.entries.push((name.into(), start..self.values.len()));
    }

    /// As [`Headers::push`], with a value that is written in place.
    pub fn push_display(&mut self, name: impl Into<Cow<'static, str>>, value: impl fmt::Display) {
        let start = self.values.len();
        // Writing into a vector cannot fail.
        _ = write!(self.values, "{value}");
        self.entries.push((name.into(), start..self.values.len()));
    }

    /// Adds all of another's behind the others.
    pub fn append(&mut self, other: Self) {
        let shift = self.values.len();
        self.values.extend_from_slice(&other.values);
        self.entries.extend(other.entries.into_iter().map(|(name, at)| (name, at.start + shift..at.end + shift)));
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Each name with its value, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &[u8])> {
        self.entries.iter().map(|(name, at)| (name.as_ref(), self.values.get(at.clone()).unwrap_or_default()))
    }

    /// The value of the last header of that name, which is the one that counts.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().rev().find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

impl<N: Into<Cow<'static, str>>, V: AsRef<[u8]>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut headers = Self::default();
        for (name, value) in pairs {
            headers.push(name, value);
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::Headers;

    #[test]
    fn names_and_values_come_back_in_order_whichever_way_they_were_added() {
        let mut headers = Headers::with_capacity(2, 4);
        headers.push("text", "größe");
        headers.push("empty", "");
        headers.push_display("number", format_args!("{:04}", 7));
        headers.push("text".to_owned(), [0_u8, 255]);
        let pairs: [(&str, &[u8]); 4] = [("text", "größe".as_bytes()), ("empty", b""), ("number", b"0007"), ("text", &[0, 255])];
        assert_eq!(headers.iter().collect::<Vec<_>>(), pairs);
        assert_eq!((headers.len(), headers.is_empty()), (4, false));
        assert_eq!(headers, pairs.into_iter().collect::<Headers>());
        assert_eq!(headers.get("text"), Some(&[0, 255][..]), "the last one counts");
        assert_eq!((headers.get("empty"), headers.get("none")), (Some(&b""[..]), None));
    }

    #[test]
    fn what_is_appended_stands_behind_what_was_there() {
        let mut headers: Headers = [("a", "one"), ("b", "")].into_iter().collect();
        headers.append([("c", "two"), ("a", "three")].into_iter().collect());
        assert_eq!(headers, [("a", "one"), ("b", ""), ("c", "two"), ("a", "three")].into_iter().collect::<Headers>());
        headers.append(Headers::default());
        assert_eq!(headers.len(), 4);
        assert!(Headers::default().is_empty());
    }
}
