//! What a policy is refused for, and in which words.

use loopwarden::config::policy;

use super::{load, on_plain, profile, refused, set};

/// Bounds of single keys: a line each.
const BOUNDS: &str = include_str!("bounds.txt");

#[test]
fn every_bound_accepts_its_last_value_and_refuses_the_next_by_name() {
    let mut checked = 0;
    for line in BOUNDS.lines().filter(|line| !line.starts_with('#')) {
        let [key, accepted, refused_value, message] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        load(&on_plain(&set(key, accepted)));
        let problems = refused(&on_plain(&set(key, refused_value)));
        let message = message.replacen('@', key, 1);
        assert!(problems.0.iter().any(|problem| problem.message == message), "{key} = {refused_value}:\n{problems}");
        assert!(problems.0.iter().all(|problem| problem.code == "E0601"));
        checked += 1;
    }
    assert!(checked >= 60, "only {checked} bounds");
}

/// Rules between keys: a policy that is accepted, one that is refused, and the first thing that is said then.
const RULES: &[(&str, &str, &str)] = &[
    // A count of a block does not hinder a change of the threshold where no block can come.
    (
        "[detectors.near_repeat]\nmode = 'nudge'\nthreshold = 8",
        "[detectors.near_repeat]\nmode = 'block'\nthreshold = 8",
        "detectors.near_repeat.block_at is 7, but must not be below threshold (8)",
    ),
    (
        "[detectors.near_repeat]\nmode = 'block'\nthreshold = 7",
        "[detectors.near_repeat]\nmode = 'shadow'\nthreshold = 8",
        "detectors.near_repeat.block_at is 7, but must not be below threshold (8)",
    ),
    (
        "[detectors.stuck]\nmode = 'nudge'\nthreshold = 9",
        "[detectors.stuck]\nmode = 'block'\nthreshold = 9",
        "detectors.stuck.block_at is 8, but must not be below threshold (9)",
    ),
    (
        "[detectors.stuck]\nmode = 'shadow'\nthreshold = 8",
        "[detectors.stuck]\nmode = 'shadow'\nthreshold = 9",
        "detectors.stuck.block_at is 8, but must not be below threshold (9)",
    ),
    (
        "[detectors.swarm_repeat]\nmode = 'nudge'\nthreshold = 41",
        "[detectors.swarm_repeat]\nmode = 'block'\nthreshold = 41",
        "detectors.swarm_repeat.block_at is 40, but must not be below threshold (41)",
    ),
    (
        "[detectors.swarm_repeat]\nmode = 'block'\nthreshold = 40",
        "[detectors.swarm_repeat]\nmode = 'shadow'\nthreshold = 41",
        "detectors.swarm_repeat.block_at is 40, but must not be below threshold (41)",
    ),
    // Blocks of a swarm that outlive too many of its periods; the last accepted one has one endless period.
    (
        "episodes.block_ms = 7800000\ndetectors.swarm_repeat.mode = 'block'",
        "episodes.block_ms = 7800001\ndetectors.swarm_repeat.mode = 'block'",
        "episodes.block_ms is 7800001, but must not be above 13 times detectors.swarm_repeat.cooldown_ms (600000), where swarm_repeat blocks",
    ),
    (
        "episodes.block_ms = 7800001\ndetectors.swarm_repeat = { mode = 'block', cooldown_ms = 0 }",
        "episodes.block_ms = 7800001\ndetectors.swarm_repeat = { mode = 'block', cooldown_ms = 600000 }",
        "episodes.block_ms is 7800001, but must not be above 13 times detectors.swarm_repeat.cooldown_ms (600000), where swarm_repeat blocks",
    ),
    (
        "episodes.block_ms = 7800001\ndetectors.swarm_repeat.mode = 'nudge'",
        "only = ['stuck', 'stuck']",
        "only names \"stuck\" twice",
    ),
    // A window below the threshold, where the window is counted.
    (
        "[detectors.exact_repeat]\ncount = 'window'\nwindow_steps = 3",
        "[detectors.exact_repeat]\ncount = 'window'\nwindow_steps = 2",
        "detectors.exact_repeat.window_steps is 2, but must not be below threshold (3) with count = \"window\"",
    ),
    // A running detector must have a rank.
    (
        "priority = ['stuck']\nonly = ['stuck', 'exploration']",
        "priority = ['stuck']\nonly = ['stuck', 'dead_end']",
        "priority lacks \"dead_end\", but must name every running detector",
    ),
    // Patterns.
    (
        "outcomes.retryable = ['fine']",
        "outcomes.retryable = ['fine', '(']",
        "outcomes.retryable holds \"(\", which is no regular expression: unclosed group",
    ),
    (
        "outcomes.masks = [['\\bv[0-9]+\\b', '<v>']]",
        "outcomes.masks = [['\\d+']]",
        "outcomes.masks[0] has 1 texts, but must be two: a pattern and its replacement",
    ),
    // Words of a list.
    (
        "detectors.stuck.mode = 'block'",
        "detectors.stuck.mode = 'blok'",
        "detectors.stuck.mode is \"blok\", but must be one of: off, shadow, nudge, block",
    ),
    (
        "detectors.stuck.block_scope = 'session'",
        "detectors.stuck.block_scope = 'agent'",
        "detectors.stuck.block_scope is \"agent\", but must be one of: fingerprint, tool, session",
    ),
    (
        "progress.user_message = 'text'",
        "progress.user_message = ''",
        "progress.user_message is \"\", but must be one of: reset, news, text, ignore",
    ),
    (
        "detectors.stagnation.tools = ['mcp']",
        "detectors.stagnation.tools = ['mcp__*']",
        "detectors.stagnation.tools holds \"mcp__*\", but only names of [[tool]] may be prefixes",
    ),
    (
        "detectors.oscillation.periods = [2]",
        "detectors.oscillation.periods = []",
        "detectors.oscillation.periods is empty, but must hold a period",
    ),
    (
        "only = ['stuck']",
        "only = ['stuk']",
        "only holds \"stuk\", but detectors are: exact_repeat, near_repeat, outcome_repeat, state_repeat, semantic_repeat, oscillation, dead_end, stagnation, stuck, call_rate, fleet_rate, test_fix, shell_failures, text_only, exploration, swarm_repeat, similar_repeat, no_news, similar_failures, own_words, cycle, budget, tree",
    ),
];

