//! The schemas of configuration and policy against what the program itself takes and refuses.
#![expect(clippy::expect_used, reason = "a helper that panics fails its test")]

use std::{fs, path::Path};

use jsonschema::Validator;
use loopwarden::config::{Flag, Layers, config_schema, policy_schema};
use serde_json::Value;

fn validator(schema: &Value) -> Validator {
    assert!(jsonschema::meta::is_valid(schema), "no schema");
    jsonschema::validator_for(schema).expect("a schema")
}

fn json(text: &str) -> Value {
    let table: toml::Table = toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    serde_json::to_value(table).expect("JSON")
}

fn problems(validator: &Validator, text: &str) -> Vec<String> {
    validator.iter_errors(&json(text)).map(|error| error.to_string()).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a file of the repository")
}

fn examples(page: &str) -> Vec<String> {
    read(page).split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

#[test]
fn the_schema_of_the_configuration_takes_what_the_program_takes() {
    let validator = validator(&config_schema());
    let mut files = examples("src/docs/operations.md");
    files.push(loopwarden::config::default_file());
    files.push(
        "instance = \"a\"\n[http]\ntoken_file = \"t\"\n[kafka]\nbootstrap_servers = \"h:1\"\nsasl_mechanism = \"PLAIN\"\n\
         [kafka.librdkafka]\n\"linger.ms\" = 1\n"
            .to_owned(),
    );
    assert!(files.len() > 2);
    for text in files {
        assert_eq!(problems(&validator, &text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn the_schema_of_the_configuration_refuses_what_the_program_refuses() {
    let validator = validator(&config_schema());
    for text in
        ["laness = 1", "[kafka]\ngruop = \"a\"", "lanes = \"two\"", "mode = \"loud\"", "lanes = -1", "lanes = 257", "kafka = 1"]
    {
        assert_ne!(problems(&validator, text), Vec::<String>::new(), "{text}");
    }
}

/// Every property with its path.
fn leaves(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => {
            for (key, inner) in properties {
                leaves(inner, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, found);
            }
        }
        None => found.push((path.to_owned(), schema.clone())),
    }
}

/// What the program says to one setting, as one text.
fn said(key: &str, value: &str) -> String {
    let flags = ["kafka.bootstrap_servers=h:1".to_owned(), "instance=i".to_owned(), format!("{key}={value}")];
    let flags = flags.iter().map(|set| Flag::set(set).expect("a setting")).collect();
    match loopwarden::config::load(&Layers { flags, ..Layers::default() }) {
        Ok(_) => String::new(),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn words_and_bounds_of_the_schema_are_those_of_the_program() {
    let mut all = Vec::new();
    leaves(&config_schema(), "", &mut all);
    let (mut words, mut bounds) = (0, 0);
    for (key, schema) in &all {
        for word in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
            let told = said(key, word.as_str().expect("a word"));
            assert!(!told.contains("must be one of"), "{key} = {word}: {told}");
            words += 1;
        }
        if schema.get("enum").is_some() {
            assert!(said(key, "no-such-word").contains("must be one of"), "{key}");
        }
        if schema["type"] == "integer" {
            let (least, most) = (&schema["minimum"], &schema["maximum"]);
            let (least, most) = (least.as_i64().expect("a bound"), most.as_i64().expect("a bound"));
            for (value, is_within) in [(least - 1, false), (least, true), (most, true), (most.saturating_add(1), false)] {
                let told = said(key, &value.to_string());
                let refused = told.contains(&format!("{key} is {value}, but must be at least"))
                    || told.contains(&format!("{key} is {value}, but must not be above"));
                // One bound may depend on another setting.
                assert!(refused != is_within || told.contains("must not be above commit_ms_max"), "{key} = {value}: {told}");
            }
            bounds += 1;
        }
        assert!(schema.get("description").is_some() || schema["type"] == "object", "{key} is not described");
    }
    assert!(words >= 10 && bounds > 10, "{words} words, {bounds} numbers");
}

/// A policy may ask for as much of a description as an event may have.
#[test]
fn the_schema_of_commands_takes_the_longest_excerpts_that_a_policy_may_ask_for() {
    let schema: Value = serde_json::from_str(&read("config/schemas/command.v1.schema.json")).expect("JSON");
    let excerpts = schema.pointer("/properties/reason/properties/evidence/properties/excerpts/items").expect("excerpts");
    let (longest, one_more) = (loopwarden::limits::DESCRIPTION_CHARS_MAX, loopwarden::limits::DESCRIPTION_CHARS_MAX + 1);
    let policy = |chars: usize| loopwarden::config::policy::load_from_str(&format!("evidence.chars = {chars}\n"), "p.toml");
    assert!(policy(longest).is_ok() && policy(one_more).is_err());
    let validator = validator(excerpts);
    assert!(validator.is_valid(&"x".repeat(longest).into()), "an excerpt of {longest} characters");
    assert!(!validator.is_valid(&"x".repeat(one_more).into()), "an excerpt of {one_more} characters");
}

#[test]
fn the_schema_of_a_policy_takes_every_profile_and_example() {
    let validator = validator(&policy_schema().expect("a schema"));
    let mut files: Vec<String> = loopwarden::policy::PROFILES.iter().map(|profile| profile.text.to_owned()).collect();
    files.extend(examples("src/docs/policies.md"));
    assert!(files.len() > 6);
    for text in files {
        assert_eq!(problems(&validator, &text), Vec::<String>::new(), "{text}");
    }
    for text in [
        "base = \"defualt\"",
        "histroy_steps = 1",
        "[detectors.exact_repeat]\nmode = \"loud\"",
        "[detectors.text_only]\nmode = \"loud\"",
        "[[tool]]\nclass = \"writes\"",
        "[[tool]]\nnmaes = []",
        "[detectors.exact_repeat]\nthreshold = \"three\"",
    ] {
        assert_ne!(problems(&validator, text), Vec::<String>::new(), "{text}");
        assert!(loopwarden::config::policy::load_from_str(text, "p.toml").is_err(), "{text}");
    }
}

#[test]
fn words_of_a_policys_schema_are_those_of_the_program() {
    let mut all = Vec::new();
    leaves(&policy_schema().expect("a schema"), "", &mut all);
    let mut checked = 0;
    for (key, schema) in all.iter().filter(|(key, schema)| key != "base" && schema.get("enum").is_some()) {
        let say = |word: &str| {
            let mut value = toml::Value::String(word.to_owned());
            for part in key.rsplit('.') {
                value = toml::Value::Table(toml::Table::from_iter([(part.to_owned(), value)]));
            }
            match loopwarden::config::policy::load_with_overrides("default", &value) {
                Ok(_) => String::new(),
                Err(problems) => problems.to_string(),
            }
        };
        for word in schema["enum"].as_array().expect("words") {
            let told = say(word.as_str().expect("a word"));
            assert!(!told.contains("must be one of"), "{key} = {word}: {told}");
        }
        assert!(say("no-such-word").contains("must be one of"), "{key}: {}", say("no-such-word"));
        checked += 1;
    }
    assert!(checked > 20, "only {checked}");
}
