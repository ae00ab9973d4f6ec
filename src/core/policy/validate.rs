//! From a written policy to a valid one, once, with every problem reported. What comes out needs no further check anywhere.

mod tools;

use crate::detect::{Detector, Detectors};
use crate::event::Content;
use crate::identity::{FingerprintRules, MaskRule, MaskSet, OutcomeRules, ShellRules, canonical_text, hash_text};
use crate::limits::{
    ACTIVE_VERDICTS_MAX, DESCRIPTION_CHARS_MAX, EPISODES_KEPT_MAX, FACTOR_MAX, HISTORY_STEPS_MAX, POLICY_MS_MAX,
    READABLE_BYTES_MAX,
};
use crate::policy::detectors::detectors_of;
use crate::policy::{
    Budgets, EpisodePolicy, EvidencePolicy, FusionPolicy, IdentityPolicy, OutcomePolicy, Policy, Prices, ProgressPolicy,
    SessionBounds, SwarmRepeat, TenantLimits, Trial, UserMessage, Weights,
};
use crate::setting::{
    Check, Flag, Key, Kind, MasksOrNone, Mode, NamesInOrder, Problem, Share, SharedSettings, Table, TextPatterns, Value, chars,
    count, one_of,
};

impl Policy {
    /// Checks a merged policy. `json` is the same policy as JSON, whatever its key order and white space: it makes the hash.
    ///
    /// # Errors
    /// Every broken rule, in the order of the keys in `config/profiles/default.toml`.
    pub fn read(value: &Value, json: &str) -> Result<Self, Vec<Problem>> {
        let (mut check, unshared) = (Check::default(), SharedSettings::default());
        let table = &mut Table::new(&mut check, value, &unshared);
        let profile = {
            let mut key = table.key("profile");
            let name = key.text();
            key.check.name(&key.path, name)
        };
        let history_steps = chars(1, HISTORY_STEPS_MAX).read(&mut table.key("history_steps"));
        let open_call_ms = milliseconds(&mut table.key("open_call_ms"));
        let idle_ms = milliseconds(&mut table.key("idle_ms"));
        let ended_ms = milliseconds(&mut table.key("ended_ms"));
        let poll_factor = positive(&mut table.key("poll_factor"));
        let only = detectors_of(&mut table.key("only"));
        let ranked = detectors_of(&mut table.key("priority"));
        let shared = SharedSettings {
            history_steps: table.written("history_steps"),
            masks: masks(&mut table.table("outcomes").key("masks")),
            use_description: Flag.read(&mut table.table("identity").key("use_description")),
        };
        let table = &mut Table::new(&mut check, value, &shared);
        let identity = identity(&mut table.table("identity"));
        let outcomes = outcomes(&mut table.table("outcomes"));
        let progress = progress(&mut table.table("progress"));
        let episodes = episodes(&mut table.table("episodes"));
        check_idle(table);
        let evidence = evidence(&mut table.table("evidence"));
        let fusion = fusion(&mut table.table("fusion"));
        let score = Weights::read(&mut table.table("score"));
        let mut detectors = Detectors::read(&mut table.table("detectors"));
        switch_off_others(&mut detectors, &only);
        let block_ms = table.table("episodes").written("block_ms");
        check_swarm_blocks(table.check, &detectors.swarm_repeat, block_ms);
        check_priority(table.check, &detectors, &ranked);
        let tools = tools::table(
            table,
            &tools::NamedTools {
                shell: &identity.fingerprint.shell.tools,
                waiters: identity.fingerprint.shell.waiters.list(),
                stagnation: &detectors.stagnation.tools,
                stuck: &detectors.stuck.tools,
                fleet_rate: &detectors.fleet_rate.tools,
                poll_factor,
            },
        );
        let tenants = TenantLimits::read(table);
        let trial = Trial::read(&mut table.table("trial"));
        let budgets = Budgets::read(table);
        let prices = Prices::read(&mut table.table("prices"));
        check.finish()?;
        Ok(Self {
            profile,
            hash: hash_text(&canonical_text(&Content::Raw(json))),
            history_steps,
            open_call_ms,
            idle_ms,
            ended_ms,
            identity,
            outcomes,
            progress,
            episodes,
            evidence,
            fusion,
            score,
            needs: detectors.needs(&shared),
            detectors,
            priority: ranks(&ranked),
            tools,
            tenants,
            trial,
            budgets,
            prices,
        })
    }
}

