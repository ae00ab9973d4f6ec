//! What a setting is: its key, type, default, range and text, written down once, where its field stands.
//!
//! [`settings!`] makes a table of a file from a struct, [`words!`] the words of a choice from an enum. Everything else follows from their
//! [`Form`]: the check of a layer, the messages, the JSON Schema, `config/default.toml`.

use std::ops::{Deref, RangeInclusive};
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use crate::layers::tree;
use crate::layers::tree::{Table, Value, join};
use crate::messages::diagnostic::{BAD, Diagnostic};

/// A key of a table and all that is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// The key, without its table.
    pub(crate) key: &'static str,
    /// What it means, with its unit; for a choice without the words.
    pub(crate) text: &'static str,
    pub(crate) form: Form,
    /// The value without any layer.
    pub(crate) default: Option<Value>,
    /// A value as an example, where there is no default.
    pub(crate) example: Option<Value>,
    /// What its values must satisfy beyond their form.
    pub(crate) rule: Option<ValueRule>,
    /// Whether some layer must set it.
    pub(crate) is_required: bool,
}

impl Setting {
    /// The words of a choice and the text.
    pub(crate) fn description(&self) -> String {
        match &self.form {
            Form::Choice { words, .. } => {
                let colon = if self.text.starts_with(';') { "" } else { ": " };
                format!("{}{colon}{}", words.join(" | "), self.text)
            }
            _ => self.text.to_owned(),
        }
    }
}

/// What may stand at a key.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// A table of these keys.
    Table(Vec<Setting>),
    /// Tables of these keys, as many as there are.
    Tables(Vec<Setting>),
    /// A table of any keys; their values are text.
    Open,
    Integer,
    Boolean,
    Text,
    /// A path, in a file relative to that file.
    Path,
    /// One of these words; unless it is closed, the last one describes what else may stand there.
    Choice {
        words: Vec<&'static str>,
        /// Whether nothing else may stand there.
        is_closed: bool,
    },
}

/// What a value must satisfy beyond its form.
#[derive(Debug, Clone)]
pub(crate) enum ValueRule {
    /// Least and greatest value of a number.
    Range(i64, i64),
    /// The text to take for a text, or what is wrong with it.
    Text(fn(&str) -> Result<String, Vec<String>>),
}

/// Least and greatest value of a number.
pub(crate) fn range(range: RangeInclusive<i64>) -> ValueRule {
    ValueRule::Range(*range.start(), *range.end())
}

/// A rule for text: what to take for it, or what is wrong with it, as `is empty, but must be a name`.
pub(crate) fn text(rule: fn(&str) -> Result<String, Vec<String>>) -> ValueRule {
    ValueRule::Text(rule)
}

impl ValueRule {
    fn apply(&self, value: &Value) -> Result<Value, Vec<String>> {
        match (self, value) {
            (Self::Range(least, _), Value::Integer(value)) if value < least => {
                Err(vec![format!("is {value}, but must be at least {least}")])
            }
            (Self::Range(_, most), Value::Integer(value)) if value > most => {
                Err(vec![format!("is {value}, but must not be above {most}")])
            }
            (Self::Text(rule), Value::Text(text)) => rule(text).map(Value::Text),
            _ => Ok(value.clone()),
        }
    }
}

/// Merged layers being read, and what is wrong with them.
pub(crate) struct Reader<'a> {
    pub(crate) tree: &'a Table,
    /// Problems that were found so far.
    pub(crate) problems: &'a mut Vec<Diagnostic>,
}

impl Reader<'_> {
    /// Notes what is wrong with the value at a path, in words that begin with that path.
    pub(crate) fn bad(&mut self, path: &str, message: String) {
        let diagnostic = Diagnostic::new(BAD, message);
        self.problems.push(match tree::nearest(self.tree, path) {
            Some(node) => diagnostic.at(&node.origin, path),
            None => diagnostic,
        });
    }
}

/// What may be the type of a setting: a value, a table, or an optional one of both.
pub(crate) trait Entry: Sized {
    /// Whether it may be missing.
    const IS_OPTIONAL: bool = false;

