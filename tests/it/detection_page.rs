//! What is written down of the detectors follows from their files: the page `detection`, and their tables of the default policy.
//!
//! After a change of a detector, `LOOPWARDEN_WRITE=1 cargo it detection_page` writes both anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use loopwarden::policy::{Detector, Mode, PROFILES, Setting};
use loopwarden_core::detect::{Fact, Side, decimal};
use loopwarden_lab::cases::Case;

const PAGE: &str = "src/docs/detection.md";
const PROFILE: &str = "config/profiles/default.toml";
/// Characters of a line of the page.
const LINE_CHARS: usize = 100;
/// The text of the first `mode`, which is a list of words.
const MODES: &str = "off | shadow | nudge | block, here and below";
/// Characters of a default value that is shown.
const DEFAULT_CHARS: usize = 64;

const HEAD: &str = "\
<!-- Made from src/core/detect by `LOOPWARDEN_WRITE=1 cargo it detection_page`. Do not edit. -->

# Detection

One test and a few rules read one history. This page has the test, and for each detector its rule, an example, when it does not fire, \
its settings and the golden cases that show it. [Concepts](concepts.md) explains the words, [policies](policies.md) how to change a rule. \
What a detector does is said of the policy `default`.

A case is named `policy/case`. Beside `default` there are a profile for each system whose rules are reproduced: `hackeurope`, `attocode`, \
`cortex`, `rockbot`, `ironcurtain`; `plain`, on which those stand; and `rules`, a policy of the tests that is `default` with the rules of \
those systems on.
";

const SCORE: &str = "\
## The score

