//! The pages and what ships beside them: links lead somewhere, examples are what the schemas allow, names exist.
#![expect(clippy::expect_used, reason = "a helper that panics fails its test")]

use std::path::{Path, PathBuf};
use std::{collections::BTreeSet, fs};

use clap::CommandFactory as _;
use jsonschema::Validator;
use loopwarden::policy::{Detector, Mode};
use loopwarden::{cli::command_line::CommandLine, telemetry::metrics::metrics as every_metric};
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The pages at the top and those of `src/docs`, as (path, text).
fn pages() -> Vec<(String, String)> {
    let mut names: Vec<String> = fs::read_dir(root().join("src/docs"))
        .expect("src/docs exists")
        .flatten()
        .map(|entry| format!("src/docs/{}", entry.file_name().to_string_lossy()))
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "md"))
        .collect();
    names.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(str::to_owned));
    names.sort();
    names.into_iter().map(|name| (name.clone(), read(&name))).collect()
}

/// The text outside of code blocks and code spans, and the code blocks as (language, first line, text).
fn split(page: &str) -> (String, Vec<(String, usize, String)>) {
    let (mut prose, mut blocks, mut open): (String, Vec<(String, usize, String)>, bool) = (String::new(), Vec::new(), false);
    for (number, line) in page.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            open = !open;
            if open {
                blocks.push((language.trim().to_owned(), number + 2, String::new()));
            }
        } else if open {
            let block = blocks.last_mut().expect("a block is open");
            block.2.push_str(line);
            block.2.push('\n');
        } else {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    assert!(!open, "a code block is never closed");
    (prose, blocks)
}

/// Every file of a kind below a directory.
fn below(dir: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            below(&path, extension, found);
        } else if path.extension().is_some_and(|is| is == extension) {
            found.push(path);
        }
    }
}

/// What a text tells people to run: the words behind `loopwarden` in code spans, and at the beginning of lines of code blocks.
fn told<'a>(text: &'a str, blocks: &'a [(String, usize, String)]) -> Vec<Vec<&'a str>> {
    let words = |rest: &'a str| rest.split(' ').take(2).collect();
    let spans = text.split("`loopwarden ").skip(1).filter_map(|rest| rest.split(['\n', '`']).next());
    let lines = blocks.iter().flat_map(|(.., block)| block.lines()).filter_map(|line| line.trim().strip_prefix("loopwarden "));
    spans.chain(lines).map(words).collect()
}

/// The part of a command line that is none.
fn unknown(words: &[&str]) -> Option<String> {
    let mut line = CommandLine::command();
    // Only then there is `help`.
    line.build();
    let [name, rest @ ..] = words else { return None };
    let is_word = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase()) && !word.contains(['.', '=', '(']);
    if !is_word(name) {
        return None;
    }
    let Some(command) = line.find_subcommand(name) else { return Some((*name).to_owned()) };
    let second = rest.first().filter(|_| command.has_subcommands()).filter(|word| is_word(word))?;
    command.find_subcommand(second).is_none().then(|| format!("{name} {second}"))
}

/// Targets of Markdown links.
fn links(prose: &str) -> Vec<&str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// The heading as an anchor, as Markdown renderers write it.
fn anchors(page: &str) -> BTreeSet<String> {
    let heading = |line: &str| line.starts_with('#').then(|| line.trim_start_matches('#').trim().to_lowercase());
    let slug = |text: String| -> String {
        text.chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    page.lines().filter_map(heading).map(slug).collect()
}

/// Names in the first column of the tables below a heading.
fn first_column(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}")).split("\n## ").next().unwrap_or_default();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")).filter_map(|line| line.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn schema(name: &str) -> Validator {
    let text = read(&format!("config/schemas/{name}.v1.schema.json"));
    let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
    jsonschema::validator_for(&schema).expect("a schema is a schema")
}

#[test]
fn every_link_leads_to_a_file_and_an_anchor() {
    let mut checked = 0;
    for (name, text) in pages() {
        let folder = Path::new(&name).parent().unwrap_or(Path::new("")).to_owned();
        for link in links(&split(&text).0) {
            if link.starts_with("http") {
                continue;
            }
            let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
            let target = if path.is_empty() { root().join(&name) } else { root().join(&folder).join(path) };
            assert!(target.exists(), "{name}: {link} leads nowhere");
            if let Some(anchor) = anchor {
                let page = fs::read_to_string(&target).expect("an anchor is in a page");
                assert!(anchors(&page).contains(anchor), "{name}: {link} has no such heading");
            }
            checked += 1;
        }
    }
    assert!(checked > 15, "only {checked} links found");
}

