//! Simulated agents of known recovery and disruption, looked at after each of them.

use loopwarden_core::engine::{Watch, WatchedAgent};
use loopwarden_core::identity::hash_text;
use serde_json::json;

use super::*;

const TRIALS: u32 = 200;
const AGENTS: u32 = 1_500;

/// A number from 0 to 1 that depends on its name alone.
fn drawn(trial: u32, at: u32, what: &str) -> f64 {
    (hash_text(&format!("{trial} {at} {what}")).hash64().0 >> 11) as f64 / (1_u64 << 53) as f64
}

/// Agents of which a share is stuck, and the shares of both kinds that go on: unsent, and by how much more or less when sent something.
#[derive(Clone, Copy)]
struct Agents {
    stuck: f64,
    stuck_go_on: f64,
    others_go_on: f64,
    recovery: f64,
    disruption: f64,
}

const AGENTS_KNOWN: Agents = Agents { stuck: 0.6, stuck_go_on: 0.1, others_go_on: 0.9, recovery: 0.4, disruption: 0.2 };

impl Agents {
    fn agent(self, trial: u32, at: u32, share: f64) -> WatchedAgent {
        let is = |what: &str, share: f64| drawn(trial, at, what) < share;
        let is_control = is("arm", share);
        let is_stuck = is("stuck", self.stuck);
        let effect = match (is_control, is_stuck) {
            (true, _) => 0.0,
            (false, true) => self.recovery,
            (false, false) => -self.disruption,
        };
        let goes_on = is("goes on", effect + if is_stuck { self.stuck_go_on } else { self.others_go_on });
        // Lengths of loops, most of them short: 1 to about 60 calls.
        let calls = (-10.0 * drawn(trial, at, "calls").max(1e-3).ln()).ceil() as u64;
        WatchedAgent {
            detector: Detector::ExactRepeat,
            arm: if is_control { Arm::Control } else { Arm::Treatment },
            was_getting_on: !is_stuck,
            calls,
            micro_usd: calls * 20_000,
            calls_outside: u32::from(goes_on),
            watch: Watch::Over,
        }
    }

    /// Trials in which something of the row was so at any look.
    fn trials(self, share: f64, is_so: impl Fn(&TrialRow, &TrialSums) -> bool) -> u32 {
        let mut number = 0;
        for trial in 0..TRIALS {
            let mut sums = TrialSums::default();
            let mut was_so = false;
            for at in 0..AGENTS {
                sums.note(&self.agent(trial, at, share));
                was_so |= rows(&sums).first().is_some_and(|row| is_so(row, &sums));
            }
            number += u32::from(was_so);
        }
        number
    }
}

fn misses(found: Option<Estimate>, truth: f64) -> bool {
    found.is_some_and(|found| truth < found.low || truth > found.high)
}

#[test]
fn agents_of_known_recovery_and_disruption_are_held_by_all_intervals_in_95_of_100_trials() {
    let known = AGENTS_KNOWN;
    let net = known.stuck * known.recovery - (1.0 - known.stuck) * known.disruption;
    let missed = known.trials(0.3, |row, _| {
        misses(row.recovery, known.recovery)
            || misses(row.disruption, known.disruption)
            || misses(row.p_star, known.disruption / (known.recovery + known.disruption))
            || misses(row.went_on.and_then(|found| found.difference), net)
            || misses(row.calls.and_then(|found| found.difference), 0.0)
    });
    assert!(missed <= TRIALS / 20, "{missed} of {TRIALS}");
    // The intervals say something too: in most trials r is known to be above nothing, and the detector is kept.
    let sure = known.trials(0.3, |row, _| row.recovery.is_some_and(|found| found.low > 0.0) && row.advised == Advised::Keep);
    assert!(sure >= TRIALS * 9 / 10, "{sure} of {TRIALS}");
}

#[test]
fn two_equal_arms_differ_in_at_most_5_of_100_trials() {
    let equal = Agents { recovery: 0.0, disruption: 0.0, ..AGENTS_KNOWN };
    let differ =
        equal.trials(0.2, |row, _| row.advised != Advised::Wait || misses(row.recovery, 0.0) || misses(row.disruption, 0.0));
    assert!(differ <= TRIALS / 20, "{differ} of {TRIALS}");
    let saved =
        equal.trials(0.2, |_, sums| Saved::of(sums).is_ok_and(|saved| misses(Some(saved.calls), 0.0) || misses(saved.usd, 0.0)));
    assert!(saved <= TRIALS / 20, "{saved} of {TRIALS}");
}

#[test]
fn a_detector_that_breaks_off_more_than_it_helps_is_advised_to_be_in_shadow() {
    let harmful = Agents { stuck: 0.2, recovery: 0.1, disruption: 0.6, ..AGENTS_KNOWN };
    let mut sums = TrialSums::default();
    for at in 0..AGENTS {
        sums.note(&harmful.agent(7, at, 0.5));
    }
    let [row] = &rows(&sums)[..] else { panic!("{:?}", rows(&sums)) };
    assert_eq!((row.advised, row.arm, row.against), (Advised::Shadow, "treatment", "control"));
    let p_star = row.p_star.unwrap();
    assert!(row.stuck.unwrap() < p_star.low && p_star.value > 0.6, "{row:?}");
}

#[test]
fn arms_that_were_all_alike_so_far_are_not_sure_and_few_agents_show_nothing() {
    let note = |sums: &mut TrialSums, arm, goes_on| {
        let agent = AGENTS_KNOWN.agent(1, 1, 0.5);
        sums.note(&WatchedAgent { arm, calls_outside: goes_on, was_getting_on: false, ..agent });
    };
    let mut sums = TrialSums::default();
    for at in 0..interval::NUMBER_MIN {
        assert_eq!(Saved::of(&sums).err(), Some(if at == 0 { NotSaved::NoTrial } else { NotSaved::TooFew }));
        note(&mut sums, Arm::Treatment, 1);
        note(&mut sums, Arm::Control, 0);
    }
    let row = &rows(&sums)[0];
    let found = row.recovery.unwrap();
    assert!(found.low > 0.0 && found.low < 1.0 && found.high > 1.0, "{found:?}");
    assert_eq!((row.disruption, row.p_star), (None, None), "nobody was getting on");
    assert_eq!(json!(row.line())["recovery"], format!("1.00 ({:.2} to {:.2})", found.low, found.high));
    // An agent whose loop is not over counts nowhere yet, and one that a person has let be nowhere at all.
    for (watch, number) in [(Watch::Open, 0), (Watch::LetBe, 0), (Watch::Over, 1)] {
        let mut sums = TrialSums::default();
        sums.note(&WatchedAgent { watch, ..AGENTS_KNOWN.agent(1, 1, 0.5) });
        assert_eq!(rows(&sums).len(), number, "{watch:?}");
    }
}
