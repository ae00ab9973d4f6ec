//! Kinds of settings: what a value must be, what it becomes, and how its range reads in the documentation.

use crate::identity::Phrases;
use crate::limits::{FACTOR_MAX, POLICY_MS_MAX};
use crate::setting::mode::{BlockScope, Mode};
use crate::setting::{patterns::TextPatterns, table::Key};

/// How a setting is read and documented.
pub(crate) trait Kind {
    /// What a value of a file becomes.
    type Of;

    /// Checks the value of a key; one that is out of range is a problem, and the answer is in range nevertheless.
    fn read(&self, key: &mut Key<'_>) -> Self::Of;

    /// The range, for people to read.
    fn range(&self) -> String;

    /// Whether an entry of a list of tables has the default where it leaves the key out.
    fn is_filled(&self) -> bool {
        true
    }
}

/// Kinds: a name with what it may be given, the type of a value, its range, and how it is read.
macro_rules! kinds {
    ($($(#[doc = $about:literal])+ $Name:ident $(($($Given:ty),+))? -> $Of:ty, $range:expr, $read:expr;)+) => {$(
        $(#[doc = $about])+
        pub(crate) struct $Name $(($(pub(crate) $Given),+))?;

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
        }
    )+};
}
pub(crate) use kinds;

kinds! {
    /// A flag: true or false.
    Flag -> bool, |_| "`true`, `false`".to_owned(), |_, key| key.flag();

    /// A count: an integer from this one to what 31 bits hold.
    Count(u32) -> u32, |least| format!("from {}", least.0), |least, key| {
        let value = key.integer();
        key.check.count(&key.path, value, least.0)
    };

    /// A count with a lower and an upper bound.
    Steps(i64, i64) -> u32, |bounds| format!("{} to {}", bounds.0, bounds.1), |bounds, key| {
        let value = key.integer();
        key.check.integer(&key.path, value, bounds.0, bounds.1) as u32
    };

    /// The same, of characters or elements.
    Chars(Steps) -> usize, |steps| steps.0.range(), |steps, key| steps.0.read(key) as usize;

    /// Milliseconds from so many on.
    Millis(i64) -> i64, |least| format!("from {}, ms", least.0), |least, key| {
        let value = key.integer();
        key.check.integer(&key.path, value, least.0, POLICY_MS_MAX)
    };

    /// A whole number from 0 to this one.
    Whole(i64) -> u64, |most| format!("0 to {}", most.0), |most, key| {
        let value = key.integer();
        key.check.integer(&key.path, value, 0, most.0).unsigned_abs()
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

/// A count with an upper bound.
pub(crate) const fn steps(least: i64, most: usize) -> Steps {
    Steps(least, most as i64)
}

/// The same, of characters or elements.
pub(crate) const fn chars(least: i64, most: usize) -> Chars {
    Chars(steps(least, most))
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
pub(crate) struct OneOf<T: 'static>(&'static [(&'static str, T)]);

/// One of some words, in the order of the documentation.
pub(crate) const fn one_of<T>(words: &'static [(&'static str, T)]) -> OneOf<T> {
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
}

/// What a detector may do.
pub(crate) const MODE: OneOf<Mode> =
    OneOf(&[("off", Mode::Off), ("shadow", Mode::Shadow), ("nudge", Mode::Nudge), ("block", Mode::Block)]);

/// What a block covers.
pub(crate) const BLOCK_SCOPE: OneOf<BlockScope> =
    OneOf(&[("fingerprint", BlockScope::Fingerprint), ("tool", BlockScope::Tool), ("session", BlockScope::Session)]);

/// A setting that each entry of a list must have: its default is an example.
pub(crate) struct Must<K>(pub(crate) K);

impl<K: Kind> Kind for Must<K> {
    type Of = K::Of;

    fn read(&self, key: &mut Key<'_>) -> K::Of {
        self.0.read(key)
    }

    fn range(&self) -> String {
        self.0.range()
    }

    fn is_filled(&self) -> bool {
        false
    }
}

/// A setting that an entry of a list may leave out, which is none of its values.
pub(crate) struct Maybe<K>(pub(crate) K);

impl<K: Kind> Kind for Maybe<K> {
    type Of = Option<K::Of>;

    fn read(&self, key: &mut Key<'_>) -> Option<K::Of> {
        (!key.is_missing()).then(|| self.0.read(key))
    }

    fn range(&self) -> String {
        self.0.range()
    }

    fn is_filled(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::table::SharedSettings;
    use crate::setting::{check::Check, table::Table, value::Value};

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