#[test]
fn every_page_is_part_of_the_documentation() {
    let module = read("src/loopwarden/docs.rs");
    for (name, _) in pages() {
        if let Some(page) = name.strip_prefix("src/docs/") {
            assert!(
                module.contains(&format!("include_str!(\"../docs/{page}\")")),
                "{page} is not included in src/loopwarden/docs.rs"
            );
        }
    }
}

#[test]
fn an_agent_finds_every_page_by_the_list_for_agents() {
    let (list, skill) = (read("llms.txt"), read("skills/loopwarden/SKILL.md"));
    let listed: BTreeSet<&str> = links(&list).into_iter().collect();
    for path in &listed {
        assert!(root().join(path).exists(), "llms.txt: {path} leads nowhere");
    }
    for (name, _) in pages() {
        assert!(listed.contains(name.as_str()), "llms.txt does not list {name}");
    }
    for words in told(&skill, &split(&skill).1) {
        assert_eq!(unknown(&words), None, "the skill runs a command that there is not");
    }
}

#[test]
fn a_process_serves_every_page_as_it_stands_in_the_repository() {
    let served: Vec<String> = loopwarden::http::PAGES.iter().map(|page| format!("src/docs/{}.md", page.name)).collect();
    let pages = pages();
    let kept: Vec<&String> = pages.iter().map(|(name, _)| name).filter(|name| name.starts_with("src/docs/")).collect();
    assert_eq!(served.iter().collect::<Vec<_>>(), kept);
}

#[test]
fn every_example_is_what_its_schema_allows() {
    let (event, command, state) = (schema("tool-event"), schema("command"), schema("session-state"));
    let mut checked = 0;
    for (name, text) in pages() {
        for (_, line, block) in split(&text).1.into_iter().filter(|(language, ..)| language == "json") {
            let value: Value = serde_json::from_str(&block).unwrap_or_else(|error| panic!("{name}:{line}: {error}"));
            let schema = match (value.get("kind"), value.get("action"), value.get("status")) {
                (Some(_), None, None) => &event,
                (None, Some(_), None) => &command,
                (None, None, Some(_)) => &state,
                _ => continue,
            };
            let problems: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(problems.is_empty(), "{name}:{line}: {problems:?}");
            checked += 1;
        }
    }
    assert!(checked >= 2, "only {checked} examples found");
}

#[test]
fn every_code_block_names_its_language() {
    for (name, text) in pages() {
        for (language, line, _) in split(&text).1 {
            assert!(
                ["text", "json", "toml", "yaml", "sh"].contains(&language.as_str()),
                "{name}:{line}: a code block of language {language:?}"
            );
        }
    }
}

#[test]
fn the_sample_fleet_is_made_of_valid_events_in_order() {
    let event = schema("tool-event");
    let (mut ids, mut last, mut sessions) = (BTreeSet::new(), String::new(), BTreeSet::new());
    for (number, line) in read("config/demo/fleet.ndjson").lines().enumerate() {
        let value: Value = serde_json::from_str(line).expect("a line is JSON");
        let problems: Vec<String> = event.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "line {}: {problems:?}", number + 1);
        let text = |field: &str| value.get(field).and_then(Value::as_str).expect("a text field").to_owned();
        assert!(ids.insert(text("id")), "line {}: its id was there before", number + 1);
        assert!(text("time") >= last, "line {}: earlier than the line before", number + 1);
        last = text("time");
        sessions.insert(text("session_id"));
    }
    assert!((600..=900).contains(&ids.len()), "{} events", ids.len());
    let script = read("config/demo/make_fleet.py");
    let header = script.split("\"\"\"").nth(1).expect("the script says what it makes");
    for session in &sessions {
        let group = session.rsplit_once('-').map_or(session.as_str(), |(group, _)| group);
        assert!(header.contains(session.as_str()) || header.contains(&format!("{group}-1..")), "{session} is not explained");
    }
}

