//! `explain`: the page of an error code, what a detector looks for, or what a key of a file means.

use loopwarden_core::policy::Detector;
use loopwarden_settings::{Key, PAGES, closest, explain, keys, policy};
use serde_json::{Value, json};

use crate::cli::args::{ExplainArgs, PlainFormat};
use crate::failure::{Failure, Outcome};
use crate::{exit_code, output::Output};

/// The policy that is in force where nothing else is said.
const SHIPPED: &str = "default";
/// Characters of a line.
const LINE_CHARS: usize = 100;
/// Columns of a code or a name in the list of all.
const NAME_COLUMNS: usize = 16;

/// Prints a page, or the list of all.
///
/// # Errors
/// There is no such code, detector, key or table.
pub fn run(args: &ExplainArgs) -> Outcome {
    let mut out = Output::stdout();
    match &args.code {
        None => {
            let pages = PAGES.iter().map(|page| (page.code, page.title()));
            let all = pages.chain(Detector::ALL.iter().map(|detector| (detector.as_str(), detector.about().title)));
            match args.output {
                PlainFormat::Text => {
                    for (name, title) in all {
                        out.line(format!("{name:<NAME_COLUMNS$}  {title}"))?;
                    }
                }
                PlainFormat::Json => {
                    let rows: Vec<Value> = all.map(|(name, title)| json!({ "name": name, "title": title })).collect();
                    out.line(Value::Array(rows).to_string())?;
                }
            }
        }
        Some(written) => {
            let (name, text) = match (explain(written), Detector::from_name(&plain(written))) {
                (Some(page), _) => (page.code, page.text.to_owned()),
                (None, Some(detector)) => (detector.as_str(), of_detector(detector)?),
                (None, None) => {
                    let keys = keys()?;
                    let name = written.trim_matches(['[', ']']);
                    (name, of_keys(&keys, name).ok_or_else(|| unknown(written, &keys))?)
                }
            };
            match args.output {
                PlainFormat::Text => out.text(text)?,
                PlainFormat::Json => out.line(json!({ "name": name, "text": text }).to_string())?,
            }
        }
    }
    Ok(out.flush()?)
}

/// A name as it is written in policies.
fn plain(written: &str) -> String {
    written.to_ascii_lowercase().replace('-', "_")
}

/// A key with what is known of it, or all keys of a table.
fn of_keys(keys: &[Key], name: &str) -> Option<String> {
    if let Some(key) = keys.iter().find(|key| key.path == name) {
        let range = if key.range.is_empty() { String::new() } else { format!("Values: {}\n", key.range) };
        let default = key.default.as_ref().map(|default| format!("Default: {default}\n")).unwrap_or_default();
        return Some(format!("# {name}\n\n{}\n\n{range}{default}It is a key of {}.\n", wrapped(&key.text, ""), key.file));
    }
    let is_inside = |key: &&Key| key.path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let inside: Vec<&Key> = keys.iter().filter(is_inside).collect();
    let line = |key: &&Key| wrapped(&format!("- {}: {}", key.path, key.text), "  ") + "\n";
    (!inside.is_empty()).then(|| format!("# {name}\n\n{}", inside.iter().map(line).collect::<String>()))
}

/// What a detector says about itself: the page `detection` has the same, with the test behind it.
fn of_detector(detector: Detector) -> Result<String, Failure> {
    let (about, name) = (detector.about(), detector.as_str());
    let paragraph = |text: &str, indent: &str| wrapped(&unlinked(text), indent);
    let silent = about.silent.iter().map(|case| format!("- {}\n", paragraph(case, "  "))).collect::<Vec<_>>().concat();
    let silent = if silent.is_empty() { silent } else { format!("\nIt is silent where:\n\n{silent}") };
    let mode = policy::load(SHIPPED)?.detectors.mode(detector).as_str();
    Ok(format!(
        "# {name}\n\n{}\n\n{}\n\n{}\n{silent}\n\
         Its mode in the policy `{SHIPPED}`: {mode}. Its settings, with the values of that policy:\n\n{}\n\
         What another value says to recorded events: loopwarden replay FILE --set detectors.{name}.KEY=VALUE\n",
        paragraph(about.title, ""),
        paragraph(about.rule, ""),
        paragraph(&format!("Example: {}", about.example), ""),
        detector.default_toml()
    ))
}

