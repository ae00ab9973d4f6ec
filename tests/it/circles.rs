//! No circle between files: what a file imports, directly or by way of others, never imports the file. And no circle between two folders.
//!
//! `mod x;` and `pub use` are no imports: a name that a file passes on counts as an import of the file that defines it.
#![expect(clippy::indexing_slicing, reason = "a scanner over text that is in the repository; a wrong index fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use crate::ratchets::{complaint, held};
use crate::source::{code_only, files, is_word, without_tests};

/// Pairs of folders of which each imports from the other, and neither lies in the other.
const FOLDER_PAIRS_MAX: usize = 0;

/// Files of one crate, by the path of their module: `lane::commit`.
type Module = Vec<String>;

/// What a file imports, and what it passes on by `pub use`: name to path.
#[derive(Debug, Default)]
struct Imports {
    uses: Vec<Vec<String>>,
    passed_on: BTreeMap<String, Vec<String>>,
}

/// The module of a file: its crate's folder, then its own path.
fn module(path: &str) -> Option<Module> {
    let inner = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut parts: Module = inner.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    Some(parts)
}

/// The paths of a use tree: `a::{b, c::d}` is `a::b` and `a::c::d`; what stands behind `as` is left out.
fn expand(tree: &str) -> Vec<Vec<String>> {
    fn walk(prefix: &[String], tree: &str, out: &mut Vec<Vec<String>>) {
        let (head, group) =
            tree.split_once('{').map_or((tree, None), |(head, rest)| (head, rest.rsplit_once('}').map(|(group, _)| group)));
        let head = head.split(" as ").next().unwrap_or_default();
        let mut path = prefix.to_vec();
        path.extend(head.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
        let Some(group) = group else {
            out.push(path);
            return;
        };
        let (mut depth, mut start) = (0_u32, 0);
        for (at, byte) in group.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b',' if depth == 0 => {
                    walk(&path, &group[start..at], out);
                    start = at + 1;
                }
                _ => {}
            }
        }
        if !group[start..].trim().is_empty() {
            walk(&path, &group[start..], out);
        }
    }
    let mut out = Vec::new();
    walk(&[], tree, &mut out);
    out
}

/// Reads the imports of a file, and every other path in it.
fn imports(code: &str) -> Imports {
    let mut imports = Imports::default();
    let mut rest = String::with_capacity(code.len());
    let mut at = 0;
    // `use` at the beginning of a word; the item ends with a semicolon.
    while let Some(found) = code[at..].find("use ") {
        let start = at + found;
        let is_item = start == 0 || !is_word(code.as_bytes()[start - 1]);
        let Some(end) = code[start..].find(';').filter(|_| is_item).map(|end| start + end) else {
            rest.push_str(&code[at..start + 4]);
            at = start + 4;
            continue;
        };
        let before = code[..start].trim_end();
        let is_passed_on = before.ends_with("pub")
            || before.ends_with(')') && before.rfind("pub(").is_some_and(|open| !before[open..].contains('\n'));
        for path in expand(&code[start + 4..end]) {
            match path.last().filter(|_| is_passed_on) {
                Some(name) => drop(imports.passed_on.insert(name.clone(), path.clone())),
                None => imports.uses.push(path),
            }
        }
        rest.push_str(&code[at..start]);
        at = end;
    }
    rest.push_str(&code[at..]);
    let named = crate::source::paths(&rest);
    imports.uses.extend(
        named
            .iter()
            .filter(|found| found.parts.len() > 1)
            .map(|found| found.parts.iter().map(|part| (*part).to_owned()).collect()),
    );
    imports
}

