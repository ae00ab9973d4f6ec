//! The pages `detection` and `reference`, and the tables of the default policy, follow from the files of the detectors.
//!
//! After a change of a detector, `LOOPWARDEN_WRITE=1 cargo it detection_page` writes them anew.

use std::path::{Path, PathBuf};
use std::{collections::BTreeSet, fmt::Write as _, fs};

use loopwarden::policy::{Detector, Mode, PROFILES, Policy};
use loopwarden_core::detect::{Fact, decimal};
use loopwarden_lab::cases::Case;

const PAGE: &str = "src/docs/detection.md";
const REFERENCE: &str = "src/docs/reference.md";
const PROFILE: &str = "config/profiles/default.toml";
/// Characters of a line of a page.
const LINE_CHARS: usize = 108;

const MADE: &str = "<!-- Made from src/core/detect by `LOOPWARDEN_WRITE=1 cargo it detection_page`. Do not edit. -->";

const HEAD: &str = "\
# Detection

For whoever runs loopwarden or tunes it. This page has what the policy `default` runs: a score over what each step shows, \
and a few rules beside it. After it you can read why a command was published, and know which setting to change.

[Concepts](concepts.md) explains the words, and [policies](policies.md) how to write a policy. `loopwarden explain NAME` \
prints a detector with an example, and what each setting means. Names like `default/ids-are-guessed` are cases in `tests/golden/cases`.
";

const REST: &str = "\
The rules of other systems are off in `default`: the page [reference](reference.md).
";

const SCORE: &str = "\
## The score

Each completed step shows *facts*: true or false, one plain sentence each. The policy gives each fact a weight, positive for \
a loop and negative for work. The points of a step are the weights of its facts and a bias, kept between `step_min` and \
`step_max`. They are added to the score of the agent, which never falls below 0 (CUSUM: Page 1954, Wald's sequential test). \
A step with news lowers the score, so recovery needs no rule of its own.

- At `nudge_at` the agent gets a nudge. `similar_repeat`, `similar_failures` or `no_news` words it, by the facts that held.
- At `block_at`, after a nudge, calls of this kind are refused. A block needs equal calls, failures or rounds that were \
compared.
- A fact about arguments or an answer that was not reported is unknown and weighs nothing. A step without arguments and \
answer has no points.
- Asking again for what runs elsewhere, or meeting an outage, counts a `poll_factor`th. It counts nothing if the last equal \
call was 20 seconds before, or if the call takes five. The score blocks neither.
- Equal calls a minute or more apart, with nothing in between, raise the score by nothing.
- A call of another tool than the loop's lowers the score by a quarter of its points.
- A person's message, progress and a reset set the score to 0.
- `confidence` of a command is the probability of a loop at this score with even odds before: 1 / (1 + exp(-score)).

An example: `Bash {\"command\":\"make\"}` fails three times in the same way. The first failure has only the bias, -1.24, and \
the score stays 0. The second shows `equal_1` and `fails_1`: 1.82 + 0.91 - 1.24 = 1.49. The third also shows `fails_2`: 1.49 \
+ 1.36 = 2.85. The score is 4.34, above 2.85, and the agent gets a nudge. `loopwarden inspect session` shows this sum for \
every step.

`loopwarden fit` makes the weights from labelled sessions: a logistic regression that keeps each fact on its side and drops \
what adds nothing. Weights of `default`:
";

const REFERENCE_HEAD: &str = "\
# Reference detectors

For whoever compares loopwarden with another system, or wants one of its rules. After this page you can switch one on. These \
detectors reproduce published systems. They are off in `default`, and on in the profiles named here; the others stand on \
`plain`. `loopwarden explain NAME` prints an example, when a detector is silent, and what each setting means. To switch \
one on in a policy:
";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

/// Compares a file with what it is to be, or writes it.
fn compare_or_write(name: &str, wanted: &str) {
    if std::env::var_os("LOOPWARDEN_WRITE").is_some() {
        fs::write(path(name), wanted).unwrap();
    } else {
        assert!(
            read(name) == wanted,
            "{name} is not what the detectors say; write it: LOOPWARDEN_WRITE=1 cargo it detection_page"
        );
    }
}

/// A paragraph in lines, cut at spaces that are not inside a code span; `indent` stands before all but the first.
fn wrapped(text: &str, indent: &str) -> String {
    let (mut out, mut chars, mut is_code) = (String::new(), 0, false);
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match pieces.last_mut().filter(|_| is_code) {
            Some(piece) => *piece = format!("{piece} {word}"),
            None => pieces.push(word.to_owned()),
        }
        is_code ^= word.matches('`').count() % 2 == 1;
    }
    for piece in pieces {
        let length = piece.chars().count();
        if chars > 0 && chars + 1 + length > LINE_CHARS {
            out.push('\n');
            out.push_str(indent);
            chars = indent.len();
        } else if chars > 0 {
            out.push(' ');
            chars += 1;
        }
        out.push_str(&piece);
        chars += length;
    }
    out
}