#[test]
fn the_table_of_detectors_is_complete() {
    let all: BTreeSet<String> = Detector::ALL.into_iter().map(|detector| detector.as_str().to_owned()).collect();
    let (detection, reference) = (read("src/docs/detection.md"), read("src/docs/reference.md"));
    let mut listed = first_column(&detection, "## Overview");
    listed.append(&mut first_column(&reference, "| detector | looks for | profiles that run it |"));
    assert_eq!(listed, all);
    let headings = detection.lines().filter_map(|line| line.strip_prefix("### `"));
    let headings = headings.chain(reference.lines().filter_map(|line| line.strip_prefix("## `")));
    let explained: BTreeSet<String> = headings.map(|rest| rest.trim_end_matches('`').to_owned()).collect();
    assert_eq!(explained, all);
}

/// Name and labels of each row of the page on metrics.
fn metric_rows(page: &str) -> Vec<(&str, &str)> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")).map(|row| row.split('|').map(str::trim).collect());
    cells.map(|cells: Vec<&str>| (cells[0].trim_matches('`'), cells[1])).collect()
}

#[test]
fn alerts_and_dashboard_use_documented_metrics_and_pages() {
    let page = read("src/docs/metrics.md");
    let metrics: BTreeSet<String> = metric_rows(&page).into_iter().map(|(name, _)| name.to_owned()).collect();
    let alerts = read("deploy/alerts.yaml");
    let names = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter_map(|word| word.strip_prefix("loopwarden_"))
            .map(|name| ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned())
            .collect()
    };
    for (file, text) in [("alerts.yaml", alerts.clone()), ("grafana.json", read("deploy/grafana.json"))] {
        let used = names(&text);
        assert!(used.len() > 5, "{file}: {used:?}");
        let unknown: Vec<&String> = used.difference(&metrics).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    // What has no prefix of ours is a standard name of a process.
    let standard: BTreeSet<&str> = loopwarden::telemetry::process::METRICS.iter().map(|(name, _)| *name).collect();
    for (file, text) in [("alerts.yaml", alerts.clone()), ("grafana.json", read("deploy/grafana.json"))] {
        for name in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("process_")) {
            assert!(standard.contains(name), "{file}: {name}");
            assert!(page.contains(&format!("`{name}`")), "{name} is not in the documentation");
        }
    }
    let ours: BTreeSet<String> = every_metric().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(metrics, ours, "the documentation and the program differ");
    let defined: BTreeSet<String> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect();
    let explained: BTreeSet<String> =
        page.lines().filter_map(|line| line.strip_prefix("### Loopwarden")).map(|name| format!("Loopwarden{name}")).collect();
    assert_eq!(defined, explained);
    for alert in &defined {
        assert!(alerts.contains(&format!("src/docs/metrics.md#{}", alert.to_lowercase())), "{alert} has no link to its page");
    }
}

#[test]
fn every_metric_has_the_labels_of_the_documentation() {
    let page = read("src/docs/metrics.md");
    let rows = metric_rows(&page);
    for (name, labels) in &rows {
        let documented: BTreeSet<&str> = labels.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let metric = every_metric().find(|metric| metric.name == *name).expect("a metric of ours");
        assert_eq!(documented, metric.labels.iter().copied().collect::<BTreeSet<&str>>(), "{name}");
    }
    assert!(rows.len() > 20, "only {} rows", rows.len());
}

#[test]
fn a_wrong_link_and_a_wrong_example_would_be_seen() {
    assert_eq!(links("see [a](b.md) and [c](d.md#e)."), ["b.md", "d.md#e"]);
    assert!(anchors("# One, two\n## Three\n").contains("one-two"));
    let (prose, blocks) = split("a `[x](y)` b\n```json\n{}\n```\n");
    assert!(links(&prose).is_empty());
    assert_eq!(blocks, [("json".to_owned(), 3, "{}\n".to_owned())]);
    let event = schema("tool-event");
    assert!(!event.is_valid(&serde_json::json!({"id": "a", "kind": "tool", "session_id": "s"})), "a tool event needs a tool");
}

