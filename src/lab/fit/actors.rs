//! Whose answers count: somebody who answers everything alike, or who contradicts the others, is left out and named.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::votes::AnsweredLoop;

/// Fewer sessions of others show nothing of how somebody answers.
const OTHERS_MIN: u64 = 5;
/// Answers as one-sided as somebody's come about by chance in so few of all cases at most, if he answers like the others.
const CHANCE: f64 = 0.005;
/// Fewer loops that two actors answered do not show whether they agree.
const SHARED_MIN: u64 = 3;
/// Actors of one loop who are compared with each other.
const VOTES_MAX: usize = 32;

/// An actor, and how far he agrees with the others. He counts once for each session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Actor {
    /// Empty: answers without an actor.
    pub actor: String,
    /// Sessions in which his answers are that it was right.
    pub right: u64,
    /// Sessions in which they are that it was a false alarm.
    pub false_alarms: u64,
    /// Loops that others answered too, and do not contradict each other about.
    pub shared: u64,
    /// Those in which most others agree with him.
    pub agreed: u64,
    /// Why his answers do not count; none where they do.
    pub left_out: Option<&'static str>,
}

impl Actor {
    const fn sessions(&self) -> u64 {
        self.right + self.false_alarms
    }

    const fn is_alike(&self) -> bool {
        self.right == 0 || self.false_alarms == 0
    }
}

/// All actors by name. One after the other is left out, the worst first, for those that remain are compared with each other.
pub(super) fn weighed(loops: &[AnsweredLoop]) -> Vec<Actor> {
    let mut out: BTreeMap<String, &'static str> = BTreeMap::new();
    loop {
        let actors = counted(loops, &out);
        // Whoever answers alike contradicts everybody who does not: that is looked at first.
        let found = alike(&actors)
            .map(|actor| (actor, "answers everything alike"))
            .or_else(|| Some((contradicting(&actors, loops)?, "contradicts the others")));
        let Some((actor, why)) = found else { return actors };
        out.insert(actor.actor.clone(), why);
    }
}

/// The actor whose answers are least likely to be all alike by chance.
fn alike(actors: &[Actor]) -> Option<&Actor> {
    let counting = || actors.iter().filter(|actor| actor.left_out.is_none());
    let right: u64 = counting().map(|actor| actor.right).sum();
    let false_alarms: u64 = counting().map(|actor| actor.false_alarms).sum();
    let odd = counting().filter(|actor| actor.is_alike()).filter_map(|actor| {
        let (right, false_alarms) = (right - actor.right, false_alarms - actor.false_alarms);
        (right + false_alarms >= OTHERS_MIN).then(|| (chance(actor, right, false_alarms), actor))
    });
    odd.filter(|(chance, _)| *chance < CHANCE).min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, actor)| actor)
}

/// The actor who contradicts more of the others than he agrees with; of several whoever contradicts most, then whoever answered least.
fn contradicting<'a>(actors: &'a [Actor], loops: &[AnsweredLoop]) -> Option<&'a Actor> {
    let counting: BTreeMap<&str, &Actor> =
        actors.iter().filter(|actor| actor.left_out.is_none()).map(|actor| (actor.actor.as_str(), actor)).collect();
    let mut pairs: BTreeMap<(&str, &str), [u64; 2]> = BTreeMap::new();
    for answered in loops {
        let votes = answered.right.iter().map(|actor| (actor, true));
        let votes: Vec<(&str, bool)> = votes
            .chain(answered.false_alarm.iter().map(|actor| (actor, false)))
            .map(|(actor, is_right)| (actor.as_str(), is_right))
            .filter(|(actor, _)| counting.contains_key(actor))
            .take(VOTES_MAX)
            .collect();
        for (at, (one, first)) in votes.iter().enumerate() {
            for (other, answer) in votes.iter().skip(at + 1).filter(|(other, _)| one != other) {
                let [agreed, differed] = pairs.entry((one.min(other), one.max(other))).or_default();
                *(if first == answer { agreed } else { differed }) += 1;
            }
        }
    }
    let mut balance: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for ((one, other), [agreed, differed]) in pairs.into_iter().filter(|(_, [agreed, differed])| agreed + differed >= SHARED_MIN)
    {
        for actor in [one, other] {
            let [with, against] = balance.entry(actor).or_default();
            *(if differed > agreed { against } else { with }) += 1;
        }
    }
    let mut worst: Vec<(&Actor, u64)> = balance
        .into_iter()
        .filter(|(_, [with, against])| against > with)
        .filter_map(|(name, [_, against])| Some((*counting.get(name)?, against)))
        .collect();
    worst.sort_by_key(|(actor, against)| (std::cmp::Reverse(*against), actor.sessions(), &actor.actor));
    worst.first().map(|(actor, _)| *actor)
}

