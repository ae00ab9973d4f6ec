//! The table of settings that a struct is made from.

/// A struct of settings. Each line is one setting: `field: Type = "default as TOML", KIND, "what it means";`. Where the file of the default
/// policy alone has default and text, it is `field: Type, KIND;`. A field with another key is written `field as "key"`. `then` names a function that sees all of them together, for rules between keys.
#[macro_export]
macro_rules! settings {
    (
        $(#[$about:meta])*
        $vis:vis struct $Name:ident {
            $($(#[doc = $doc:literal])* $field:ident $(as $key:literal)?: $Type:ty $(= $default:literal)?, $kind:expr $(, $text:literal)?;)*
        }
        $(then $then:path;)?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        $vis struct $Name {
            $(
                #[doc = concat!("`", $crate::setting::settings!(@key $field $($key)?), "`: " $(, $text)?)]
                $(#[doc = $doc])*
                pub $field: $Type,
            )*
        }

        impl $Name {
            /// Its settings, in the order of the file.
            $vis const SETTINGS: &'static [$crate::setting::Setting] = &[$($crate::setting::Setting {
                key: $crate::setting::settings!(@key $field $($key)?),
                default: concat!($($default)?),
                text: concat!($($text)?),
                range: || $crate::setting::Kind::range(&$crate::setting::kind_of::<$Type, _>($kind)),
                form: || $crate::setting::Kind::form(&$crate::setting::kind_of::<$Type, _>($kind)),
                is_filled: || $crate::setting::Kind::is_filled(&$crate::setting::kind_of::<$Type, _>($kind)),
            },)*];

            /// Reads and checks its table.
            pub(crate) fn read(table: &mut $crate::setting::Table<'_>) -> Self {
                let read = Self {
                    $($field: $crate::setting::Kind::read(
                        &$kind,
                        &mut table.key($crate::setting::settings!(@key $field $($key)?)),
                    ),)*
                };
                $(let read = $then(read, table);)?
                read
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}
pub use settings;

/// An enum of words that a setting may be; the first is the default. Words `besides` them exist, but are not for people to write.
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])*
        $vis:vis enum $Name:ident {
            $(#[$first_about:meta])*
            $First:ident = $first:literal,
            $($(#[$word_about:meta])* $Word:ident = $word:literal,)*
        }
        $(besides { $($(#[$other_about:meta])* $Other:ident = $other:literal,)+ })?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        $vis enum $Name {
            $(#[$first_about])*
            #[default]
            $First,
            $($(#[$word_about])* $Word,)*
            $($($(#[$other_about])* $Other,)+)?
        }

        impl $Name {
            /// Each word that may be written.
            pub const WORDS: &'static [(&'static str, Self)] = &[($first, Self::$First), $(($word, Self::$Word),)*];

            /// Its word in files, commands and metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::$First => $first,
                    $(Self::$Word => $word,)*
                    $($(Self::$Other => $other,)+)?
                }
            }
        }
    };
}
pub use words;