    fn form() -> Form;

    /// Whether any layer sets it; of a table, whether all keys are set that must be.
    fn is_set(tree: &Table, path: &str) -> bool {
        match Self::form() {
            Form::Table(settings) => settings
                .iter()
                .filter(|setting| setting.is_required)
                .all(|setting| found(tree, &join(path, setting.key)).is_some()),
            _ => found(tree, path).is_some(),
        }
    }

    /// The value at a path; `None` where a problem was noted or no layer sets it.
    fn read(reader: &mut Reader<'_>, path: &str, rule: Option<&ValueRule>) -> Option<Self>;
}

fn found<'a>(tree: &'a Table, path: &str) -> Option<&'a Value> {
    tree::at(tree, &path.split('.').collect::<Vec<_>>()).map(|node| &node.value)
}

/// A type of single values.
pub(crate) trait Leaf: Sized {
    fn form() -> Form;

    /// The value, or what is wrong with it, as `is empty, but must be a path`.
    fn parse(value: &Value) -> Result<Self, String>;
}

impl<T: Leaf> Entry for T {
    fn form() -> Form {
        T::form()
    }

    fn read(reader: &mut Reader<'_>, path: &str, rule: Option<&ValueRule>) -> Option<Self> {
        let value = found(reader.tree, path)?;
        let taken = rule.map_or_else(|| Ok(value.clone()), |rule| rule.apply(value));
        match taken.and_then(|value| T::parse(&value).map_err(|problem| vec![problem])) {
            Ok(value) => Some(value),
            Err(problems) => {
                for problem in problems {
                    reader.bad(path, format!("{path} {problem}"));
                }
                None
            }
        }
    }
}

impl<T: Entry> Entry for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn form() -> Form {
        T::form()
    }

    fn read(reader: &mut Reader<'_>, path: &str, rule: Option<&ValueRule>) -> Option<Self> {
        if T::is_set(reader.tree, path) { T::read(reader, path, rule).map(Some) } else { Some(None) }
    }
}

impl Leaf for String {
    fn form() -> Form {
        Form::Text
    }

    fn parse(value: &Value) -> Result<Self, String> {
        text_of(value).map(str::to_owned)
    }
}

impl Leaf for bool {
    fn form() -> Form {
        Form::Boolean
    }

    fn parse(value: &Value) -> Result<Self, String> {
        if let Value::Boolean(boolean) = value { Ok(*boolean) } else { Err("must be true or false".to_owned()) }
    }
}

impl Leaf for PathBuf {
    fn form() -> Form {
        Form::Path
    }

    fn parse(value: &Value) -> Result<Self, String> {
        match text_of(value)? {
            "" => Err("is empty, but must be a path".to_owned()),
            path => Ok(path.into()),
        }
    }
}

impl Leaf for SocketAddr {
    fn form() -> Form {
        Form::Text
    }

    fn parse(value: &Value) -> Result<Self, String> {
        let text = text_of(value)?;
        let wrong = "but must be an address and a port, as 127.0.0.1:9464: names are not looked up";
        text.parse().map_err(|_| format!("is {text:?}, {wrong}"))
    }
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl Leaf for $type {
            fn form() -> Form {
                Form::Integer
            }

            fn parse(value: &Value) -> Result<Self, String> {
                let Value::Integer(integer) = value else { return Err("must be an integer".to_owned()) };
                Self::try_from(*integer).map_err(|_| format!("is {integer}, but must be {} to {}", Self::MIN, Self::MAX))
            }
        }
    )+};
}

integers!(u32, u64, usize, i64);

/// The text of a value that is text.
pub(crate) fn text_of(value: &Value) -> Result<&str, String> {
    if let Value::Text(text) = value { Ok(text) } else { Err("must be text".to_owned()) }
}

/// Settings that are handed on as they are written. Their values may be passwords, which no debug output shows.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Verbatim(pub BTreeMap<String, String>);

impl std::fmt::Debug for Verbatim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Deref for Verbatim {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Entry for Verbatim {
    fn form() -> Form {
        Form::Open
    }

