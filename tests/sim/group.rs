//! The consumer group: static members, generations, cooperative and sticky assignment.

use std::collections::{BTreeMap, BTreeSet};

use loopwarden_core::event::{Stage, TaskId};

#[derive(Debug)]
struct Member {
    /// Which of the processes that used this instance id it is.
    incarnation: u64,
    seen_ms: i64,
    /// Given to it and not yet given back.
    owned: BTreeSet<TaskId>,
    /// What it shall have.
    target: BTreeSet<TaskId>,
    /// Told to give back.
    revoking: BTreeSet<TaskId>,
}

/// What the group says to a member that shows up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing new.
    Nothing,
    /// Take these.
    Assigned(Vec<TaskId>),
    /// Give these back.
    Revoked(Vec<TaskId>),
    /// Not a member, or no longer: it was silent for too long.
    Unknown,
    /// Another process uses this instance id now.
    Fenced,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) generation: u64,
    members: BTreeMap<String, Member>,
    incarnations: u64,
    /// Instance ids whose newest incarnation was forgotten.
    forgotten: BTreeSet<String>,
}

impl Group {
    /// The newest incarnation of a member is not known any more.
    pub(super) fn forget(&mut self, instance: &str) {
        self.incarnations += 1;
        if let Some(member) = self.members.get_mut(instance) {
            member.incarnation = self.incarnations;
            self.forgotten.insert(instance.to_owned());
        }
    }

    /// Whether nobody else took a member's place: it was forgotten, and nobody has joined since.
    pub(super) fn is_forgotten(&self, instance: &str) -> bool {
        self.forgotten.contains(instance)
    }

    /// Joins, or comes back within the session time-out: then nothing moves. Returns the incarnation.
    pub(super) fn join(&mut self, instance: &str, now_ms: i64, tasks: &[TaskId]) -> u64 {
        self.incarnations += 1;
        let incarnation = self.incarnations;
        self.forgotten.remove(instance);
        if let Some(member) = self.members.get_mut(instance) {
            member.incarnation = incarnation;
            member.seen_ms = now_ms;
            // A new process holds nothing yet. What its predecessor was to give back is free.
            member.owned.clear();
            member.revoking.clear();
        } else {
            let member = Member {
                incarnation,
                seen_ms: now_ms,
                owned: BTreeSet::new(),
                target: BTreeSet::new(),
                revoking: BTreeSet::new(),
            };
            self.members.insert(instance.to_owned(), member);
            self.rebalance(tasks);
        }
        incarnation
    }

    /// The member shows that it lives, and learns what is new. Its generation is the group's from now on.
    pub(super) fn heartbeat(&mut self, instance: &str, incarnation: u64, now_ms: i64) -> Answer {
        let taken: BTreeSet<TaskId> = self
            .members
            .iter()
            .filter(|(name, _)| *name != instance)
            .flat_map(|(_, other)| other.owned.iter().copied())
            .collect();
        let Some(member) = self.members.get_mut(instance) else { return Answer::Unknown };
        if member.incarnation != incarnation {
            return Answer::Fenced;
        }
        member.seen_ms = now_ms;
        let give_back: Vec<TaskId> = member
            .owned
            .iter()
            .filter(|task| !member.target.contains(task) && !member.revoking.contains(task))
            .copied()
            .collect();
        if !give_back.is_empty() {
            member.revoking.extend(&give_back);
            return Answer::Revoked(give_back);
        }
        let take: Vec<TaskId> =
            member.target.iter().filter(|task| !member.owned.contains(task) && !taken.contains(task)).copied().collect();
        if take.is_empty() {
            return Answer::Nothing;
        }
        member.owned.extend(&take);
        Answer::Assigned(take)
    }

