//! The rules of each detector's settings.

use crate::identity::{MaskSet, StopWords};
use crate::limits::{
    ERROR_CHARS_MAX, EXPLORED_TURNS_MAX, POLICY_MS_MAX, READABLE_BYTES_MAX, SWARM_KEYS_MAX, SWARM_PANE_LIFE_MS_MIN,
    SWARM_PANES_MAX, SWARM_WORKERS_MAX,
};
use crate::policy::raw::{
    RawCallRate, RawDeadEnd, RawDetectors, RawExactRepeat, RawExploration, RawFleetRate, RawNearRepeat, RawOscillation,
    RawOutcomeRepeat, RawProgressMatrix, RawSemanticRepeat, RawShellFailures, RawStateRepeat, RawSwarmRepeat, RawTestFix,
};
use crate::policy::validate::check::Check;
use crate::policy::{
    BlockScope, CallRate, Counted, DeadEnd, Detectors, Evaluate, ExactRepeat, Exploration, FleetKey, FleetRate, Mode, NearRepeat,
    Notify, Oscillation, OutcomeRepeat, ProgressMatrix, RepeatCount, SemanticRepeat, ShellFailures, StateRepeat, SwarmRepeat,
    SwarmSteps, TestFix, TextOnly,
};

const MODES: [(&str, Mode); 4] = [("off", Mode::Off), ("shadow", Mode::Shadow), ("nudge", Mode::Nudge), ("block", Mode::Block)];

const SCOPES: [(&str, BlockScope); 3] =
    [("fingerprint", BlockScope::Fingerprint), ("tool", BlockScope::Tool), ("session", BlockScope::Session)];

/// A detector under check: its path, and what all of them share.
struct Settings<'a> {
    check: &'a mut Check,
    name: &'static str,
    history_steps: i64,
}

impl Settings<'_> {
    /// Goes on to the detector of that name.
    fn named(&mut self, name: &'static str) -> &mut Self {
        self.name = name;
        self
    }

    fn path(&self, key: &str) -> String {
        format!("detectors.{}.{key}", self.name)
    }

    fn mode(&mut self, mode: &str) -> Mode {
        self.check.choice(&self.path("mode"), mode, &MODES)
    }

    fn scope(&mut self, scope: &str) -> BlockScope {
        self.check.choice(&self.path("block_scope"), scope, &SCOPES)
    }

    fn choice<T: Copy + Default>(&mut self, key: &str, text: &str, words: &[(&str, T)]) -> T {
        self.check.choice(&self.path(key), text, words)
    }

    fn count(&mut self, key: &str, value: i64, least: u32) -> u32 {
        self.check.count(&self.path(key), value, least)
    }

    fn ms(&mut self, key: &str, value: i64, least: i64) -> i64 {
        self.check.integer(&self.path(key), value, least, POLICY_MS_MAX)
    }

    fn chars(&mut self, key: &str, value: i64, most: usize) -> usize {
        self.check.integer(&self.path(key), value, 1, most as i64) as usize
    }

    /// A count that no mode but these two ask for must not hinder who moves a threshold.
    fn block_at(&mut self, mode: &str, block_at: i64, threshold: i64) -> u32 {
        if matches!(mode, "block" | "shadow") {
            self.at_least("block_at", block_at, threshold)
        } else {
            self.count("block_at", block_at, 0)
        }
    }

    /// A count that is never reached (0), or not before the threshold.
    fn at_least(&mut self, key: &str, count: i64, threshold: i64) -> u32 {
        let path = self.path(key);
        let holds = count <= 0 || count >= threshold;
        self.check.rule(&path, holds, || format!("{path} is {count}, but must not be below threshold ({threshold})"));
        self.check.count(&path, count, 0)
    }

    fn window(&mut self, steps: i64) -> u32 {
        let path = self.path("window_steps");
        let history = self.history_steps;
        self.check
            .rule(&path, steps <= history, || format!("{path} is {steps}, but must not be above history_steps ({history})"));
        self.check.count(&path, steps, 1)
    }
}