fn milliseconds(key: &mut Key<'_>) -> i64 {
    let ms = key.integer();
    key.check.integer(&key.path, ms, 1, POLICY_MS_MAX)
}

fn positive(key: &mut Key<'_>) -> f64 {
    let value = key.float();
    key.check.positive(&key.path, value, FACTOR_MAX)
}

fn anywhere(key: &mut Key<'_>) -> TextPatterns {
    let patterns = key.texts();
    key.check.patterns_anywhere(&key.path, &patterns)
}

fn identity(table: &mut Table<'_>) -> IdentityPolicy {
    let mut names = |key: &str| NamesInOrder.read(&mut table.key(key));
    let targets = names("fingerprint_args");
    let mut args = targets.clone();
    for name in names("fingerprint_modifiers") {
        // A policy may take for a target what the policy below it does not. And a recipe names each once.
        if !args.contains(&name) {
            args.push(name);
        }
    }
    // Order matters in `shell_args` (the first that is text); elsewhere it does no harm.
    let mut shell = ShellRules {
        tools: names("shell_tools"),
        args: names("shell_args"),
        readers: names("shell_readers"),
        writers: names("shell_writers"),
        waiters: names("waiters").into(),
        clean_paths: false,
    };
    let looks = names("looks");
    shell.clean_paths = Flag.read(&mut table.key("clean_paths"));
    IdentityPolicy {
        fingerprint: FingerprintRules { targets, args: args.into(), shell },
        use_description: table.shared.use_description,
        same_turn_once: Flag.read(&mut table.key("same_turn_once")),
        looks,
    }
}

fn outcomes(table: &mut Table<'_>) -> OutcomePolicy {
    OutcomePolicy {
        rules: OutcomeRules {
            mask: MasksOrNone.read(&mut table.key("mask")),
            chars: chars(0, READABLE_BYTES_MAX).read(&mut table.key("chars")),
            volatile_fields: {
                let mut key = table.key("volatile_fields");
                let names = key.texts();
                key.check.names(&key.path, &names)
            },
        },
        retryable: anywhere(&mut table.key("retryable")),
    }
}

fn progress(table: &mut Table<'_>) -> ProgressPolicy {
    const MESSAGES: [(&str, UserMessage); 4] = [
        ("reset", UserMessage::Reset),
        ("news", UserMessage::News),
        ("text", UserMessage::Text),
        ("ignore", UserMessage::Ignore),
    ];
    const BOUNDS: [(&str, SessionBounds); 2] = [("all", SessionBounds::All), ("counts", SessionBounds::Counts)];
    ProgressPolicy {
        user_message: one_of(&MESSAGES).read(&mut table.key("user_message")),
        session_bounds: one_of(&BOUNDS).read(&mut table.key("session_bounds")),
        world_state: Flag.read(&mut table.key("world_state")),
    }
}

fn episodes(table: &mut Table<'_>) -> EpisodePolicy {
    EpisodePolicy {
        renudge_hits: count(1).read(&mut table.key("renudge_hits")),
        block_hits: count(1).read(&mut table.key("block_hits")),
        renudge_factor: {
            let mut key = table.key("renudge_factor");
            let factor = key.float();
            key.check.factor(&key.path, factor)
        },
        relapse_steps: count(0).read(&mut table.key("relapse_steps")),
        nudge_before_block: Flag.read(&mut table.key("nudge_before_block")),
        nudge_ms: milliseconds(&mut table.key("nudge_ms")),
        block_ms: milliseconds(&mut table.key("block_ms")),
        kept: chars(1, EPISODES_KEPT_MAX).read(&mut table.key("kept")),
    }
}