fn item(text: &str) -> String {
    format!("{}\n", wrapped(&format!("- {text}"), "  "))
}

/// What a detector does under the default policy.
fn default_of(detector: Detector) -> String {
    let detectors = loopwarden::config::policy::load("default").unwrap().detectors;
    // A rate refuses what is above its limit.
    let is_rate = matches!(detector, Detector::CallRate | Detector::FleetRate);
    let (threshold, block_at) = (detectors.counts(detector).threshold, detectors.block_at(detector));
    match detectors.mode(detector) {
        Mode::Off => "off".to_owned(),
        Mode::Block if detector.is_of_evidence() => "by the score".to_owned(),
        Mode::Shadow => format!("shadow at {threshold}"),
        Mode::Block if is_rate => format!("block after {threshold}"),
        Mode::Block if block_at > 0 => format!("nudge at {threshold}, block at {block_at}"),
        Mode::Block | Mode::Nudge => format!("nudge at {threshold}"),
    }
}

/// Whether a detector is off under the default policy, and on where a reference system is reproduced.
fn is_of_references(detector: Detector) -> bool {
    let is_on = |name: &str| loopwarden::config::policy::load(name).unwrap().detectors.mode(detector).is_on();
    !is_on("default") && PROFILES.iter().any(|profile| is_on(profile.name))
}

/// The detectors that a case is about: those its expectations name, or else those its policy names.
fn detectors_of(case: &Case) -> BTreeSet<&str> {
    let expected: BTreeSet<&str> = case.expect.iter().filter_map(|expected| expected.detector.as_deref()).collect();
    if !expected.is_empty() {
        return expected;
    }
    let only = case.policy.get("only").and_then(|only| only.as_array()).into_iter().flatten().filter_map(|name| name.as_str());
    let changed = case.policy.get("detectors").and_then(|detectors| detectors.as_object()).into_iter().flatten();
    only.chain(changed.map(|(name, _)| name.as_str())).collect()
}

/// Paragraphs and lists, each wrapped.
fn text(parts: &str) -> String {
    let of_part = |part: &str| match part.strip_prefix("- ") {
        Some(items) => items.trim_end().split("\n- ").map(item).collect::<String>() + "\n",
        None => wrapped(part.trim_end(), "") + "\n\n",
    };
    parts.split("\n\n").map(of_part).collect()
}

fn title(detector: Detector) -> &'static str {
    detector.about().title.split([':', '.']).next().unwrap_or_default()
}

fn detection() -> String {
    let mut out = format!("{MADE}\n\n{}## Overview\n\n| detector | looks for | default |\n|---|---|---|\n", text(HEAD));
    let own: Vec<Detector> = Detector::ALL.into_iter().filter(|detector| !is_of_references(*detector)).collect();
    for detector in &own {
        writeln!(out, "| `{}` | {} | {} |", detector.as_str(), title(*detector), default_of(*detector)).unwrap();
    }
    write!(out, "\n{}{}| fact | weighs | meaning |\n|---|---|---|\n", text(REST), text(SCORE)).unwrap();
    let score = loopwarden::config::policy::load("default").unwrap().score;
    for fact in Fact::ALL.into_iter().filter(|fact| score.of(*fact) != 0) {
        writeln!(out, "| `{}` | {:+.2} | {} |", fact.as_str(), decimal(score.of(fact)), fact.sentence()).unwrap();
    }
    out.push_str("\n## The detectors\n");
    for detector in own {
        write!(out, "\n### `{}`\n\n{}\n\nDoes not fire when:\n\n", detector.as_str(), wrapped(detector.about().rule, ""))
            .unwrap();
        out.extend(detector.about().silent.iter().map(|text| item(text)));
    }
    out
}

