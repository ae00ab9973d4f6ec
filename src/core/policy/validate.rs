//! Raw to valid, once, with every problem told. What comes out needs no further check anywhere.

mod check;
mod detectors;
mod tools;

use check::Check;

use crate::event::Content;
use crate::identity::{FingerprintRules, MaskRule, MaskSet, OutcomeRules, ShellRules, canonical_text, hash_text};
use crate::limits::{
    ACTIVE_VERDICTS_MAX, DESCRIPTION_CHARS_MAX, EPISODES_KEPT_MAX, FACTOR_MAX, HISTORY_STEPS_MAX, POLICY_MS_MAX,
    READABLE_BYTES_MAX,
};
use crate::policy::raw::{RawFusion, RawIdentity, RawPolicy};
use crate::policy::{
    Counted, Detector, Detectors, EpisodePolicy, EvidencePolicy, FusionPolicy, IdentityPolicy, Mode, Needs, OutcomePolicy,
    Policy, ProgressPolicy, SwarmRepeat, UserMessage,
};

/// A rule that a policy breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Dotted path of the key, as `detectors.exact_repeat.block_at` or `tool[2].class`.
    pub path: String,
    /// The key, the values and the broken rule, in lower case.
    pub message: String,
}

impl Policy {
    /// Checks a merged policy. `json` is the same policy as JSON, whatever its key order and white space: it makes the hash.
    ///
    /// # Errors
    /// Every broken rule, in the order of the keys in `config/profiles/default.toml`.
    pub fn from_raw(raw: &RawPolicy, json: &str) -> Result<Self, Vec<Problem>> {
        let mut check = Check::default();
        let profile = check.name("profile", &raw.profile);
        let history_steps = check.integer("history_steps", raw.history_steps, 1, HISTORY_STEPS_MAX as i64);
        let open_call_ms = check.integer("open_call_ms", raw.open_call_ms, 1, POLICY_MS_MAX);
        let idle_ms = check.integer("idle_ms", raw.idle_ms, 1, POLICY_MS_MAX);
        let ended_ms = check.integer("ended_ms", raw.ended_ms, 1, POLICY_MS_MAX);
        let poll_factor = check.positive("poll_factor", raw.poll_factor, FACTOR_MAX);
        let only = check.detectors("only", &raw.only);
        let ranked = check.detectors("priority", &raw.priority);
        let masks = masks(&mut check, &raw.outcomes.masks);

        let identity = identity(&mut check, &raw.identity);
        let outcomes = OutcomePolicy {
            rules: OutcomeRules {
                mask: if raw.outcomes.mask { masks.clone() } else { MaskSet::none() },
                chars: check.integer("outcomes.chars", raw.outcomes.chars, 0, READABLE_BYTES_MAX as i64) as usize,
                volatile_fields: check.names("outcomes.volatile_fields", &raw.outcomes.volatile_fields),
            },
            generic_chars: check.integer("outcomes.generic_chars", raw.outcomes.generic_chars, 0, 4_096) as usize,
            receipts: check.patterns_anywhere("outcomes.receipts", &raw.outcomes.receipts),
            denials: check.patterns_anywhere("outcomes.denials", &raw.outcomes.denials),
            empty: check.patterns_whole("outcomes.empty", &raw.outcomes.empty),
            generic: raw.outcomes.generic.iter().map(|text| text.trim().to_lowercase()).collect(),
            spare_moving: raw.outcomes.spare_moving,
            retryable: check.patterns_anywhere("outcomes.retryable", &raw.outcomes.retryable),
        };
        let progress = ProgressPolicy {
            user_message: check.choice(
                "progress.user_message",
                &raw.progress.user_message,
                &[("reset", UserMessage::Reset), ("text", UserMessage::Text), ("ignore", UserMessage::Ignore)],
            ),
            mutation: raw.progress.mutation,
            new_mutation: raw.progress.mutation && raw.progress.new_mutation,
            world_state: raw.progress.world_state,
        };
        let episodes = EpisodePolicy {
            renudge_hits: check.count("episodes.renudge_hits", raw.episodes.renudge_hits, 1),
            renudge_factor: check.factor("episodes.renudge_factor", raw.episodes.renudge_factor),
            relapse_steps: check.count("episodes.relapse_steps", raw.episodes.relapse_steps, 0),
            nudge_before_block: raw.episodes.nudge_before_block,
            nudge_ms: check.integer("episodes.nudge_ms", raw.episodes.nudge_ms, 1, POLICY_MS_MAX),
            block_ms: check.integer("episodes.block_ms", raw.episodes.block_ms, 1, POLICY_MS_MAX),
            kept: check.integer("episodes.kept", raw.episodes.kept, 1, EPISODES_KEPT_MAX as i64) as usize,
        };
        for (name, ms) in [
            ("open_call_ms", raw.open_call_ms),
            ("episodes.nudge_ms", raw.episodes.nudge_ms),
            ("episodes.block_ms", raw.episodes.block_ms),
        ] {
            check.rule("idle_ms", raw.idle_ms >= ms, || {
                format!("idle_ms is {}, but must not be below {name} ({ms})", raw.idle_ms)
            });
        }
        let evidence = EvidencePolicy {
            excerpts: raw.evidence.excerpts,
            chars: check.integer("evidence.chars", raw.evidence.chars, 0, DESCRIPTION_CHARS_MAX as i64) as usize,
        };
        let fusion = fusion(&mut check, &raw.fusion);
        let mut detectors = detectors::detectors(&mut check, &raw.detectors, raw.history_steps, &masks);
        switch_off_others(&mut detectors, &only);
        check_swarm_blocks(&mut check, &detectors.swarm_repeat, raw.episodes.block_ms);
        check_priority(&mut check, &detectors, &ranked);
        let tools = tools::table(
            &mut check,
            &raw.tool,
            &tools::Named {
                shell: &identity.fingerprint.shell.tools,
                waiters: &identity.fingerprint.shell.waiters,
                stagnation: &detectors.stagnation.tools,
                stuck: &detectors.stuck.tools,
                fleet_rate: &detectors.fleet_rate.tools,
                poll_factor,
            },
        );
        check.finish()?;
        Ok(Self {
            profile,
            hash: hash_text(&canonical_text(&Content::Raw(json))),
            history_steps: history_steps as usize,
            open_call_ms,
            idle_ms,
            ended_ms,
            identity,
            outcomes,
            progress,
            episodes,
            evidence,
            fusion,
            needs: needs(&detectors, raw.identity.use_description, raw.outcomes.spare_moving),
            detectors,
            priority: ranks(&ranked),
            tools,
        })
    }
}

