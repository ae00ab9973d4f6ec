//! The files of `deploy/` against the program: they parse, and every setting, route, command, port and exit code they name exists.
//! What needs tools of others (promtool, systemd-analyze, helm) is in `.ci/deploy`.
#![expect(clippy::expect_used, reason = "a helper that panics fails its test")]

use std::path::{Path, PathBuf};
use std::{collections::BTreeSet, fs};

use clap::CommandFactory as _;
use loopwarden::{cli::command_line::CommandLine, config::Layers, exit_code, http::routes::ROUTES};
use serde::Deserialize as _;
use serde_json::Value;

use crate::environment::told_nothing;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file below `deploy`, with its path from the root.
fn files() -> Vec<(String, String)> {
    let (mut folders, mut found) = (vec!["deploy".to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root(&folder)).expect("a folder").flatten() {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), read(&path)));
            }
        }
    }
    found.sort();
    assert!(found.len() > 20, "{} files", found.len());
    found
}

fn yaml(text: &str) -> Vec<Value> {
    let documents = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
    documents.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn every_file_of_data_can_be_read() {
    let mut read = 0;
    for (path, text) in files() {
        let extension = Path::new(&path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension {
            // Templates are no YAML before helm has filled them.
            "yaml" if !path.contains("/templates/") => assert!(!yaml(&text).is_empty(), "{path}"),
            "json" => drop(serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{path}: {error}"))),
            _ => continue,
        }
        read += 1;
    }
    assert!(read >= 10, "only {read}");
}

#[test]
fn every_environment_variable_is_a_setting() {
    let mut names = BTreeSet::new();
    for (path, text) in files() {
        for word in text.split(|c: char| !c.is_ascii_uppercase() && c != '_').filter(|word| word.starts_with("LOOPWARDEN_")) {
            // The address that the scripts for clients take, and the revision that a build is given.
            if path.starts_with("deploy/examples/") && word == "LOOPWARDEN_URL" || word == "LOOPWARDEN_REVISION" {
                continue;
            }
            names.insert(word.to_owned());
        }
    }
    assert!(names.len() >= 6, "{names:?}");
    for name in &names {
        let layers = Layers { environment: vec![(name.clone(), "?".to_owned())], ..Layers::default() };
        let told = loopwarden::config::load(&layers).err().map(|problems| problems.to_string()).unwrap_or_default();
        assert!(!told.contains("E0201"), "{told}");
    }
    let layers = Layers { environment: vec![("LOOPWARDEN_MODUS".to_owned(), "?".to_owned())], ..Layers::default() };
    assert!(loopwarden::config::load(&layers).is_err_and(|problems| problems.to_string().contains("E0201")));
}

#[test]
fn every_probe_and_scrape_asks_a_route_and_the_port_is_the_default_one() {
    let routes: BTreeSet<&str> = ROUTES.iter().map(|route| route.path).collect();
    let mut asked = 0;
    for (path, text) in files().into_iter().filter(|(path, _)| path.starts_with("deploy/helm/templates/")) {
        for rest in text.split("path: /").skip(1) {
            let route: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '/').collect();
            assert!(routes.contains(format!("/{route}").as_str()), "{path}: /{route}");
            asked += 1;
        }
    }
    assert!(asked >= 4, "only {asked}");
    let layers = Layers { environment: vec![("HOSTNAME".to_owned(), "host".to_owned())], ..Layers::default() };
    let port = loopwarden::config::load(&layers).expect("the defaults").config.http.listen.port().to_string();
    for path in
        ["deploy/Dockerfile", "deploy/compose.yaml", "deploy/helm/templates/statefulset.yaml", "deploy/compose/prometheus.yaml"]
    {
        assert!(read(path).contains(&port), "{path}");
    }
}

#[test]
fn every_command_is_one_of_the_program() {
    let program = CommandLine::command();
    let has = |words: &[&str]| {
        let mut command = &program;
        for word in words {
            match command.find_subcommand(word) {
                Some(found) => command = found,
                None => return false,
            }
        }
        true
    };
    let mut checked = 0;
    for (path, text) in files() {
        for line in text.lines().map(str::trim) {
            let words = if let Some(rest) = line.strip_prefix("Exec").and_then(|rest| rest.split("/bin/loopwarden ").nth(1)) {
                rest.to_owned()
            } else if let Some(rest) = line.strip_prefix("args: [") {
                rest.trim_end_matches(']').to_owned()
            } else if path == "deploy/Dockerfile" && line.starts_with("CMD [") {
                line.trim_start_matches("CMD [").trim_end_matches(']').replace(['"', ','], " ")
            } else {
                continue;
            };
            let words: Vec<&str> = words.split_whitespace().take_while(|word| !word.starts_with('-')).collect();
            assert!(has(&words), "{path}: {line}");
            checked += 1;
        }
    }
    let compose = &yaml(&read("deploy/compose.yaml"))[0];
    let topics: Vec<&str> = compose["services"]["topics"]["command"]
        .as_array()
        .expect("a command")
        .iter()
        .map(|word| word.as_str().expect("text"))
        .collect();
    assert!(has(&topics), "{topics:?}");
    assert!(checked >= 5, "only {checked}");
}

#[test]
fn the_unit_does_not_restart_what_a_restart_cannot_help() {
    let unit = read("deploy/systemd/loopwarden.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).expect("a list");
    let codes: Vec<u8> = line.split(' ').map(|code| code.parse().expect("a code")).collect();
    assert_eq!(codes, [exit_code::USAGE, exit_code::FENCED, exit_code::CONFIG]);
}

#[test]
fn the_chart_uses_values_that_exist_and_its_schema_takes_them() {
    let mut values = yaml(&read("deploy/helm/values.yaml")).remove(0);
    let known = |path: &str| path.split('.').try_fold(&values, |value, key| value.get(key)).is_some();
    let mut used = 0;
    for (path, text) in files().into_iter().filter(|(path, _)| path.starts_with("deploy/helm/templates/")) {
        for rest in text.split(".Values.").skip(1) {
            let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
            let name = name.trim_end_matches('.');
            assert!(known(name), "{path}: .Values.{name}");
            used += 1;
        }
    }
    assert!(used > 20, "only {used}");
    let schema: Value = serde_json::from_str(&read("deploy/helm/values.schema.json")).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    assert!(!schema.is_valid(&values), "brokers have no default");
    values["kafka"]["bootstrapServers"] = "kafka:9092".into();
    let problems: Vec<String> = schema.iter_errors(&values).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?}");
    values["mode"] = "loud".into();
    assert!(!schema.is_valid(&values));
}

/// Paths of all properties below `schema`, with what describes them.
fn described(schema: &Value, path: &str, out: &mut Vec<(String, String)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        out.push((path.clone(), property["description"].as_str().unwrap_or_default().to_owned()));
        described(property, &path, out);
        described(&property["items"], &path, out);
    }
}

#[test]
fn every_value_of_the_chart_is_described() {
    let schema: Value = serde_json::from_str(&read("deploy/helm/values.schema.json")).expect("JSON");
    let mut properties = Vec::new();
    described(&schema, "", &mut properties);
    assert!(properties.len() > 35, "only {}", properties.len());
    for (path, description) in &properties {
        assert!(description.ends_with('.'), "{path}: {description:?}");
    }
}

#[test]
fn the_build_context_has_what_the_image_copies() {
    let context = read(".dockerignore");
    let allowed: BTreeSet<&str> = context.lines().filter_map(|line| line.strip_prefix('!')).collect();
    // What only the build for an image without compiling brings, and git does not have.
    for path in allowed.iter().filter(|path| **path != "prebuilt") {
        assert!(root(path).exists(), "{path}");
    }
    let needed = [
        "Cargo.toml",
        "Cargo.lock",
        ".cargo/config.toml",
        ".ci/native",
        "deploy/binary.sh",
        "src",
        "config",
        "LICENSE",
        "NOTICE",
    ];
    for path in needed {
        assert!(allowed.contains(path), "{path}");
    }
    // A path into the cache of this machine: it must not reach the image.
    assert!(!allowed.contains(".cargo"));
}

/// What a topic of Strimzi is: name, partitions, replicas, settings.
fn topics(text: &str) -> Vec<(String, Value, Value, Value)> {
    let of = |topic: Value| {
        let spec = &topic["spec"];
        let name = topic["metadata"]["name"].as_str().expect("a name").to_owned();
        (name, spec["partitions"].clone(), spec["replicas"].clone(), spec["config"].clone())
    };
    yaml(text).into_iter().filter(|document| !document.is_null()).map(of).collect()
}

#[test]
fn the_topics_for_strimzi_are_those_that_the_program_makes() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    told_nothing(&mut command);
    let printed = command.args(["topics", "print", "--format", "strimzi"]).output().expect("the program");
    assert_eq!(topics(&read("deploy/strimzi/topics.yaml")), topics(&String::from_utf8_lossy(&printed.stdout)));
}

#[test]
fn the_permissions_of_the_documentation_are_those_for_strimzi() {
    let user = yaml(&read("deploy/strimzi/user.yaml")).remove(0);
    let mut rules = BTreeSet::new();
    for rule in user["spec"]["authorization"]["acls"].as_array().expect("a list") {
        for operation in rule["operations"].as_array().expect("a list") {
            let name = rule["resource"]["name"].as_str().expect("a name");
            rules.insert((name.to_owned(), operation.as_str().expect("a word").to_owned()));
        }
    }
    let page = read("src/docs/operations.md");
    let section = page.split("## Permissions").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section");
    let mut documented = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let (resource, operations) = row.trim_matches('|').split_once(" | ").expect("two cells");
        for name in resource.split('`').skip(1).step_by(2) {
            for operation in operations.split(',').map(str::trim) {
                documented.insert((name.to_owned(), operation.to_owned()));
            }
        }
    }
    assert_eq!(rules, documented);
}
