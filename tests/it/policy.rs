//! Policy files: what loads, what is refused and how it is told, and what the hash sees.

use loopwarden::config::{Diagnostics, Origin, policy};
use loopwarden::policy::{
    BlockScope, Counted, Detector, Evaluate, FleetKey, Mode, Needs, Notify, PROFILES, Policy, Profile, RepeatCount,
    SessionBounds, SwarmSteps, ToolClass, UserMessage,
};
use loopwarden_core::detect::Fact;
use serde_json::json;

mod refused;

fn load(text: &str) -> Policy {
    policy::load_from_str(text, "mine.toml").unwrap_or_else(|problems| panic!("{problems}"))
}

fn refused(text: &str) -> Diagnostics {
    policy::load_from_str(text, "mine.toml").unwrap_err()
}

fn profile(name: &str) -> Policy {
    policy::load(name).unwrap_or_else(|problems| panic!("{name}: {problems}"))
}

fn running(policy: &Policy) -> Vec<&'static str> {
    Detector::ALL.into_iter().filter(|detector| policy.detectors.mode(*detector).is_on()).map(Detector::as_str).collect()
}

/// A policy that stands on the profile under which the detectors of the reference systems run.
fn on_plain(text: &str) -> String {
    format!("base = \"plain\"\n{text}")
}

/// The TOML that gives one key a value.
fn set(key: &str, value: &str) -> String {
    match key.rsplit_once('.') {
        Some((table, key)) => format!("[{table}]\n{key} = {value}\n"),
        None => format!("{key} = {value}\n"),
    }
}

#[test]
fn every_shipped_profile_loads_under_its_name() {
    for shipped in PROFILES {
        assert_eq!(profile(shipped.name).profile, shipped.name);
        let file = format!("{}/config/profiles/{}.toml", env!("CARGO_MANIFEST_DIR"), shipped.name);
        assert_eq!(policy::load(&file).unwrap().hash, profile(shipped.name).hash, "the file is the embedded one");
    }
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/config/profiles")).unwrap().count();
    assert_eq!(files, PROFILES.len(), "every file is embedded");
}

#[test]
fn the_default_profile_has_the_documented_values() {
    let policy = profile("default");
    assert_eq!(
        (policy.history_steps, policy.open_call_ms, policy.idle_ms, policy.ended_ms),
        (128, 3_600_000, 86_400_000, 600_000)
    );
    assert_eq!((policy.progress.user_message, policy.progress.session_bounds), (UserMessage::News, SessionBounds::Counts));
    assert!(policy.progress.world_state);
    assert_eq!((policy.episodes.renudge_hits, policy.episodes.block_hits), (6, 4));
    assert_eq!((policy.episodes.relapse_steps, policy.episodes.kept), (20, 16));
    assert!(policy.identity.same_turn_once && !policy.identity.use_description && !policy.evidence.excerpts);
    let prints = &policy.identity.fingerprint;
    assert_eq!(prints.targets, ["path", "file_path", "command", "pattern", "query", "url", "filename"]);
    assert_eq!(prints.args.get(7..10).unwrap(), ["content", "offset", "limit"]);
    let modes: Vec<_> = Detector::ALL.iter().map(|detector| policy.detectors.mode(*detector).as_str()).collect();
    assert_eq!(
        modes,
        [
            "off", "off", "off", "off", "off", "off", "off", "off", "off", "block", "off", "off", "off", "nudge", "off", "nudge",
            "block", "block", "block", "off", "nudge", "off", "nudge"
        ]
    );
    let detectors = &policy.detectors;
    assert_eq!((detectors.exact_repeat.threshold, detectors.exact_repeat.block_at), (3, 10));
    assert_eq!((detectors.near_repeat.threshold, detectors.near_repeat.block_at), (4, 7));
    assert_eq!((detectors.stuck.threshold, detectors.stuck.block_at, detectors.stuck.block_scope), (5, 8, BlockScope::Session));
    assert_eq!(detectors.oscillation.periods, [2, 3, 4]);
    assert!(detectors.semantic_repeat.stop_words.words().is_sorted() && detectors.semantic_repeat.stop_words.words().len() == 40);
    assert!(policy.outcomes.retryable.is_match("got HTTP 503 from upstream") && !policy.outcomes.retryable.is_match("5 items"));
    assert!(policy.identity.looks.iter().any(|look| look == "view"));
    assert!(policy.outcomes.rules.volatile_fields.is_sorted());
    let masks = &policy.outcomes.rules.mask;
    assert_eq!(format!("{masks:?}"), "MaskSet { masks: Shipped }", "the list of the file runs as the hand-written pass");
    assert_eq!((policy.fusion.bonus, policy.fusion.escalate_above, policy.fusion.escalate_count), (0.1, 0.85, 5));
    assert_eq!(policy.priority[usize::from(Detector::CallRate.number())], 0);
    assert_eq!(policy.priority[usize::from(Detector::SwarmRepeat.number())], 21);
    assert_eq!(policy.needs, Needs { fingerprint: true, swarm: true, evidence: true, ..Needs::default() });
}

