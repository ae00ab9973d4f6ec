//! The repository's own source as text: its files, without comments and literals, and the paths that code names.
#![expect(clippy::indexing_slicing, reason = "a scanner over text that is in the repository; a wrong index fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder`, as (path from the root, text); what is no text is left out.
pub(crate) fn files(folder: &str, extensions: &[&str]) -> Vec<(String, String)> {
    fn walk(folder: &Path, root: &Path, extensions: &[&str], out: &mut Vec<(String, String)>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                let is_made = [".git", "target", ".cargo", "node_modules", ".build"].iter().any(|name| path.ends_with(name));
                if !is_made {
                    walk(&path, root, extensions, out);
                }
            } else if extensions.iter().any(|extension| path.to_string_lossy().ends_with(extension))
                && let Ok(text) = fs::read_to_string(&path)
            {
                out.push((path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned(), text));
            }
        }
    }
    let mut out = Vec::new();
    walk(&root().join(folder), &root(), extensions, &mut out);
    out
}

/// The source with comments and literals blanked out; lines stay where they are.
pub(crate) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let length = blank_length(&bytes[at..], at > 0 && is_word(bytes[at - 1])).min(bytes.len() - at);
        if length == 0 {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(bytes[at..at + length].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
            at += length;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

pub(crate) fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// Length of the comment or literal that begins here; 0 if none does.
pub(crate) fn blank_length(rest: &[u8], inside_word: bool) -> usize {
    let end_of = |from: usize, needle: &[u8]| find(&rest[from..], needle).map_or(rest.len(), |at| from + at + needle.len());
    if rest.starts_with(b"//") {
        return find(rest, b"\n").unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        let (mut depth, mut at) = (0_u32, 0);
        while at < rest.len() {
            if rest[at..].starts_with(b"/*") {
                depth += 1;
                at += 2;
            } else if rest[at..].starts_with(b"*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            } else {
                at += 1;
            }
        }
        return rest.len();
    }
    if !inside_word && matches!(rest[0], b'r' | b'b' | b'c') {
        let prefix = rest.iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
        let hashes = rest[prefix..].iter().take_while(|&&byte| byte == b'#').count();
        if rest[prefix - 1] == b'r' && rest.get(prefix + hashes) == Some(&b'"') {
            let mut close = vec![b'"'];
            close.resize(1 + hashes, b'#');
            return end_of(prefix + hashes + 1, &close);
        }
    }
    match rest[0] {
        b'"' => {
            let mut at = 1;
            while at < rest.len() && rest[at] != b'"' {
                at += if rest[at] == b'\\' { 2 } else { 1 };
            }
            at + 1
        }
        b'\'' if rest.get(1) == Some(&b'\\') => end_of(3, b"'"),
        b'\'' => {
            // A character literal closes after one character; anything else is a lifetime.
            let width = rest.get(1).map_or(0, |&first| utf8_width(first));
            if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
        _ => 0,
    }
}

pub(crate) fn utf8_width(first: u8) -> usize {
    match first {
        0xF0.. => 4,
        0xE0.. => 3,
        0x80.. => 2,
        _ => 1,
    }
}

/// Position just after the bracket that closes the one at `open`.
pub(crate) fn after_bracket(code: &str, open: usize) -> usize {
    let mut depth = 0_u32;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// Code with everything under `#[cfg(test)]` blanked out.
pub(crate) fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut code = code.to_owned();
    while let Some(start) = code.find(MARK) {
        let body = start + MARK.len();
        let end = match code[body..].find(['{', ';']) {
            Some(at) if code.as_bytes()[body + at] == b'{' => after_bracket(&code, body + at),
            Some(at) => body + at + 1,
            None => code.len(),
        };
        let blank: String = code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &blank);
    }
    code
}

/// A path in code, as `crate::event::decode`; a single word is a path too. An opened group ends it with `{`.
pub(crate) struct Found<'a> {
    pub(crate) parts: Vec<&'a str>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

pub(crate) fn paths(code: &str) -> Vec<Found<'_>> {
    let bytes = code.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_word(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        let mut parts = Vec::new();
        loop {
            let word = at;
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
            parts.push(&code[word..at]);
            if !code[at..].starts_with("::") {
                break;
            }
            match bytes.get(at + 2) {
                Some(b'{') => {
                    parts.push("{");
                    at += 2;
                    break;
                }
                Some(&byte) if is_word(byte) => at += 2,
                _ => break,
            }
        }
        out.push(Found { parts, start, end: at });
    }
    out
}