/// A session is not forgotten before what it waits for.
fn check_idle(table: &mut Table<'_>) {
    let (idle_ms, open_call_ms) = (table.written("idle_ms"), table.written("open_call_ms"));
    let episodes = table.table("episodes");
    let (nudge_ms, block_ms) = (episodes.written("nudge_ms"), episodes.written("block_ms"));
    for (name, ms) in [("open_call_ms", open_call_ms), ("episodes.nudge_ms", nudge_ms), ("episodes.block_ms", block_ms)] {
        table.check.rule("idle_ms", idle_ms >= ms, || format!("idle_ms is {idle_ms}, but must not be below {name} ({ms})"));
    }
}

fn evidence(table: &mut Table<'_>) -> EvidencePolicy {
    EvidencePolicy {
        excerpts: Flag.read(&mut table.key("excerpts")),
        chars: chars(0, DESCRIPTION_CHARS_MAX).read(&mut table.key("chars")),
    }
}

fn fusion(table: &mut Table<'_>) -> FusionPolicy {
    FusionPolicy {
        decides: Flag.read(&mut table.key("decides")),
        bonus: Share.read(&mut table.key("bonus")),
        escalate_above: Share.read(&mut table.key("escalate_above")),
        escalate_count: count(0).read(&mut table.key("escalate_count")),
    }
}

fn masks(key: &mut Key<'_>) -> MaskSet {
    let list = key.list();
    let mut rules = Vec::with_capacity(list.len());
    for (index, pair) in list.iter().enumerate() {
        let path = format!("{}[{index}]", key.path);
        let pair = if let Value::List(pair) = pair { pair.as_slice() } else { &[] };
        let [Value::Text(pattern), Value::Text(replacement)] = pair else {
            let count = pair.len();
            key.check.problem(&path, format!("{path} has {count} texts, but must be two: a pattern and its replacement"));
            continue;
        };
        rules.push((path, MaskRule { pattern: pattern.clone(), replacement: replacement.clone() }));
    }
    let all: Vec<MaskRule> = rules.iter().map(|(_, rule)| rule.clone()).collect();
    MaskSet::new(&all).unwrap_or_else(|_| {
        for (path, rule) in &rules {
            if let Err(error) = MaskSet::new(std::slice::from_ref(rule)) {
                key.check.no_pattern(path, &rule.pattern, &error.0);
            }
        }
        MaskSet::none()
    })
}

fn switch_off_others(detectors: &mut Detectors, only: &[Detector]) {
    if only.is_empty() {
        return;
    }
    for detector in Detector::ALL {
        if !only.contains(&detector) {
            *detectors.mode_mut(detector) = Mode::Off;
        }
    }
}

/// A swarm that loops on is given a block in each period. All of them that are in force at a time must be known, to be lifted.
fn check_swarm_blocks(check: &mut Check, swarm: &SwarmRepeat, block_ms: i64) {
    // The first and the last of them are cut by the block's life, and one by the pane that it runs from.
    const PERIODS: i64 = ACTIVE_VERDICTS_MAX as i64 - 3;
    let has_periods = swarm.mode == Mode::Block && swarm.window_ms > 0 && swarm.cooldown_ms > 0;
    let cooldown_ms = swarm.cooldown_ms;
    check.rule("episodes.block_ms", !has_periods || block_ms <= cooldown_ms.saturating_mul(PERIODS), || {
        format!(
            "episodes.block_ms is {block_ms}, but must not be above {PERIODS} times detectors.swarm_repeat.cooldown_ms ({cooldown_ms}), \
             where swarm_repeat blocks"
        )
    });
}

fn check_priority(check: &mut Check, detectors: &Detectors, ranked: &[Detector]) {
    for detector in Detector::ALL {
        let is_ranked = ranked.contains(&detector) || !detectors.mode(detector).is_on();
        check.rule("priority", is_ranked, || {
            format!("priority lacks \"{}\", but must name every running detector", detector.as_str())
        });
    }
}

fn ranks(ranked: &[Detector]) -> [u8; Detector::COUNT] {
    let mut ranks = [u8::MAX; Detector::COUNT];
    for (rank, detector) in ranked.iter().enumerate() {
        if let Some(slot) = ranks.get_mut(usize::from(detector.number())) {
            *slot = rank as u8;
        }
    }
    ranks
}
