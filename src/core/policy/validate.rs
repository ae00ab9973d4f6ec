//! From a written policy to a valid one, once, with every problem reported. What comes out needs no further check anywhere.

mod tools;

use crate::detect::{Detector, Detectors};
use crate::event::Content;
use crate::identity::{FingerprintRules, MaskRule, MaskSet, OutcomeRules, Phrases, ShellRules, canonical_text, hash_text};
use crate::limits::{ACTIVE_VERDICTS_MAX, HISTORY_STEPS_MAX, READABLE_BYTES_MAX};
use crate::policy::{
    Budgets, EpisodePolicy, EvidencePolicy, FusionPolicy, IdentityPolicy, OutcomePolicy, Policy, Prices, ProgressPolicy,
    SwarmRepeat, TenantLimits, Trial, Weights,
};
use crate::setting::{
    Check, Flag, Key, Mode, Name, Names, NamesInOrder, PhrasesInOrder, Problem, Regexes, Section, SharedSettings, Table,
    TextPatterns, Times, Value, chars, kinds, millis, settings,
};

settings! {
    /// What stands above all tables.
    struct TopLevel {
        profile: String, Name;
        history_steps: usize, chars(1, HISTORY_STEPS_MAX);
        open_call_ms: i64, millis(1);
        idle_ms: i64, millis(1);
        ended_ms: i64, millis(1);
        poll_factor: f64, Times;
        only: Vec<Detector>, DetectorsInOrder;
        priority: Vec<Detector>, DetectorsInOrder;
    }
}

settings! {
    /// `[identity]`: what makes two calls the same call.
    struct Identity {
        fingerprint_args: Vec<String>, NamesInOrder;
        fingerprint_modifiers: Vec<String>, NamesInOrder;
        shell_tools: Vec<String>, NamesInOrder;
        shell_args: Vec<String>, NamesInOrder;
        shell_readers: Vec<String>, NamesInOrder;
        shell_writers: Vec<String>, NamesInOrder;
        waiters: Phrases, PhrasesInOrder;
        looks: Vec<String>, NamesInOrder;
        clean_paths: bool, Flag;
        use_description: bool, Flag;
        same_turn_once: bool, Flag;
    }
}

settings! {
    /// `[outcomes]`: what makes two answers the same answer.
    struct Outcomes {
        mask: bool, Flag;
        masks: MaskSet, Masks;
        chars: usize, chars(0, READABLE_BYTES_MAX);
        volatile_fields: Vec<String>, Names;
        retryable: TextPatterns, Regexes;
    }
}

kinds! {
    /// Detectors by name, each once.
    DetectorsInOrder -> Vec<Detector>, |_| "names of detectors".to_owned(), |_, key| detectors(key);

    /// Patterns, each with what it is replaced by.
    Masks -> MaskSet, |_| "pairs of a regular expression and a text".to_owned(), |_, key| masks(key);
}

impl Policy {
    /// Its tables beside those of the detectors and the weights of the facts, as the default policy has them.
    pub const SECTIONS: &[Section] = &[
        Section::of_file("", TopLevel::SETTINGS),
        Section::of_file("identity", Identity::SETTINGS),
        Section::of_file("outcomes", Outcomes::SETTINGS),
        Section::of_file("progress", ProgressPolicy::SETTINGS),
        Section::of_file("episodes", EpisodePolicy::SETTINGS),
        Section::of_file("evidence", EvidencePolicy::SETTINGS),
        Section::of_file("fusion", FusionPolicy::SETTINGS),
        Weights::SECTION,
        tools::SECTION,
        TenantLimits::SECTION,
        Trial::SECTION,
        Budgets::SECTION,
        Prices::SECTIONS[0],
        Prices::SECTIONS[1],
    ];

