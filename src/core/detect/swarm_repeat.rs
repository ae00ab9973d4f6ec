//! `swarm_repeat`: one call all over a swarm (attocode). Counted by the swarm stage; which calls count is decided in `in_vain`. Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::limits::{POLICY_MS_MAX, SWARM_KEYS_MAX, SWARM_PANE_LIFE_MS_MIN, SWARM_PANES_MAX, SWARM_WORKERS_MAX};
use crate::setting::{
    BlockAt, BlockScope, Check, Key, Kind, MODE, Mode, Needs, SharedSettings, count, kinds, millis, one_of, settings, steps,
    words,
};

settings! {
    pub struct Settings {
        mode: Mode = r#""nudge""#, MODE, "";
        count: Counted = r#""no_news""#, one_of(Counted::WORDS),
            "{words}: calls that failed or brought their agent nothing new; fifty that read one file are work";
        threshold: u32 = "10", count(1), "calls of a finding";
        workers_min: u32 = "2", WorkersMin, "distinct workers of a finding: one alone is another detector's business";
        worker: Worker = r#""session""#, one_of(Worker::WORDS),
            "{words}: what counts as one worker; a session may give its calls as many agents as it likes";
        window_ms: i64 = "1_800_000", WholePanes { panes_max: Some(SWARM_PANES_MAX as i64) },
            "sliding window, ms of event time; 0 = never forgets, and tells each step once for ever";
        pane_ms: i64 = "60_000", PaneMs, "slice of the window, ms; must divide window_ms and cooldown_ms";
        steps: SwarmSteps = r#""once""#, one_of(SwarmSteps::WORDS),
            "{words}: fifty agents at one dead endpoint are one event, not three";
        block_at: u32 = "40", BlockAt, "calls of a block in mode block; 0 = never";
        notify: Notify = r#""contributors""#, one_of(Notify::WORDS),
            "{words}: each agent at its next such call, or the one whose call came last";
        cooldown_ms: i64 = "600_000", WholePanes { panes_max: None }, "period within which a step is told once, ms; 0 = one endless period";
        workers_max: u32 = "256", steps(1, SWARM_WORKERS_MAX),
            "workers kept per pane, 768 KiB of them; more saturate the number";
        keys_max: u32 = "65_536", steps(1, SWARM_KEYS_MAX), "counters kept per partition; longest unseen goes first";
    }
}

words! {
    /// What counts as one worker of a swarm.
    pub enum Worker {
        /// A session, whatever agents it names as callers: names within a session cost it nothing.
        Session = "session",
        /// Each agent of a session (attocode).
        Agent = "agent",
    }
}

words! {
    /// Which steps of a swarm counter are published.
    pub enum SwarmSteps {
        /// The threshold, and in mode `block` `block_at`.
        Once = "once",
        /// The threshold, its double, its fourfold …
        Double = "double",
        /// Every count from the threshold on (attocode).
        Each = "each",
    }
}

words! {
    /// Whom a swarm command addresses.
    pub enum Notify {
        /// Each agent at its next matching call.
        Contributors = "contributors",
        /// The agent whose call came last (attocode).
        Latest = "latest",
    }
}

words! {
    /// Which calls `call_rate` and `swarm_repeat` count.
    pub enum Counted {
        /// Calls that failed, or repeated a known call with a known answer. A swarm's are counted when the outcome is known: fifty workers that
        /// read one popular file are work; fifty that meet one dead endpoint are a loop. `call_rate` counts also those not answered yet.
        NoNews = "no_news",
        /// Every call, when it is requested (attocode, IronCurtain).
        All = "all",
    }
}

/// Panes are kept for some time however short the window is: short ones are many. An endless window has a single one.
pub(super) fn few_panes(check: &mut Check, path: &str, pane_ms: i64, window_ms: i64) {
    const PANE_MS_MIN: i64 = SWARM_PANE_LIFE_MS_MIN / SWARM_PANES_MAX as i64 + 1;
    check.rule(path, window_ms == 0 || pane_ms >= PANE_MS_MIN, || {
        format!(
            "{path} is {pane_ms}, but must be at least {PANE_MS_MIN}: sums of so many ms are kept for {} minutes at least",
            SWARM_PANE_LIFE_MS_MIN / 60_000
        )
    });
}

