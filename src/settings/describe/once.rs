//! A setting is described once: everything that follows from the fields of a struct, shown for one that exists only here.
#![allow(unreachable_pub, reason = "the macros make what they make public")]

use std::path::PathBuf;

use serde_json::json;

use crate::describe::entry::{Entry as _, Form, Reader, Setting, range, settings, words};
use crate::describe::{reference, schema};
use crate::layers::shape::Codes;
use crate::layers::tree::{Source, Table};
use crate::layers::{shape, tree};
use crate::messages::diagnostic::{BAD, UNKNOWN};

settings! {
    /// A table for this test.
    pub struct Tank {
        /// litres; more would not fit
        /// through the door
        litres_max: u32 = 1_500 where range(1..=2_000);
        /// whether there is a lid
        has_lid: bool = false;
        /// what is in it
        content: Content = "water";
        /// file with its readings
        readings: Option<PathBuf> as "/var/lib/tank";
        /// How it is emptied.
        valve: Valve;
    }

    /// A table in that table.
    pub struct Valve {
        /// turns until it is open
        turns: u64 = 3;
    }
}

words! {
    /// What a tank holds.
    pub enum Content {
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

fn settings_of_a_tank() -> Vec<Setting> {
    match Tank::form() {
        Form::Table(settings) => settings,
        form => panic!("{form:?}"),
    }
}

/// Reads a file above the defaults, as a configuration is read.
fn read(text: &str) -> (Option<Tank>, Vec<String>) {
    let mut layer = tree::parse(text, &Source::File("tank.toml".into()), BAD).unwrap();
    let settings = settings_of_a_tank();
    let mut problems = Vec::new();
    shape::check(&mut layer, &reference::shape_of(&settings), "", Codes { unknown: UNKNOWN, bad: BAD }, &mut problems);
    let mut merged: Table = reference::defaults_of(&settings);
    tree::merge(&mut merged, layer);
    let tank = Tank::read(&mut Reader { tree: &merged, problems: &mut problems }, "", None);
    (tank, problems.iter().map(ToString::to_string).collect())
}

#[test]
fn the_documented_file_follows_from_the_fields() {
    assert_eq!(
        reference::file("", &settings_of_a_tank()),
        "litres_max = 1_500                       # litres; more would not fit through the door\n\
         has_lid = false                          # whether there is a lid\n\
         content = \"water\"                        # water | oil: what is in it\n\
         #readings = \"/var/lib/tank\"              # file with its readings\n\
         \n\
         # How it is emptied.\n\
         [valve]\n\
         turns = 3                                # turns until it is open\n"
    );
}

#[test]
fn the_schema_follows_from_the_fields() {
    let number = |text: &str, default: i64| json!({ "type": "integer", "description": text, "default": default });
    let mut litres = number("litres; more would not fit through the door", 1_500);
    litres["minimum"] = 1.into();
    litres["maximum"] = 2_000.into();
    let object =
        |properties: serde_json::Value| json!({ "type": "object", "additionalProperties": false, "properties": properties });
    assert_eq!(
        schema::table(&settings_of_a_tank()),
        object(json!({
            "litres_max": litres,
            "has_lid": { "type": "boolean", "description": "whether there is a lid", "default": false },
            "content":
                { "type": "string", "description": "water | oil: what is in it", "enum": ["water", "oil"], "default": "water" },
            "readings": { "type": "string", "description": "file with its readings" },
            "valve": object(json!({ "turns": number("turns until it is open", 3) })),
        }))
    );
}

#[test]
fn defaults_and_written_values_follow_from_the_fields() {
    let empty = Tank { litres_max: 1_500, has_lid: false, content: Content::Water, readings: None, valve: Valve { turns: 3 } };
    assert_eq!(read(""), (Some(empty.clone()), Vec::new()));
    let written = "litres_max = 2\nhas_lid = true\ncontent = \"oil\"\nreadings = \"r\"\n[valve]\nturns = 9\n";
    let full =
        Tank { litres_max: 2, has_lid: true, content: Content::Oil, readings: Some("r".into()), valve: Valve { turns: 9 } };
    assert_eq!(read(written), (Some(full), Vec::new()));
    assert_eq!((Content::Unknown.as_str(), Content::WORDS.len()), ("unknown", 2));
}

#[test]
fn every_message_follows_from_the_fields_and_all_come_at_once() {
    let wrong = "litres_max = 2001\nhas_lid = 1\ncontent = \"unknown\"\nreadings = \"\"\nlitre_max = 1\n[valve]\nturns = -1\n";
    let (tank, mut problems) = read(wrong);
    problems.sort();
    assert_eq!(tank, None);
    assert_eq!(
        problems,
        [
            "error[E0201]: unknown key \"litre_max\" (did you mean \"litres_max\"?)\n  set in tank.toml:5:1",
            "error[E0202]: content is \"unknown\", but must be one of: water, oil\n  set in tank.toml:3:11 (content)",
            "error[E0202]: has_lid is 1, but must be true or false\n  set in tank.toml:2:11 (has_lid)",
            "error[E0202]: litres_max is 2001, but must not be above 2000\n  set in tank.toml:1:14 (litres_max)",
            "error[E0202]: readings is empty, but must be a path\n  set in tank.toml:4:12 (readings)",
            "error[E0202]: valve.turns is -1, but must be 0 to 18446744073709551615\n  set in tank.toml:7:9 (valve.turns)",
        ]
    );
}