/// All detectors, with the modes as written.
pub(super) fn detectors(check: &mut Check, raw: &RawDetectors, history_steps: i64, masks: &MaskSet) -> Detectors {
    let mut at = Settings { check, name: "", history_steps };
    let of = &mut at;
    Detectors {
        exact_repeat: exact_repeat(of.named("exact_repeat"), &raw.exact_repeat),
        near_repeat: near_repeat(of.named("near_repeat"), &raw.near_repeat),
        outcome_repeat: outcome_repeat(of.named("outcome_repeat"), &raw.outcome_repeat),
        state_repeat: state_repeat(of.named("state_repeat"), &raw.state_repeat),
        semantic_repeat: semantic_repeat(of.named("semantic_repeat"), &raw.semantic_repeat),
        oscillation: oscillation(of.named("oscillation"), &raw.oscillation),
        dead_end: dead_end(of.named("dead_end"), &raw.dead_end, masks),
        stagnation: progress_matrix(of.named("stagnation"), &raw.stagnation),
        stuck: progress_matrix(of.named("stuck"), &raw.stuck),
        call_rate: call_rate(of.named("call_rate"), &raw.call_rate),
        fleet_rate: fleet_rate(of.named("fleet_rate"), &raw.fleet_rate),
        test_fix: test_fix(of.named("test_fix"), &raw.test_fix),
        shell_failures: shell_failures(of.named("shell_failures"), &raw.shell_failures),
        text_only: TextOnly {
            mode: of.named("text_only").mode(&raw.text_only.mode),
            threshold: of.named("text_only").count("threshold", raw.text_only.threshold, 1),
        },
        exploration: exploration(of.named("exploration"), &raw.exploration),
        swarm_repeat: swarm_repeat(of.named("swarm_repeat"), &raw.swarm_repeat),
    }
}

fn exact_repeat(of: &mut Settings<'_>, raw: &RawExactRepeat) -> ExactRepeat {
    let counted = of.choice("count", &raw.count, &[("run", RepeatCount::Run), ("window", RepeatCount::Window)]);
    let path = of.path("window_steps");
    let (steps, threshold) = (raw.window_steps, raw.threshold);
    of.check.rule(&path, counted == RepeatCount::Run || steps >= threshold, || {
        format!("{path} is {steps}, but must not be below threshold ({threshold}) with count = \"window\"")
    });
    let mut skips = [false; 4];
    for class in &raw.skip_classes {
        let classes = [("poll", 0), ("read", 1), ("normal", 2), ("mutates", 3)];
        let number: usize = of.choice("skip_classes", class, &classes);
        if let Some(skip) = skips.get_mut(number) {
            *skip = true;
        }
    }
    let [skip_poll, skip_read, skip_normal, skip_mutates] = skips;
    ExactRepeat {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        block_at: of.block_at(&raw.mode, raw.block_at, raw.threshold),
        failures_at: of.at_least("failures_at", raw.failures_at, raw.threshold),
        count: counted,
        window_steps: of.window(raw.window_steps),
        skip_poll,
        skip_read,
        skip_normal,
        skip_mutates,
        result_aware: raw.result_aware,
        evaluate: of.choice("evaluate", &raw.evaluate, &[("call", Evaluate::Call), ("turn", Evaluate::Turn)]),
        reject_notice_always: of.choice("reject_notice", &raw.reject_notice, &[("auto", false), ("always", true)]),
        block_scope: of.scope(&raw.block_scope),
    }
}

fn near_repeat(of: &mut Settings<'_>, raw: &RawNearRepeat) -> NearRepeat {
    NearRepeat {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        block_at: of.block_at(&raw.mode, raw.block_at, raw.threshold),
        result_aware: raw.result_aware,
        block_scope: of.scope(&raw.block_scope),
    }
}

fn outcome_repeat(of: &mut Settings<'_>, raw: &RawOutcomeRepeat) -> OutcomeRepeat {
    OutcomeRepeat {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        block_at: of.block_at(&raw.mode, raw.block_at, raw.threshold),
        block_scope: of.scope(&raw.block_scope),
    }
}

fn state_repeat(of: &mut Settings<'_>, raw: &RawStateRepeat) -> StateRepeat {
    StateRepeat {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        window_steps: of.window(raw.window_steps),
        novelty_ends: raw.novelty_ends,
    }
}

