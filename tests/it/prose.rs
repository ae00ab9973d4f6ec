//! Plain English as a test: no sentence of `src/docs` is longer than a reader can hold, and no line is wider than two columns on a laptop.

use std::path::{Path, PathBuf};
use std::{fs, mem};

/// Words of a sentence at most. 25 is the aim; a list of names may need more.
const WORDS_MAX: usize = 40;
/// Characters of a line at most, so that a side-by-side diff fits.
const LINE_CHARS_MAX: usize = 110;

fn pages(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|is| is == "md") {
            found.push(path);
        }
    }
}

/// Whether a line begins a block of its own: a list item, a heading, a row of a table.
fn begins_block(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with(['#', '|']) || line.starts_with("- ") || (number.len() < line.len() && number.starts_with(". "))
}

/// Paragraphs, list items and cells with the line each begins at. Code blocks are left out, a code span is one word.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let (mut blocks, mut block, mut start, mut is_code) = (Vec::new(), String::new(), 1, false);
    for (number, line) in page.lines().map(str::trim).enumerate() {
        let is_fence = line.starts_with("```");
        if is_fence || line.is_empty() || begins_block(line) {
            blocks.push((start, mem::take(&mut block)));
            start = number + 1;
        }
        is_code ^= is_fence;
        if is_fence || is_code {
            continue;
        }
        if line.starts_with('|') {
            blocks.extend(line.split('|').map(|cell| (number + 1, cell.to_owned())));
            continue;
        }
        block.push_str(line);
        block.push(' ');
    }
    blocks.push((start, block));
    let without_code = |text: String| -> String {
        text.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "code" }).collect()
    };
    blocks.into_iter().map(|(line, text)| (line, without_code(text))).collect()
}

/// What is too long in a page, with its line.
fn too_long(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in page.lines().enumerate() {
        let chars = line.chars().count();
        if chars > LINE_CHARS_MAX {
            found.push((number + 1, format!("a line of {chars} characters")));
        }
    }
    for (number, text) in blocks(page) {
        for sentence in text.split_inclusive(['.', '?', '!']).fold(Vec::<String>::new(), join_abbreviations) {
            let words = sentence.split_whitespace().count();
            if words > WORDS_MAX {
                found.push((number, format!("a sentence of {words} words: {}", sentence.trim())));
            }
        }
    }
    found
}

/// A sentence ends where a space follows its mark; `2.12.1` goes on.
fn join_abbreviations(mut sentences: Vec<String>, part: &str) -> Vec<String> {
    match sentences.last_mut() {
        Some(last) if !part.starts_with(char::is_whitespace) => last.push_str(part),
        _ => sentences.push(part.to_owned()),
    }
    sentences
}

#[test]
fn no_sentence_and_no_line_of_the_documentation_is_too_long() {
    let mut files = Vec::new();
    pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docs"), &mut files);
    assert!(files.len() > 40, "only {} pages", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let page = fs::read_to_string(&file).expect("a page");
        wrong.extend(too_long(&page).into_iter().map(|(line, what)| format!("{}:{line}: {what}", file.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_too_long_is_found_wherever_it_stands() {
    let long = "word ".repeat(WORDS_MAX + 1);
    let wrapped = format!("{}\n{}", "word ".repeat(20), "word ".repeat(21));
    let wide = "x".repeat(LINE_CHARS_MAX + 1);
    for text in [&wrapped, &wide, &format!("- {wrapped}"), &format!("1. {wrapped}"), &format!("| a | {long} |")] {
        assert!(!too_long(text).is_empty(), "{text}");
    }
    let short = "word ".repeat(10);
    let parts = format!("{short}. {short}. {short}. {short}.");
    let items = format!("- {short}\n- {short}\n- {short}\n- {short}\n- {short}");
    let block = "```text\none two\n".to_owned() + &"word\n".repeat(50) + "```\n";
    let span = format!("a `{}` b", "x ".repeat(41));
    for text in [&parts, &items, &block, &span] {
        assert!(too_long(text).iter().all(|(_, what)| what.starts_with("a line of")), "{text}: {:?}", too_long(text));
    }
    assert_eq!(blocks("one\ntwo\n\n- three").last(), Some(&(4, "- three ".to_owned())));
    assert_eq!(too_long(&format!("version 2.12.1 {long}")).len(), 2);
}