    /// Checks a merged policy. `json` is the same policy as JSON, whatever its key order and white space: it makes the hash.
    ///
    /// # Errors
    /// Every broken rule, in the order of the keys in `config/profiles/default.toml`.
    pub fn read(value: &Value, json: &str) -> Result<Self, Vec<Problem>> {
        let (mut check, unshared) = (Check::default(), SharedSettings::default());
        let table = &mut Table::new(&mut check, value, &unshared);
        let top = TopLevel::read(table);
        let identity = Identity::read(&mut table.table("identity"));
        let outcomes = Outcomes::read(&mut table.table("outcomes"));
        let shared = SharedSettings { history_steps: table.written("history_steps"), use_description: identity.use_description };
        let table = &mut Table::new(&mut check, value, &shared);
        let identity = IdentityPolicy::from(identity);
        let episodes = EpisodePolicy::read(&mut table.table("episodes"));
        check_idle(table);
        let mut detectors = Detectors::read(&mut table.table("detectors"));
        switch_off_others(&mut detectors, &top.only);
        let block_ms = table.table("episodes").written("block_ms");
        check_swarm_blocks(table.check, &detectors.swarm_repeat, block_ms);
        check_priority(table.check, &detectors, &top.priority);
        let named = tools::NamedTools {
            shell: &identity.fingerprint.shell.tools,
            waiters: identity.fingerprint.shell.waiters.list(),
            stagnation: &detectors.stagnation.tools,
            stuck: &detectors.stuck.tools,
            fleet_rate: &detectors.fleet_rate.tools,
            poll_factor: top.poll_factor,
        };
        let read = Self {
            profile: top.profile,
            hash: hash_text(&canonical_text(&Content::Raw(json))),
            history_steps: top.history_steps,
            open_call_ms: top.open_call_ms,
            idle_ms: top.idle_ms,
            ended_ms: top.ended_ms,
            outcomes: outcomes.into(),
            progress: ProgressPolicy::read(&mut table.table("progress")),
            episodes,
            evidence: EvidencePolicy::read(&mut table.table("evidence")),
            fusion: FusionPolicy::read(&mut table.table("fusion")),
            score: Weights::read(&mut table.table("score")),
            needs: detectors.needs(&shared),
            priority: ranks(&top.priority),
            tools: tools::table(table, &named),
            identity,
            detectors,
            tenants: TenantLimits::read(table),
            trial: Trial::read(&mut table.table("trial")),
            budgets: Budgets::read(table),
            prices: Prices::read(&mut table.table("prices")),
        };
        check.finish().map(|()| read)
    }
}

impl From<Identity> for IdentityPolicy {
    fn from(written: Identity) -> Self {
        let targets = written.fingerprint_args;
        let mut args = targets.clone();
        for name in written.fingerprint_modifiers {
            // A policy may take for a target what the policy below it does not. And a recipe names each once.
            if !args.contains(&name) {
                args.push(name);
            }
        }
        let shell = ShellRules {
            tools: written.shell_tools,
            args: written.shell_args,
            readers: written.shell_readers,
            writers: written.shell_writers,
            waiters: written.waiters,
            clean_paths: written.clean_paths,
        };
        Self {
            fingerprint: FingerprintRules { targets, args: args.into(), shell },
            use_description: written.use_description,
            same_turn_once: written.same_turn_once,
            looks: written.looks,
        }
    }
}

impl From<Outcomes> for OutcomePolicy {
    fn from(written: Outcomes) -> Self {
        let Outcomes { mask, masks, chars, volatile_fields, retryable } = written;
        let mask = if mask { masks } else { MaskSet::none() };
        Self { rules: OutcomeRules { mask, chars, volatile_fields }, retryable }
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

fn detectors(key: &mut Key<'_>) -> Vec<Detector> {
    let (names, path) = (key.texts(), &key.path);
    let mut found = Vec::with_capacity(names.len().min(Detector::COUNT));
    for name in &names {
        match Detector::from_name(name) {
            Some(detector) if found.contains(&detector) => key.check.problem(path, format!("{path} names {name:?} twice")),
            Some(detector) => found.push(detector),
            None => {
                let list = Detector::ALL.map(Detector::as_str).join(", ");
                key.check.problem(path, format!("{path} holds {name:?}, but detectors are: {list}"));
            }
        }
    }
    found
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