fn semantic_repeat(of: &mut Settings<'_>, raw: &RawSemanticRepeat) -> SemanticRepeat {
    SemanticRepeat {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        similarity: of.check.share("detectors.semantic_repeat.similarity", raw.similarity),
        window_steps: of.window(raw.window_steps),
        output_chars: of.check.integer(&of.path("output_chars"), raw.output_chars, 0, READABLE_BYTES_MAX as i64) as usize,
        stop_words: StopWords::new(&of.check.names("detectors.semantic_repeat.stop_words", &raw.stop_words)),
    }
}

fn oscillation(of: &mut Settings<'_>, raw: &RawOscillation) -> Oscillation {
    let window_steps = of.window(raw.window_steps);
    let half = i64::from(window_steps / 2);
    let path = of.path("periods");
    of.check.rule(&path, !raw.periods.is_empty(), || format!("{path} is empty, but must hold a period"));
    let mut periods = Vec::new();
    for &period in &raw.periods {
        let holds = (2..=half).contains(&period);
        of.check.rule(&path, holds, || {
            format!("{path} holds {period}, but a period must be at least 2 and not above half of window_steps ({half})")
        });
        if holds {
            periods.push(period as u32);
        }
    }
    periods.sort_unstable();
    periods.dedup();
    Oscillation {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        window_steps,
        periods,
        needs_repeat: raw.needs_repeat,
        cycles_alone: of.count("cycles_alone", raw.cycles_alone, 1),
    }
}

fn dead_end(of: &mut Settings<'_>, raw: &RawDeadEnd, masks: &MaskSet) -> DeadEnd {
    DeadEnd {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        outages_at: of.count("outages_at", raw.outages_at, 0),
        window_steps: of.window(raw.window_steps),
        key_chars: of.chars("key_chars", raw.key_chars, ERROR_CHARS_MAX),
        mask: if raw.mask { masks.clone() } else { MaskSet::none() },
        generic: of.check.patterns_whole("detectors.dead_end.generic", &raw.generic),
    }
}

fn progress_matrix(of: &mut Settings<'_>, raw: &RawProgressMatrix) -> ProgressMatrix {
    ProgressMatrix {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        block_at: of.block_at(&raw.mode, raw.block_at, raw.threshold),
        tools: of.check.tools(&of.path("tools"), &raw.tools),
        block_scope: of.scope(&raw.block_scope),
    }
}

const COUNTED: [(&str, Counted); 2] = [("unproductive", Counted::Unproductive), ("all", Counted::All)];

fn call_rate(of: &mut Settings<'_>, raw: &RawCallRate) -> CallRate {
    let (limit, workers, history) = (raw.limit, raw.workers, of.history_steps);
    let product = limit.saturating_mul(workers);
    let is_positive = limit >= 1 && workers >= 1;
    of.check.rule("detectors.call_rate.limit", !is_positive || product <= history, || {
        format!(
            "detectors.call_rate.limit times workers is {product} ({limit} · {workers}), \
             but must not be above history_steps ({history})"
        )
    });
    let limit = of.count("limit", limit, 1);
    CallRate {
        mode: of.mode(&raw.mode),
        count: of.choice("count", &raw.count, &COUNTED),
        limit: limit.saturating_mul(of.count("workers", workers, 1)),
        window_ms: of.ms("window_ms", raw.window_ms, 1),
    }
}

fn fleet_rate(of: &mut Settings<'_>, raw: &RawFleetRate) -> FleetRate {
    let limit = of.count("limit", raw.limit, 0);
    let window_ms = of.ms("window_ms", raw.window_ms, 0);
    let mode = of.mode(&raw.mode);
    // Its window is its pane.
    few_panes(of, "detectors.fleet_rate.window_ms", window_ms, window_ms);
    FleetRate {
        // 0 switches it off, as in rockbot.
        mode: if limit == 0 || window_ms == 0 { Mode::Off } else { mode },
        limit,
        window_ms,
        key: of.choice("key", &raw.key, &[("call", FleetKey::Call), ("args", FleetKey::Args)]),
        tools: of.check.tools("detectors.fleet_rate.tools", &raw.tools),
        keys_max: of.check.integer(&of.path("keys_max"), raw.keys_max, 1, SWARM_KEYS_MAX as i64) as u32,
    }
}

fn test_fix(of: &mut Settings<'_>, raw: &RawTestFix) -> TestFix {
    TestFix {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        commands: of.check.names_in_order("detectors.test_fix.commands", &raw.commands),
        match_words: !of.choice("match", &raw.matching, &[("word", false), ("substring", true)]),
        zero_failed_fails: raw.zero_failed_fails,
        logged_error_fails: raw.logged_error_fails,
        same_failure: raw.same_failure,
    }
}