/// What the table says of a detector's default.
fn said_default(detector: Detector) -> String {
    let policy = loopwarden::config::policy::load("default").unwrap_or_else(|problems| panic!("{problems}"));
    let (mode, threshold) = (policy.detectors.mode(detector), policy.detectors.counts(detector).threshold);
    match (mode, policy.detectors.block_at(detector)) {
        (Mode::Off, _) => "off".to_owned(),
        (Mode::Block, _) if detector.is_of_evidence() => "by the score".to_owned(),
        (Mode::Shadow, _) => format!("shadow at {threshold}"),
        (Mode::Block, _) if matches!(detector, Detector::CallRate | Detector::FleetRate) => format!("block after {threshold}"),
        (Mode::Block, block_at) if block_at > 0 => format!("nudge at {threshold}, block at {block_at}"),
        (Mode::Block | Mode::Nudge, _) => format!("nudge at {threshold}"),
    }
}

#[test]
fn the_numbers_in_the_table_of_detectors_are_those_of_the_default_profile() {
    let page = read("src/docs/detection.md");
    for detector in Detector::ALL {
        let start = format!("| `{}` | ", detector.as_str());
        let Some(row) = page.lines().find(|line| line.starts_with(&start)) else {
            assert_eq!(said_default(detector), "off", "no {start}");
            continue;
        };
        let last = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        assert_eq!(last, said_default(detector), "{row}");
    }
}

