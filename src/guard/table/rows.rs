//! The verdicts in force, by session, swarm, fleet and group: fed with commands or with state rows, in any mixture of sessions.
//!
//! A row replaces all that was known of its subject, a command adds to it or lifts. An update that is not newer than the last one of its
//! subject (`epoch`, `seq`) changes nothing. When there are too many subjects, those leave first that the tenant with the most of them
//! holds, and what left is known to be missing.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use loopwarden_core::engine::{SubjectKey, joined};
use loopwarden_core::{event::EventTime, limits::ACTIVE_VERDICTS_MAX};

use crate::table::place::{Owner, beginning_of, place_of, tenant_of};
use crate::table::shares::{Measure, Shares};
use crate::wire::verdict::{CommandUpdate, RowUpdate, Verdict};
use crate::{agents::agent::Agent, table::groups, table::lost::Lost, table::matching::Call, table::shares};

/// Subjects that are held, of all tenants.
pub(crate) const SUBJECTS_MAX: usize = 65_536;
/// What their verdicts may take, about. Bytes.
pub(crate) const BYTES_MAX: usize = 48 << 20;
/// What the places take by which a subject is found. Bytes.
const PLACES_BYTES: usize = 256;

/// Verdicts in force, by subject; bounded by [`SUBJECTS_MAX`] and [`BYTES_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Rows {
    subjects: BTreeMap<Arc<str>, Subject>,
    /// Keys of the subjects of each session.
    sessions: BTreeMap<String, Vec<Arc<str>>>,
    /// By swarm, by fleet, or by group of agents.
    groups: BTreeMap<String, groups::Group>,
    bytes: usize,
    shares: Shares,
    lost: Lost,
    /// Subjects that left because there were too many.
    pub(crate) evicted: u64,
}

#[derive(Debug, Default)]
struct Subject {
    epoch: u64,
    seq: u64,
    verdicts: Vec<Arc<Verdict>>,
    /// After it nothing of this is in force.
    ends_at: EventTime,
}

impl Rows {
    /// Takes a state row; none: its subject has no verdicts. False where the key is of no subject.
    pub(crate) fn row(&mut self, key: &str, row: Option<RowUpdate>, now: EventTime) -> bool {
        let Some(place) = place_of(key) else { return false };
        let Some(row) = row else {
            self.remove(key, &place);
            return true;
        };
        if self.subjects.get(key).is_some_and(|known| (known.epoch, known.seq) > (row.epoch, row.seq)) {
            return true;
        }
        self.remove(key, &place);
        let verdicts: Vec<_> =
            row.verdicts.into_iter().filter(|verdict| verdict.expires_at > now).take(ACTIVE_VERDICTS_MAX).collect();
        if let Some(ends_at) = verdicts.iter().map(|verdict| verdict.expires_at).max() {
            self.put(key, &place, Subject { epoch: row.epoch, seq: row.seq, verdicts: shared(verdicts), ends_at });
        }
        true
    }

    /// Takes a command that is newer than the last of its subject.
    pub(crate) fn command(&mut self, command: CommandUpdate, now: EventTime) {
        if command.expires_at <= now {
            return;
        }
        let key = command.subject.row_key();
        let Some(place) = place_of(&key) else { return };
        if self.subjects.get(key.as_str()).is_some_and(|known| (known.epoch, known.seq) >= (command.epoch, command.seq)) {
            return;
        }
        let mut verdicts = self.remove(&key, &place).map(|subject| subject.verdicts).unwrap_or_default();
        verdicts.retain(|verdict| verdict.expires_at > now && !is_replaced(verdict, &command));
        if let Some(verdict) = command.verdict {
            if verdicts.len() >= ACTIVE_VERDICTS_MAX {
                // As the engine does: the oldest nudge makes room, else the oldest block.
                let at = verdicts.iter().position(|held| !held.is_block()).unwrap_or(0);
                verdicts.remove(at);
            }
            verdicts.push(Arc::new(verdict));
        }
        // One without verdicts is remembered for its number: a command that comes late must not place again what was lifted.
        let ends_at =
            verdicts.iter().map(|verdict| verdict.expires_at).max().unwrap_or(command.expires_at).max(command.expires_at);
        self.put(&key, &place, Subject { epoch: command.epoch, seq: command.seq, verdicts, ends_at });
    }