#[test]
fn every_rule_accepts_what_keeps_it_and_refuses_the_rest_in_its_words() {
    for (accepted, refused_text, message) in RULES {
        load(&on_plain(accepted));
        let problems = refused(&on_plain(refused_text));
        assert_eq!(problems.0[0].message, *message, "{refused_text}");
    }
    let place = refused(&on_plain("priority = ['stuck']\nonly = ['stuck', 'dead_end']")).to_string();
    assert!(place.ends_with("\n  set in mine.toml:2:12 (priority)"), "{place}");
}

#[test]
fn an_unknown_key_is_told_with_its_place_and_what_was_meant() {
    let problems = refused("profile = \"mine\"\n\n[detectors.exact_repeat]\n  treshold = 4\n");
    assert_eq!(
        problems.to_string(),
        "error[E0601]: unknown key \"detectors.exact_repeat.treshold\" (did you mean \"threshold\"?)\n  \
         set in mine.toml:4:3 (detectors.exact_repeat)"
    );
    let problems = refused("[[tool]]\nnames = [\"a\"]\n[[tool]]\nnames = [\"b\"]\nclas = \"poll\"\n");
    assert_eq!(problems.0[0].message, "unknown key \"tool[1].clas\" (did you mean \"class\"?)");
    let problems = refused("colour = 1\n");
    assert_eq!(problems.0[0].message, "unknown key \"colour\"");
}