/// The file that a path means, seen from a file; none for what is of another crate.
fn resolve(from: &Module, path: &[String], all: &BTreeMap<Module, Imports>, depth: u32) -> Option<Module> {
    let (mut here, mut rest) = match path.first()?.as_str() {
        "crate" => (from[..1].to_vec(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => {
            let climbs = path.iter().take_while(|part| *part == "super").count();
            (from[..from.len().checked_sub(climbs)?].to_vec(), &path[climbs..])
        }
        _ => (from.clone(), path),
    };
    let is_relative = !matches!(path.first()?.as_str(), "crate" | "self" | "super");
    while let Some((first, more)) = rest.split_first() {
        let mut inner = here.clone();
        inner.push(first.clone());
        // A file, or a folder whose files are declared further up.
        if !all.range::<Module, _>(inner.clone()..).next().is_some_and(|(known, _)| known.starts_with(&inner)) {
            break;
        }
        (here, rest) = (inner, more);
    }
    if is_relative && here == *from {
        return None;
    }
    if depth < 8
        && let Some(name) = rest.first()
        && let Some(target) = all.get(&here).and_then(|imports| imports.passed_on.get(name))
        && let Some(found) = resolve(&here, target, all, depth + 1)
    {
        return Some(found);
    }
    all.contains_key(&here).then_some(here)
}

/// What each file imports.
fn imported(sources: &[(String, String)]) -> BTreeMap<Module, BTreeSet<Module>> {
    let all: BTreeMap<Module, Imports> =
        sources.iter().filter_map(|(path, text)| Some((module(path)?, imports(&without_tests(&code_only(text)))))).collect();
    let targets = |from: &Module, imports: &Imports| {
        imports.uses.iter().filter_map(|path| resolve(from, path, &all, 0)).filter(|target| target != from).collect()
    };
    all.iter().map(|(from, imports)| (from.clone(), targets(from, imports))).collect()
}

/// Pairs of folders of which each has a file that imports from the other. Of two that lie in one another, the outer one is the face of the
/// inner one: they are none.
fn folder_pairs(sources: &[(String, String)]) -> BTreeSet<(String, String)> {
    let folder = |path: &String| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let folders: BTreeMap<Module, String> = sources.iter().filter_map(|(path, _)| Some((module(path)?, folder(path)?))).collect();
    let edges: BTreeSet<(String, String)> = imported(sources)
        .iter()
        .flat_map(|(from, targets)| targets.iter().map(move |target| (from, target)))
        .filter_map(|(from, target)| Some((folders.get(from)?.clone(), folders.get(target)?.clone())))
        .collect();
    let lies_in = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    let is_pair = |(from, to): &&(String, String)| {
        from < to && edges.contains(&(to.clone(), from.clone())) && !lies_in(to, from) && !lies_in(from, to)
    };
    edges.iter().filter(is_pair).cloned().collect()
}

/// Groups of files that import one another in a circle: pairs of files of which each reaches the other.
fn circles(sources: &[(String, String)]) -> Vec<Vec<String>> {
    let direct = imported(sources);
    let reached = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(one) = next.pop() {
            for target in direct.get(&one).into_iter().flatten() {
                if seen.insert(target.clone()) {
                    next.push(target.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&Module, BTreeSet<Module>> = direct.keys().map(|from| (from, reached(from))).collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (from, targets) in &reach {
        if targets.contains(*from) {
            let group = targets.iter().filter(|other| reach.get(other).is_some_and(|back| back.contains(*from)));
            found.insert(group.map(|module| module.join("/")).collect());
        }
    }
    found.into_iter().collect()
}

#[test]
fn no_file_imports_itself_by_way_of_others() {
    let sources = files("src", &[".rs"]);
    assert!(sources.len() > 200, "src was not read");
    let found: Vec<String> = circles(&sources).iter().map(|group| group.join(" ")).collect();
    assert!(found.is_empty(), "circles of files:\n{}", found.join("\n"));
}

#[test]
fn folders_are_layers() {
    let pairs = folder_pairs(&files("src", &[".rs"]));
    let of_lane: Vec<String> =
        pairs.iter().filter(|(one, _)| one.starts_with("src/lane")).map(|(one, other)| format!("{one} {other}")).collect();
    assert!(of_lane.is_empty(), "folders of lane that import each other:\n{}", of_lane.join("\n"));
    held(complaint(&format!("folders that import each other: {pairs:?}"), pairs.len(), FOLDER_PAIRS_MAX));
}

#[test]
fn two_folders_that_import_each_other_are_found_and_one_within_the_other_is_none() {
    let source = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let all = [
        source("src/a/lib.rs", "mod b { mod x; mod y; } mod c; pub use b::x::X;"),
        source("src/a/b/x.rs", "use crate::c::{C, d::D}; pub struct X;"),
        source("src/a/b/y.rs", "use crate::b::x::X;"),
        source("src/a/c/mod.rs", "mod d; use crate::b::y::Y; use self::{d::D, e::f::F}; pub struct C;"),
        source("src/a/c/d.rs", "use super::C;"),
        source("src/a/c/e/f.rs", "use crate::c::C;"),
    ];
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(folder_pairs(&all), BTreeSet::from([pair("src/a/b", "src/a/c")]));
}

#[test]
fn a_circle_is_found_and_what_only_passes_names_on_is_none() {
    let source = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let all = [
        source("src/a/lib.rs", "mod b; mod c; mod d; pub use b::B; pub use d::{D, E as F};"),
        source("src/a/b.rs", "use crate::c::{self, C}; pub struct B;"),
        source("src/a/c.rs", "use super::B; pub struct C; // use crate::d::D;\nconst T: &str = \"crate::d::D\";"),
        source("src/a/d.rs", "use crate::B; #[cfg(test)]\nmod tests { use crate::c::C; } fn f() { crate::c::g() }"),
    ];
    assert_eq!(circles(&all), [["a/b", "a/c"]]);
    assert_eq!(
        expand("a::{b, c::{d as e, f}}"),
        [
            ["a", "b"].map(str::to_owned).to_vec(),
            ["a", "c", "d"].map(str::to_owned).to_vec(),
            ["a", "c", "f"].map(str::to_owned).to_vec()
        ]
    );
}
