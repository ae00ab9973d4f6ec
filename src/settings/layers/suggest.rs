//! "Did you mean": the known word closest to an unknown one.

use strsim::osa_distance;

/// Words longer than this get no suggestion: they are no typing error, and comparing is quadratic.
const CHARS_MAX: usize = 96;

/// The candidate closest to `word`, if it is close enough to be meant: at most a third of the letters differ.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().take(CHARS_MAX + 1).count();
    if letters > CHARS_MAX {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let distance_max = (letters / 3).clamp(1, 4);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= CHARS_MAX)
        .map(|candidate| (osa_distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= distance_max && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_word_far_from_all_gets_no_suggestion() {
        assert_eq!(closest("treshold", ["mode", "threshold"]), Some("threshold"));
        assert_eq!(closest("THRESHOLD", ["mode", "threshold"]), Some("threshold"));
        assert_eq!(closest("kakfa", ["mode", "kafka"]), Some("kafka"), "two letters that changed places are one error");
        assert_eq!(closest("colour", ["mode", "threshold"]), None);
        assert_eq!(closest("x", ["y"]), None, "one letter of one replaced is another word");
        assert_eq!(closest(&"m".repeat(200), ["mode"]), None);
    }
}
