//! The table of settings that a struct is made from.

/// A struct of settings. Each line is one setting: `field: Type = "default as TOML", KIND, "what it means";`. Where the file of the default
/// policy alone has default and text, it is `field: Type, KIND;`. A field with another key is written `field as "key"`. `then` names a function that sees all of them together, for rules between keys.
macro_rules! settings {
    (
        $(#[$about:meta])*
        $vis:vis struct $Name:ident {
            $($(#[doc = $doc:literal])* $field:ident $(as $key:literal)?: $Type:ty $(= $default:literal)?, $kind:expr $(, $text:literal)?;)*
        }
        $(then $then:path;)?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default)]
        $vis struct $Name {
            $(
                #[doc = concat!("`", $crate::setting::settings!(@key $field $($key)?), "`: " $(, $text)?)]
                $(#[doc = $doc])*
                pub $field: $Type,
            )*
        }

        impl $Name {
            /// Its settings, in the order of the policy file.
            $vis const SETTINGS: &'static [$crate::setting::Setting] = &[$($crate::setting::Setting {
                key: $crate::setting::settings!(@key $field $($key)?),
                default: concat!($($default)?),
                text: concat!($($text)?),
                range: || $crate::setting::Kind::range(&$kind),
                is_filled: || $crate::setting::Kind::is_filled(&$kind),
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
pub(crate) use settings;