Each completed step shows *facts*: true or false, each one plain sentence. The policy gives each fact a weight, positive for a loop and \
negative for work. The points of a step are the sum of the weights of its facts and of a bias, kept between `step_min` and `step_max`. \
They are added to the score of the agent, which never falls below 0 (CUSUM: Page 1954, Wald's sequential test). A step that brings news \
pulls the score down, so that recovery needs no rule of its own.

- At `nudge_at` the agent is told. `similar_repeat`, `similar_failures` or `no_news` puts it into words, by the facts that held.
- At `block_at` its calls of this kind are refused, after a nudge. A block needs equal calls, failures or rounds that were compared.
- A fact about arguments or an answer that was not reported is not known, and weighs nothing. Such steps have no points at all.
- Who asks again for what runs elsewhere, or meets an outage, raises the score by a `poll_factor`th. Who lets 20 seconds pass, or whose \
call takes five, does not raise it. Neither is ever blocked by the score.
- A call of another tool than the loop's lowers the score by a quarter of its points: a look between two equal failures changes little.
- A person's message, progress and a reset set the score to 0.
- `confidence` of a command is the probability of a loop at this score with even odds before: 1 / (1 + exp(-score)).

A worked sum: `Bash {\"command\":\"make\"}` fails three times in the same way. The first failure has only the bias, -1.24, and the score \
stays 0. The second shows `equal_1` and `fails_1`: 1.82 + 0.91 - 1.24 = 1.49. The third shows `fails_2` as well: 1.49 + 1.36 = 2.85. The \
score is 4.34, above 2.85, and the agent is told. `loopwarden inspect session` shows this sum for every step.

`loopwarden fit` makes the weights from labelled sessions: a logistic regression that keeps each fact on its side, and drops what adds \
nothing. Weights of `default`:
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
    let is_rate = detector.about().swept == Some("limit") || detector == Detector::FleetRate;
    let (threshold, block_at) = (detectors.threshold(detector), detectors.block_at(detector));
    match detectors.mode(detector) {
        Mode::Off => "off".to_owned(),
        Mode::Shadow => format!("shadow at {threshold}"),
        Mode::Block if is_rate => format!("block after {threshold}"),
        Mode::Block if block_at > 0 => format!("nudge at {threshold}, block at {block_at}"),
        Mode::Block | Mode::Nudge => format!("nudge at {threshold}"),
    }
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

/// A setting with its range, default and text. The parts of a text become sentences; the words of a choice are in the range already.
fn described(setting: &Setting) -> String {
    // Long lists stand in the file.
    let default = if setting.default.len() > DEFAULT_CHARS { "a list".to_owned() } else { format!("`{}`", setting.default) };
    let text = setting.text.split_once(": ").filter(|(words, _)| words.contains(" | ")).map_or(setting.text, |(_, text)| text);
    let sentences: Vec<String> = text.split("; ").filter(|part| !part.is_empty() && *part != MODES).map(sentence).collect();
    format!("`{}` ({}; default {default}). {}", setting.key, (setting.range)(), sentences.join(" ")).trim_end().to_owned()
}

fn sentence(part: &str) -> String {
    let part = part.trim_end_matches('.');
    let word = part.split(' ').next().unwrap_or_default();
    if word.contains(['_', '"']) { format!("{part}.") } else { format!("{}{}.", part[..1].to_uppercase(), &part[1..]) }
}

fn id(case: &Case) -> String {
    format!("{}/{}", crate::golden::policy_name(case), case.name)
}

fn list(cases: &[&Case]) -> String {
    cases.iter().map(|case| format!("- `{}`\n", id(case))).collect()
}

fn page() -> String {
    let mut cases: Vec<Case> = crate::golden::all().into_values().flatten().collect();
    cases.sort_by_key(|case| (case.profile != "default", id(case)));
    let mut out: String = HEAD.split("\n\n").map(|paragraph| wrapped(paragraph, "") + "\n\n").collect();
    out.truncate(out.trim_end().len());
    out.push_str("\n\n## Overview\n\n| detector | looks for | default |\n|---|---|---|\n");
    for detector in Detector::ALL {
        let title = detector.about().title.split([':', '.']).next().unwrap();
        writeln!(out, "| `{}` | {title} | {} |", detector.as_str(), default_of(detector)).unwrap();
    }
    out.push('\n');
    out.extend(SCORE.split("\n\n").map(|part| {
        if part.starts_with("- ") {
            part.split("\n").map(item).collect::<String>() + "\n"
        } else {
            wrapped(part.trim_end(), "") + "\n\n"
        }
    }));
    out.push_str("| fact | weighs | what it says |\n|---|---|---|\n");
    let score = loopwarden::config::policy::load("default").unwrap().score;
    for fact in Fact::ALL {
        let (points, side) = (score.of(fact), if fact.side() == Side::Loop { "loop" } else { "work" });
        let weight = if points == 0 { format!("0 ({side})") } else { format!("{:+.2}", decimal(points)) };
        writeln!(out, "| `{}` | {weight} | {} |", fact.as_str(), fact.sentence()).unwrap();
    }
    out.push_str("\n## The detectors\n");
    for detector in Detector::ALL {
        let about = detector.about();
        write!(out, "\n### `{}`\n\n{}\n\n", detector.as_str(), wrapped(about.title, "")).unwrap();
        write!(out, "{}\n\n", wrapped(&format!("*Rule:* {}", about.rule), "")).unwrap();
        write!(out, "{}\n\n*Does not fire when:*\n\n", wrapped(&format!("*Example:* {}", about.example), "")).unwrap();
        out.extend(about.silent.iter().map(|text| item(text)));
        out.push_str("\n*Settings:*\n\n");
        out.extend(detector.settings().iter().map(|setting| item(&described(setting))));
        let cases: Vec<&Case> = cases.iter().filter(|case| detectors_of(case).contains(detector.as_str())).collect();
        write!(out, "\n*Cases:*\n\n{}", list(&cases)).unwrap();
    }
    let others: Vec<&Case> = cases.iter().filter(|case| detectors_of(case).is_empty()).collect();
    write!(out, "\n## Other cases\n\n{}", list(&others)).unwrap();
    out
}

#[test]
fn the_page_on_detection_is_what_the_detectors_say() {
    compare_or_write(PAGE, &page());
}

#[test]
fn the_default_policy_has_the_settings_of_the_detectors() {
    let profiles = PROFILES.map(|profile| loopwarden::config::policy::load(profile.name).unwrap().detectors);
    let [default, others @ ..] = &profiles;
    // What reads the score comes first; what is off here, and on where a reference system is reproduced, comes last.
    let is_of_references = |detector: &Detector| {
        !default.mode(*detector).is_on() && others.iter().any(|detectors| detectors.mode(*detector).is_on())
    };
    let (last, mut first): (Vec<Detector>, Vec<Detector>) = Detector::ALL.into_iter().partition(is_of_references);
    first.sort_by_key(|detector| (!default.mode(*detector).is_on(), !detector.is_of_evidence()));
    let tables = |detectors: Vec<Detector>| detectors.into_iter().map(Detector::default_toml).collect::<Vec<_>>().join("\n");
    let text = read(PROFILE);
    let at = |title: &str| text.find(title).unwrap_or_else(|| panic!("{PROFILE} has no {title}"));
    let (start, end) = (at("# One call, or nearly the same one"), at("# Policies of tools."));
    let rest = at("# Same call, again and again.\n");
    let wanted = format!("{}{}\n{}{}", &text[..start], tables(first), &text[end..rest], tables(last));
    compare_or_write(PROFILE, &wanted);
}