#[test]
fn plain_switches_the_projects_own_additions_off_and_nothing_else() {
    let (plain, default) = (profile("plain"), profile("default"));
    assert_eq!(plain.identity.fingerprint.shell.tools, ["bash"]);
    assert_eq!(plain.identity.fingerprint.shell.args, ["command"]);
    assert!(!plain.identity.same_turn_once);
    let prints = &plain.identity.fingerprint;
    assert_eq!(prints.targets, *prints.args, "each of them is a target");
    assert_eq!(
        prints.targets,
        ["path", "file_path", "command", "pattern", "query", "url", "content", "filename", "offset", "limit"]
    );
    assert!(plain.outcomes.rules.volatile_fields.is_empty());
    assert!(!plain.outcomes.retryable.is_match("rate limit"));
    assert!(plain.identity.looks.is_empty());
    assert!(!plain.identity.fingerprint.args.iter().any(|name| name == "view_range"));
    assert_eq!(plain.progress.user_message, UserMessage::Ignore);
    assert!(!plain.progress.world_state);
    assert_eq!((plain.episodes.renudge_hits, plain.episodes.relapse_steps), (1, 0));
    let weighs = |policy: &Policy| Fact::ALL.into_iter().any(|fact| policy.score.of(fact) != 0);
    assert!(!weighs(&plain) && weighs(&default));
    assert_eq!(plain.tools.get("read_file").class, ToolClass::Normal, "no tool has a policy");
    assert!(plain.tools.get("bash").is_shell && !plain.tools.get("Bash").is_shell);

    assert_eq!(
        running(&plain),
        [
            "exact_repeat",
            "near_repeat",
            "outcome_repeat",
            "state_repeat",
            "semantic_repeat",
            "oscillation",
            "dead_end",
            "stagnation",
            "stuck",
            "call_rate",
            "test_fix",
            "shell_failures",
            "text_only",
            "swarm_repeat"
        ]
    );
    assert_eq!(plain.detectors.swarm_repeat.count, Counted::All);
    assert_eq!(plain.detectors.exact_repeat.threshold, 3);
    assert_eq!(plain.priority, default.priority);
    assert!(plain.episodes.nudge_before_block);
}

#[test]
fn what_a_policy_calls_a_target_is_one() {
    let policy = load("[identity]\nfingerprint_args = ['id', 'page']\nfingerprint_modifiers = ['page', 'cursor', 'cursor']\n");
    assert_eq!(policy.identity.fingerprint.targets, ["id", "page"]);
    assert_eq!(*policy.identity.fingerprint.args, ["id", "page", "cursor"], "each once");
}

