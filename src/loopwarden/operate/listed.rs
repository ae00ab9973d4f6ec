//! What lanes have found of sessions, as it is answered.

use loopwarden_core::engine::{AgentState, SubjectKey};
use loopwarden_core::{event::EventTime, whom::Whom};
use loopwarden_lane::{Listed, SessionRow};

use crate::operate::api;

/// What was found, as it is answered.
pub(crate) fn listed(found: &Listed, rows_max: u64) -> api::Sessions {
    let states = AgentState::ALL.into_iter().zip(found.states).filter(|(_, agents)| *agents > 0);
    api::Sessions {
        sessions: found.rows.iter().filter_map(row).collect(),
        found: found.found,
        looked_at: found.looked_at,
        states: states.map(|(state, agents)| (state.as_str().to_owned(), agents)).collect(),
        more: found.found > rows_max || !found.next.is_empty() || found.is_partial,
    }
}

fn row(row: &SessionRow) -> Option<api::SessionRow> {
    let SubjectKey::Agent { tenant, session_id, agent_id } = &row.subject else { return None };
    let name = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let reported = |used: u64| Some(used).filter(|used| *used > 0);
    let standing = &row.standing;
    Some(api::SessionRow {
        session_id: session_id.clone(),
        agent_id: agent_id.clone(),
        tenant: name(tenant),
        swarm_id: name(&row.swarm_id),
        calls: row.calls,
        tokens: reported(row.tokens),
        cost_micro_usd: reported(row.cost_micro_usd),
        state: standing.state.as_str().to_owned(),
        code: standing.detector.map(|detector| detector.as_str().to_owned()),
        loops_since: standing.since.map(EventTime::to_rfc3339),
        seen: row.seen.to_rfc3339(),
        stop: row.stop.as_ref().map(stop),
    })
}

/// The stop as `/v1/stops` has it: what a release is to name.
fn stop(whom: &Whom) -> api::StopName {
    let own = whom.kind.field().map(|field| (field, &*whom.name));
    let given = own.into_iter().chain([("tenant", &*whom.tenant)]).filter(|(_, value)| !value.is_empty());
    let names = given.map(|(field, value)| (field.to_owned(), value.to_owned())).collect();
    api::StopName { scope: whom.kind.as_str().to_owned(), names }
}