    fn read(reader: &mut Reader<'_>, path: &str, _: Option<&ValueRule>) -> Option<Self> {
        let Value::Table(table) = found(reader.tree, path)? else { return None };
        let values = table.iter().filter_map(|(key, node)| Some((key.clone(), text_of(&node.value).ok()?.to_owned())));
        Some(Self(values.collect()))
    }
}

/// Makes structs of settings. A field is `name: Type`, then `= default` or, where none exists, `as "example"`, then `where` its
/// rule, then `;`. A field whose type is such a struct is a table. A type that is no `Option` and has no default must be set.
macro_rules! settings {
    ($(
        $(#[doc = $about:literal])+
        pub struct $name:ident {
            $(
                $(#[doc = $text:literal])+
                $field:ident: $type:ty $(= $default:literal)? $(as $example:literal)? $(where $rule:expr)?;
            )+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $(
                $(#[doc = $text])+
                pub $field: $type,
            )+
        }

        impl $crate::describe::entry::Entry for $name {
            fn form() -> $crate::describe::entry::Form {
                use $crate::describe::entry::{Entry, Form, Setting};
                use $crate::layers::tree::Value;
                Form::Table(vec![$({
                    let example: Option<Value> = [$(Value::from($example))?].into_iter().next();
                    Setting {
                        key: stringify!($field),
                        text: concat!($($text),+).trim_start(),
                        form: <$type as Entry>::form(),
                        default: [$(Value::from($default))?].into_iter().next(),
                        is_required: example.is_some() && !<$type as Entry>::IS_OPTIONAL,
                        example,
                        rule: [$($rule)?].into_iter().next(),
                    }
                }),+])
            }

            fn read(
                reader: &mut $crate::describe::entry::Reader<'_>,
                path: &str,
                _: Option<&$crate::describe::entry::ValueRule>,
            ) -> Option<Self> {
                // Every field is read before the first missing one ends it: all problems are noted.
                $(
                    let $field = {
                        let rule: Option<$crate::describe::entry::ValueRule> = [$($rule)?].into_iter().next();
                        <$type as $crate::describe::entry::Entry>::read(reader, &$crate::layers::tree::join(path, stringify!($field)), rule.as_ref())
                    };
                )+
                Some(Self { $($field: $field?),+ })
            }
        }
    )+};
}

/// Makes an enum of the words of a choice; the first is the default. Words `besides` them exist, but are not for people to write.
macro_rules! words {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident {
            $(#[doc = $first_text:literal])+
            $first:ident = $first_word:literal,
            $( $(#[doc = $text:literal])+ $variant:ident = $word:literal, )+
        }
        $( besides { $( $(#[doc = $other_text:literal])+ $other:ident = $other_word:literal, )+ } )?
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $name {
            $(#[doc = $first_text])+
            #[default]
            $first,
            $( $(#[doc = $text])+ $variant, )+
            $($( $(#[doc = $other_text])+ $other, )+)?
        }

        impl $name {
            /// Each word that may be written, with its meaning.
            pub const WORDS: &[(Self, &str, &str)] = &[
                (Self::$first, $first_word, concat!($($first_text),+)),
                $( (Self::$variant, $word, concat!($($text),+)), )+
            ];

            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $( Self::$variant => $word, )+
                    $($( Self::$other => $other_word, )+)?
                }
            }
        }

        impl $crate::describe::entry::Leaf for $name {
            fn form() -> $crate::describe::entry::Form {
                let words = Self::WORDS.iter().map(|(_, word, _)| *word).collect();
                $crate::describe::entry::Form::Choice { words, is_closed: true }
            }

            fn parse(value: &$crate::layers::tree::Value) -> Result<Self, String> {
                let text = $crate::describe::entry::text_of(value)?;
                let found = Self::WORDS.iter().find(|(_, word, _)| *word == text).map(|(found, ..)| *found);
                found.ok_or_else(|| {
                    let words = Self::WORDS.iter().map(|(_, word, _)| *word).collect::<Vec<_>>().join(", ");
                    format!("is {text:?}, but must be one of: {words}")
                })
            }
        }
    };
}

pub(crate) use settings;
pub(crate) use words;
