//! Figures of the house that may only fall: lines of the product, files of a folder, and habits that make code hard to read.
//!
//! A figure above its bound fails. So does one far below it: whoever lowers a figure lowers the bound too, and it stays low. Lines are
//! a price: what a feature adds, something else gives.
#![expect(clippy::indexing_slicing, reason = "a scanner over text that is in the repository; a wrong index fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{after_bracket, code_only, files, without_tests};

/// A bound may lie so far above its figure. Hundredths.
const SLACK_PERCENT: usize = 3;

/// Lines of all crates together, without tests. A commit that raises it names the lines that went out for what came.
const LINES_MAX: usize = 91_979;

/// Source files of one folder.
const FILES_MAX: usize = 20;
/// Words of the house that the field has terms for: message, output, delivered, text.
const DIALECT: [&str; 6] = ["told", "tell", "tells", "said", "say", "says"];
/// How often they stand in code, comments and names.
const DIALECT_MAX: usize = 1_484;
/// Doc comments of at most four words: they repeat the name below them.
const SHORT_DOCS_MAX: usize = 677;
/// Parameters that are tuples: structs without a name.
const TUPLE_PARAMETERS_MAX: usize = 71;
/// Names of types that stand in three files or more.
const COMMON_NAMES_MAX: usize = 60;
/// Functions that fill more than a screen.
const LONG_FUNCTIONS_MAX: usize = 5;
/// A function beyond it is long. Lines, its head and its braces among them.
const FUNCTION_LINES: usize = 60;
/// Files below [`FILE_LINES`]: crumbs, each with a head and imports of its own.
const SMALL_FILES_MAX: usize = 7;
/// A file below it is small. Lines.
const FILE_LINES: usize = 30;

/// A file of the product: its path, its text, its code without comments, literals and tests.
struct Source {
    path: String,
    text: String,
    code: String,
}

fn sources() -> Vec<Source> {
    let is_test = |path: &str| path.contains("/tests/") || path.ends_with("/tests.rs");
    let found = files("src", &[".rs"]).into_iter().filter(|(path, _)| !is_test(path));
    found.map(|(path, text)| Source { code: without_tests(&code_only(&text)), path, text }).collect()
}

/// What is to be done about a figure, if anything.
pub(crate) fn complaint(what: &str, figure: usize, bound: usize) -> Option<String> {
    if figure > bound {
        return Some(format!("{what}: {figure}, at most {bound} are allowed"));
    }
    let is_far_below = figure * 100 < bound * (100 - SLACK_PERCENT);
    is_far_below.then(|| format!("{what}: {figure}, far below its bound of {bound}; lower the bound"))
}

pub(crate) fn held(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Lines of a source that are no test.
fn lines(source: &Source) -> usize {
    let tests = source.text.find("\n#[cfg(test)]\nmod tests {");
    source.text[..tests.map_or(source.text.len(), |at| at + 1)].lines().count()
}

#[test]
fn the_product_has_no_more_lines_than_it_had() {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources() {
        *found.entry(source.path.split('/').nth(1).unwrap_or_default().to_owned()).or_default() += lines(&source);
    }
    assert!(found.len() > 10, "src was not read: {found:?}");
    held(complaint(&format!("lines of src, by crate {found:?}"), found.values().sum(), LINES_MAX));
}

#[test]
fn no_folder_has_more_files_than_one_looks_through() {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for (path, _) in files("src", &[".rs"]) {
        let (folder, _) = path.rsplit_once('/').unwrap_or_default();
        *found.entry(folder.to_owned()).or_default() += 1;
    }
    let large = found.iter().filter(|(_, count)| **count > FILES_MAX);
    held(large.map(|(folder, count)| format!("{folder}: {count} files, at most {FILES_MAX} are allowed")));
}

#[test]
fn the_house_speaks_the_words_of_the_field() {
    let is_dialect = |word: &&str| DIALECT.contains(&word.to_lowercase().as_str());
    let of = |source: &Source| source.text.split(|letter: char| !letter.is_alphanumeric()).filter(is_dialect).count();
    held(complaint("words of the house", sources().iter().map(of).sum(), DIALECT_MAX));
}

#[test]
fn no_doc_comment_repeats_the_name_below_it() {
    let is_doc = |line: &str| line.trim_start().strip_prefix("/// ").is_some();
    let mut short = 0;
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let alone =
                |at: Option<usize>| at.and_then(|at| lines.get(at)).is_none_or(|line| !line.trim_start().starts_with("///"));
            let words = line.trim_start().trim_start_matches("///").split_whitespace().count();
            if is_doc(line) && words <= 4 && alone(at.checked_sub(1)) && alone(Some(at + 1)) {
                short += 1;
            }
        }
    }
    held(complaint("doc comments of at most four words", short, SHORT_DOCS_MAX));
}

#[test]
fn what_a_function_takes_has_a_name() {
    let of = |source: &Source| source.code.matches("): (").count();
    held(complaint("parameters that are tuples", sources().iter().map(of).sum(), TUPLE_PARAMETERS_MAX));
}

#[test]
fn no_name_means_three_things() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        for line in source.code.lines() {
            let words: Vec<&str> = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
            let named =
                words.iter().position(|word| matches!(*word, "struct" | "enum" | "trait")).and_then(|at| words.get(at + 1));
            if let Some(name) = named.filter(|name| name.starts_with(char::is_uppercase)) {
                found.entry((*name).to_owned()).or_default().insert(source.path.clone());
            }
        }
    }
    let common = found.values().filter(|files| files.len() >= 3).count();
    held(complaint("names of types in three files or more", common, COMMON_NAMES_MAX));
}

/// Lines of each function of a file.
fn functions(code: &str) -> Vec<usize> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts = code.match_indices("fn ").map(|(at, _)| at).filter(|at| *at == 0 || !is_word(code.as_bytes()[at - 1]));
    // A declaration without a body, as in a trait, ends with a semicolon; one with an array in its head is taken for one.
    let bodies = starts.filter_map(|at| {
        let open = at + code[at..].find(['{', ';'])?;
        (code.as_bytes()[open] == b'{').then(|| code[at..after_bracket(code, open)].lines().count())
    });
    bodies.collect()
}

#[test]
fn a_function_fits_on_a_screen() {
    let long = sources().iter().flat_map(|source| functions(&source.code)).filter(|lines| *lines > FUNCTION_LINES).count();
    held(complaint("functions of more than 60 lines", long, LONG_FUNCTIONS_MAX));
    assert_eq!(functions("fn a() {\n    b();\n}\ntrait T {\n    fn c();\n}\nconst fn d() {}"), [3, 1]);
}

#[test]
fn a_file_is_more_than_a_crumb() {
    let small = sources().into_iter().filter(|source| lines(source) < FILE_LINES);
    held(complaint("files below 30 lines", small.count(), SMALL_FILES_MAX));
}

#[test]
fn a_bound_that_is_passed_or_forgotten_is_complained_about() {
    assert_eq!(complaint("lines", 101, 100), Some("lines: 101, at most 100 are allowed".to_owned()));
    assert_eq!(complaint("lines", 96, 100), Some("lines: 96, far below its bound of 100; lower the bound".to_owned()));
    assert_eq!((complaint("lines", 100, 100), complaint("lines", 97, 100)), (None, None));
}