fn shell_failures(of: &mut Settings<'_>, raw: &RawShellFailures) -> ShellFailures {
    let mut name = |key: &str, name: &str| of.check.name(&format!("detectors.shell_failures.file_tools.{key}"), name);
    let create_tool = name("create", &raw.file_tools.create);
    let edit_tool = name("edit", &raw.file_tools.edit);
    let read_tool = name("read", &raw.file_tools.read);
    ShellFailures {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        create_tool,
        edit_tool,
        read_tool,
    }
}

fn exploration(of: &mut Settings<'_>, raw: &RawExploration) -> Exploration {
    Exploration {
        mode: of.mode(&raw.mode),
        threshold: of.count("threshold", raw.threshold, 1),
        turns: of.count("turns", raw.turns, 1),
        slice_turns: of.check.integer(&of.path("slice_turns"), raw.slice_turns, 1, EXPLORED_TURNS_MAX as i64) as u32,
        slice_files: of.count("slice_files", raw.slice_files, 0),
    }
}

/// Panes are kept for some time however short the window is: short ones are many. An endless window has a single one.
fn few_panes(of: &mut Settings<'_>, path: &str, pane_ms: i64, window_ms: i64) {
    const PANE_MS_MIN: i64 = SWARM_PANE_LIFE_MS_MIN / SWARM_PANES_MAX as i64 + 1;
    of.check.rule(path, window_ms == 0 || pane_ms >= PANE_MS_MIN, || {
        format!(
            "{path} is {pane_ms}, but must be at least {PANE_MS_MIN}: sums of so many ms are kept for {} minutes at least",
            SWARM_PANE_LIFE_MS_MIN / 60_000
        )
    });
}

fn swarm_repeat(of: &mut Settings<'_>, raw: &RawSwarmRepeat) -> SwarmRepeat {
    let pane_ms = of.ms("pane_ms", raw.pane_ms, 1);
    for (key, ms) in [("window_ms", raw.window_ms), ("cooldown_ms", raw.cooldown_ms)] {
        let path = of.path(key);
        of.check.rule(&path, ms.checked_rem(pane_ms) == Some(0), || {
            format!("{path} is {ms}, but must be a multiple of pane_ms ({pane_ms})")
        });
    }
    let panes = raw.window_ms / pane_ms;
    of.check.rule("detectors.swarm_repeat.window_ms", panes <= SWARM_PANES_MAX as i64, || {
        format!(
            "detectors.swarm_repeat.window_ms is {}, but must not have above {SWARM_PANES_MAX} panes of pane_ms ({pane_ms})",
            raw.window_ms
        )
    });
    few_panes(of, "detectors.swarm_repeat.pane_ms", pane_ms, raw.window_ms);
    let workers_max = of.check.integer(&of.path("workers_max"), raw.workers_max, 1, SWARM_WORKERS_MAX as i64) as u32;
    of.check.rule("detectors.swarm_repeat.workers_min", raw.workers_min <= raw.workers_max, || {
        format!(
            "detectors.swarm_repeat.workers_min is {}, but must not be above workers_max ({})",
            raw.workers_min, raw.workers_max
        )
    });
    SwarmRepeat {
        mode: of.mode(&raw.mode),
        count: of.choice("count", &raw.count, &COUNTED),
        threshold: of.count("threshold", raw.threshold, 1),
        workers_min: of.count("workers_min", raw.workers_min, 1),
        window_ms: of.ms("window_ms", raw.window_ms, 0),
        pane_ms,
        steps: of.choice(
            "steps",
            &raw.steps,
            &[("once", SwarmSteps::Once), ("double", SwarmSteps::Double), ("each", SwarmSteps::Each)],
        ),
        block_at: of.block_at(&raw.mode, raw.block_at, raw.threshold),
        notify: of.choice("notify", &raw.notify, &[("contributors", Notify::Contributors), ("latest", Notify::Latest)]),
        cooldown_ms: of.ms("cooldown_ms", raw.cooldown_ms, 0),
        workers_max,
        keys_max: of.check.integer(&of.path("keys_max"), raw.keys_max, 1, SWARM_KEYS_MAX as i64) as u32,
    }
}