    /// Verdicts in force for an agent by its own history, whatever calls they bind.
    pub(crate) fn own(&self, agent: &Agent, now: EventTime) -> Vec<Arc<Verdict>> {
        let keys = self.sessions.get(&agent.session_key()).into_iter().flatten();
        let verdicts = keys.filter_map(|key| self.subjects.get(key)).flat_map(|subject| &subject.verdicts);
        let is_meant = |verdict: &&Arc<Verdict>| verdict.expires_at > now && verdict.agent_id.as_ref() == Some(&agent.agent_id);
        verdicts.filter(is_meant).cloned().collect()
    }

    /// Verdicts in force for a call by the history of its swarm or of the fleet.
    pub(crate) fn of_others(&self, agent: &Agent, call: &Call, now: EventTime) -> Vec<Arc<Verdict>> {
        let mut found = Vec::new();
        let swarm = agent.swarm_id.as_deref().map(|swarm_id| joined(&["swarm", &agent.tenant, swarm_id]));
        let groups = self.groups_of(agent);
        for name in swarm.into_iter().chain([joined(&["fleet", &agent.tenant])]).chain(groups) {
            if let Some(group) = self.groups.get(&name) {
                group.binding(agent, call, now, &mut found);
            }
        }
        found
    }

    /// Names of the groups of an agent; none where no group at all is bound.
    fn groups_of(&self, agent: &Agent) -> Vec<String> {
        // Keys sort by their first part, and what follows the separator sorts above it.
        let has_groups = self.groups.range::<str, _>((Bound::Included("group\u{1f}"), Bound::Excluded("h"))).next().is_some();
        if has_groups { agent.who().all().map(|whom| SubjectKey::group_prefix(&whom)).collect() } else { Vec::new() }
    }

    /// Whether a verdict that was found by the history of others is still in force.
    pub(crate) fn holds(&self, agent: &Agent, verdict: &Verdict) -> bool {
        if !verdict.is_of_loop {
            let groups = self.groups_of(agent);
            return groups.iter().filter_map(|name| self.groups.get(name)).any(|group| group.holds_loose(&verdict.command_id));
        }
        let Some((fingerprint, _)) = &verdict.scope.fingerprint else { return false };
        let (tenant, fingerprint) = (agent.tenant.clone(), *fingerprint);
        let swarm = agent.swarm_id.clone().map(|swarm_id| SubjectKey::Swarm { tenant: tenant.clone(), swarm_id, fingerprint });
        let keys = swarm.into_iter().chain([SubjectKey::Fleet { tenant, fingerprint }]).map(|subject| subject.row_key());
        let mut held = keys.filter_map(|key| self.subjects.get(key.as_str())).flat_map(|subject| &subject.verdicts);
        held.any(|held| held.command_id == verdict.command_id)
    }

    /// Beginnings of the keys under which something may be missing that is in force for an agent.
    pub(crate) fn missing(&self, agent: &Agent, now: EventTime) -> Vec<String> {
        if self.lost.is_empty() {
            return Vec::new();
        }
        let Agent { tenant, session_id, swarm_id, .. } = agent;
        let session = joined(&["agent", tenant, session_id, ""]);
        let swarm = swarm_id.as_ref().map(|swarm_id| joined(&["swarm", tenant, swarm_id, ""]));
        let groups = agent.who().all().map(|whom| joined(&[&SubjectKey::group_prefix(&whom), ""]));
        let beginnings = [Some(session), swarm, Some(joined(&["fleet", tenant, ""]))].into_iter().flatten().chain(groups);
        beginnings.filter(|beginning| self.lost.may_have(tenant, beginning, now)).collect()
    }

    /// A row that is in force, for all one knows, and was not read.
    pub(crate) fn was_not_read(&mut self, key: &str) {
        if place_of(key).is_some() {
            self.lost.add(tenant_of(key), beginning_of(key), EventTime(i64::MAX));
        }
    }

    /// Forgets the subjects that another table knows.
    pub(crate) fn forget_known(&mut self, other: &Self) {
        self.remove_where(|key, _| other.subjects.contains_key(key));
    }

    /// Forgets what is in force no more.
    pub(crate) fn sweep(&mut self, now: EventTime) {
        self.remove_where(|_, subject| subject.ends_at <= now);
        self.lost.sweep(now);
    }

    pub(crate) fn len(&self) -> usize {
        self.subjects.len()
    }

