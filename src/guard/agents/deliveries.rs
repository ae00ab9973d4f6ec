//! Nudges on their way to agents: each once per command and agent, handed out with a lease.
//!
//! The next event of the agent confirms that it had the answer. Without one within [`LEASE_MS`] a nudge is handed out once more, then
//! dropped. All of this is memory alone: a new process may hand out one nudge again, which does no harm.

use std::sync::Arc;

use crate::{table::lru::LruMap, wire::verdict::Verdict};

/// How long an answer may be under way. Milliseconds.
pub(crate) const LEASE_MS: i64 = 60_000;
/// Agents whose nudges are remembered; beyond them those that were silent longest are forgotten.
const AGENTS_MAX: usize = 32_768;
/// Nudges that are remembered for one agent; the oldest leaves.
const NUDGES_MAX: usize = 32;
/// An agent that was silent for so long is forgotten: no nudge lives longer, by default. Milliseconds.
pub(crate) const SILENT_MS_MAX: i64 = 3_600_000;

/// Nudges of all agents, and how far each has come.
#[derive(Debug)]
pub(crate) struct Deliveries {
    agents: LruMap<String, AgentNudges>,
}

#[derive(Debug, Default)]
struct AgentNudges {
    /// Nudges issued up to then are void. Unix milliseconds.
    void_until: Option<i64>,
    nudges: Vec<Nudge>,
}

#[derive(Debug)]
struct Nudge {
    command_id: String,
    /// The loop that it is about.
    episode: String,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Meant for the agent, to be handed out after its call.
    Held(Arc<Verdict>),
    /// Handed out; whether for the second time.
    Leased {
        at_ms: i64,
        again: bool,
    },
    /// The first answer was lost.
    Lost,
    /// The agent had it, and no other text about that loop was due so far.
    Delivered,
    Done,
}

impl Default for Deliveries {
    fn default() -> Self {
        Self { agents: LruMap::new(AGENTS_MAX) }
    }
}

/// What an event of an agent shows of nudges that were under way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Confirmations {
    /// Ids of the commands whose nudges the agent had.
    pub(crate) confirmed: Vec<String>,
    /// Nudges that were given up.
    pub(crate) dropped: u64,
}

impl Deliveries {
    /// An event of an agent came: it confirms the nudges that were under way.
    pub(crate) fn confirm(&mut self, agent: &str, now_ms: i64) -> Confirmations {
        let mut found = Confirmations::default();
        let Some(agent) = self.agents.get_mut(agent) else { return found };
        for nudge in &mut agent.nudges {
            let State::Leased { at_ms, again } = nudge.state else { continue };
            nudge.state = if now_ms.saturating_sub(at_ms) <= LEASE_MS {
                found.confirmed.push(nudge.command_id.clone());
                State::Delivered
            } else if again {
                found.dropped += 1;
                State::Done
            } else {
                State::Lost
            };
        }
        found
    }

    /// Whether a nudge may be handed out now.
    pub(crate) fn is_open(&self, agent: &str, command_id: &str, issued_ms: i64) -> bool {
        let Some(agent) = self.agents.get(agent) else { return true };
        let is_void = agent.void_until.is_some_and(|until_ms| issued_ms <= until_ms);
        !is_void && agent.state(command_id).is_none_or(|state| matches!(state, State::Held(_) | State::Lost))
    }

    /// Nudges that wait for the end of a call.
    pub(crate) fn held(&self, agent: &str) -> Vec<Arc<Verdict>> {
        let nudges = self.agents.get(agent).into_iter().flat_map(|agent| &agent.nudges);
        let held = nudges.filter_map(|nudge| if let State::Held(verdict) = &nudge.state { Some(verdict) } else { None });
        held.cloned().collect()
    }

    /// A nudge waits for the end of the agent's call.
    pub(crate) fn hold(&mut self, agent: &str, nudge: &Arc<Verdict>, now_ms: i64) {
        let agent = self.agents.touch(agent, now_ms);
        if agent.state(&nudge.command_id).is_none() {
            agent.set(nudge, State::Held(Arc::clone(nudge)));
        }
    }

    /// A nudge leaves with an answer.
    pub(crate) fn lease(&mut self, agent: &str, nudge: &Verdict, now_ms: i64) {
        let agent = self.agents.touch(agent, now_ms);
        let again = agent.state(&nudge.command_id) == Some(&State::Lost);
        agent.set(nudge, State::Leased { at_ms: now_ms, again });
    }

    /// Another text about a loop is due: how many nudges about it the agent had had, each counted once.
    pub(crate) fn goes_on(&mut self, agent: &str, episode: &str) -> u64 {
        let Some(agent) = self.agents.get_mut(agent) else { return 0 };
        let mut unheeded = 0;
        for nudge in agent.nudges.iter_mut().filter(|nudge| nudge.state == State::Delivered && nudge.episode == episode) {
            nudge.state = State::Done;
            unheeded += 1;
        }
        unheeded
    }

    /// The agent begins anew, or a person has spoken: nudges that were not delivered yet are void.
    pub(crate) fn begins_anew(&mut self, agent: &str, now_ms: i64) {
        let agent = self.agents.touch(agent, now_ms);
        agent.void_until = Some(now_ms);
        agent.nudges.retain(|nudge| matches!(nudge.state, State::Delivered | State::Done));
        // What it does now is no answer to a nudge from before.
        agent.nudges.iter_mut().for_each(|nudge| nudge.state = State::Done);
    }

