//! Kinds of settings: what a value must be, what it becomes, and how its range reads in the documentation.

use std::marker::PhantomData;

use crate::identity::Phrases;
use crate::limits::{FACTOR_MAX, POLICY_MS_MAX};
use crate::setting::patterns::TextPatterns;
use crate::setting::section::{Form, Setting};
use crate::setting::table::{Key, Table};

/// How a setting is read and documented.
pub trait Kind {
    /// What a value of a file becomes.
    type Of;

    /// Checks the value of a key; one that is out of range is a problem, and the answer is in range nevertheless.
    fn read(&self, key: &mut Key<'_>) -> Self::Of;

    /// The range, for people to read; empty where the text of the setting has it.
    fn range(&self) -> String;

    /// What may stand there.
    fn form(&self) -> Form {
        Form::Value
    }

    /// Whether it has the default where a table leaves it out.
    fn is_filled(&self) -> bool {
        true
    }
}

/// A kind whose values have this type: what a setting is made from.
pub const fn kind_of<T, K: Kind<Of = T>>(kind: K) -> K {
    kind
}

/// Kinds: a name with what it may be given, the type of a value, its range, how it is read, and the form where a value does not show it.
#[macro_export]
macro_rules! kinds {
    ($($(#[doc = $about:literal])+ $Name:ident $(($($Given:ty),+))? -> $Of:ty, $range:expr, $read:expr $(, $form:expr)?;)+) => {$(
        $(#[doc = $about])+
        #[allow(unreachable_pub, reason = "a kind is as public as its module")]
        pub struct $Name $(($(pub $Given),+))?;

        impl $crate::setting::Kind for $Name {
            type Of = $Of;

            fn read(&self, key: &mut $crate::setting::Key<'_>) -> $Of {
                let read: fn(&Self, &mut $crate::setting::Key<'_>) -> $Of = $read;
                read(self, key)
            }

            fn range(&self) -> String {
                let range: fn(&Self) -> String = $range;
                range(self)
            }

            $(fn form(&self) -> $crate::setting::Form {
                let form: fn(&Self) -> $crate::setting::Form = $form;
                form(self)
            })?
        }
    )+};
}
pub use kinds;

kinds! {
    /// A flag: true or false.
    Flag -> bool, |_| "`true`, `false`".to_owned(), |_, key| key.flag();

    /// A count: an integer from this one to what 31 bits hold.
    Count(u32) -> u32, |least| format!("from {}", least.0), |least, key| {
        let value = key.integer();
        key.check.count(&key.path, value, least.0)
    };

    /// Milliseconds from so many on.
    Millis(i64) -> i64, |least| format!("from {}, ms", least.0), |least, key| {
        let value = key.integer();
        key.check.integer(&key.path, value, least.0, POLICY_MS_MAX)
    };

    /// A number from 0 to this one.
    Amount(f64) -> f64, |most| format!("0 to {}", most.0), |most, key| {
        let value = key.float();
        key.check.between(&key.path, value, 0.0, most.0)
    };

    /// US dollars to this amount, as millionths; rounded up, so that a limit above nothing stays one.
    Usd(f64) -> u64, |most| Amount(most.0).range(), |most, key| {
        // A cast from floating point saturates. What binary fractions add behind the sixth decimal means nothing.
        let micro = Amount(most.0).read(key) * 1e6;
        if (micro - micro.round()).abs() < 1e-3 { micro.round() as u64 } else { micro.ceil() as u64 }
    };

    /// A number from 0 to 1.
    Share -> f64, |_| Amount(1.0).range(), |_, key| Amount(1.0).read(key);

    /// A number above 0 that something is multiplied by.
    Times -> f64, |_| format!("above 0, to {FACTOR_MAX}"), |_, key| {
        let value = key.float();
        key.check.positive(&key.path, value, FACTOR_MAX)
    };

    /// A factor by which something grows.
    Growth -> f64, |_| format!("1 to {FACTOR_MAX}"), |_, key| {
        let value = key.float();
        key.check.between(&key.path, value, 1.0, FACTOR_MAX)
    };

    /// Steps that are looked at: at most as many as are kept.
    Window -> u32, |_| "1 to `history_steps`".to_owned(), |_, key| {
        let (steps, history) = (key.integer(), key.shared.history_steps);
        let path = &key.path;
        key.check.rule(path, steps <= history, || format!("{path} is {steps}, but must not be above history_steps ({history})"));
        key.check.count(path, steps, 1)
    };

    /// A count that is never reached (0), or not before the threshold.
    NotBelowThreshold -> u32, |_| "0, or from `threshold`".to_owned(), |_, key| {
        let (count, threshold) = (key.integer(), key.beside("threshold"));
        let (path, holds) = (&key.path, count <= 0 || count >= threshold);
        key.check.rule(path, holds, || format!("{path} is {count}, but must not be below threshold ({threshold})"));
        key.check.count(path, count, 0)
    };

    /// The same for the count of a block. A mode that places no block does not hinder a change of the threshold.
    BlockAt -> u32, |_| NotBelowThreshold.range(), |_, key| {
        if matches!(key.text_beside("mode"), "block" | "shadow") { NotBelowThreshold.read(key) } else { count(0).read(key) }
    };

    /// A text of any kind.
    Text -> String, |_| "text".to_owned(), |_, key| key.text().to_owned();

    /// A name as people give one.
    Name -> String, |_| "a name".to_owned(), |_, key| {
        let name = key.text();
        key.check.name(&key.path, name)
    };

    /// A name, or the empty text.
    NameOrNone -> String, |_| "a name, or nothing".to_owned(), |_, key| {
        let name = key.text();
        if name.is_empty() { String::new() } else { key.check.name(&key.path, name) }
    };

    /// Names, in the order given.
    NamesInOrder -> Vec<String>, |_| "names".to_owned(), |_, key| {
        let names = key.texts();
        key.check.names_in_order(&key.path, &names)
    };

    /// The same, to be searched for in texts.
    PhrasesInOrder -> Phrases, |_| NamesInOrder.range(), |_, key| NamesInOrder.read(key).into();

    /// Names, sorted and each once.
    Names -> Vec<String>, |_| NamesInOrder.range(), |_, key| {
        let names = key.texts();
        key.check.names(&key.path, &names)
    };

    /// Exact names of tools; sorted.
    Tools -> Vec<String>, |_| "names of tools".to_owned(), |_, key| {
        let names = key.texts();
        key.check.tools(&key.path, &names)
    };

    /// Exact names, and beginnings of names that end in `*`. One at least must name what stands here for messages, unless that is empty.
    Patterns(&'static str) -> Vec<String>, |_| "names, or beginnings of names with a `*` behind".to_owned(), |whom, key| {
        let names = whom.list(key);
        key.check.names_in_order(&key.path, &names)
    };

    /// The same; the empty name is of those that have none.
    PatternsOrNameless(&'static str) -> Vec<String>, |whom| Patterns(whom.0).range(), |whom, key| {
        let names = Patterns(whom.0).list(key);
        let others: Vec<String> = names.iter().filter(|name| !name.is_empty()).cloned().collect();
        key.check.names_in_order(&key.path, &others);
        names
    };

    /// Regular expressions that match anywhere, case ignored.
    Regexes -> TextPatterns, |_| "regular expressions".to_owned(), |_, key| {
        let patterns = key.texts();
        key.check.patterns_anywhere(&key.path, &patterns)
    };
}

/// A count: an integer from `least` to what 31 bits hold.
pub(crate) const fn count(least: u32) -> Count {
    Count(least)
}

/// A whole number with a lower and an upper bound.
pub struct Within<T>(i64, i64, PhantomData<T>);

/// A count, or a number of milliseconds, with both bounds.
#[must_use]
pub const fn within<T>(least: i64, most: i64) -> Within<T> {
    Within(least, most, PhantomData)
}

/// A count with an upper bound.
#[must_use]
pub const fn steps(least: i64, most: usize) -> Within<u32> {
    within(least, most as i64)
}

/// The same, of characters, bytes or elements.
#[must_use]
pub const fn chars(least: i64, most: usize) -> Within<usize> {
    within(least, most as i64)
}

impl<T: TryFrom<i64> + Default> Kind for Within<T> {
    type Of = T;

    fn read(&self, key: &mut Key<'_>) -> T {
        let value = key.integer();
        T::try_from(key.check.integer(&key.path, value, self.0, self.1)).unwrap_or_default()
    }

    fn range(&self) -> String {
        format!("{} to {}", self.0, self.1)
    }

    fn form(&self) -> Form {
        Form::Range(self.0, self.1)
    }
}

/// Milliseconds from `least` on.
pub(crate) const fn millis(least: i64) -> Millis {
    Millis(least)
}

impl Patterns {
    /// The names, of which each may have a `*` behind.
    fn list(&self, key: &mut Key<'_>) -> Vec<String> {
        let names = if key.is_missing() { Vec::new() } else { key.texts() };
        let (whom, path) = (self.0, &key.path);
        let is_named = whom.is_empty() || !names.is_empty();
        key.check.rule(path, is_named, || format!("{path} is empty, but must name {whom}"));
        for name in &names {
            let holds = !name.strip_suffix('*').unwrap_or(name).contains('*');
            key.check.rule(path, holds, || format!("{path} holds {name:?}, but a * may only stand at the end"));
        }
        names
    }
}

/// One of some words, each with its meaning for the program.
pub struct OneOf<T: 'static>(&'static [(&'static str, T)]);

/// One of some words, in the order of the documentation.
#[must_use]
pub const fn one_of<T>(words: &'static [(&'static str, T)]) -> OneOf<T> {
    OneOf(words)
}

impl<T: Copy + Default> Kind for OneOf<T> {
    type Of = T;

    fn read(&self, key: &mut Key<'_>) -> T {
        let text = key.text();
        key.check.choice(&key.path, text, self.0)
    }

    fn range(&self) -> String {
        self.0.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    }

    fn form(&self) -> Form {
        Form::Words { words: self.0.iter().map(|(word, _)| *word).collect(), is_closed: true }
    }
}

/// Kinds of what is left out, by how it is read.
macro_rules! left_out {
    ($($(#[doc = $about:literal])+ $Name:ident<$K:ident $(: $Bound:path)?> -> $Of:ty, $read:expr;)+) => {$(
        $(#[doc = $about])+
        pub struct $Name<$K>(pub $K);

        impl<$K: Kind> Kind for $Name<$K> $(where $K::Of: $Bound)? {
            type Of = $Of;

            fn read(&self, key: &mut Key<'_>) -> $Of {
                let read: fn(&Self, &mut Key<'_>) -> $Of = $read;
                read(self, key)
            }

            fn range(&self) -> String {
                self.0.range()
            }

            fn form(&self) -> Form {
                self.0.form()
            }

            fn is_filled(&self) -> bool {
                false
            }
        }
    )+};
}

left_out! {
    /// A setting that each entry of a list must have: its default is an example.
    Must<K> -> K::Of, |must, key| must.0.read(key);

    /// The same, where a table without it is what the problem is about.
    Needed<K: Default> -> K::Of, |needed, key| {
        if !key.is_missing() {
            return needed.0.read(key);
        }
        let table = key.path.rsplit_once('.').map_or("", |(table, _)| table);
        key.check.problem(table, format!("{} is not set", key.path));
        K::Of::default()
    };

    /// A setting that a table may leave out, which is none of its values.
    Maybe<K> -> Option<K::Of>, |maybe, key| (!key.is_missing()).then(|| maybe.0.read(key));
}

/// A table in a table.
pub struct Sub<T>(pub &'static [Setting], pub fn(&mut Table<'_>) -> T);

impl<T> Kind for Sub<T> {
    type Of = T;

    fn read(&self, key: &mut Key<'_>) -> T {
        (self.1)(&mut key.table())
    }

    fn range(&self) -> String {
        String::new()
    }

    fn form(&self) -> Form {
        Form::Table(self.0)
    }
}

/// The same; there is none where the key is missing that it begins with.
pub struct Begun<T>(pub &'static str, pub Sub<T>);

impl<T> Kind for Begun<T> {
    type Of = Option<T>;

    fn read(&self, key: &mut Key<'_>) -> Option<T> {
        let is_begun = !key.table().key(self.0).is_missing();
        is_begun.then(|| self.1.read(key))
    }

    fn range(&self) -> String {
        self.1.range()
    }

    fn form(&self) -> Form {
        self.1.form()
    }
}

/// Tables, as many as there are. Each has its own defaults.
pub struct Tables<T>(pub &'static [Setting], pub fn(&mut Table<'_>) -> T);

impl<T> Kind for Tables<T> {
    type Of = Vec<T>;

    fn read(&self, key: &mut Key<'_>) -> Vec<T> {
        key.rows(usize::MAX, self.0, self.1)
    }

    fn range(&self) -> String {
        String::new()
    }

    fn form(&self) -> Form {
        Form::Tables(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::table::SharedSettings;
    use crate::setting::{check::Check, value::Value};

    #[test]
    fn a_price_or_limit_in_dollars_is_exact_to_the_millionth() {
        for (usd, micro) in [(0.0, 0), (0.1, 100_000), (1e-7, 1), (1e9, 1_000_000_000_000_000), (0.3, 300_000)] {
            let table = Value::Table([("usd".to_owned(), Value::Float(usd))].into());
            let (mut check, shared) = (Check::default(), SharedSettings::default());
            let read = Usd(1e9).read(&mut Table::new(&mut check, &table, &shared).key("usd"));
            assert_eq!((read, check.finish()), (micro, Ok(())), "{usd}");
        }
    }
}
