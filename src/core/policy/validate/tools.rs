//! `[[tool]]` entries to a [`ToolTable`]: which entries cover a name, merged in file order.

use std::collections::BTreeSet;

use crate::limits::POLICY_LIST_MAX;
use crate::setting::{Maybe, Must, Names, Patterns, Section, Table, Times, ToolClass, ToolPolicy, ToolTable, one_of, settings};

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

settings! {
    /// One `[[tool]]`. What is absent leaves what earlier entries set.
    struct ToolEntry {
        names: Vec<String> = r#"["read_file", "Read", "view", "open_file", "grep", "Grep", "glob", "Glob", "list_dir", "ls"]"#, Must(Patterns("a tool")), "exact, or a prefix ending in *";
        class: Option<ToolClass> = r#""read""#, Maybe(one_of(ToolClass::WORDS)), "{words}";
        args_only as "identity": Option<bool> = r#""call""#, Maybe(one_of(&IDENTITIES)), "{words}: args_only leaves outcomes out";
        args: Option<Vec<String>> = "[]", Maybe(Names), "top-level arguments that alone make the identity; empty = all";
        args_ignored: Option<Vec<String>> = "[]", Maybe(Names), "top-level arguments that never do";
        is_unmasked as "result_mask": Option<bool> = r#""default""#, Maybe(one_of(&MASKS)), "{words}: none where the id or duration is the answer";
        result_ignored: Option<Vec<String>> = "[]", Maybe(Names), "further fields dropped from object results";
        factor: Option<f64> = "1.0", Maybe(Times), "times; thresholds and block_at of counts, rounded up";
    }
}

pub(super) const SECTION: Section = Section {
    path: "tool",
    is_list: true,
    about: "Policies of tools. Entries apply in order, later keys win; those of a policy that begins from this one come after these, unless it says\nbase_tools = false. This first one spells out every key.",
    settings: ToolEntry::SETTINGS,
};

/// What a policy is asked for: a tool's name, or all names with a prefix.
#[derive(Clone, Copy)]
enum Covered<'a> {
    Exact(&'a str),
    Prefix(&'a str),
    Other,
}

/// The table of all tools that are named anywhere.
pub(super) fn table(whole: &mut Table<'_>, named: &NamedTools<'_>) -> ToolTable {
    let entries = whole.key("tool").rows(POLICY_LIST_MAX, ToolEntry::SETTINGS, ToolEntry::read);
    let exact: BTreeSet<&str> = entries
        .iter()
        .flat_map(ToolEntry::exact)
        .chain(named.shell)
        .chain(named.waiters)
        .chain(named.stagnation)
        .chain(named.stuck)
        .chain(named.fleet_rate)
        .map(String::as_str)
        .collect();
    let prefixes: BTreeSet<&str> = entries.iter().flat_map(ToolEntry::prefixes).collect();
    let mut prefixes: Vec<&str> = prefixes.into_iter().collect();
    // Longest first; the sort is stable, so that equal lengths stay in the order of names.
    prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
    let resolved = |subject| policy(&entries, subject, named);
    ToolTable::new(
        exact.into_iter().map(|name| (name.to_owned(), resolved(Covered::Exact(name)))).collect(),
        prefixes.into_iter().map(|prefix| (prefix.to_owned(), resolved(Covered::Prefix(prefix)))).collect(),
        resolved(Covered::Other),
    )
}

impl ToolEntry {
    /// Its names that stand for one tool each.
    fn exact(&self) -> impl Iterator<Item = &String> {
        self.names.iter().filter(|name| !name.ends_with('*'))
    }

    /// Beginnings of the names that it stands for.
    fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| name.strip_suffix('*'))
    }

    /// Whether it holds for all that the subject stands for. A shorter prefix covers every name of a longer one.
    fn covers(&self, subject: Covered<'_>) -> bool {
        let (name, is_exact) = match subject {
            Covered::Exact(name) => (name, true),
            Covered::Prefix(prefix) => (prefix, false),
            Covered::Other => return false,
        };
        (is_exact && self.exact().any(|exact| exact == name)) || self.prefixes().any(|prefix| name.starts_with(prefix))
    }
}

fn policy(entries: &[ToolEntry], subject: Covered<'_>, named: &NamedTools<'_>) -> ToolPolicy {
    let mut policy = ToolPolicy { factor: 1.0, ..ToolPolicy::default() };
    for entry in entries.iter().filter(|entry| entry.covers(subject)) {
        policy.class = entry.class.unwrap_or(policy.class);
        policy.args_only = entry.args_only.unwrap_or(policy.args_only);
        replace(&mut policy.call.args, entry.args.as_deref());
        replace(&mut policy.call.args_ignored, entry.args_ignored.as_deref());
        policy.outcome.is_unmasked = entry.is_unmasked.unwrap_or(policy.outcome.is_unmasked);
        replace(&mut policy.outcome.result_ignored, entry.result_ignored.as_deref());
        policy.factor = entry.factor.unwrap_or(policy.factor);
    }
    policy.poll_factor = policy.factor * named.poll_factor;
    if policy.class == ToolClass::Poll {
        policy.factor = policy.poll_factor;
    }
    let exact = match subject {
        Covered::Exact(name) => Some(name),
        Covered::Prefix(_) | Covered::Other => None,
    };
    let is_in = |tools: &[String]| exact.is_some_and(|name| tools.iter().any(|tool| tool == name));
    policy.in_stagnation = named.stagnation.is_empty() || is_in(named.stagnation);
    policy.in_stuck = named.stuck.is_empty() || is_in(named.stuck);
    policy.in_fleet_rate = named.fleet_rate.is_empty() || is_in(named.fleet_rate);
    policy.is_shell = is_in(named.shell);
    policy.waits = is_in(named.waiters);
    policy
}

fn replace<T: for<'a> From<&'a [String]>>(names: &mut T, later: Option<&[String]>) {
    if let Some(later) = later {
        *names = later.into();
    }
}