    pub(crate) fn sweep(&mut self, now_ms: i64) {
        self.agents.forget_before(now_ms.saturating_sub(SILENT_MS_MAX));
    }

    pub(crate) fn len(&self) -> usize {
        self.agents.len()
    }
}

impl AgentNudges {
    fn state(&self, command_id: &str) -> Option<&State> {
        self.nudges.iter().find(|nudge| nudge.command_id == command_id).map(|nudge| &nudge.state)
    }

    fn set(&mut self, nudge: &Verdict, state: State) {
        if let Some(known) = self.nudges.iter_mut().find(|known| known.command_id == nudge.command_id) {
            known.state = state;
            return;
        }
        if self.nudges.len() >= NUDGES_MAX {
            self.nudges.remove(0);
        }
        self.nudges.push(Nudge { command_id: nudge.command_id.clone(), episode: nudge.episode.clone(), state });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{wire::verdict::read_command, wire::verdict::tests::command};

    fn nudge(id: &str) -> Verdict {
        read_command(command(id, "nudge", 1).to_string().as_bytes()).unwrap().verdict.unwrap()
    }

    fn confirmed(deliveries: &mut Deliveries, now_ms: i64) -> Vec<String> {
        deliveries.confirm("a", now_ms).confirmed
    }

    #[test]
    fn a_nudge_is_handed_out_once_and_confirmed_by_the_next_event() {
        let mut deliveries = Deliveries::default();
        assert!(deliveries.is_open("a", "c", 0));
        deliveries.lease("a", &nudge("c"), 1_000);
        assert!(!deliveries.is_open("a", "c", 0), "a parallel call");
        assert!(deliveries.is_open("b", "c", 0), "another agent");
        assert_eq!(confirmed(&mut deliveries, 2_000), ["c"]);
        assert!(!deliveries.is_open("a", "c", 0));
        assert!(confirmed(&mut deliveries, 3_000).is_empty(), "once");
    }

    #[test]
    fn one_that_nobody_confirms_is_handed_out_once_more_then_dropped() {
        let mut deliveries = Deliveries::default();
        deliveries.lease("a", &nudge("c"), 0);
        assert_eq!(deliveries.confirm("a", LEASE_MS + 1), Confirmations::default());
        assert!(deliveries.is_open("a", "c", 0));
        deliveries.lease("a", &nudge("c"), LEASE_MS + 1);
        assert_eq!(deliveries.confirm("a", 2 * LEASE_MS + 2), Confirmations { confirmed: vec![], dropped: 1 });
        assert!(!deliveries.is_open("a", "c", 0));
    }

    #[test]
    fn the_second_time_counts_as_the_first_where_it_arrives() {
        let mut deliveries = Deliveries::default();
        deliveries.lease("a", &nudge("c"), 0);
        deliveries.confirm("a", LEASE_MS + 1);
        deliveries.lease("a", &nudge("c"), LEASE_MS + 1);
        assert_eq!(confirmed(&mut deliveries, LEASE_MS + 2), ["c"]);
    }

    #[test]
    fn a_loop_that_goes_on_after_a_nudge_did_not_heed_it_and_that_counts_once() {
        let mut deliveries = Deliveries::default();
        deliveries.lease("a", &nudge("c"), 0);
        assert_eq!(deliveries.goes_on("a", "e"), 0, "nobody knows yet whether it arrived");
        deliveries.confirm("a", 1);
        assert_eq!((deliveries.goes_on("a", "other"), deliveries.goes_on("b", "e")), (0, 0));
        assert_eq!((deliveries.goes_on("a", "e"), deliveries.goes_on("a", "e")), (1, 0));
        deliveries.lease("a", &nudge("d"), 2);
        deliveries.confirm("a", 3);
        deliveries.begins_anew("a", 4);
        assert_eq!(deliveries.goes_on("a", "e"), 0, "a person has spoken since");
        assert!(!deliveries.is_open("a", "d", 5));
    }

    #[test]
    fn a_new_beginning_voids_what_was_not_delivered() {
        let mut deliveries = Deliveries::default();
        deliveries.hold("a", &Arc::new(nudge("held")), 0);
        assert!(deliveries.held("a").len() == 1 && deliveries.is_open("a", "held", 0));
        deliveries.begins_anew("a", 10);
        assert!(deliveries.held("a").is_empty() && !deliveries.is_open("a", "held", 10) && !deliveries.is_open("a", "new", 10));
        assert!(deliveries.is_open("a", "new", 11));
        deliveries.sweep(SILENT_MS_MAX + 11);
        assert_eq!(deliveries.len(), 0);
    }

    #[test]
    fn what_is_remembered_of_one_agent_is_bounded() {
        let mut deliveries = Deliveries::default();
        for number in 0..1_000 {
            deliveries.lease("a", &nudge(&number.to_string()), 0);
        }
        assert_eq!(deliveries.agents.get("a").unwrap().nudges.len(), NUDGES_MAX);
        assert!(!deliveries.is_open("a", "999", 0));
    }
}
