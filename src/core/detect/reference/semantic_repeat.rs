//! `semantic_repeat`: variations of one idea, by Jaccard similarity of tokens (corteX). Page `detection`.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, CountSettings, Rule};
use crate::detect::text::{Advice, CommandText, TextContext};
use crate::detect::{detector::Detector, steps::history::History, steps::step::Step, steps::tally::Tally};
use crate::identity::{StopWords, hash_text};
use crate::limits::READABLE_BYTES_MAX;
use crate::setting::{Key, Kind, MODE, Mode, Needs, Share, SharedSettings, ToolPolicy, Window, chars, count, settings};

settings! {
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "2", count(1), "similar earlier steps of a finding";
        similarity: f64 = "0.65", Share, "Jaccard, 0 to 1; strictly greater is similar";
        window_steps: u32 = "30", Window, "earlier completed steps looked at";
        output_chars: usize = "200", chars(0, READABLE_BYTES_MAX),
            "characters of the output that are compared with the description";
        stop_words: StopWords = r#"[
  "the", "and", "for", "with", "from", "that", "this", "not", "but", "was", "were", "are", "has", "have", "had", "you",
  "your", "its", "into", "over", "then", "than", "them", "they", "will", "can", "could", "should", "would", "all", "any", "our",
  "out", "use", "used", "using", "about", "after", "before", "again",
]"#, StopWordList,
            "Words that say nothing about the idea.";
    }
}

impl Rule for Settings {
    const ABOUT: About = About {
        title: "Variations of one idea.",
        rule: "At least `threshold` of the last `window_steps` steps are similar to the newest: their sets of words \
            have a Jaccard similarity above `similarity`. The words are those of the call and of the beginning \
            of its output.",
        example: "The agent makes three searches with slightly different wording and gets the same hits.",
        silent: &[
            "Synonyms are used: words are compared, not meanings.",
            "Only hashes of arguments and results are known (`cortex/hashes-have-no-similarity`).",
            "It does speak on honest series, such as many look-ups of one kind. So it runs as shadow \
                (`rules/meaning-similarity-065`).",
        ],
        ..About::AGENT
    };

    fn counts(&self) -> CountSettings {
        CountSettings::new(Detector::SemanticRepeat, self.mode, self.threshold)
    }

    fn needs(&self, _: &SharedSettings) -> Needs {
        Needs { tokens: true, ..Needs::default() }
    }

    fn text(&self, context: &TextContext<'_>) -> CommandText {
        let n = context.count() + 1;
        let text = format!(
            "[System] The last {n} attempts were variations of one idea. Make a new plan: list what was tried, then choose something \
             else."
        );
        let summary = format!("{}: {n} similar steps among the last {}", context.tool, context.finding.window);
        CommandText::new(text, summary).advising(Advice::Replan)
    }
}

struct StopWordList;

impl Kind for StopWordList {
    type Of = StopWords;

    fn read(&self, key: &mut Key<'_>) -> StopWords {
        let names = key.texts();
        StopWords::new(&key.check.names(&key.path, &names))
    }

    fn range(&self) -> String {
        "words".to_owned()
    }
}

/// Counts similar earlier completed steps.
#[must_use]
pub fn observe(settings: &Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    if step.tokens.0.is_empty() {
        return None;
    }
    let window = history.complete_back_from(step).skip(1).take(settings.window_steps as usize);
    let similar = Tally::of_window(window, step, |earlier| {
        step.tokens.may_exceed(step.token_bits, &earlier.tokens, earlier.token_bits, settings.similarity)
            && step.tokens.jaccard(&earlier.tokens) > settings.similarity
    });
    let identity = || loop_identity(Family::Meaning, &[hash_text(history.tool(step)).hash64().0]);
    let finding = settings.counts().scaled(step, tool).finding(similar, step.sequence, identity)?;
    let confidence = 0.2f64.mul_add(f64::from(similar.count), 0.4).clamp(0.0, 1.0);
    Some(Finding { confidence, ..finding.within(u64::from(settings.window_steps)) })
}
