//! `[[tool]]` entries to a [`ToolTable`]: which entries cover a name, merged in file order.

use std::{collections::BTreeSet, sync::Arc};

use crate::limits::{FACTOR_MAX, POLICY_LIST_MAX};
use crate::setting::{Key, Kind, Table, ToolClass, ToolPolicy, ToolTable, one_of};

const CLASSES: [(&str, ToolClass); 6] = [
    ("normal", ToolClass::Normal),
    ("poll", ToolClass::Poll),
    ("read", ToolClass::Read),
    ("mutates", ToolClass::Mutates),
    ("spawn", ToolClass::Spawn),
    ("exempt", ToolClass::Exempt),
];

const IDENTITIES: [(&str, bool); 2] = [("call", false), ("args_only", true)];
const MASKS: [(&str, bool); 2] = [("default", false), ("none", true)];

/// Tools that the rest of the policy names.
pub(super) struct NamedTools<'a> {
    /// Tools that run a command line (`identity.shell_tools`).
    pub(super) shell: &'a [String],
    /// Tools that let time pass (`identity.waiters`).
    pub(super) waiters: &'a [String],
    /// `tools` of `stagnation`, sorted; empty = all.
    pub(super) stagnation: &'a [String],
    /// `tools` of `stuck`, sorted; empty = all.
    pub(super) stuck: &'a [String],
    /// `tools` of `fleet_rate`, sorted; empty = all.
    pub(super) fleet_rate: &'a [String],
    /// Factor of the counts of class `poll`.
    pub(super) poll_factor: f64,
}

struct ToolEntry {
    exact: Vec<String>,
    prefixes: Vec<String>,
    class: Option<ToolClass>,
    args_only: Option<bool>,
    args: Option<Arc<[String]>>,
    args_ignored: Option<Arc<[String]>>,
    is_unmasked: Option<bool>,
    result_ignored: Option<Vec<String>>,
    factor: Option<f64>,
}

/// What a policy is asked for: a tool's name, or all names with a prefix.
#[derive(Clone, Copy)]
enum Subject<'a> {
    Exact(&'a str),
    Prefix(&'a str),
    Other,
}

/// The table of all tools that are named anywhere.
pub(super) fn table(whole: &mut Table<'_>, named: &NamedTools<'_>) -> ToolTable {
    let count = whole.key("tool").list().len();
    whole.check.rule("tool", count <= POLICY_LIST_MAX, || {
        format!("tool has {count} entries, but must not have above {POLICY_LIST_MAX}")
    });
    let entries: Vec<ToolEntry> = whole.tables("tool", entry);
    let exact: BTreeSet<&str> = entries
        .iter()
        .flat_map(|entry| &entry.exact)
        .chain(named.shell)
        .chain(named.waiters)
        .chain(named.stagnation)
        .chain(named.stuck)
        .chain(named.fleet_rate)
        .map(String::as_str)
        .collect();
    let prefixes: BTreeSet<&str> = entries.iter().flat_map(|entry| &entry.prefixes).map(String::as_str).collect();
    let mut prefixes: Vec<&str> = prefixes.into_iter().collect();
    // Longest first; the sort is stable, so that equal lengths stay in the order of names.
    prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
    let resolved = |subject| policy(&entries, subject, named);
    ToolTable::new(
        exact.into_iter().map(|name| (name.to_owned(), resolved(Subject::Exact(name)))).collect(),
        prefixes.into_iter().map(|prefix| (prefix.to_owned(), resolved(Subject::Prefix(prefix)))).collect(),
        resolved(Subject::Other),
    )
}

/// What is absent leaves what earlier entries set.
fn entry(table: &mut Table<'_>) -> ToolEntry {
    let names = table.optional("names").map(|mut key| key.texts()).unwrap_or_default();
    let path = table.path("names");
    table.check.rule(&path, !names.is_empty(), || format!("{path} is empty, but must name a tool"));
    let (mut exact, mut prefixes) = (Vec::new(), Vec::new());
    for name in &names {
        if let Some(prefix) = name.strip_suffix('*').filter(|prefix| !prefix.contains('*')) {
            prefixes.push(prefix.to_owned());
        } else {
            let holds = !name.contains('*');
            table.check.rule(&path, holds, || format!("{path} holds {name:?}, but a * may only stand at the end"));
            exact.push(name.clone());
        }
    }
    table.check.names_in_order(&path, &names);
    ToolEntry {
        exact,
        prefixes,
        args: table.optional("args").map(sorted_names).map(Arc::from),
        args_ignored: table.optional("args_ignored").map(sorted_names).map(Arc::from),
        result_ignored: table.optional("result_ignored").map(sorted_names),
        args_only: table.optional("identity").map(|mut key| one_of(&IDENTITIES).read(&mut key)),
        is_unmasked: table.optional("result_mask").map(|mut key| one_of(&MASKS).read(&mut key)),
        class: table.optional("class").map(|mut key| one_of(&CLASSES).read(&mut key)),
        factor: table.optional("factor").map(|mut key| {
            let factor = key.float();
            key.check.positive(&key.path, factor, FACTOR_MAX)
        }),
    }
}

fn sorted_names(mut key: Key<'_>) -> Vec<String> {
    let names = key.texts();
    key.check.names(&key.path, &names)
}

impl ToolEntry {
    /// Whether it holds for all that the subject stands for. A shorter prefix covers every name of a longer one.
    fn covers(&self, subject: Subject<'_>) -> bool {
        let (name, is_exact) = match subject {
            Subject::Exact(name) => (name, true),
            Subject::Prefix(prefix) => (prefix, false),
            Subject::Other => return false,
        };
        (is_exact && self.exact.iter().any(|exact| exact == name)) || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

fn policy(entries: &[ToolEntry], subject: Subject<'_>, named: &NamedTools<'_>) -> ToolPolicy {
    let mut policy = ToolPolicy { factor: 1.0, ..ToolPolicy::default() };
    for entry in entries.iter().filter(|entry| entry.covers(subject)) {
        policy.class = entry.class.unwrap_or(policy.class);
        policy.args_only = entry.args_only.unwrap_or(policy.args_only);
        replace(&mut policy.call.args, entry.args.as_ref());
        replace(&mut policy.call.args_ignored, entry.args_ignored.as_ref());
        policy.outcome.is_unmasked = entry.is_unmasked.unwrap_or(policy.outcome.is_unmasked);
        replace(&mut policy.outcome.result_ignored, entry.result_ignored.as_ref());
        policy.factor = entry.factor.unwrap_or(policy.factor);
    }
    policy.poll_factor = policy.factor * named.poll_factor;
    if policy.class == ToolClass::Poll {
        policy.factor = policy.poll_factor;
    }
    let exact = match subject {
        Subject::Exact(name) => Some(name),
        Subject::Prefix(_) | Subject::Other => None,
    };
    let is_in = |tools: &[String]| exact.is_some_and(|name| tools.iter().any(|tool| tool == name));
    policy.in_stagnation = named.stagnation.is_empty() || is_in(named.stagnation);
    policy.in_stuck = named.stuck.is_empty() || is_in(named.stuck);
    policy.in_fleet_rate = named.fleet_rate.is_empty() || is_in(named.fleet_rate);
    policy.is_shell = is_in(named.shell);
    policy.waits = is_in(named.waiters);
    policy
}

fn replace<T: Clone>(names: &mut T, later: Option<&T>) {
    if let Some(later) = later {
        names.clone_from(later);
    }
}
