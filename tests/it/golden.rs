//! The golden cases: what five reference systems answer, restated, and our own of the profile `default`. A bug becomes a case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use loopwarden::task::{DeadLetterContent, Encoder, ProcessMode};
use loopwarden::{config::policy::load, engine::Mark, report::PublishedCommand};
use loopwarden_lab::cases::{Case, Way, answers, parse, run};

/// A policy for tests: the rules of the reference systems, on.
pub(crate) const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/rules.toml");

/// The name of a case's policy: of a file without its folder.
pub(crate) fn policy_name(case: &Case) -> &str {
    Path::new(&case.profile).file_stem().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The cases of a file.
fn read(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap();
    parse(&path.display().to_string(), &text).unwrap_or_else(|problem| panic!("{problem}"))
}

/// The project's own cases, by file name.
pub(crate) fn all() -> BTreeMap<String, Vec<Case>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/cases");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), read(&path))).collect()
}

fn mismatches(cases: &[Case]) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in cases {
        for mismatch in run(case) {
            wrong.push(format!(
                "{}/{} event {:?}\n  expected {}\n  got      {}",
                policy_name(case),
                case.name,
                mismatch.event,
                mismatch.expected,
                mismatch.got
            ));
        }
    }
    wrong
}

#[test]
fn every_golden_case_is_answered_as_it_says() {
    let wrong: Vec<String> = all().values().flat_map(|cases| mismatches(cases)).collect();
    assert!(wrong.is_empty(), "{} mismatches\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_restart_before_every_event_changes_no_answer() {
    for (file, cases) in all() {
        for case in &cases {
            // Without restarts of its own: those may bring another policy, whose marks differ.
            let (straight, restarted) = (answers(case, Way::Straight), answers(case, Way::Restarted));
            assert_eq!(straight.len(), restarted.len(), "{file}: {}", case.name);
            for (at, (one, two)) in straight.iter().zip(&restarted).enumerate() {
                assert_eq!(one.commands, two.commands, "{file}: {} event {at}", case.name);
                assert_eq!(one.findings, two.findings, "{file}: {} event {at}", case.name);
            }
        }
    }
}

#[test]
fn a_command_says_the_same_as_a_value_and_as_bytes() {
    let policy = load("default").unwrap();
    let encoder = Encoder::new("loopwarden", &policy, ProcessMode::Replay, DeadLetterContent::default());
    let mut commands = 0;
    for (file, cases) in all() {
        for case in &cases {
            for command in answers(case, Way::Straight).into_iter().flat_map(|answer| answer.commands) {
                let json = encoder.command_json(&command);
                let read = PublishedCommand::parse(&json);
                let json = String::from_utf8_lossy(&json);
                assert_eq!(read, Some(PublishedCommand::of(&command)), "{file}: {} {json}", case.name);
                commands += 1;
            }
        }
    }
    assert!(commands > 300, "only {commands} commands");
}

#[test]
fn names_of_cases_are_unique_and_the_reference_cases_are_all_there() {
    let mut names = BTreeSet::new();
    let mut of_references = 0;
    for cases in all().values() {
        for case in cases {
            assert!(names.insert((case.profile.clone(), case.name.clone())), "{}/{} twice", case.profile, case.name);
            let is_bounded = case.nudges_max.is_some() || case.blocks_max.is_some();
            let expects = is_bounded || !case.expect.is_empty() || !case.facts.is_empty();
            assert!(expects, "{}/{} expects nothing", case.profile, case.name);
            of_references += usize::from(case.origin.is_some());
        }
    }
    assert_eq!(of_references, 97);
}

#[test]
fn every_mark_is_reached_by_a_golden_case() {
    let mut reached = BTreeSet::new();
    for cases in all().values() {
        for case in cases {
            reached.extend(answers(case, Way::Straight).into_iter().flat_map(|answer| answer.marks));
        }
    }
    let unreached: Vec<Mark> = Mark::ALL.into_iter().filter(|mark| !reached.contains(mark)).collect();
    assert!(unreached.is_empty(), "no golden case reaches {unreached:?}");
}

#[test]
fn what_completes_no_step_measures_none() {
    let mut measured = 0;
    for (file, cases) in all() {
        for case in cases.iter().map(|case| case.spelled_out().unwrap()) {
            for (event, answer) in case.events.iter().zip(answers(&case, Way::Straight)) {
                let is_text = event["kind"] == "message";
                assert!(!is_text || answer.measured.is_none(), "{file}: {} {event}", case.name);
                measured += usize::from(answer.measured.is_some());
            }
        }
    }
    assert!(measured > 300, "only {measured} steps");
}

#[test]
fn every_shared_reference_case_is_answered_as_the_reference_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases");
    if !folder.is_dir() {
        println!("skipped: {} is absent; tests/golden/cases holds the same facts", folder.display());
        return;
    }
    let mut total = 0;
    let mut wrong = Vec::new();
    for profile in ["hackeurope", "attocode", "cortex", "rockbot", "ironcurtain"] {
        let cases = read(&folder.join(format!("{profile}.jsonl")));
        total += cases.len();
        wrong.extend(mismatches(&cases));
    }
    assert!(wrong.is_empty(), "{} mismatches\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(total, 96);
}
