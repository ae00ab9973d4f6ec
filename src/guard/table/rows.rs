//! The verdicts in force, by subject and by whom they bind: fed with commands or with state rows, in any mixture of subjects.
//!
//! A row replaces all that was known of its subject, a command adds to it or lifts. An update that is not newer than the last one of its
//! subject (`epoch`, `seq`) changes nothing. When there are too many subjects, those of the tenant with most of them leave first, and are
//! known to be missing. Stops of operators never leave: nothing that tenants bring about pushes one out.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden_core::engine::{SEPARATOR, SubjectKey, joined};
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_core::{event::EventTime, limits::ACTIVE_VERDICTS_MAX};

use crate::agent::Agent;
use crate::table::lost::Lost;
use crate::table::matching::Call;
use crate::table::place::{Bound, Class, Place};
use crate::table::shares::{Holdings, Leaver, Measure};
use crate::wire::verdict::{CommandUpdate, RowUpdate, Verdict};

/// Subjects that are held, of all tenants; stops are not among them.
pub(crate) const SUBJECTS_MAX: usize = 65_536;
/// What their verdicts may take, about. Bytes.
pub(crate) const BYTES_MAX: usize = 48 << 20;
/// What the places take by which a subject is found. Bytes.
const PLACES_BYTES: usize = 256;
/// Subjects that operators stop. Only operators add to them; a further one is not taken, and that is counted.
const STOPS_MAX: usize = 65_536;

/// Verdicts in force, by subject; bounded by [`SUBJECTS_MAX`] and [`BYTES_MAX`], and stops by [`STOPS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(super) subjects: BTreeMap<Arc<SubjectKey>, Subject>,
    places: BTreeMap<Whom, Place>,
    stops: usize,
    bytes: usize,
    holdings: Holdings,
    lost: Lost,
    /// Subjects that left, or were not taken, because there were too many.
    pub(crate) evicted: u64,
    /// How often a subject with a block came or went, and a stop among them.
    pub(crate) changes: u64,
    pub(crate) stop_changes: u64,
}

/// What is known of a subject, and how far its commands were read.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    pub(super) epoch: u64,
    pub(super) seq: u64,
    /// None where all was lifted: a command that comes late must not place it again.
    pub(super) verdicts: Vec<Arc<Verdict>>,
    /// After it nothing of this is in force.
    pub(crate) ends_at: EventTime,
    /// Memory that it takes, about.
    bytes: usize,
}

impl Rows {
    /// Takes a state row; none: its subject has no verdicts.
    pub(crate) fn row(&mut self, key: SubjectKey, row: Option<RowUpdate>, now: EventTime) {
        let Some(RowUpdate { epoch, seq, verdicts }) = row else {
            self.remove(&key);
            return;
        };
        if self.subjects.get(&key).is_some_and(|known| (known.epoch, known.seq) > (epoch, seq)) {
            return;
        }
        self.remove(&key);
        let in_force = verdicts.into_iter().filter(|verdict| verdict.expires_at > now).take(ACTIVE_VERDICTS_MAX);
        let verdicts: Vec<_> = in_force.map(Arc::new).collect();
        if let Some(ends_at) = verdicts.iter().map(|verdict| verdict.expires_at).max() {
            self.put(Arc::new(key), Subject::of(epoch, seq, verdicts, ends_at));
        }
    }

    /// Takes a command that is newer than the last of its subject.
    pub(crate) fn command(&mut self, command: CommandUpdate, now: EventTime) {
        let (key, epoch, seq) = (&command.subject, command.epoch, command.seq);
        if command.expires_at <= now || self.subjects.get(key).is_some_and(|known| (known.epoch, known.seq) >= (epoch, seq)) {
            return;
        }
        let known = self.remove(key).unwrap_or_default();
        let mut verdicts = known.verdicts;
        verdicts.retain(|verdict| verdict.expires_at > now && !is_replaced(verdict, &command));
        if let Some(verdict) = command.verdict {
            if verdicts.len() >= ACTIVE_VERDICTS_MAX {
                // As the engine does: the oldest nudge makes room, else the oldest block.
                let at = verdicts.iter().position(|held| !held.is_block()).unwrap_or(0);
                verdicts.remove(at);
            }
            verdicts.push(Arc::new(verdict));
        }
        // What was lifted or replaced is remembered as long as it would have held.
        let ends_at = known.ends_at.max(command.expires_at);
        self.put(Arc::new(command.subject), Subject::of(epoch, seq, verdicts, ends_at));
    }