/// How likely somebody is to answer so one-sidedly if he answers like the others.
fn chance(actor: &Actor, right: u64, false_alarms: u64) -> f64 {
    let same = if actor.right > 0 { right } else { false_alarms };
    let share = (same + 1) as f64 / (right + false_alarms + 2) as f64;
    (0..actor.sessions()).fold(1.0, |chance, _| chance * share)
}

/// What each actor answered, and whether those agree who are not left out.
fn counted(loops: &[AnsweredLoop], out: &BTreeMap<String, &'static str>) -> Vec<Actor> {
    let mut actors: BTreeMap<&str, Actor> = BTreeMap::new();
    let mut sessions: BTreeMap<(&str, &str, &str), (u64, u64)> = BTreeMap::new();
    let valid = |side: &BTreeSet<String>| side.iter().filter(|actor| !out.contains_key(*actor)).count();
    for answered in loops {
        let (right, wrong) = (valid(&answered.right), valid(&answered.false_alarm));
        for (side, is_right) in [(&answered.right, true), (&answered.false_alarm, false)] {
            for name in side {
                let about = &answered.about;
                let of_session = sessions.entry((name, &about.tenant, &about.session)).or_default();
                *(if is_right { &mut of_session.0 } else { &mut of_session.1 }) += 1;
                let actor = actors.entry(name).or_insert_with(|| Actor { actor: name.clone(), ..Actor::default() });
                actor.left_out = out.get(name).copied();
                let own = usize::from(actor.left_out.is_none());
                let (with, against) = if is_right { (right - own, wrong) } else { (wrong - own, right) };
                if with != against {
                    actor.shared += 1;
                    actor.agreed += u64::from(with > against);
                }
            }
        }
    }
    for ((name, ..), (right, wrong)) in sessions {
        if let Some(actor) = actors.get_mut(name) {
            *(if right >= wrong { &mut actor.right } else { &mut actor.false_alarms }) += 1;
        }
    }
    actors.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::votes::tests::answered;

    fn left_out(loops: &[AnsweredLoop]) -> Vec<(String, &'static str)> {
        weighed(loops).into_iter().filter_map(|actor| Some((actor.actor, actor.left_out?))).collect()
    }

    /// Sessions of which one in five is a false alarm, answered by two honest people in turn.
    fn honest(sessions: usize) -> Vec<AnsweredLoop> {
        let by = |at: usize| if at.is_multiple_of(2) { "ann" } else { "bob" };
        let answer = |at: usize| {
            if at % 5 < 4 { answered(&format!("s{at}"), &[by(at)], &[]) } else { answered(&format!("s{at}"), &[], &[by(at)]) }
        };
        (0..sessions).map(answer).collect()
    }

    #[test]
    fn who_calls_everything_a_false_alarm_is_left_out_and_the_honest_are_not() {
        let mut loops = honest(30);
        assert_eq!(left_out(&loops), []);
        loops.extend((0..12).map(|at| answered(&format!("m{at}"), &[], &["mallory"])));
        assert_eq!(left_out(&loops), [("mallory".to_owned(), "answers everything alike")]);
        // A few answers that are alike are no sign of anything, and many in one session are one.
        let mut few = honest(30);
        few.extend((0..2).map(|at| answered(&format!("m{at}"), &[], &["eve"])));
        few.extend((0..30).map(|_| answered("one", &[], &["eve"])));
        assert_eq!(left_out(&few), []);
    }

    #[test]
    fn who_contradicts_the_others_where_they_agree_is_left_out() {
        let loops: Vec<AnsweredLoop> = (0..6)
            .map(|at| {
                let name = format!("s{at}");
                if at < 4 {
                    answered(&name, &["ann", "bob"], &["mallory"])
                } else {
                    answered(&name, &["mallory"], &["ann", "bob"])
                }
            })
            .collect();
        assert_eq!(left_out(&loops), [("mallory".to_owned(), "contradicts the others")]);
        // Two who never agree: nobody knows who is right, and whoever answered less is left out.
        let two: Vec<AnsweredLoop> = (0..4).map(|at| answered(&format!("s{at}"), &["ann"], &["bob"])).collect();
        let more: Vec<AnsweredLoop> = two.into_iter().chain([answered("t", &["bob"], &[])]).collect();
        assert_eq!(left_out(&more), [("ann".to_owned(), "contradicts the others")]);
    }
}