    fn put(&mut self, key: &str, place: &Owner, subject: Subject) {
        let key: Arc<str> = key.into();
        match place {
            Owner::Session(name) => self.sessions.entry(name.clone()).or_default().push(Arc::clone(&key)),
            Owner::Group(name) => {
                let group = self.groups.entry(name.clone()).or_default();
                subject.verdicts.iter().for_each(|verdict| group.add(verdict));
            }
        }
        let bytes = bytes_of(&key, &subject);
        self.bytes += bytes;
        self.shares.add(tenant_of(&key), subject.place(&key), bytes);
        self.subjects.insert(key, subject);
        while self.subjects.len() > SUBJECTS_MAX && self.evict(Measure::Subjects) {}
        while self.bytes > BYTES_MAX && self.evict(Measure::Bytes) {}
    }

    fn remove(&mut self, key: &str, place: &Owner) -> Option<Subject> {
        let (key, subject) = self.subjects.remove_entry(key)?;
        let bytes = bytes_of(&key, &subject);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.shares.remove(tenant_of(&key), &subject.place(&key), bytes);
        match place {
            Owner::Session(name) => {
                if let Some(keys) = self.sessions.get_mut(name) {
                    keys.retain(|held| *held != key);
                    if keys.is_empty() {
                        self.sessions.remove(name);
                    }
                }
            }
            Owner::Group(name) => {
                if let Some(group) = self.groups.get_mut(name) {
                    subject.verdicts.iter().for_each(|verdict| group.remove(verdict));
                    if group.is_empty() {
                        self.groups.remove(name);
                    }
                }
            }
        }
        Some(subject)
    }

    fn remove_where(&mut self, leaves: impl Fn(&str, &Subject) -> bool) {
        let leaving = self.subjects.iter().filter(|(key, subject)| leaves(key, subject)).map(|(key, _)| Arc::clone(key));
        for key in leaving.collect::<Vec<_>>() {
            if let Some(place) = place_of(&key) {
                self.remove(&key, &place);
            }
        }
    }

    /// The next one leaves, and it is noted. False where there is none.
    fn evict(&mut self, by: Measure) -> bool {
        let Some(key) = self.shares.next(by) else { return false };
        let Some(subject) = place_of(&key).and_then(|place| self.remove(&key, &place)) else { return false };
        self.lost.add(tenant_of(&key), beginning_of(&key), subject.ends_at);
        self.evicted += 1;
        true
    }
}

impl Subject {
    fn place(&self, key: &Arc<str>) -> shares::Leaver {
        let has_block = self.verdicts.iter().any(|verdict| verdict.is_block());
        shares::Leaver { has_block, ends_at: self.ends_at, key: Arc::clone(key) }
    }
}

fn shared(verdicts: Vec<Verdict>) -> Vec<Arc<Verdict>> {
    verdicts.into_iter().map(Arc::new).collect()
}

fn bytes_of(key: &str, subject: &Subject) -> usize {
    let verdicts: usize = subject.verdicts.iter().map(|verdict| verdict.bytes()).sum();
    2 * key.len() + size_of::<Subject>() + PLACES_BYTES + verdicts
}