#[test]
fn the_reference_profiles_differ_from_plain_as_documented() {
    let policy = profile("hackeurope");
    assert_eq!(running(&policy), ["exact_repeat"]);
    let exact = &policy.detectors.exact_repeat;
    assert_eq!((exact.mode, exact.threshold, exact.block_at, exact.window_steps), (Mode::Block, 3, 3, 20));
    assert_eq!((exact.count, exact.evaluate, exact.block_scope), (RepeatCount::Window, Evaluate::Turn, BlockScope::Session));
    assert!(!policy.episodes.nudge_before_block);
    assert_eq!(policy.needs, Needs { fingerprint: true, ..Needs::default() });

    let policy = profile("attocode");
    assert_eq!(
        running(&policy),
        ["exact_repeat", "near_repeat", "test_fix", "shell_failures", "text_only", "exploration", "swarm_repeat"]
    );
    assert!(policy.detectors.exact_repeat.reject_notice_always);
    assert_eq!(policy.detectors.exact_repeat.mode, Mode::Nudge);
    assert_eq!(policy.detectors.text_only.threshold, 2);
    let test_fix = &policy.detectors.test_fix;
    assert!(!test_fix.match_words && test_fix.zero_failed_fails);
    assert_eq!(test_fix.commands.list(), ["test", "pytest", "npm test", "jest"]);
    let swarm = &policy.detectors.swarm_repeat;
    assert_eq!((swarm.workers_min, swarm.window_ms, swarm.cooldown_ms), (1, 0, 0));
    assert_eq!((swarm.steps, swarm.notify), (SwarmSteps::Each, Notify::Latest));
    let rank = |detector: Detector| policy.priority[usize::from(detector.number())];
    assert_eq!((rank(Detector::ExactRepeat), rank(Detector::TextOnly), rank(Detector::CallRate)), (0, 6, 255));
    assert_eq!(policy.tools.get("read_file").class, ToolClass::Read);
    assert_eq!(policy.tools.get("edit_file").class, ToolClass::Mutates);

    let policy = profile("cortex");
    assert_eq!(running(&policy), ["state_repeat", "semantic_repeat", "oscillation", "dead_end"]);
    assert!(policy.identity.use_description && policy.fusion.decides);
    assert_eq!((policy.detectors.state_repeat.threshold, policy.detectors.state_repeat.window_steps), (3, 500));
    for detector in [Detector::StateRepeat, Detector::SemanticRepeat, Detector::Oscillation, Detector::DeadEnd] {
        assert_eq!(policy.detectors.mode(detector), Mode::Block);
    }

    let policy = profile("rockbot");
    assert_eq!(running(&policy), ["outcome_repeat", "fleet_rate"]);
    assert_eq!(policy.outcomes.rules.chars, 500);
    let text = "5 s, 2026-01-05T09:00:00Z, deadbeef, loss 0.69314718, 0.53 seconds, at 0x7f12ab34cd56, Jan  5 09:00:00";
    let masked = "<dur>, <ts>, <id>, loss 0.69314718, 0.53 seconds, at 0x7f12ab34cd56, Jan  5 09:00:00";
    assert_eq!(policy.outcomes.rules.mask.apply(text), masked, "the masks of then");
    assert_eq!(policy.detectors.outcome_repeat.mode, Mode::Nudge);
    let fleet = &policy.detectors.fleet_rate;
    assert_eq!((fleet.mode, fleet.key, fleet.limit, fleet.window_ms), (Mode::Block, FleetKey::Args, 30, 300_000));
    assert!(policy.tools.get("spawn_wisps").in_fleet_rate && !policy.tools.get("other").in_fleet_rate);
    assert!(policy.needs.swarm && policy.needs.outcome);

    let policy = profile("ironcurtain");
    assert_eq!(running(&policy), ["stagnation", "stuck", "call_rate"]);
    assert_eq!((policy.history_steps, policy.episodes.block_ms), (4096, 86_400_000));
    assert!(!policy.episodes.nudge_before_block);
    assert_eq!(policy.detectors.stagnation.block_scope, BlockScope::Session);
    assert_eq!(policy.detectors.stuck.mode, Mode::Block);
    let tool = policy.tools.get("execute_code");
    assert!(tool.in_stagnation && tool.in_stuck && tool.in_fleet_rate);
    let other = policy.tools.get("anything");
    assert!(!other.in_stagnation && !other.in_stuck);
}