    /// Whether offsets of this member may be committed: it is one, and knows the generation.
    pub(super) fn check(&self, instance: &str, incarnation: u64, generation: u64) -> Result<(), &'static str> {
        match self.members.get(instance) {
            None => Err("UNKNOWN_MEMBER_ID"),
            Some(member) if member.incarnation != incarnation => Err("FENCED_INSTANCE_ID"),
            Some(_) if generation != self.generation => Err("ILLEGAL_GENERATION"),
            Some(_) => Ok(()),
        }
    }

    /// The member gave tasks back. If others wait for them, the group moves on.
    pub(super) fn give_back(&mut self, instance: &str, incarnation: u64, tasks: &[TaskId]) {
        let Some(member) = self.members.get_mut(instance).filter(|member| member.incarnation == incarnation) else { return };
        let mut awaited = false;
        for task in tasks {
            member.owned.remove(task);
            awaited |= member.revoking.remove(task);
        }
        if awaited {
            self.generation += 1;
        }
    }

    pub(super) fn leave(&mut self, instance: &str, incarnation: u64, tasks: &[TaskId]) {
        if self.members.get(instance).is_some_and(|member| member.incarnation == incarnation) {
            self.members.remove(instance);
            self.rebalance(tasks);
        }
    }

    /// Removes members that were silent for longer than `timeout_ms`.
    pub(super) fn expire(&mut self, now_ms: i64, timeout_ms: i64, tasks: &[TaskId]) {
        let before = self.members.len();
        self.members.retain(|_, member| now_ms - member.seen_ms <= timeout_ms);
        if self.members.len() < before {
            self.rebalance(tasks);
        }
    }

    pub(super) fn owner(&self, task: TaskId) -> Option<&str> {
        self.members.iter().find(|(_, member)| member.owned.contains(&task)).map(|(name, _)| name.as_str())
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// A new generation with new targets: as even as possible, each keeping what it has as far as that goes.
    fn rebalance(&mut self, tasks: &[TaskId]) {
        self.generation += 1;
        for stage in [Stage::Session, Stage::Swarm] {
            let of_stage: BTreeSet<TaskId> = tasks.iter().filter(|task| task.stage == stage).copied().collect();
            let count = self.members.len().max(1);
            let (least, mut extra) = (of_stage.len() / count, of_stage.len() % count);
            let mut free = of_stage.clone();
            for member in self.members.values_mut() {
                let has: Vec<TaskId> = member.target.iter().filter(|task| task.stage == stage).copied().collect();
                let keeps = if has.len() > least && extra > 0 {
                    extra -= 1;
                    least + 1
                } else {
                    least
                };
                for (index, task) in has.iter().enumerate() {
                    if index < keeps && free.remove(task) {
                        continue;
                    }
                    member.target.remove(task);
                }
            }
            for member in self.members.values_mut() {
                let mut has = member.target.iter().filter(|task| task.stage == stage).count();
                while has < least || (has == least && extra > 0) {
                    let Some(task) = free.pop_first() else { break };
                    if has == least {
                        extra -= 1;
                    }
                    member.target.insert(task);
                    has += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(count: u32) -> Vec<TaskId> {
        (0..count).map(|partition| TaskId { stage: Stage::Session, partition }).collect()
    }

    /// Lets everybody answer until nothing is new.
    fn settle(group: &mut Group, members: &[(&str, u64)]) {
        for _ in 0..10 {
            for (name, incarnation) in members {
                if let Answer::Revoked(back) = group.heartbeat(name, *incarnation, 0) {
                    group.give_back(name, *incarnation, &back);
                }
            }
        }
    }

    fn owned(group: &Group, name: &str, tasks: &[TaskId]) -> Vec<u32> {
        tasks.iter().filter(|task| group.owner(**task) == Some(name)).map(|task| task.partition).collect()
    }

    #[test]
    fn tasks_are_spread_evenly_and_stay_where_they_are() {
        let tasks = tasks(5);
        let mut group = Group::default();
        let a = group.join("a", 0, &tasks);
        settle(&mut group, &[("a", a)]);
        assert_eq!(owned(&group, "a", &tasks), [0, 1, 2, 3, 4]);
        let b = group.join("b", 0, &tasks);
        // Nothing moves before the owner has given it back.
        assert_eq!(group.heartbeat("b", b, 0), Answer::Nothing);
        settle(&mut group, &[("a", a), ("b", b)]);
        assert_eq!((owned(&group, "a", &tasks), owned(&group, "b", &tasks)), (vec![0, 1, 2], vec![3, 4]));
        group.leave("a", a, &tasks);
        settle(&mut group, &[("b", b)]);
        assert_eq!(owned(&group, "b", &tasks).len(), 5);
    }

    #[test]
    fn a_static_member_that_comes_back_in_time_moves_nothing_and_fences_its_predecessor() {
        let tasks = tasks(4);
        let mut group = Group::default();
        let a = group.join("a", 0, &tasks);
        let b = group.join("b", 0, &tasks);
        settle(&mut group, &[("a", a), ("b", b)]);
        let generation = group.generation;
        let again = group.join("a", 5, &tasks);
        assert_eq!(group.generation, generation);
        assert_eq!(group.heartbeat("a", a, 5), Answer::Fenced);
        assert_eq!(group.check("a", a, generation), Err("FENCED_INSTANCE_ID"));
        assert!(matches!(group.heartbeat("a", again, 5), Answer::Assigned(given) if given.len() == 2));
    }

    #[test]
    fn a_silent_member_loses_its_tasks_and_may_not_commit() {
        let tasks = tasks(2);
        let mut group = Group::default();
        let a = group.join("a", 0, &tasks);
        let b = group.join("b", 0, &tasks);
        settle(&mut group, &[("a", a), ("b", b)]);
        let generation = group.generation;
        group.heartbeat("b", b, 20);
        group.expire(20, 10, &tasks);
        assert_eq!(group.heartbeat("a", a, 20), Answer::Unknown);
        assert_eq!(group.check("a", a, generation), Err("UNKNOWN_MEMBER_ID"));
        assert_eq!(group.check("b", b, generation), Err("ILLEGAL_GENERATION"));
        settle(&mut group, &[("b", b)]);
        assert_eq!(owned(&group, "b", &tasks), [0, 1]);
    }
}