/// What a command takes the place of: all of its episode where it lifts, else nudges, and a block of the same calls.
fn is_replaced(verdict: &Verdict, command: &CommandUpdate) -> bool {
    if verdict.episode != command.episode {
        return false;
    }
    command
        .verdict
        .as_ref()
        .is_none_or(|new| !verdict.is_block() || (new.is_block() && verdict.scope.binds_same_calls(&new.scope)))
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::Content;
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::verdict::tests::{command, row};
    use crate::wire::verdict::{read_command, read_row};

    const ARGS: &str = r#"{"command":"cargo test -p core"}"#;

    fn at(text: &str) -> EventTime {
        EventTime::parse_rfc3339(text).unwrap()
    }

    fn now() -> EventTime {
        at("2026-01-01T00:01:00Z")
    }

    fn take(rows: &mut Rows, command: &Value) {
        rows.command(read_command(command.to_string().as_bytes()).unwrap(), now());
    }

    fn agent(session: &str, agent: &str) -> Agent {
        Agent::named("", session, agent, "w")
    }

    fn ids(verdicts: &[Arc<Verdict>]) -> Vec<&str> {
        verdicts.iter().map(|verdict| verdict.command_id.as_str()).collect()
    }

    fn key(agent: &str) -> String {
        joined(&["agent", "", "s", agent])
    }

    #[test]
    fn a_row_replaces_what_was_known_and_an_older_one_does_not() {
        let mut rows = Rows::default();
        let read = |text: String| read_row(text.as_bytes());
        assert!(rows.row(&key("main"), read(row(2, &[command("b", "block", 2), command("a", "nudge", 1)])), now()));
        assert_eq!(ids(&rows.own(&agent("s", "main"), now())), ["b", "a"]);
        assert!(rows.own(&agent("s", "other"), now()).is_empty() && rows.own(&agent("t", "main"), now()).is_empty());
        rows.row(&key("main"), read(row(1, &[command("a", "nudge", 1)])), now());
        assert_eq!(ids(&rows.own(&agent("s", "main"), now())), ["b", "a"]);
        rows.row(&key("main"), read(row(2, &[command("b", "block", 2)])), now());
        assert_eq!(ids(&rows.own(&agent("s", "main"), now())), ["b"], "one verdict has ended: the number is the same");
        assert!(rows.own(&agent("s", "main"), at("2026-01-01T00:10:00Z")).is_empty(), "a block ends without a word");
        rows.row(&key("main"), None, now());
        assert_eq!((rows.len(), rows.bytes, rows.sessions.len()), (0, 0, 0));
        assert!(!rows.row("galaxy", None, now()));
    }

    #[test]
    fn a_command_is_taken_once_in_order_and_lifted_by_its_episode() {
        let mut rows = Rows::default();
        take(&mut rows, &command("n", "nudge", 1));
        take(&mut rows, &command("n", "nudge", 1));
        take(&mut rows, &command("b", "block", 2));
        assert_eq!(ids(&rows.own(&agent("s", "main"), now())), ["b"], "the nudge of the episode is replaced");
        take(&mut rows, &command("late", "nudge", 1));
        assert_eq!(ids(&rows.own(&agent("s", "main"), now())), ["b"]);
        let mut other = command("o", "block", 3);
        other["episode"] = "f".into();
        take(&mut rows, &other);
        take(&mut rows, &command("u", "unblock", 4));
        assert_eq!(ids(&rows.own(&agent("s", "main"), now())), ["o"]);
        take(&mut rows, &command("b", "block", 2));
        assert_eq!(ids(&rows.own(&agent("s", "main"), now())), ["o"], "what was lifted is not placed again");
        let mut anew = command("anew", "nudge", 1);
        anew["epoch"] = 11.into();
        take(&mut rows, &anew);
        assert_eq!(ids(&rows.own(&agent("s", "main"), now())), ["o", "anew"], "a later epoch begins to count anew");
    }

    fn swarm(id: &str, fingerprint: &str) -> Value {
        let mut of_swarm = command(id, "block", 1);
        of_swarm["session_id"] = Value::Null;
        of_swarm["swarm_id"] = "w".into();
        of_swarm["scope"] =
            json!({ "kind": "swarm", "tool": "Bash", "fingerprint": fingerprint, "identity": { "kind": "call" } });
        of_swarm
    }

    #[test]
    fn a_swarm_and_a_fleet_bind_exactly_the_calls_they_name() {
        let mut rows = Rows::default();
        take(&mut rows, &swarm("hit", "a4404e81f177a67db9d08a78ed566b35"));
        take(&mut rows, &swarm("miss", "b4404e81f177a67db9d08a78ed566b35"));
        let call = Call::new("Bash", &Content::Raw(ARGS));
        assert_eq!(ids(&rows.of_others(&agent("any", "main"), &call, now())), ["hit"]);
        assert!(rows.of_others(&Agent::named("", "any", "main", ""), &call, now()).is_empty(), "in no swarm");
        assert!(rows.of_others(&Agent::named("t", "any", "main", "w"), &call, now()).is_empty(), "another tenant");
        assert!(rows.of_others(&agent("any", "main"), &Call::new("Sh", &Content::Raw(ARGS)), now()).is_empty());

        let mut only = swarm("hit", "a4404e81f177a67db9d08a78ed566b35");
        only["seq"] = 2.into();
        only["scope"]["only"] = json!([{ "session_id": "x", "agent_id": "main" }]);
        take(&mut rows, &only);
        assert!(rows.of_others(&agent("any", "main"), &call, now()).is_empty());
        assert_eq!(ids(&rows.of_others(&agent("x", "main"), &call, now())), ["hit"]);

        let mut fleet = swarm("fleet", "a4404e81f177a67db9d08a78ed566b35");
        fleet["scope"]["kind"] = "tenant".into();
        take(&mut rows, &fleet);
        assert_eq!(ids(&rows.of_others(&Agent::named("", "any", "main", ""), &call, now())), ["fleet"]);
        rows.sweep(at("2026-01-01T00:10:00Z"));
        assert_eq!((rows.len(), rows.bytes, rows.groups.len()), (0, 0, 0));
    }

    #[test]
    fn a_verdict_about_a_tool_and_one_about_any_are_each_found_once() {
        let mut rows = Rows::default();
        for (id, swarm_id, tool) in [("any", "w", Value::Null), ("bash", "v", "Bash".into())] {
            let mut wide = swarm(id, "a4404e81f177a67db9d08a78ed566b35");
            wide["swarm_id"] = swarm_id.into();
            wide["scope"]["tool"] = tool;
            take(&mut rows, &wide);
        }
        let mut group = groups::Group::default();
        for verdict in rows.subjects.values().flat_map(|subject| &subject.verdicts) {
            group.add(verdict);
        }
        let mut found = Vec::new();
        group.binding(&agent("any", "main"), &Call::new("Bash", &Content::Raw(ARGS)), now(), &mut found);
        let mut found = ids(&found);
        found.sort_unstable();
        assert_eq!(found, ["any", "bash"]);
    }

    fn of_tenant(tenant: &str, number: usize, action: &str) -> Value {
        let mut own = command(&format!("{tenant}-{number}"), action, 1);
        own["tenant"] = tenant.into();
        own["session_id"] = format!("s{number}").into();
        own["expires_at"] = now().plus_ms(60_000 + number as i64).to_rfc3339().into();
        own
    }

    fn is_held(rows: &Rows, tenant: &str, number: usize) -> bool {
        !rows.own(&Agent::named(tenant, &format!("s{number}"), "main", ""), now()).is_empty()
    }

    #[test]
    fn a_tenant_that_fills_the_table_pushes_out_its_own_nudges_then_its_own_blocks() {
        let mut rows = Rows::default();
        // It ends before all that the other tenant has.
        take(&mut rows, &of_tenant("acme", 0, "nudge"));
        take(&mut rows, &of_tenant("acme", 1, "block"));
        for number in 2..4 {
            take(&mut rows, &of_tenant("", number, "nudge"));
        }
        let room = SUBJECTS_MAX - rows.len();
        for number in 4..room + 7 {
            take(&mut rows, &of_tenant("", number, "block"));
        }
        assert_eq!((rows.len(), rows.evicted), (SUBJECTS_MAX, 3));
        assert!(is_held(&rows, "acme", 0) && is_held(&rows, "acme", 1), "a tenant within its share gives nothing");
        assert!(!is_held(&rows, "", 2) && !is_held(&rows, "", 3), "nudges leave before blocks");
        assert!(!is_held(&rows, "", 4) && is_held(&rows, "", 5), "then what ends first");
    }

    #[test]
    fn room_that_was_lent_is_taken_back_from_who_holds_most() {
        let mut rows = Rows::default();
        for number in 0..SUBJECTS_MAX {
            take(&mut rows, &of_tenant(if number % 4 == 0 { "b" } else { "a" }, number, "block"));
        }
        for number in 0..SUBJECTS_MAX / 4 {
            take(&mut rows, &of_tenant("c", number, "block"));
        }
        let held = |tenant: &str| rows.subjects.keys().filter(|key| tenant_of(key) == tenant).count();
        assert_eq!((held("a"), held("b"), held("c")), (SUBJECTS_MAX / 2, SUBJECTS_MAX / 4, SUBJECTS_MAX / 4));
    }

    #[test]
    fn large_verdicts_push_out_those_of_the_tenant_that_holds_most_bytes() {
        let mut rows = Rows::default();
        for number in 0..100 {
            take(&mut rows, &of_tenant("small", number, "nudge"));
        }
        for number in 0..60 {
            let mut large = of_tenant("large", number, "block");
            large["message"] = "x".repeat(1 << 20).into();
            take(&mut rows, &large);
        }
        assert!(rows.bytes <= BYTES_MAX && rows.evicted > 0, "{} bytes", rows.bytes);
        assert!((0..100).all(|number| is_held(&rows, "small", number)));
    }

    #[test]
    fn what_left_is_missing_and_nothing_else_is() {
        let mut rows = Rows::default();
        for number in 0..=SUBJECTS_MAX {
            take(&mut rows, &of_tenant("", number, "block"));
        }
        let missing = |session: &str| rows.missing(&Agent::named("", session, "main", "w"), now());
        assert_eq!(missing("s0"), [joined(&["agent", "", "s0", ""])]);
        assert!(missing(&format!("s{SUBJECTS_MAX}")).is_empty() && missing("another").is_empty());
        assert!(rows.missing(&Agent::named("acme", "s0", "main", ""), now()).is_empty());
        rows.sweep(now().plus_ms(60_000));
        assert!(rows.missing(&Agent::named("", "s0", "main", ""), now()).is_empty(), "it has ended");
    }
}