#[test]
fn all_problems_are_told_at_once_each_with_its_place() {
    let problems = refused(
        "history_steps = \"many\"\nidle_ms = 5\nbase = \"defualt\"\n[detectors.exact_repeat]\nblock_at = 2\nmod = \"off\"\nmode = \"block\"\n\
         [[tool]]\nnames = [\"a*b\"]\nfactor = -1\n",
    );
    let told: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "error[E0601]: history_steps is the text \"many\", but must be an integer\n  set in mine.toml:1:17 (history_steps)",
            "error[E0601]: idle_ms is 5, but must not be below open_call_ms (3600000)\n  set in mine.toml:2:11 (idle_ms)",
            "error[E0601]: idle_ms is 5, but must not be below episodes.nudge_ms (600000)\n  set in mine.toml:2:11 (idle_ms)",
            "error[E0601]: idle_ms is 5, but must not be below episodes.block_ms (600000)\n  set in mine.toml:2:11 (idle_ms)",
            "error[E0601]: base is \"defualt\", but must be a shipped profile (did you mean \"default\"?)\n  set in mine.toml:3:8 (base)\n  \
         shipped profiles: default, plain, hackeurope, attocode, cortex, rockbot, ironcurtain",
            "error[E0601]: detectors.exact_repeat.block_at is 2, but must not be below threshold (3)\n  \
         set in mine.toml:5:12 (detectors.exact_repeat.block_at)",
            "error[E0601]: unknown key \"detectors.exact_repeat.mod\" (did you mean \"mode\"?)\n  set in mine.toml:6:1 (detectors.exact_repeat)",
            "error[E0601]: tool[0].names holds \"a*b\", but a * may only stand at the end\n  set in mine.toml:9:9 (tool[0].names)",
            "error[E0601]: tool[0].factor is -1, but must be above 0 and not above 1000\n  set in mine.toml:10:10 (tool[0].factor)",
        ]
    );
}

#[test]
fn text_that_is_no_toml_is_told_with_its_place() {
    let problems = refused("idle_ms = \n");
    assert!(problems.to_string().starts_with("error[E0601]: this is no TOML: "), "{problems}");
    assert!(problems.to_string().contains("set in mine.toml:1:"), "{problems}");
    assert_eq!(refused("idle_ms = 99999999999999999999\n").0.len(), 1);
}

#[test]
fn a_file_without_a_key_is_no_policy_and_one_without_a_name_is() {
    for text in ["", "\n", "# all gone\n"] {
        assert_eq!(
            refused(text).to_string(),
            "error[E0601]: mine.toml holds no key, but must hold a policy\n  \
             if the policy \"default\" is meant, write: base = \"default\"",
            "{text:?}"
        );
    }
    assert_eq!(load("base = \"default\"\n").hash, profile("default").hash);
    assert_eq!(load("idle_ms = 90_000_000\n").profile, "default");
}

#[test]
fn an_unknown_profile_and_a_missing_file_are_told_apart() {
    let problems = policy::load("atocode").expect_err("no such profile");
    assert!(problems.to_string().starts_with("error[E0601]: there is no policy \"atocode\" (did you mean \"attocode\"?)"));
    let problems = [policy::load("equality").expect_err("no profile"), refused("base = \"equality\"\n")];
    for (problems, said) in
        problems.iter().zip(["there is no policy \"equality\"", "base is \"equality\", but must be a shipped profile"])
    {
        let problems = problems.to_string();
        assert!(problems.starts_with(&format!("error[E0601]: {said}\n")), "{problems}");
        assert!(problems.contains("shipped profiles: "), "{problems}");
    }
    let problems = policy::load("./nowhere.toml").expect_err("no such file");
    assert!(problems.to_string().starts_with("error[E0601]: cannot read ./nowhere.toml: "), "{problems}");
}

#[test]
fn hostile_text_is_refused_without_a_panic() {
    let deep = format!("only = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let dotted = format!("{} = 1", vec!["a"; 50_000].join("."));
    for text in [
        deep.as_str(),
        dotted.as_str(),
        "\u{feff}idle_ms = []",
        "a\0b = 1",
        "idle_ms = -9223372036854775808",
        "history_steps = 9223372036854775807\n[detectors.call_rate]\nlimit = 9223372036854775807\nworkers = 9223372036854775807",
        "[detectors.exact_repeat]\nthreshold = 9223372036854775807",
        "[detectors.swarm_repeat]\npane_ms = -1\nwindow_ms = -9223372036854775808\ncooldown_ms = -1",
        "[detectors.oscillation]\nperiods = [-9223372036854775808]\nwindow_steps = -1",
        "tool = [1]",
        "detectors = 1",
        "[outcomes]\nmasks = [['\\b{1000000}', '']]\nretryable = ['(a{1000}){1000}']",
    ] {
        let problems = refused(text);
        assert!(!problems.0.is_empty() && problems.to_string().len() < 10_000, "{}", problems.to_string().len());
    }
}