#[test]
fn the_threshold_of_exact_repeat_alone_moves_what_hangs_on_it() {
    let numbers = |policy: &Policy| {
        let detectors = &policy.detectors;
        let (exact, near) = (&detectors.exact_repeat, &detectors.near_repeat);
        (exact.threshold, exact.block_at, near.threshold, near.block_at)
    };
    assert_eq!(numbers(&load("[detectors.exact_repeat]\nthreshold = 5\nmode = \"nudge\"")), (5, 12, 6, 9));
    assert_eq!(numbers(&load("[detectors.exact_repeat]\nthreshold = 1")), (1, 8, 2, 5));
    assert_eq!(numbers(&load("[detectors.exact_repeat]\nthreshold = 5\nblock_at = 6")), (5, 6, 4, 7));
    assert_eq!(numbers(&load("[detectors]\nexact_repeat.threshold = 4\nnear_repeat.threshold = 6")), (4, 10, 6, 7));
    let moved = policy::load_with_overrides("hackeurope", &json!({"detectors": {"exact_repeat": {"threshold": 2}}})).unwrap();
    assert_eq!(numbers(&moved), (2, 2, 3, 6));
    let never = policy::load_with_overrides("default", &json!({"detectors": {"exact_repeat": {"block_at": 0}}})).unwrap();
    assert_eq!(never.detectors.exact_repeat.block_at, 0);
    let file = "[detectors.exact_repeat]\nthreshold = 4\nblock_at = 0\n";
    assert_eq!(numbers(&load(file)), (4, 0, 4, 7), "0 is never, not a number to move");
}

#[test]
fn one_of_a_pair_keeps_the_others_default() {
    let policy = load("[detectors.stagnation]\nthreshold = 2\n");
    assert_eq!((policy.detectors.stagnation.threshold, policy.detectors.stagnation.block_at), (2, 9));
    assert_eq!((policy.detectors.stuck.threshold, policy.detectors.stuck.block_at), (5, 8));
}

#[test]
fn overrides_merge_over_a_profile_with_the_same_keys() {
    let policy =
        policy::load_with_overrides("ironcurtain", &json!({"detectors": {"call_rate": {"limit": 5, "workers": 3}}})).unwrap();
    assert_eq!((policy.detectors.call_rate.limit, policy.detectors.call_rate.window_ms), (15, 60_000));
    assert_eq!(running(&policy), ["stagnation", "stuck", "call_rate"]);
    let policy = policy::load_with_overrides("attocode", &json!({"only": ["test_fix", "shell_failures"]})).unwrap();
    assert_eq!(running(&policy), ["test_fix", "shell_failures"]);
    assert_eq!(policy.needs, Needs { test: true, ..Needs::default() });
    let problems = policy::load_with_overrides("cortex", &json!({"detectors": {"stuk": {}}})).expect_err("unknown");
    assert_eq!(
        problems.to_string(),
        "error[E0601]: unknown key \"detectors.stuk\" (did you mean \"stuck\"?)\n  set by override (detectors)"
    );
    let problems = policy::load_with_overrides("cortex", &json!({"only": null})).expect_err("null");
    assert!(problems.0[0].message.starts_with("the overrides are no policy: "), "{problems}");
}

#[test]
fn every_tool_that_is_named_is_found_whatever_the_length_of_its_name() {
    let names = ["a", "b", "aa", "ab", "ba", "aaa", "b_long", "a_longer_name", "é", "ää"];
    let policy = load(&format!("[[tool]]\nnames = {names:?}\nclass = \"read\"\n"));
    for name in names {
        assert_eq!(policy.tools.get(name).class, ToolClass::Read, "{name}");
    }
    for other in ["", "c", "bb", "aab", "a_longer_nama", "a_longer_name_still", "ö"] {
        assert_eq!(policy.tools.get(other).class, ToolClass::Normal, "{other}");
    }
}