kinds! {
    /// Length of a pane: a window has few of them.
    PaneMs -> i64, |_| millis(1).range(), |_, key| {
        let (pane_ms, window_ms) = (millis(1).read(key), key.beside("window_ms"));
        few_panes(key.check, &key.path, pane_ms, window_ms);
        pane_ms
    };

    /// Workers of a finding: no more than are kept.
    WorkersMin -> u32, |_| "1 to `workers_max`".to_owned(), |_, key| {
        let (least, most) = (key.integer(), key.beside("workers_max"));
        let path = &key.path;
        key.check.rule(path, least <= most, || format!("{path} is {least}, but must not be above workers_max ({most})"));
        key.check.count(path, least, 1)
    };
}

/// A time of whole panes.
struct WholePanes {
    panes_max: Option<i64>,
}

impl Kind for WholePanes {
    type Of = i64;

    fn read(&self, key: &mut Key<'_>) -> i64 {
        let (ms, pane_ms) = (key.integer(), key.beside("pane_ms").clamp(1, POLICY_MS_MAX));
        let path = &key.path;
        key.check.rule(path, ms.checked_rem(pane_ms) == Some(0), || {
            format!("{path} is {ms}, but must be a multiple of pane_ms ({pane_ms})")
        });
        if let Some(most) = self.panes_max {
            key.check.rule(path, ms / pane_ms <= most, || {
                format!("{path} is {ms}, but must not have above {most} panes of pane_ms ({pane_ms})")
            });
        }
        millis(0).read(key)
    }

    fn range(&self) -> String {
        "0, or a multiple of `pane_ms`".to_owned()
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "One call all over a swarm.",
        rule: "At least `workers_min` sessions of one swarm make `threshold` calls of one fingerprint within \
            `window_ms`. With `worker = \"agent\"` each agent of a session counts. With `count = \"no_news\"` only calls that brought their agent nothing count, once their \
            outcome is known. With `count = \"all\"` every call counts when it is requested.",
        example: "Six crawlers each try one dead endpoint twice. Each agent is nudged at its next such call, once.",
        silent: &[
            "The events carry no `swarm_id` (`attocode/swarm-needs-an-id`), or outcomes are never sent.",
            "Fifty agents read one popular file once (`rules/swarm-agents-that-read-one-file`).",
            "A failure, if the agent changed something or got further since its last such call, or if the failure \
                says something new (`rules/swarm-that-edits-and-tries-again`).",
            "The first failure of a command line on an agent, unless the command names a URL \
                (`rules/swarm-whose-builds-fail-once`, `rules/swarm-at-a-url-in-a-command-line`).",
            "The first outage an agent meets at one address (`rules/swarm-let-in-at-the-second-try`).",
            "A success whose answer is new to the agent, says nothing, or differs only in masked parts, and a \
                call that waits (`rules/swarm-answers-that-say-nothing`, `rules/swarm-that-waits`).",
            "One session alone, however many agents it names (`rules/swarm-one-session-of-many-agents`).",
            "One worker loops and others pass by: a block also needs `threshold` calls beside those of the busiest \
                one (`rules/swarm-one-loops-and-one-passes-by`).",
            "A step was published less than `cooldown_ms` ago (`rules/swarm-told-once`).",
        ],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::SwarmRepeat, self.mode, self.threshold).blocking(self.block_at, BlockScope::Session)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { fingerprint: true, swarm: true, evidence: self.count == Counted::NoNews, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, tool, workers) = (context.count(), context.tool, context.workers);
        let who = if self.worker == Worker::Session { "sessions" } else { "agents" };
        let text = match (self.notify, self.count) {
            // The words of attocode, for the agent that it speaks to.
            (Notify::Latest, _) => format!(
                "[System] GLOBAL DOOM LOOP: {n} calls to {tool} across {workers} workers, all on the same target. 1. Use a fundamentally \
                 different strategy. 2. Do NOT retry the same tool with the same parameters. 3. Reconsider the goal."
            ),
            (Notify::Contributors, Counted::NoNews) => format!(
                "[System] {n} calls to {tool} by {workers} {who} of this swarm, all on the same target, brought nothing. Do not make it again: \
                 take another way, or report what is missing."
            ),
            (Notify::Contributors, Counted::All) => format!(
                "[System] {n} calls to {tool} by {workers} {who} of this swarm, all on the same target. Use what is known, or take another \
                 way."
            ),
        };
        CommandText::new(text, format!("{tool}: {n} calls by {workers} workers of one swarm"))
    }
}
