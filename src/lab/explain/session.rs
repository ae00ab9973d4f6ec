//! A session, event by event: what each detector saw, how its streaks stood, and why a command was or was not sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::{fmt::Write as _, sync::Arc};

use loopwarden_core::engine::{Session, Tree};
use loopwarden_core::event::{Event, Record};
use loopwarden_core::{limits::AGENTS_SHOWN, policy::Policy};
use loopwarden_lane::Exit;
use serde_json::{Value, json};

use super::note::{Note, content};
use super::{Shown, Wanted};
use crate::cases::stepped::SteppedLane;
use crate::report::{Section, Table, plain};

/// Other tenants with a session of this name that are named.
const TENANTS_NAMED: usize = 5;

/// A session as it is decided anew.
pub struct SessionTrace<'a> {
    wanted: Wanted<'a>,
    policy: Arc<Policy>,
    lane: SteppedLane,
    failed: Option<Exit>,
    notes: VecDeque<Note>,
    count: u64,
    duplicates: u64,
    tenants: BTreeSet<Option<String>>,
    left_over: Value,
    /// Places in trees of the agents that have one, by agent.
    trees: BTreeMap<String, Tree>,
}

impl<'a> SessionTrace<'a> {
    /// Nothing is read yet.
    pub fn new(wanted: Wanted<'a>, app: &str, policy: Arc<Policy>) -> Self {
        Self {
            wanted,
            lane: SteppedLane::new(app, Arc::clone(&policy)),
            failed: None,
            policy,
            notes: VecDeque::new(),
            count: 0,
            duplicates: 0,
            tenants: BTreeSet::new(),
            left_over: Value::Array(Vec::new()),
            trees: BTreeMap::new(),
        }
    }

    /// Takes an event of the input, in its order; those of others are left out.
    pub fn visit(&mut self, event: &Event<'_>, record: &Record<'_>) {
        if event.session_id != self.wanted.id {
            return;
        }
        if event.tenant.as_deref() != self.wanted.tenant {
            if self.tenants.len() < TENANTS_NAMED {
                self.tenants.insert(event.tenant.as_deref().map(str::to_owned));
            }
            return;
        }
        self.count += 1;
        if let Err(exit) = self.note(event, record) {
            self.failed.get_or_insert(exit);
        }
    }

    fn note(&mut self, event: &Event<'_>, record: &Record<'_>) -> Result<(), Exit> {
        let place = (record.meta.topic, record.meta.partition, record.meta.offset.0);
        let answer = self.lane.apply(record)?;
        let session = &self.lane.session(event, record.meta.partition)?;
        if self.notes.len() >= self.wanted.limit {
            self.notes.pop_front();
        }
        // As labels count: by the producer's counter, else by what came before.
        let index = (!answer.is_duplicate).then(|| event.seq.unwrap_or(self.count - self.duplicates - 1));
        self.duplicates += u64::from(answer.is_duplicate);
        let mut note = Note::of(index, event, place, &answer, session, &self.policy);
        note.content = self.wanted.show_content.then(|| content(event));
        self.notes.push_back(note);
        self.left_over = verdicts(session);
        if let Some(tree) = session.head.tree.as_deref().filter(|_| self.trees.len() < AGENTS_SHOWN) {
            self.trees.insert(event.agent_id.clone().into_owned(), tree.clone());
        }
        Ok(())
    }

    /// What is shown of it.
    ///
    /// # Errors
    /// There was no event of it, or its lane ended; says so.
    pub fn show(self) -> Result<Shown, String> {
        if self.count == 0 {
            let others: Vec<String> = self.tenants.iter().map(|tenant| named(tenant.as_deref())).collect();
            let hint = if others.is_empty() { String::new() } else { format!("; there is one of {}", others.join(", ")) };
            return Err(format!("no event of session {:?}{} in this input{hint}", self.wanted.id, self.wanted.of_tenant()));
        }
        if let Some(exit) = self.failed {
            return Err(exit.to_string());
        }
        let Self { wanted, policy, notes, count, left_over, trees, .. } = self;
        let mut contents = String::new();
        for note in &notes {
            if let Some(content) = note.content.as_ref().filter(|content| !content.is_null()) {
                // A text in memory takes everything.
                let _ = writeln!(contents, "#{} {content}", json!(note.index));
            }
        }
        let head = format!(
            "session {}{}: {count} events, the newest {} shown; policy {}",
            plain(wanted.id),
            wanted.of_tenant(),
            notes.len(),
            policy.profile
        );
        let head = trees.iter().fold(head, |head, (agent, tree)| head + "\n" + &place(agent, tree));
        let mut sections = vec![Section::rows(head, Table::of(notes.iter().map(Note::row)))];
        sections.extend((!contents.is_empty()).then(|| Section::text(contents.trim_end())));
        let json = json!({
            "session_id": wanted.id,
            "tenant": wanted.tenant,
            "policy": { "profile": policy.profile, "sha256": policy.hash.to_string() },
            "events": count,
            "steps": notes,
            "in_force": left_over,
            "trees": trees.iter().map(|(agent, tree)| tree_json(agent, tree)).collect::<Vec<_>>(),
        });
        Ok(Shown { json, sections })
    }
}

/// The place of an agent in its tree, for people.
fn place(agent: &str, tree: &Tree) -> String {
    let parent = if tree.parent.is_empty() { String::new() } else { format!(", started by {}", plain(&tree.parent)) };
    format!(
        "agent {} is in tree {}, depth {}{parent}; it has started {}",
        plain(agent),
        plain(&tree.name),
        tree.depth,
        tree.spawns
    )
}

fn tree_json(agent: &str, tree: &Tree) -> Value {
    json!({ "agent_id": agent, "root_id": &*tree.name, "parent_id": &*tree.parent, "depth": tree.depth, "spawns": tree.spawns })
}

fn named(tenant: Option<&str>) -> String {
    tenant.map_or_else(|| "no tenant".to_owned(), |tenant| format!("tenant {tenant:?}"))
}

/// Verdicts in force.
fn verdicts(session: &Session) -> Value {
    let now = session.head.time;
    let in_force = session.head.board.verdicts.iter().filter(|verdict| verdict.expires_at > now);
    in_force
        .map(|verdict| {
            json!({ "action": verdict.action.as_str(), "code": verdict.by.as_str(), "level": verdict.level,
                "expires_at": verdict.expires_at.to_rfc3339() })
        })
        .collect()
}