fn reference() -> String {
    let mut out = format!("{MADE}\n\n{}", text(REFERENCE_HEAD));
    out.push_str("```toml\nprofile = \"mine\"\nbase = \"default\"\n[detectors.dead_end]\nmode = \"nudge\"\n```\n\n");
    out.push_str("| detector | looks for | profiles that run it |\n|---|---|---|\n");
    let all: Vec<Detector> = Detector::ALL.into_iter().filter(|detector| is_of_references(*detector)).collect();
    for detector in &all {
        let runs = |name: &str| loopwarden::config::policy::load(name).unwrap().detectors.mode(*detector).is_on();
        let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).filter(|name| runs(name)).collect();
        writeln!(out, "| `{}` | {} | {} |", detector.as_str(), title(*detector), names.join(", ")).unwrap();
    }
    for detector in all {
        write!(out, "\n## `{}`\n\n{}\n", detector.as_str(), wrapped(detector.about().rule, "")).unwrap();
    }
    out
}

#[test]
fn the_pages_on_detection_are_what_the_detectors_say() {
    compare_or_write(PAGE, &detection());
    compare_or_write(REFERENCE, &reference());
}

#[test]
fn every_detector_has_a_golden_case_of_the_profile_that_people_run() {
    let cases: Vec<Case> = crate::golden::all().into_values().flatten().collect();
    let own = cases.iter().filter(|case| ["default", "rules"].contains(&crate::golden::policy_name(case)));
    let named: BTreeSet<&str> = own.flat_map(detectors_of).collect();
    let without: Vec<&str> = Detector::ALL.map(Detector::as_str).into_iter().filter(|name| !named.contains(name)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn the_default_policy_has_the_settings_of_the_detectors() {
    let default = loopwarden::config::policy::load("default").unwrap().detectors;
    // What reads the score comes first, rules of reference systems come last.
    let (last, mut first): (Vec<Detector>, Vec<Detector>) =
        Detector::ALL.into_iter().partition(|detector| is_of_references(*detector));
    first.sort_by_key(|detector| (!default.mode(*detector).is_on(), !detector.is_of_evidence()));
    let tables = |detectors: Vec<Detector>| detectors.into_iter().map(Detector::default_toml).collect::<Vec<_>>().join("\n");
    let text = read(PROFILE);
    let at = |title: &str| text.find(title).unwrap_or_else(|| panic!("{PROFILE} has no {title}"));
    let (start, end) = (at("# One call, or nearly the same one"), at("# Policies of tools."));
    let rest = at("# Same call, again and again.\n");
    let wanted = format!("{}{}\n{}{}", &text[..start], tables(first), &text[end..rest], tables(last));
    // Where the file alone has values and texts, nothing is made.
    let made = Policy::SECTIONS.iter().filter(|section| section.settings.iter().all(|setting| !setting.default.is_empty()));
    let wanted = made.fold(wanted, |text, section| {
        let head = if section.is_list { format!("[[{}]]\n", section.path) } else { format!("[{}]\n", section.path) };
        // Of several entries of a list the first one names every key.
        let place = text.find(&format!("\n{head}")).unwrap_or_else(|| panic!("{PROFILE} has no {head}"));
        let start = text[..=place].rfind("\n\n").unwrap() + 2;
        let end = place + text[place..].find("\n\n").map_or(text[place..].len(), |at| at + 1);
        format!("{}{}{}", &text[..start], section.to_toml(), &text[end..])
    });
    compare_or_write(PROFILE, &wanted);
}