/// Ids of rules in a text: `C17`, `(R4)`, `I3`.
fn rules(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| word.len() < 4 && word.strip_prefix(['C', 'R', 'B', 'K', 'I', 'W', 'M']).is_some_and(is_number)).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[test]
fn every_rule_and_page_that_a_comment_cites_exists() {
    let page = read("src/docs/commit.md");
    let written: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(':')).map(|(id, _)| id).collect();
    let mut files = Vec::new();
    below(&root().join("src"), "rs", &mut files);
    let (mut cited, mut missing) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        for comment in text.lines().filter_map(|line| line.split_once("//").map(|(_, comment)| comment)) {
            for rule in rules(comment) {
                cited += 1;
                if !written.contains(rule) {
                    missing.push(format!("{}: rule {rule}", file.display()));
                }
            }
            for name in comment.split("age `").skip(1).filter_map(|rest| rest.split('`').next()) {
                if !root().join("src/docs").join(format!("{name}.md")).is_file() {
                    missing.push(format!("{}: page {name}", file.display()));
                }
            }
            // librdkafka's own page is named as such.
            for name in comment.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".md") && *name != "CONFIGURATION.md")
            {
                if !root().join("src/docs").join(name).is_file() && !root().join(name).is_file() {
                    missing.push(format!("{}: {name}", file.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(cited > 40, "only {cited} rules are cited");
}

#[test]
fn the_cases_that_the_page_on_detection_names_exist() {
    let known: BTreeSet<String> = crate::golden::all()
        .into_values()
        .flatten()
        .map(|case| format!("{}/{}", crate::golden::policy_name(&case), case.name))
        .collect();
    let page = read("src/docs/detection.md");
    let is_profile =
        |name: &str| ["default", "rules", "plain", "attocode", "hackeurope", "cortex", "rockbot", "ironcurtain"].contains(&name);
    let named: BTreeSet<&str> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|span| span.split_once('/').is_some_and(|(profile, _)| is_profile(profile)))
        .collect();
    for name in &named {
        assert!(known.contains(*name), "there is no case {name}");
    }
    assert!(named.len() > 15, "only {} cases are named", named.len());
}

#[test]
fn the_map_of_the_source_names_files_that_are_there() {
    let page = read("src/docs/architecture.md");
    let is_path = |span: &&str| ["src/", "config/", "tests/", "deploy/"].iter().any(|folder| span.starts_with(folder));
    let paths: Vec<&str> = spans(&page).filter(is_path).collect();
    let gone: Vec<&&str> = paths.iter().filter(|path| !root().join(path).exists()).collect();
    assert!(gone.is_empty(), "{gone:?}");
    assert!(paths.len() > 30, "{paths:?}");
    // The crates, as the workspace has them.
    let manifest: toml::Table = read("Cargo.toml").parse().expect("a manifest");
    let members = manifest["workspace"]["members"].as_array().expect("a list").iter().filter_map(toml::Value::as_str);
    let crates: BTreeSet<String> = members.filter_map(|path| path.strip_prefix("src/")).map(str::to_owned).collect();
    let mut documented = first_column(&page, "| crate | for |");
    documented.retain(|name| {
        ![
            "limits",
            "shares",
            "whom",
            "event",
            "identity",
            "native",
            "setting",
            "detect",
            "policy",
            "engine",
            "wire",
            "loopwarden",
        ]
        .contains(&name.as_str())
    });
    assert_eq!(documented, crates);
}

#[test]
fn the_numbers_of_the_default_policy_in_the_pages_are_its_own() {
    let policy: toml::Table = read("config/profiles/default.toml").parse().expect("a policy");
    let number = |table: &toml::Table, key: &str| table[key].as_integer().expect("a whole number");
    let episodes = policy["episodes"].as_table().expect("a table");
    let (steps, hits) = (number(&policy, "history_steps"), number(episodes, "renudge_hits"));
    let factor = policy["poll_factor"].as_float().expect("a number");
    let stated = [
        ("concepts", format!("the newest {steps} steps of a session")),
        ("concepts", format!("`poll_factor` ({factor})")),
        ("concepts", format!("after {hits}, {}, {} more steps with a finding", 2 * hits, 4 * hits)),
        ("concepts", format!("published again after {hits} such steps")),
        ("concepts", format!("the first {} such steps", number(episodes, "block_hits"))),
        ("concepts", format!("forgotten {} counted steps", number(episodes, "relapse_steps"))),
        ("concepts", format!("at most {} blocks", loopwarden::limits::ACTIVE_VERDICTS_MAX)),
        ("state", format!("a ring of steps, {steps} in the default policy")),
        ("http", format!("the last {steps} calls (`history_steps`)")),
    ];
    for (name, sentence) in stated {
        let page = read(&format!("src/docs/{name}.md")).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(&sentence), "{name}: {sentence}");
    }
}

/// Code spans of a text.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The exit code that a table gives to an error: that of the longest beginning of its code.
fn documented_exit_code(table: &str, code: &str) -> Option<u8> {
    let rows = table.lines().filter_map(|line| line.strip_prefix("| E")?.split_once(" | "));
    let beginnings = rows.flat_map(|(beginnings, rest)| {
        let exit = rest.split(" | ").next().and_then(|exit| exit.parse().ok());
        beginnings.split(", ").map(move |beginning| (beginning.trim_start_matches('E'), exit))
    });
    let own = beginnings.filter(|(beginning, _)| code.trim_start_matches('E').starts_with(beginning));
    own.max_by_key(|(beginning, _)| beginning.len()).and_then(|(_, exit)| exit)
}

#[test]
fn the_exit_codes_of_errors_are_those_of_the_page_on_operations() {
    let page = read("src/docs/operations.md");
    let table = page.split("\n## Errors\n").nth(1).expect("a section");
    let errors: Vec<&str> = loopwarden::config::PAGES.iter().map(|page| page.code).filter(|code| code.starts_with('E')).collect();
    for code in &errors {
        // Too many events are an answer to their sender, and end no process.
        let expected = (*code != "E0703").then(|| loopwarden::exit_code::of_error(code));
        assert_eq!(documented_exit_code(table, code), expected, "{code}");
    }
    assert!(errors.len() > 20, "{errors:?}");
}

#[test]
fn every_command_that_people_are_told_to_run_exists() {
    let mut files: Vec<PathBuf> =
        pages().into_iter().map(|(name, _)| root().join(name)).filter(|path| path.parent() == Some(&root())).collect();
    below(&root().join("src"), "md", &mut files);
    below(&root().join("src"), "rs", &mut files);
    below(&root().join("deploy"), "md", &mut files);
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        let is_page = file.extension().is_some_and(|is| is == "md");
        let blocks = if is_page { split(&text).1 } else { Vec::new() };
        for words in told(&text, &blocks) {
            seen += 1;
            wrong.extend(unknown(&words).map(|what| format!("{}: loopwarden {what}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "no such command:\n{}", wrong.join("\n"));
    assert!(seen > 40, "{seen}");
    assert_eq!(unknown(&["rest", "task"]).as_deref(), Some("rest"));
    assert_eq!(unknown(&["reset", "tasks"]).as_deref(), Some("reset tasks"));
}