#[test]
fn later_tool_entries_win_key_by_key_and_prefixes_reach_exact_names() {
    let policy = load(
        r#"
        [identity]
        shell_tools = ["gh__run"]
        [detectors.stuck]
        tools = ["ask"]
        [[tool]]
        names = ["gh__*", "check"]
        class = "poll"
        args_ignored = ["verbose", "debug"]
        factor = 2
        [[tool]]
        names = ["gh__pr_*"]
        class = "read"
        identity = "args_only"
        result_mask = "none"
        [[tool]]
        names = ["gh__pr_list"]
        args_ignored = ["page"]
        result_ignored = ["etag"]
        factor = 1.5
        "#,
    );
    let list = policy.tools.get("gh__pr_list");
    assert_eq!((list.class, list.args_only, list.factor), (ToolClass::Read, true, 1.5));
    assert_eq!(*list.call.args_ignored, ["page"]);
    assert!(list.outcome.is_unmasked && list.outcome.result_ignored == ["etag"]);
    let view = policy.tools.get("gh__pr_view");
    assert_eq!((view.class, view.factor), (ToolClass::Read, 2.0), "a prefix inherits from the shorter one");
    assert_eq!(*view.call.args_ignored, ["debug", "verbose"], "sorted");
    let issue = policy.tools.get("gh__issue");
    assert_eq!((issue.class, issue.factor, issue.args_only), (ToolClass::Poll, 6.0, false), "factor times poll_factor");
    assert_eq!(policy.tools.get("check").scaled(1, false), 6);
    let run = policy.tools.get("gh__run");
    assert!(run.is_shell && run.class == ToolClass::Poll, "named elsewhere, still covered by the prefix");
    assert!(policy.tools.get("ask").in_stuck && !run.in_stuck && run.in_stagnation);
    let other = policy.tools.get("read_file");
    assert_eq!((other.class, other.factor), (ToolClass::Read, 1.0), "an entry of the base");
}

#[test]
fn entries_of_tools_add_to_those_of_the_base_and_their_keys_win() {
    let own = "[[tool]]\nnames = [\"jobs__*\"]\nclass = \"poll\"\n\
        [[tool]]\nnames = [\"check_status\", \"Grep\"]\nresult_ignored = [\"checked_at\"]\nclass = \"normal\"\n\
        [[tool]]\nnames = [\"Bash\"]\nresult_mask = \"none\"\n";
    for base in ["", "base = \"default\"\n", "base = \"default\"\nbase_tools = true\n"] {
        let policy = load(&format!("{base}{own}"));
        assert_eq!(policy.tools.get("jobs__next").class, ToolClass::Poll, "{base}");
        assert_eq!(
            (policy.tools.get("wait_for_it").class, policy.tools.get("Edit").class),
            (ToolClass::Poll, ToolClass::Mutates)
        );
        let (status, grep, bash) = (policy.tools.get("check_status"), policy.tools.get("Grep"), policy.tools.get("Bash"));
        assert_eq!((status.class, grep.class), (ToolClass::Normal, ToolClass::Normal), "the own entry decides: {base}");
        assert_eq!((&status.outcome.result_ignored[..], status.factor), (&["checked_at".to_owned()][..], 1.0));
        assert_eq!((bash.outcome.is_unmasked, &*bash.call.args_ignored), (true, &["description".to_owned()][..]));
    }
    // What was copied from the base, as it had to be, stands once and decides alike.
    let copied = format!(
        "base = \"default\"\n{}{own}",
        Profile::DEFAULT
            .text
            .split("# Policies of tools.")
            .nth(1)
            .unwrap()
            .split_once("\n[[")
            .map(|(_, text)| format!("[[{text}"))
            .unwrap()
            .split("# Limits of tenants")
            .next()
            .unwrap()
    );
    assert_eq!(load(&copied).hash, load(&format!("base = \"default\"\n{own}")).hash);
    // A base that has none adds none, and overrides add as a file does.
    let policy = load(&format!("base = \"attocode\"\n{own}"));
    assert_eq!((policy.tools.get("Edit").class, policy.tools.get("edit_file").class), (ToolClass::Normal, ToolClass::Mutates));
    let set = json!({"tool": [{"names": ["Edit"], "class": "exempt"}]});
    let policy = policy::load_with_overrides("default", &set).unwrap();
    assert_eq!((policy.tools.get("Edit").class, policy.tools.get("Write").class), (ToolClass::Exempt, ToolClass::Mutates));
}