/// Links lead to places of a page: their words are kept.
fn unlinked(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("](") {
        let (head, words) = before.rsplit_once('[').unwrap_or((before, ""));
        out.extend([head, words]);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// A paragraph in lines; `indent` stands before all but the first.
fn wrapped(text: &str, indent: &str) -> String {
    let (mut out, mut chars) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if chars > 0 && chars + 1 + length > LINE_CHARS {
            out.extend(["\n", indent]);
            chars = indent.len();
        } else if chars > 0 {
            out.push(' ');
            chars += 1;
        }
        out.push_str(word);
        chars += length;
    }
    out
}

fn unknown(written: &str, keys: &[Key]) -> Failure {
    let code = closest(&written.to_ascii_uppercase(), PAGES.iter().map(|page| page.code));
    let meant = code.or_else(|| closest(&plain(written), Detector::ALL.map(Detector::as_str)));
    let meant = meant.or_else(|| closest(written, keys.iter().map(|key| key.path.as_str())));
    let meant = meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
    let shown: String = written.chars().filter(|letter| !letter.is_control()).take(32).collect();
    let message =
        format!("error: there is no code, detector or key {shown:?}{meant}; `loopwarden explain` lists codes and detectors");
    Failure::new(exit_code::USAGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of a schema, those of lists of tables without an index.
    fn leaves(schema: &Value, path: &str, found: &mut Vec<String>) {
        let properties = [schema, &schema["items"]].into_iter().find_map(|schema| schema.get("properties")?.as_object());
        for (key, inner) in properties.into_iter().flatten() {
            leaves(inner, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, found);
        }
        if properties.is_none() {
            found.push(path.to_owned());
        }
    }

    #[test]
    fn every_key_of_every_table_is_explained() {
        let keys = keys().unwrap();
        let mut known = Vec::new();
        leaves(&loopwarden_settings::policy_schema().unwrap(), "", &mut known);
        leaves(&loopwarden_settings::config_schema(), "", &mut known);
        for path in ["budget.agents", "prices.model.cached_usd", "tenant.names", "trial.share", "webhook.format", "input.topic"] {
            assert!(known.iter().any(|known| known == path), "{path}");
        }
        for path in &known {
            let page = of_keys(&keys, path).unwrap_or_else(|| panic!("{path} is not explained"));
            assert!(page.starts_with(&format!("# {path}\n\n")), "{page}");
            let key = keys.iter().find(|key| key.path == *path).unwrap();
            assert!(!key.text.is_empty() || key.path.rsplit('.').next() == Some("mode"), "{path} has no text");
            if let Some((table, _)) = path.rsplit_once('.') {
                assert!(of_keys(&keys, table).unwrap().contains(&format!("- {path}:")), "{table}");
            }
        }
        assert_eq!(known.len(), keys.len(), "keys that no schema has");
        let page = of_keys(&keys, "budget.agents").unwrap();
        assert!(page.contains("\nValues: 0 to 1000000000000000\nDefault: 0\nIt is a key of a policy.\n"), "{page}");
    }

    #[test]
    fn every_detector_has_a_page_without_links_that_lead_nowhere() {
        for detector in Detector::ALL {
            let text = of_detector(detector).unwrap();
            assert!(!text.contains("]("), "{text}");
            assert!(text.contains(&format!("[detectors.{}]\n", detector.as_str())), "{text}");
        }
        assert_eq!(unlinked("The [score](#the-score) and [that](x) reach."), "The score and that reach.");
    }
}
