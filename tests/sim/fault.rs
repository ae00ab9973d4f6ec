//! Faults on demand: from a script, or from a seed.

/// Where a fault may strike. The steps of a commit are S2 to S6 of the commit protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A poll.
    Poll,
    /// A lost place in the group is asked for.
    Rejoin,
    /// S2: the transaction begins.
    Begin,
    /// S3, S4: records are sent and acknowledged. Half of them are written when the fault strikes.
    Send,
    /// S5: the offsets join.
    Offsets,
    /// S6: the decision.
    Commit,
    /// The decision was made and its answer arrived.
    AfterCommit,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A request times out before it does anything. Poll and Rejoin only.
    Transient,
    /// The group moves on to another generation, assignment unchanged.
    Rebalance,
    /// The group's coordinator dies, and the next one knows the member by a former id. Poll only.
    Forgotten,
    /// Nothing more of one partition comes for a while, whoever reads it: its leader is slow, or it has far more to read than the others.
    /// Poll only.
    Lag,
    /// A failure before the decision: the transaction is aborted, the producer is fine.
    Abort,
    /// As `Abort`, but the abort fails as well: the transaction stays open, the producer must be replaced.
    Suspect,
    /// Another producer took the transactional id.
    Fenced,
    /// The answer to the decision is lost. Commit only.
    AnswerLost {
        /// Whether the decision was made.
        committed: bool,
    },
    /// The decision's request is on its way still: it arrives during the next transaction of this producer, or when time moves,
    /// unless a new epoch fences it first. The caller sees a time-out. Commit only.
    RequestLate,
    /// The caller sees Ok, but a retry of the request is on its way still. Rule C17 is what saves it. AfterCommit only.
    DuplicateLate,
    /// The decision stands, the markers come when time moves. AfterCommit only.
    SlowMarkers {
        /// The group's offsets are there at once, the records later; else the other way round.
        offsets_first: bool,
    },
    /// The lane's process dies here. What it has sent stays.
    Die,
}

impl Step {
    /// Faults that make sense here.
    #[must_use]
    pub const fn faults(self) -> &'static [Fault] {
        match self {
            Self::Poll => &[Fault::Transient, Fault::Rebalance, Fault::Forgotten, Fault::Lag],
            Self::Rejoin => &[Fault::Transient],
            Self::Begin => &[Fault::Abort, Fault::Fenced, Fault::Rebalance, Fault::Die],
            Self::Send | Self::Offsets => &[Fault::Abort, Fault::Suspect, Fault::Fenced, Fault::Rebalance, Fault::Die],
            Self::Commit => &[
                Fault::AnswerLost { committed: true },
                Fault::AnswerLost { committed: false },
                Fault::RequestLate,
                Fault::Fenced,
                Fault::Suspect,
                Fault::Die,
            ],
            Self::AfterCommit => &[
                Fault::SlowMarkers { offsets_first: true },
                Fault::SlowMarkers { offsets_first: false },
                Fault::DuplicateLate,
                Fault::Die,
            ],
        }
    }
}

/// What goes wrong, when.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    script: Vec<(Step, Fault)>,
    seed: Option<(u64, u32)>,
    fired: Vec<(String, Step, Fault)>,
}

impl Faults {
    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Each fault strikes once, the first time its step comes after the former of the same step has struck.
    #[must_use]
    pub fn script(script: impl IntoIterator<Item = (Step, Fault)>) -> Self {
        Self { script: script.into_iter().collect(), ..Self::default() }
    }

    /// At each step, with a probability of `per_mille` in a thousand, one of the faults that make sense there.
    #[must_use]
    pub fn seed(seed: u64, per_mille: u32) -> Self {
        Self { seed: Some((seed, per_mille)), ..Self::default() }
    }

    /// What has struck so far: owner of the lane, step, fault.
    #[must_use]
    pub fn fired(&self) -> &[(String, Step, Fault)] {
        &self.fired
    }

    pub(super) fn decide(&mut self, lane: &str, step: Step) -> Option<Fault> {
        let fault = self.scripted(step).or_else(|| self.drawn(step))?;
        self.fired.push((lane.to_owned(), step, fault));
        Some(fault)
    }

    fn scripted(&mut self, step: Step) -> Option<Fault> {
        let index = self.script.iter().position(|(at, _)| *at == step)?;
        Some(self.script.remove(index).1)
    }

    fn drawn(&mut self, step: Step) -> Option<Fault> {
        let (state, per_mille) = self.seed.as_mut()?;
        let strikes = draw(state) % 1000 < u64::from(*per_mille);
        let which = draw(state);
        let faults = step.faults();
        if strikes { faults.get((which % faults.len() as u64) as usize).copied() } else { None }
    }
}

/// SplitMix64: every seed is a good one, and the sequence is the same everywhere.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
