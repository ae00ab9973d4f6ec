//! Where the verdicts of a row are looked for: what its key means.

use loopwarden_core::engine::{SEPARATOR, SubjectKey, joined};
use loopwarden_core::whom::{Kind, Whom};

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
            let kind = Kind::from_name(kind).filter(|kind| kind.is_in_tenant())?;
            Some(Owner::Group(SubjectKey::group_prefix(&Whom::new(tenant, kind, name))))
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
