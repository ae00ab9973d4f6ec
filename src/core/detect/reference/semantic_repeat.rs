//! `semantic_repeat`: variations of one idea, by Jaccard similarity of tokens (corteX). Page `detection`.

use crate::detect::detector::Detector;
use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::rule::{About, Rule};
use crate::detect::steps::history::History;
use crate::detect::steps::step::Step;
use crate::detect::words::{Advice, Said, Words};
use crate::identity::{StopWords, hash_text};
use crate::limits::READABLE_BYTES_MAX;
use crate::setting::{Key, Kind, MODE, Mode, Needs, SHARE, Shared, ToolPolicy, WINDOW, chars, count, settings};

settings! {
    /// `detectors.semantic_repeat`.
    pub struct Settings {
        mode: Mode = r#""off""#, MODE, "";
        threshold: u32 = "2", count(1), "similar earlier steps of a finding";
        similarity: f64 = "0.65", SHARE, "Jaccard, 0 to 1; strictly greater is similar";
        window_steps: u32 = "30", WINDOW, "earlier completed steps looked at";
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

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn needs(&self, _: &Shared) -> Needs {
        Needs { tokens: true, ..Needs::default() }
    }

    fn words(&self, words: &Words<'_>) -> Said {
        let n = words.count() + 1;
        let text = format!(
            "[System] The last {n} attempts were variations of one idea. Make a new plan: list what was tried, then choose something \
             else."
        );
        let summary = format!("{}: {n} similar steps among the last {}", words.tool, words.finding.window);
        Said::new(text, summary).advising(Advice::Replan)
    }
}

/// Words, sorted.
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
    let threshold = step.scaled(tool, settings.threshold);
    let mut count = 0;
    let mut first = step.sequence;
    let earlier = history.complete_back_from(step).skip(1);
    for earlier in earlier.take(settings.window_steps as usize) {
        let may = step.tokens.may_exceed(step.token_bits, &earlier.tokens, earlier.token_bits, settings.similarity);
        if may && step.tokens.jaccard(&earlier.tokens) > settings.similarity {
            count += 1;
            first = earlier.sequence;
        }
    }
    (count >= threshold).then(|| {
        let identity = loop_identity(Family::Meaning, &[hash_text(history.tool(step)).hash64().0]);
        let mut finding = Finding::new(Detector::SemanticRepeat, settings.mode, identity, count, threshold)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence);
        finding.confidence = 0.2f64.mul_add(f64::from(count), 0.4).clamp(0.0, 1.0);
        finding
    })
}
