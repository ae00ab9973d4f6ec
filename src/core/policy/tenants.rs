//! How many events of a tenant are judged: one tenant that floods its partitions must not make all others wait.

use std::collections::BTreeMap;

use crate::limits::POLICY_LIST_MAX;
use crate::setting::{Kind, Table, count};

/// Limits of `[[tenant]]`, by name and by beginning of a name.
#[derive(Debug, Clone, Default)]
pub struct TenantLimits {
    exact: BTreeMap<String, TenantRule>,
    /// In the order of the file.
    prefixes: Vec<(String, TenantRule)>,
}

#[derive(Debug, Clone, Copy)]
struct TenantRule {
    /// Place of the entry in the file: later ones win.
    entry: usize,
    events_per_minute: u32,
}

impl TenantLimits {
    pub(super) fn read(whole: &mut Table<'_>) -> Self {
        let entries = whole.key("tenant").list().len();
        whole.check.rule("tenant", entries <= POLICY_LIST_MAX, || {
            format!("tenant has {entries} entries, but must not have above {POLICY_LIST_MAX}")
        });
        let mut limits = Self::default();
        for (entry, (names, events_per_minute)) in whole.tables("tenant", entry).into_iter().enumerate() {
            let rule = TenantRule { entry, events_per_minute };
            for name in names {
                match name.strip_suffix('*') {
                    Some(prefix) => limits.prefixes.push((prefix.to_owned(), rule)),
                    None => _ = limits.exact.insert(name, rule),
                }
            }
        }
        limits
    }

    /// Events of a tenant that one partition judges in a minute; `None` = any number. A tenant without a name is the empty text.
    #[must_use]
    pub fn events_per_minute(&self, tenant: &str) -> Option<u32> {
        let prefix = self.prefixes.iter().rev().find(|(prefix, _)| tenant.starts_with(prefix.as_str())).map(|(_, rule)| rule);
        let rule = self.exact.get(tenant).into_iter().chain(prefix).max_by_key(|rule| rule.entry)?;
        Some(rule.events_per_minute).filter(|events| *events > 0)
    }
}

fn entry(table: &mut Table<'_>) -> (Vec<String>, u32) {
    let (names, path) = (table.key("names").texts(), table.path("names"));
    table.check.rule(&path, !names.is_empty(), || format!("{path} is empty, but must name a tenant"));
    for name in &names {
        let holds = !name.trim_end_matches('*').contains('*') && !name.ends_with("**");
        table.check.rule(&path, holds, || format!("{path} holds {name:?}, but a * may only stand at the end"));
    }
    table.check.names_in_order(&path, &names);
    (names, count(0).read(&mut table.key("events_per_minute")))
}