#[test]
fn a_policy_that_wants_none_of_the_bases_entries_says_so_and_is_kept_as_it_is() {
    let own = "base_tools = false\n[[tool]]\nnames = [\"jobs__*\"]\nclass = \"poll\"\n";
    let policy = load(own);
    assert_eq!((policy.tools.get("jobs__next").class, policy.tools.get("Edit").class), (ToolClass::Poll, ToolClass::Normal));
    let none = load("base_tools = false\n");
    assert_eq!((none.tools.get("Edit").class, none.tools.get("Agent").class), (ToolClass::Normal, ToolClass::Normal));
    assert_eq!(load("tool = []\n").hash, load("base = \"default\"\n").hash, "an empty list adds nothing");
    // What is kept beside the state, and printed, holds all of its entries, and is no policy that adds.
    let file = std::env::temp_dir().join(format!("loopwarden-own-tools-{}.toml", std::process::id()));
    std::fs::write(&file, own).unwrap();
    let kept = policy::load_with(&file.to_string_lossy(), &json!({})).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((load(&kept.to_toml()).hash, kept.policy.hash), (policy.hash, policy.hash));
    assert_eq!(
        refused("base_tools = 1\n").to_string(),
        "error[E0601]: base_tools is an integer, but must be true or false\n  \
        set in mine.toml:1:14 (base_tools)"
    );
}

#[test]
fn fleet_rate_without_limit_or_window_is_off() {
    for key in ["limit", "window_ms"] {
        let policy = load(&format!("[detectors.fleet_rate]\nmode = \"block\"\n{key} = 0\n"));
        assert_eq!(policy.detectors.fleet_rate.mode, Mode::Off);
    }
    assert_eq!(load("[detectors.fleet_rate]\nmode = \"block\"\n").detectors.fleet_rate.mode, Mode::Block);
}

#[test]
fn needs_follow_the_running_detectors() {
    let of = |only: &str, more: &str| load(&on_plain(&format!("only = [\"{only}\"]\n{more}"))).needs;
    let none = Needs::default();
    assert_eq!(of("exact_repeat", ""), Needs { fingerprint: true, ..none });
    assert_eq!(of("near_repeat", ""), Needs { fingerprint: true, ..none });
    assert_eq!(of("outcome_repeat", ""), Needs { fingerprint: true, outcome: true, ..none });
    assert_eq!(of("state_repeat", ""), Needs { fingerprint: true, state: true, outcome: true, ..none });
    let described = "[identity]\nuse_description = true";
    assert_eq!(of("state_repeat", described), Needs { fingerprint: true, state: true, ..none });
    assert_eq!(of("test_fix", ""), Needs { test: true, ..none });
    assert_eq!(of("semantic_repeat", ""), Needs { tokens: true, ..none });
    assert_eq!(of("oscillation", ""), none);
    assert_eq!(of("dead_end", ""), Needs { error: true, ..none });
    assert_eq!(of("stagnation", ""), Needs { fingerprint: true, outcome: true, ..none });
    assert_eq!(of("stuck", ""), Needs { outcome: true, ..none });
    assert_eq!(of("call_rate", ""), none);
    assert_eq!(of("call_rate", "[detectors.call_rate]\ncount = \"no_news\""), Needs { evidence: true, ..none });
    assert_eq!(of("fleet_rate", "[detectors.fleet_rate]\nmode = \"shadow\""), Needs { swarm: true, ..none });
    assert_eq!(of("exploration", "[detectors.exploration]\nmode = \"nudge\""), Needs { read_target: true, ..none });
    assert_eq!(of("swarm_repeat", ""), Needs { fingerprint: true, swarm: true, ..none });
    let by_news = "[detectors.swarm_repeat]\ncount = \"no_news\"";
    assert_eq!(of("swarm_repeat", by_news), Needs { fingerprint: true, swarm: true, evidence: true, ..none });
}