    /// Adds the verdicts in force that bind an agent, and its call where there is one.
    pub(crate) fn binding(&self, agent: &Agent, call: Option<&Call>, now: EventTime, out: &mut Vec<Bound>) {
        agent.meant.iter().filter_map(|whom| self.places.get(whom)).for_each(|place| place.binding(agent, call, now, out));
    }

    /// What a verdict that bound an agent is about; none where it is held no more.
    pub(crate) fn class_of(&self, agent: &Agent, verdict: &Verdict) -> Option<Class> {
        agent.meant.iter().find_map(|whom| self.places.get(whom)?.class_of(verdict))
    }

    /// Beginnings of the keys under which something may be missing that is in force for an agent.
    pub(crate) fn missing(&self, agent: &Agent, now: EventTime) -> Vec<String> {
        if self.lost.is_empty() {
            return Vec::new();
        }
        let beginnings = agent.meant.iter().flat_map(beginnings);
        beginnings.filter(|beginning| self.lost.may_have(&agent.tenant, beginning, now)).collect()
    }

    /// A row that is in force, for all one knows, and was not read.
    pub(crate) fn was_not_read(&mut self, key: &SubjectKey) {
        if Class::of(key) != Class::Stop {
            self.lose(key, EventTime(i64::MAX));
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

    /// How many subjects there are; those of stops are not counted.
    pub(crate) fn len(&self) -> usize {
        self.subjects.len() - self.stops
    }

    pub(super) fn put(&mut self, key: Arc<SubjectKey>, mut subject: Subject) {
        let (class, whom) = (Class::of(&key), key.whom());
        if class == Class::Stop && self.stops >= STOPS_MAX {
            self.evicted += 1;
            return;
        }
        self.has_changed(class, &subject);
        if class == Class::Stop {
            self.stops += 1;
        } else {
            subject.bytes = bytes_of(&key, &subject);
            self.bytes += subject.bytes;
            self.holdings.add(&whom.tenant, subject.leaver(&key), subject.bytes);
        }
        if !subject.verdicts.is_empty() {
            let place = self.places.entry(whom).or_default();
            subject.verdicts.iter().for_each(|verdict| place.add(class, verdict));
        }
        self.subjects.insert(key, subject);
        while self.len() > SUBJECTS_MAX && self.evict(Measure::Subjects) {}
        while self.bytes > BYTES_MAX && self.evict(Measure::Bytes) {}
    }

    fn has_changed(&mut self, class: Class, subject: &Subject) {
        self.changes += u64::from(subject.has_block());
        self.stop_changes += u64::from(subject.has_block() && class == Class::Stop);
    }

    pub(super) fn remove(&mut self, key: &SubjectKey) -> Option<Subject> {
        let (key, subject) = self.subjects.remove_entry(key)?;
        let (class, whom) = (Class::of(&key), key.whom());
        self.has_changed(class, &subject);
        if class == Class::Stop {
            self.stops -= 1;
        } else {
            self.bytes = self.bytes.saturating_sub(subject.bytes);
            self.holdings.remove(&whom.tenant, &subject.leaver(&key), subject.bytes);
        }
        if let Some(place) = self.places.get_mut(&whom) {
            subject.verdicts.iter().for_each(|verdict| place.remove(class, verdict));
            if place.is_empty() {
                self.places.remove(&whom);
            }
        }
        Some(subject)
    }

    fn remove_where(&mut self, leaves: impl Fn(&SubjectKey, &Subject) -> bool) {
        let leaving = self.subjects.iter().filter(|(key, subject)| leaves(key, subject)).map(|(key, _)| Arc::clone(key));
        leaving.collect::<Vec<_>>().iter().for_each(|key| drop(self.remove(key)));
    }

    /// The next one leaves, and it is noted. False where there is none.
    fn evict(&mut self, by: Measure) -> bool {
        let Some(key) = self.holdings.next(by) else { return false };
        let Some(subject) = self.remove(&key) else { return false };
        self.lose(&key, subject.ends_at);
        self.evicted += 1;
        true
    }

    fn lose(&mut self, key: &SubjectKey, ends_at: EventTime) {
        let text = key.row_key();
        let beginning = text.rfind(SEPARATOR).and_then(|at| text.get(..=at)).unwrap_or(&text);
        self.lost.add(&key.whom().tenant, beginning, ends_at);
    }
}

impl Subject {
    pub(super) fn of(epoch: u64, seq: u64, verdicts: Vec<Arc<Verdict>>, ends_at: EventTime) -> Self {
        Self { epoch, seq, verdicts, ends_at, bytes: 0 }
    }

    fn has_block(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.is_block())
    }

    fn leaver(&self, key: &Arc<SubjectKey>) -> Leaver {
        Leaver { has_block: self.has_block(), ends_at: self.ends_at, key: Arc::clone(key) }
    }
}

fn bytes_of(key: &SubjectKey, subject: &Subject) -> usize {
    let verdicts: usize = subject.verdicts.iter().map(|verdict| verdict.bytes()).sum();
    2 * key.row_key().len() + size_of::<Subject>() + PLACES_BYTES + verdicts
}

/// What the keys of the rows begin with that bind those: of the loops that are found in what they call, and of groups.
fn beginnings(whom: &Whom) -> impl Iterator<Item = String> {
    let Whom { tenant, kind, name } = whom;
    let of_loops = match kind {
        Kind::Session => Some(joined(&["agent", tenant, name, ""])),
        Kind::Swarm => Some(joined(&["swarm", tenant, name, ""])),
        Kind::Tenant => Some(joined(&["fleet", tenant, ""])),
        _ => None,
    };
    of_loops.into_iter().chain([joined(&[&SubjectKey::group_prefix(whom), ""])])
}

/// What a command takes the place of: all of its episode where it lifts, else nudges, and a block of the same calls. Of stops the last one
/// holds.
fn is_replaced(verdict: &Verdict, command: &CommandUpdate) -> bool {
    if verdict.episode != command.episode {
        return Class::of(&command.subject) == Class::Stop;
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

    fn key(agent: &str) -> SubjectKey {
        SubjectKey::of_row_key(&joined(&["agent", "", "s", agent])).unwrap()
    }

    fn bound(rows: &Rows, agent: &Agent, call: Option<&Call>, now: EventTime) -> Vec<Bound> {
        let mut out = Vec::new();
        rows.binding(agent, call, now, &mut out);
        out
    }

    /// What binds an agent by its own history.
    fn own(rows: &Rows, agent: &Agent, now: EventTime) -> Vec<Arc<Verdict>> {
        bound(rows, agent, None, now).into_iter().map(|(_, verdict)| verdict).collect()
    }

    /// What binds a call by the history of many.
    fn of_many(rows: &Rows, agent: &Agent, call: &Call) -> Vec<Arc<Verdict>> {
        let found = bound(rows, agent, Some(call), now()).into_iter().filter(|(class, _)| class.is_of_many());
        found.map(|(_, verdict)| verdict).collect()
    }

    #[test]
    fn a_row_replaces_what_was_known_and_an_older_one_does_not() {
        let mut rows = Rows::default();
        let read = |text: String| read_row(text.as_bytes());
        rows.row(key("main"), read(row(2, &[command("b", "block", 2), command("a", "nudge", 1)])), now());
        assert_eq!(ids(&own(&rows, &agent("s", "main"), now())), ["b", "a"]);
        assert!(own(&rows, &agent("s", "other"), now()).is_empty() && own(&rows, &agent("t", "main"), now()).is_empty());
        rows.row(key("main"), read(row(1, &[command("a", "nudge", 1)])), now());
        assert_eq!(ids(&own(&rows, &agent("s", "main"), now())), ["b", "a"]);
        rows.row(key("main"), read(row(2, &[command("b", "block", 2)])), now());
        assert_eq!(ids(&own(&rows, &agent("s", "main"), now())), ["b"], "one verdict has ended: the number is the same");
        assert!(own(&rows, &agent("s", "main"), at("2026-01-01T00:10:00Z")).is_empty(), "a block ends without a word");
        rows.row(key("main"), None, now());
        assert_eq!((rows.len(), rows.bytes, rows.places.len()), (0, 0, 0));
        assert_eq!(SubjectKey::of_row_key("galaxy"), None);
    }

    #[test]
    fn a_command_is_taken_once_in_order_and_lifted_by_its_episode() {
        let mut rows = Rows::default();
        take(&mut rows, &command("n", "nudge", 1));
        take(&mut rows, &command("n", "nudge", 1));
        take(&mut rows, &command("b", "block", 2));
        assert_eq!(ids(&own(&rows, &agent("s", "main"), now())), ["b"], "the nudge of the episode is replaced");
        take(&mut rows, &command("late", "nudge", 1));
        assert_eq!(ids(&own(&rows, &agent("s", "main"), now())), ["b"]);
        let mut other = command("o", "block", 3);
        other["episode"] = "f".into();
        take(&mut rows, &other);
        take(&mut rows, &command("u", "unblock", 4));
        assert_eq!(ids(&own(&rows, &agent("s", "main"), now())), ["o"]);
        take(&mut rows, &command("b", "block", 2));
        assert_eq!(ids(&own(&rows, &agent("s", "main"), now())), ["o"], "what was lifted is not placed again");
        let mut anew = command("anew", "nudge", 1);
        anew["epoch"] = 11.into();
        take(&mut rows, &anew);
        assert_eq!(ids(&own(&rows, &agent("s", "main"), now())), ["o", "anew"], "a later epoch begins to count anew");
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
        assert_eq!(ids(&of_many(&rows, &agent("any", "main"), &call)), ["hit"]);
        assert!(of_many(&rows, &Agent::named("", "any", "main", ""), &call).is_empty(), "in no swarm");
        assert!(of_many(&rows, &Agent::named("t", "any", "main", "w"), &call).is_empty(), "another tenant");
        assert!(of_many(&rows, &agent("any", "main"), &Call::new("Sh", &Content::Raw(ARGS))).is_empty());

        let mut only = swarm("hit", "a4404e81f177a67db9d08a78ed566b35");
        only["seq"] = 2.into();
        only["scope"]["only"] = json!([{ "session_id": "x", "agent_id": "main" }]);
        take(&mut rows, &only);
        assert!(of_many(&rows, &agent("any", "main"), &call).is_empty());
        assert_eq!(ids(&of_many(&rows, &agent("x", "main"), &call)), ["hit"]);

        let mut fleet = swarm("fleet", "a4404e81f177a67db9d08a78ed566b35");
        fleet["scope"]["kind"] = "tenant".into();
        take(&mut rows, &fleet);
        assert_eq!(ids(&of_many(&rows, &Agent::named("", "any", "main", ""), &call)), ["fleet"]);
        rows.sweep(at("2026-01-01T00:10:00Z"));
        assert_eq!((rows.len(), rows.bytes, rows.places.len()), (0, 0, 0));
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
        let mut place = Place::default();
        for verdict in rows.subjects.values().flat_map(|subject| &subject.verdicts) {
            place.add(Class::Shared, verdict);
        }
        let mut found = Vec::new();
        place.binding(&agent("any", "main"), Some(&Call::new("Bash", &Content::Raw(ARGS))), now(), &mut found);
        let found: Vec<_> = found.into_iter().map(|(_, verdict)| verdict).collect();
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
        !own(rows, &Agent::named(tenant, &format!("s{number}"), "main", ""), now()).is_empty()
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
        let held = |tenant: &str| rows.subjects.keys().filter(|key| key.whom().tenant == tenant).count();
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
    fn stop(id: &str, action: &str, seq: u64) -> Value {
        let mut stop = command(id, action, seq);
        stop["reason"]["code"] = if action == "block" { "stop" } else { "release" }.into();
        stop["scope"] = json!({ "kind": "session", "by": "stop" });
        stop["expires_at"] = "2026-01-01T00:02:00Z".into();
        stop
    }

    #[test]
    fn a_stop_stays_where_the_table_is_full_and_is_not_placed_again_once_it_was_lifted() {
        let mut rows = Rows::default();
        take(&mut rows, &stop("stop", "block", 1));
        for number in 0..=SUBJECTS_MAX {
            take(&mut rows, &of_tenant("", number, "block"));
        }
        assert_eq!((rows.len(), rows.evicted, rows.stops), (SUBJECTS_MAX, 1, 1));
        let bound = |rows: &Rows| bound(rows, &agent("s", "other"), None, now());
        let found = bound(&rows);
        assert_eq!(
            found.iter().map(|(class, verdict)| (*class, verdict.command_id.as_str())).collect::<Vec<_>>(),
            [(Class::Stop, "stop")]
        );
        let key = SubjectKey::Stop(Whom::new("", Kind::Session, "s"));
        let until = |rows: &Rows| rows.subjects.get(&key)?.verdicts.iter().map(|verdict| verdict.expires_at).max();
        assert_eq!(until(&rows), Some(at("2026-01-01T00:02:00Z")));
        take(&mut rows, &stop("release", "unblock", 3));
        take(&mut rows, &stop("late", "block", 2));
        assert_eq!((bound(&rows).len(), until(&rows)), (0, None));
    }
}
