//! What commands have saved, by the control arm of a trial; without one nobody knows.

use loopwarden_core::engine::{ArmSums, TrialSums};
use loopwarden_core::policy::Arm;
use serde::Serialize;

use crate::report::quality::{Estimate, two_decimals};
use crate::report::trial::MISSES;
use crate::report::trial::interval::{Samples, difference};

/// Calls and US dollars that agents did not spend in their first loop, by what those of the control arm spent there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Saved {
    /// Agents that were sent something.
    pub agents: u64,
    pub calls: Estimate,
    pub usd: Option<Estimate>,
}

/// Why nothing is known to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotSaved {
    /// No session was only watched.
    NoTrial,
    /// Fewer than 50 agents of an arm looped.
    TooFew,
}

impl NotSaved {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoTrial => "unknown without a control arm ([trial] in the policy)",
            Self::TooFew => "unknown as long as an arm of the trial has fewer than 50 agents that looped",
        }
    }
}

impl Saved {
    /// Of all detectors together: both intervals hold at once, at every look, in 95 of 100 trials.
    ///
    /// # Errors
    /// Why nothing is known.
    pub fn of(sums: &TrialSums) -> Result<Self, NotSaved> {
        let (mut sent, mut control) = (ArmSums::default(), ArmSums::default());
        for (_, arm, sums) in sums.iter() {
            let of_arm = if arm == Arm::Control { &mut control } else { &mut sent };
            of_arm.add(sums);
        }
        if control.all().agents == 0 {
            return Err(NotSaved::NoTrial);
        }
        let agents = sent.all().agents;
        let saved = |control: &Samples, sent: &Samples| {
            let Estimate { value, low, high } = difference(control, sent, MISSES / 2.0)?;
            let of_all = |each: f64| each * agents as f64;
            Some(Estimate { value: of_all(value), low: of_all(low), high: of_all(high) })
        };
        let calls = saved(&Samples::of_calls(&control), &Samples::of_calls(&sent)).ok_or(NotSaved::TooFew)?;
        let usd = Samples::of_dollars(&control, &sent).and_then(|[control, sent]| saved(&control, &sent));
        Ok(Self { agents, calls, usd })
    }

    /// For people, as `between 1,200 and 1,900 calls, 310.20 and 480.00 US dollars`.
    pub fn to_text(&self) -> String {
        let usd = self.usd.map_or_else(String::new, |usd| {
            format!("; {:.2} to {:.2} US dollars", two_decimals(usd.low), two_decimals(usd.high))
        });
        format!("{:.0} to {:.0} calls{usd}, in the first loops of {} agents", self.calls.low, self.calls.high, self.agents)
    }
}
