//! "Did you mean": the known word closest to an unknown one.

/// Words longer than this get no suggestion: they are no typing error, and comparing is quadratic.
const CHARS_MAX: usize = 96;

/// The candidate closest to `word`, if it is close enough to be meant: at most a third of the letters differ.
#[must_use]
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = word.chars().take(CHARS_MAX + 1).map(|letter| letter.to_ascii_lowercase()).collect();
    if letters.len() > CHARS_MAX {
        return None;
    }
    let distance_max = (letters.len() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= CHARS_MAX)
        .map(|candidate| (distance(&letters, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= distance_max && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edit distance: insert, delete, replace, and swap of two neighbours cost 1 each.
fn distance(word: &[char], candidate: &str) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=word.len()).collect();
    let mut letter_before = None;
    for (row, letter) in candidate.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, &own) in word.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX / 2);
            let mut best =
                (at(&last, column) + usize::from(own != letter)).min(at(&last, column + 1) + 1).min(at(&current, column) + 1);
            let own_before = column.checked_sub(1).and_then(|before| word.get(before)).copied();
            if own_before == Some(letter) && letter_before == Some(own) {
                best = best.min(at(&before_last, column - 1) + 1);
            }
            current.push(best);
        }
        letter_before = Some(letter);
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{closest, distance};

    #[test]
    fn distance_counts_inserted_deleted_replaced_and_swapped_letters() {
        for (word, candidate, expected) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "ab", 2),
            ("kafka", "kafka", 0),
            ("kakfa", "kafka", 1),
            ("mecanism", "mechanism", 1),
            ("abc", "xyz", 3),
        ] {
            let letters: Vec<char> = word.chars().collect();
            assert_eq!(distance(&letters, candidate), expected, "{word} {candidate}");
        }
    }

    #[test]
    fn a_word_far_from_all_gets_no_suggestion() {
        assert_eq!(closest("treshold", ["mode", "threshold"]), Some("threshold"));
        assert_eq!(closest("THRESHOLD", ["mode", "threshold"]), Some("threshold"));
        assert_eq!(closest("colour", ["mode", "threshold"]), None);
        assert_eq!(closest("x", ["y"]), None, "one letter of one replaced is another word");
        assert_eq!(closest(&"m".repeat(200), ["mode"]), None);
    }
}
