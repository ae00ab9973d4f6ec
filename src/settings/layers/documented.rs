//! The documented file of settings, and what follows from it: the layer of the defaults, and the known keys with their types.

use loopwarden_core::setting::{Form, Setting, section_toml};

use crate::layers::tree::{self, Source, Table, join};
use crate::messages::diagnostic::BAD;

/// The layer that holds the defaults.
pub(crate) fn defaults(settings: &'static [Setting]) -> Table {
    parsed(&file(settings, "#"))
}

/// A value of the right type at every key; an empty table takes any keys.
pub(crate) fn shape(settings: &'static [Setting]) -> Table {
    parsed(&file(settings, ""))
}

/// Every default and every example is TOML: the tests read all of them.
fn parsed(file: &str) -> Table {
    tree::parse(file, &Source::Default, BAD).unwrap_or_default()
}

/// A file of these settings with their texts. What has no default stands behind a mark.
pub(crate) fn file(settings: &'static [Setting], mark: &str) -> String {
    let mut text = section_toml("", "", settings, mark);
    tables(settings, "", "", mark, &mut text);
    text
}

/// Tables below the leaves; what holds nothing but tables has no head of its own, and its text describes those.
fn tables(settings: &'static [Setting], path: &str, above: &str, mark: &str, text: &mut String) {
    for setting in settings {
        let path = join(path, setting.key);
        let head = format!("[{path}]");
        let about = if above.is_empty() { setting.text } else { above };
        let section = match (setting.form)() {
            Form::Table(inner) if inner.iter().all(|setting| setting.default.is_empty()) => {
                tables(inner, &path, setting.text, mark, text);
                continue;
            }
            Form::Table(inner) => {
                let mut section = section_toml(&head, about, inner, mark);
                tables(inner, &path, "", mark, &mut section);
                section
            }
            Form::Tables(inner) => {
                let section = section_toml(&format!("[{head}]"), about, inner, "");
                let marked = |line: &str| if line.starts_with('#') { format!("{line}\n") } else { format!("{mark}{line}\n") };
                section.lines().map(marked).collect()
            }
            Form::Open => section_toml(&head, about, &[], mark),
            _ => continue,
        };
        text.extend(["\n", &section]);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use loopwarden_core::setting::{Check, Flag, Maybe, SharedSettings, Sub, one_of, settings, within, words};

    use super::*;
    use crate::layers::shape::{self, Codes};
    use crate::{messages::diagnostic::UNKNOWN, process::config::Config, process::kinds::FilePath};

    settings! {
        /// A table for this test.
        #[derive(PartialEq)]
        struct Tank {
            litres_max: u32 = "1_500", within(1, 2_000), "litres; more would not fit through the door";
            has_lid: bool = "false", Flag, "whether there is a lid";
            content: Content = r#""water""#, one_of(Content::WORDS), "{words}: what is in it";
            readings: Option<PathBuf> = r#""/var/lib/tank""#, Maybe(FilePath), "file with its readings";
            valve: Valve, Sub(Valve::SETTINGS, Valve::read), "How it is emptied.";
        }
    }

    settings! {
        /// A table in that table.
        #[derive(PartialEq)]
        struct Valve {
            turns: u64 = "3", within(0, 100), "turns until it is open";
        }
    }

    words! {
        /// What a tank holds.
        enum Content {
            /// Water.
            Water = "water",
            /// Oil.
            Oil = "oil",
        }
        besides {
            /// Nothing is known.
            Unknown = "unknown",
        }
    }

    /// Reads a file above the defaults, as a configuration is read.
    fn read(text: &str) -> (Tank, Vec<String>) {
        let mut layer = tree::parse(text, &Source::File("tank.toml".into()), BAD).unwrap();
        let mut found = Vec::new();
        shape::check(&mut layer, &super::shape(Tank::SETTINGS), "", Codes { unknown: UNKNOWN, bad: BAD }, &mut found);
        let mut merged = defaults(Tank::SETTINGS);
        tree::merge(&mut merged, layer);
        let (mut check, values, shared) = (Check::default(), tree::to_core(&merged), SharedSettings::default());
        let tank = Tank::read(&mut loopwarden_core::setting::Table::new(&mut check, &values, &shared));
        for problem in check.finish().err().into_iter().flatten() {
            found.push(tree::diagnostic(&merged, BAD, &problem.path, problem.message, &problem.path));
        }
        (tank, found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_documented_file_follows_from_the_fields() {
        assert_eq!(
            file(Tank::SETTINGS, "#"),
            "litres_max = 1_500         # litres; more would not fit through the door\n\
             has_lid = false            # whether there is a lid\n\
             content = \"water\"          # water | oil: what is in it\n\
             #readings = \"/var/lib/tank\" # file with its readings\n\
             \n\
             # How it is emptied.\n\
             [valve]\n\
             turns = 3                  # turns until it is open\n"
        );
    }

    #[test]
    fn every_default_and_every_example_of_the_configuration_is_toml() {
        for mark in ["", "#"] {
            assert!(tree::parse(&file(Config::SETTINGS, mark), &Source::Default, BAD).is_ok(), "{mark}");
        }
    }

    #[test]
    fn defaults_and_written_values_follow_from_the_fields() {
        let empty =
            Tank { litres_max: 1_500, has_lid: false, content: Content::Water, readings: None, valve: Valve { turns: 3 } };
        assert_eq!(read(""), (empty, Vec::new()));
        let written = "litres_max = 2\nhas_lid = true\ncontent = \"oil\"\nreadings = \"r\"\n[valve]\nturns = 9\n";
        let full =
            Tank { litres_max: 2, has_lid: true, content: Content::Oil, readings: Some("r".into()), valve: Valve { turns: 9 } };
        assert_eq!(read(written), (full, Vec::new()));
        assert_eq!((Content::Unknown.as_str(), Content::WORDS.len()), ("unknown", 2));
    }

    #[test]
    fn every_message_follows_from_the_fields_and_all_come_at_once() {
        let wrong =
            "litres_max = 2001\nhas_lid = 1\ncontent = \"unknown\"\nreadings = \"\"\nlitre_max = 1\n[valve]\nturns = -1\n";
        let (_, mut problems) = read(wrong);
        problems.sort();
        assert_eq!(
            problems,
            [
                "error[E0201]: unknown key \"litre_max\" (did you mean \"litres_max\"?)\n  set in tank.toml:5:1",
                "error[E0202]: content is \"unknown\", but must be one of: water, oil\n  set in tank.toml:3:11 (content)",
                "error[E0202]: has_lid is 1, but must be true or false\n  set in tank.toml:2:11 (has_lid)",
                "error[E0202]: litres_max is 2001, but must not be above 2000\n  set in tank.toml:1:14 (litres_max)",
                "error[E0202]: readings is empty, but must be a path\n  set in tank.toml:4:12 (readings)",
                "error[E0202]: valve.turns is -1, but must be at least 0\n  set in tank.toml:7:9 (valve.turns)",
            ]
        );
    }
}
