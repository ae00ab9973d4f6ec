//! The table of settings that a struct is made from, and the text of a policy file that comes from it.

/// A setting as it is documented.
#[derive(Clone, Copy)]
pub struct Setting {
    pub key: &'static str,
    /// Its value in the default policy, as TOML.
    pub default: &'static str,
    pub text: &'static str,
    /// What it may be, for people to read.
    pub range: fn() -> String,
}

/// A struct of settings. Each line is one setting: `field: Type = "default as TOML", KIND, "what it means";`. A field whose key is a word of Rust
/// is written `field as "key"`. `then` names a function that sees all of them together, for rules between keys.
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $Name:ident {
            $($field:ident $(as $key:literal)?: $Type:ty = $default:literal, $kind:expr, $text:literal;)*
        }
        $(then $then:path;)?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default)]
        pub struct $Name {
            $(
                #[doc = concat!("`", $crate::setting::settings!(@key $field $($key)?), "`: ", $text)]
                pub $field: $Type,
            )*
        }

        impl $Name {
            /// Its settings, in the order of the policy file.
            pub const SETTINGS: &'static [$crate::setting::Setting] = &[$($crate::setting::Setting {
                key: $crate::setting::settings!(@key $field $($key)?),
                default: $default,
                text: $text,
                range: || $crate::setting::Kind::range(&$kind),
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

/// Values that are longer have their text above them.
const VALUE_CHARS: usize = 80;
/// Where a text behind a value begins.
const TEXT_COLUMN: usize = 27;

/// A table of a policy file with the default values, each with its text.
#[must_use]
pub fn section_toml(path: &str, about: &str, settings: &[Setting]) -> String {
    let mut lines = vec![format!("# {about}"), format!("[{path}]")];
    for Setting { key, default, text, .. } in settings {
        let line = format!("{key} = {default}");
        if text.is_empty() {
            lines.push(line);
        } else if default.contains('\n') || default.len() > VALUE_CHARS {
            lines.extend([format!("# {text}"), line]);
        } else {
            lines.push(format!("{line:<width$}# {text}", width = TEXT_COLUMN.max(line.len() + 1)));
        }
    }
    lines.join("\n") + "\n"
}
