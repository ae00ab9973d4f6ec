//! Where the verdicts of a row are looked for: what its key means.

use loopwarden_core::engine::{Group, GroupKind, SEPARATOR, joined};

/// Where the verdicts of a subject are looked for.
pub(crate) enum Owner {
    Session(String),
    Group(String),
}

/// Where a row's verdicts are looked for, by its key.
pub(crate) fn place_of(key: &str) -> Option<Owner> {
    let parts: Vec<&str> = key.split(SEPARATOR).collect();
    match *parts.as_slice() {
        ["agent", tenant, session_id, _] => Some(Owner::Session(joined(&[tenant, session_id]))),
        ["swarm", tenant, swarm_id, _] => Some(Owner::Group(joined(&["swarm", tenant, swarm_id]))),
        ["fleet", tenant, _] => Some(Owner::Group(joined(&["fleet", tenant]))),
        ["group", tenant, kind, name, _] => {
            let kind = GroupKind::from_name(kind)?;
            Some(Owner::Group(Group::new(kind, name).row_prefix(tenant)))
        }
        _ => None,
    }
}

/// Whose subject it is; empty = none's.
pub(crate) fn tenant_of(key: &str) -> &str {
    key.split(SEPARATOR).nth(1).unwrap_or_default()
}

/// What the keys of a session, of a swarm, of the fleet of a tenant or of a group have in common.
pub(crate) fn beginning_of(key: &str) -> &str {
    key.rfind(SEPARATOR).and_then(|at| key.get(..=at)).unwrap_or(key)
}
