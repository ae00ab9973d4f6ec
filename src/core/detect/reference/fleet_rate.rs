//! `fleet_rate`: too many equal calls of the whole fleet (rockbot). Counted by the swarm stage. Page `detection`.

use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{CommandText, TextContext};
use crate::detect::{detector::Detector, swarm_repeat::few_panes};
use crate::limits::SWARM_KEYS_MAX;
use crate::setting::{
    BlockScope, MODE, Mode, Needs, SharedSettings, Table, Tools, count, millis, one_of, settings, steps, words,
};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "only the operator knows what a fleet may start";
        limit: u32 = "30", count(0), "calls; so many pass in a window; 0 = off";
        window_ms: i64 = "300_000", millis(0), "fixed window aligned to the Unix epoch, ms; 0 = off";
        key: FleetKey = r#""call""#, one_of(FleetKey::WORDS),
            "{words}: what is counted, the call or its arguments alone (a definition, whatever tool starts it)";
        tools: Vec<String> = "[]", Tools, "tools that are counted; empty = all";
        keys_max: u32 = "65_536", steps(1, SWARM_KEYS_MAX), "counters kept per partition; longest unseen goes first";
    }
    then unless_zero;
}

words! {
    pub enum FleetKey {
        Call = "call",
        /// Canonical arguments alone: a definition.
        Args = "args",
    }
}

/// 0 switches it off, as in rockbot. Its window is its pane.
fn unless_zero(settings: Settings, table: &mut Table<'_>) -> Settings {
    let path = table.path("window_ms");
    few_panes(table.check, &path, settings.window_ms, settings.window_ms);
    let is_off = settings.limit == 0 || settings.window_ms == 0;
    Settings { mode: if is_off { Mode::Off } else { settings.mode }, ..settings }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Too many equal calls of the whole fleet.",
        rule: "More than `limit` calls of one identity by all sessions together within a fixed window. With `key = \
            \"args\"` calls of all tools with the same arguments count together.",
        example: "A job starts thirty copies of itself.",
        silent: &[
            "It is off until an operator sets a mode and names `tools`: many sessions may rightly call the same \
                thing (`rules/fleet-30`).",
            "`limit` or `window_ms` is 0.",
            "Calls of one burst lie on both sides of the end of a window.",
        ],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::FleetRate, self.mode, self.limit).blocking(self.limit.saturating_add(1), BlockScope::Session)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { swarm: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let (n, minutes) = (context.finding.threshold.saturating_sub(1), context.finding.window / 60_000);
        // Where the definition alone is counted, each session starts it by a name of its own.
        let tool = if context.tool.is_empty() { "a call" } else { context.tool };
        let refused = if context.is_block { "This call is refused. " } else { "" };
        let text = format!(
            "CIRCUIT BREAKER: {tool} was started {n} times with this definition within {minutes} min by the whole fleet. {refused}Try a different \
             approach."
        );
        CommandText::new(text, format!("{tool}: more than {n} starts in a window by the whole fleet"))
    }
}