fn identity(check: &mut Check, raw: &RawIdentity) -> IdentityPolicy {
    let targets = check.names_in_order("identity.fingerprint_args", &raw.fingerprint_args);
    let mut args = targets.clone();
    for name in check.names_in_order("identity.fingerprint_modifiers", &raw.fingerprint_modifiers) {
        // A policy may take for a target what the policy below it does not. And a recipe names each once.
        if !args.contains(&name) {
            args.push(name);
        }
    }
    // Order matters in `shell_args` (the first that is text); elsewhere it does no harm.
    IdentityPolicy {
        fingerprint: FingerprintRules {
            targets,
            args: args.into(),
            shell: ShellRules {
                tools: check.names_in_order("identity.shell_tools", &raw.shell_tools),
                args: check.names_in_order("identity.shell_args", &raw.shell_args),
                readers: check.names_in_order("identity.shell_readers", &raw.shell_readers),
                writers: check.names_in_order("identity.shell_writers", &raw.shell_writers),
                waiters: check.names_in_order("identity.waiters", &raw.waiters),
                clean_paths: raw.clean_paths,
            },
        },
        use_description: raw.use_description,
        same_turn_once: raw.same_turn_once,
        looks: check.names_in_order("identity.looks", &raw.looks),
    }
}

fn fusion(check: &mut Check, raw: &RawFusion) -> FusionPolicy {
    FusionPolicy {
        decides: raw.decides,
        bonus: check.share("fusion.bonus", raw.bonus),
        escalate_above: check.share("fusion.escalate_above", raw.escalate_above),
        escalate_count: check.count("fusion.escalate_count", raw.escalate_count, 0),
    }
}

fn masks(check: &mut Check, raw: &[Vec<String>]) -> MaskSet {
    let mut rules = Vec::with_capacity(raw.len());
    for (index, pair) in raw.iter().enumerate() {
        let path = format!("outcomes.masks[{index}]");
        let [pattern, replacement] = pair.as_slice() else {
            let count = pair.len();
            check.problem(&path, format!("{path} has {count} texts, but must be two: a pattern and its replacement"));
            continue;
        };
        rules.push((path, MaskRule { pattern: pattern.clone(), replacement: replacement.clone() }));
    }
    let all: Vec<MaskRule> = rules.iter().map(|(_, rule)| rule.clone()).collect();
    MaskSet::new(&all).unwrap_or_else(|_| {
        for (path, rule) in &rules {
            if let Err(error) = MaskSet::new(std::slice::from_ref(rule)) {
                check.no_pattern(path, &rule.pattern, &error.0);
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

/// A swarm that loops on is told a block in each period. All of them that are in force at a time must be known, to be lifted.
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

/// What is computed per step. The loop identity of the `repeat` family is made of fingerprints (page `detection`).
fn needs(detectors: &Detectors, use_description: bool, spare_moving: bool) -> Needs {
    let runs = |detector| detectors.mode(detector).is_on();
    let sums_unproductive = runs(Detector::SwarmRepeat) && detectors.swarm_repeat.count == Counted::Unproductive;
    Needs {
        fingerprint: [
            Detector::ExactRepeat,
            Detector::NearRepeat,
            Detector::OutcomeRepeat,
            Detector::StateRepeat,
            Detector::Stagnation,
            Detector::SwarmRepeat,
        ]
        .into_iter()
        .any(runs),
        outcome: runs(Detector::OutcomeRepeat)
            || runs(Detector::Stagnation)
            || runs(Detector::Stuck)
            || (runs(Detector::ExactRepeat) && detectors.exact_repeat.result_aware)
            || (runs(Detector::NearRepeat) && detectors.near_repeat.result_aware)
            || (runs(Detector::Oscillation) && detectors.oscillation.needs_repeat)
            || (runs(Detector::StateRepeat) && (detectors.state_repeat.novelty_ends || !use_description))
            || (runs(Detector::ShellFailures) && spare_moving)
            || (runs(Detector::TestFix) && detectors.test_fix.same_failure)
            || (runs(Detector::CallRate) && detectors.call_rate.count == Counted::Unproductive)
            || sums_unproductive,
        state: runs(Detector::StateRepeat),
        tokens: runs(Detector::SemanticRepeat),
        error: runs(Detector::DeadEnd) || sums_unproductive,
        test: runs(Detector::TestFix),
        read_target: runs(Detector::Exploration),
        swarm: runs(Detector::SwarmRepeat) || runs(Detector::FleetRate),
    }
}