#[test]
fn the_hash_changes_if_and_only_if_the_effective_policy_changes() {
    let default = profile("default").hash;
    for same in [
        "",
        "idle_ms = 86400000\nhistory_steps = 0x80\n# a comment\n",
        "[detectors]\nstuck = { block_at = 8, threshold = 5 }\nexact_repeat = { threshold = 3 }\n",
        "poll_factor = 3.0\n",
        "base_tools = true\n",
        "tool = []\n",
        "[detectors.exact_repeat]\nthreshold = 3\nblock_at = 10\n[detectors.near_repeat]\nblock_at = 7\nthreshold = 4\n",
    ] {
        assert_eq!(load(&format!("base = \"default\"\n{same}")).hash, default, "{same}");
    }
    assert_eq!(load("base = \"plain\"\n").hash, profile("plain").hash);
    let mut hashes = vec![default];
    for other in [
        "profile = \"mine\"\n",
        "idle_ms = 86_400_001\n",
        "poll_factor = 3.5\n",
        "[detectors.exact_repeat]\nthreshold = 4\n",
        "[detectors.near_repeat]\nthreshold = 5\n",
        "[detectors.stuck]\ntools = [\"a\"]\n",
        "[detectors.stuck]\ntools = [\"b\"]\n",
        "[outcomes]\nvolatile_fields = [\"\\\"\"]\n",
        "base_tools = false\n",
        "tool = [{ names = [\"a\"], class = \"read\" }]\n",
    ] {
        hashes.push(load(&format!("base = \"default\"\n{other}")).hash);
    }
    hashes.extend(PROFILES.iter().filter(|shipped| shipped.name != "default").map(|shipped| profile(shipped.name).hash));
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count, "different policies, different hashes");
}

#[test]
fn the_printed_effective_policy_is_the_policy_and_names_each_origin() {
    for shipped in PROFILES {
        let loaded = policy::load_with(shipped.name, &json!({"idle_ms": 90_000_000})).unwrap();
        assert_eq!(load(&loaded.to_toml()).hash, loaded.policy.hash, "{}", shipped.name);
    }
    let loaded = policy::load_with("hackeurope", &json!({"idle_ms": 90_000_000})).unwrap();
    let effective = loaded.effective();
    let of = |key: &str| {
        let found = effective.iter().find(|value| value.key == key).unwrap();
        (found.value.clone(), found.origin.to_string())
    };
    assert_eq!(of("idle_ms"), ("90000000".to_owned(), "--set".to_owned()));
    assert_eq!(of("detectors.exact_repeat.count"), ("\"window\"".to_owned(), "profile hackeurope".to_owned()));
    assert_eq!(of("poll_factor"), ("1.0".to_owned(), "profile plain".to_owned()));
    assert_eq!(of("detectors.exact_repeat.threshold"), ("3".to_owned(), "profile default".to_owned()));
    assert!(effective.iter().all(|value| value.origin != Origin::Host));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_default_file_with_a_few_letters_changed_loads_or_is_refused(
        edits in proptest::collection::vec((0_usize..17_000, "[0-9a-z\\[\\]{}=\"'.,#\n -]{0,3}"), 1..4)
    ) {
        let mut text = Profile::DEFAULT.text.to_owned();
        for (at, letters) in edits {
            let at = (0..=at.min(text.len() - 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let end = (at + 1..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(at);
            text.replace_range(at..end, &letters);
        }
        if let Err(problems) = policy::load_from_str(&text, "mine.toml") {
            proptest::prop_assert!(!problems.0.is_empty());
        }
    }
}
