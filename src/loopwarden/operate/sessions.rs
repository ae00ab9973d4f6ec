//! The question over all sessions: which of them matter first.

use loopwarden_core::engine::{AgentState, SubjectKey};
use loopwarden_lane::{FirstRows, Listed, Listing, Places, SessionRow, StopView};

use crate::operate::lanes::{Lanes, Unanswered, answers};
use crate::operate::{api, shown};

/// Sessions that one question looks at, a slice after the other. The answer says where there are more.
const LOOKED_AT_MAX: u64 = 200_000;
/// Stops that are looked at; operators alone add to them.
pub(crate) const STOPS_MAX: usize = 65_536;

/// The first of the sessions. The stops of the question are filled in.
///
/// # Errors
/// The lanes do not answer.
pub(crate) fn sessions(lanes: &(impl Lanes + ?Sized), mut listing: Listing) -> Result<api::Sessions, Unanswered> {
    let now = listing.now;
    let stops: FirstRows<StopView> = answers(lanes, move |view| view.stops(now, STOPS_MAX))?.into_iter().sum();
    listing.stops = stops.rows.into_iter().map(|stop| stop.whom).collect();
    let (mut all, mut from) = (Listed::default(), None::<Places>);
    loop {
        let (asked, start) = (listing.clone(), from.take());
        for found in answers(lanes, move |view| view.listed(&asked, start.as_ref()))? {
            all.add(found, &listing);
        }
        if all.next.is_empty() || all.looked_at >= LOOKED_AT_MAX {
            return Ok(listed(&all, listing.rows_max as u64));
        }
        // Lanes judge between two slices.
        from = Some(std::mem::take(&mut all.next));
    }
}

fn listed(found: &Listed, rows_max: u64) -> api::Sessions {
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
    Some(api::SessionRow {
        session_id: session_id.clone(),
        names: shown::names(tenant, agent_id, &row.swarm_id),
        spent: shown::spent(row.used),
        standing: shown::standing(&row.standing),
        seen: row.seen.to_rfc3339(),
        stop: row.stop.as_ref().map(shown::stop_name),
    })
}
