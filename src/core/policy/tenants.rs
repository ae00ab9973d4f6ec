//! How many events of a tenant are judged: one tenant that floods its partitions must not make all others wait.

use std::collections::BTreeMap;

use crate::limits::POLICY_LIST_MAX;
use crate::setting::{Must, Patterns, Section, Table, count, settings};

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

settings! {
    /// One `[[tenant]]`: a limit of some tenants.
    struct TenantLimit {
        names: Vec<String> = r#"["*"]"#, Must(Patterns("a tenant")), "exact, or a prefix ending in *; events without a tenant have the empty name";
        events_per_minute: u32 = "0", Must(count(0)), "events of a tenant that each partition judges in a minute of record time; 0 = any number";
    }
}

impl TenantLimits {
    pub(super) const SECTION: Section = Section {
        path: "tenant",
        is_list: true,
        about: "Limits of tenants. Entries apply in order, later ones win. What comes beyond is a dead letter (tenant_limit); a reset never is.",
        settings: TenantLimit::SETTINGS,
    };

    pub(super) fn read(whole: &mut Table<'_>) -> Self {
        let mut limits = Self::default();
        let rows = whole.key("tenant").rows(POLICY_LIST_MAX, TenantLimit::SETTINGS, TenantLimit::read);
        for (entry, TenantLimit { names, events_per_minute }) in rows.into_iter().enumerate() {
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
