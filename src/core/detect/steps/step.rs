//! What stays of a call: hashes, time, flags, a token signature. No text but names and ids.

use std::sync::LazyLock;

use crate::detect::detector::{Detector, DetectorBits};
use crate::detect::{steps::evidence::Evidence, steps::names::ToolId};
use crate::event::EventTime;
use crate::identity::{Hash64, Hash128, Signature};
use crate::setting::ToolPolicy;

bitflags::bitflags! {
    /// Yes-or-no facts of a step. The bits are stored and never reused: 5, 6, 23 and from 26 on are those of older versions, and are kept.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Flags: u32 {
        /// Requested, not returned, not closed.
        const OPEN = 1;
        /// Its outcome is known, whatever it is.
        const OBSERVED = 1 << 1;
        /// Its outcome is a success.
        const OK = 1 << 2;
        /// Refused under a block of ours, or not yet known to have run under one: transparent.
        const REFUSED = 1 << 3;
        /// Failed as outages do: transparent but for the rates, and for the swarm from the second in a row on.
        const RETRYABLE = 1 << 4;
        /// Its tool runs a command line.
        const SHELL = 1 << 7;
        /// A shell command about a file, for the wording.
        const SHELL_FILE = 1 << 8;
        /// Its command line runs tests.
        const TEST = 1 << 9;
        /// Its output shows that tests passed.
        const TEST_PASSED = 1 << 10;
        /// Its output shows that tests failed.
        const TEST_FAILED = 1 << 11;
        /// A tool of class `read`, a look through one of class `mutates`, or a simple shell read.
        const READ = 1 << 12;
        /// Asks again until the answer changes: of class `poll`, a call that waits, or one of the first looks after it (three different calls
        /// at most).
        const POLL = 1 << 13;
        /// A tool of class `exempt`: transparent.
        const EXEMPT = 1 << 14;
        /// The same call earlier in the same turn: transparent but for the rates, which refuse it only where each call counts, and a swarm where
        /// each does.
        const SAME_TURN = 1 << 15;
        /// Outcomes are left out of its comparisons (`identity = "args_only"`).
        const ARGS_ONLY = 1 << 16;
        /// Of class `mutates` and no look, whatever its outcome.
        const MUTATES = 1 << 17;
        /// Its approach (call identity) had been seen when it completed.
        const SEEN_CALL = 1 << 18;
        /// Its outcome had been seen when it completed.
        const SEEN_OUTCOME = 1 << 19;
        /// Judged refused by `call_rate`: not counted there.
        const OVER_RATE = 1 << 20;
        /// A reset came after it: `call_rate` counts neither it nor any step before it, whatever becomes of them.
        const FORGOTTEN = 1 << 21;
        /// Its answer was cut: it has no outcome identity and no state.
        const CUT = 1 << 22;
        /// It lets time pass (`identity.waiters`).
        const WAITS = 1 << 24;
        /// A shell command that names a URL: what answers is no matter of where it runs.
        const REMOTE = 1 << 25;

        /// Why a step is transparent: any of these is enough.
        const TRANSPARENT = Self::EXEMPT.bits() | Self::REFUSED.bits() | Self::SAME_TURN.bits() | Self::RETRYABLE.bits();
        /// A shell command that only reads a file.
        const SHELL_READ = Self::SHELL.bits() | Self::READ.bits();
    }
}

/// One call in the history of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// Number in the session, from 0; a reset does not restart it.
    pub sequence: u64,
    /// Event time of the call.
    pub time: EventTime,
    /// Number of the model reply + 1; 0 = unknown.
    pub turn: u64,
    /// Tool, in the session's table of names.
    pub tool: ToolId,
    pub flags: Flags,
    /// Detectors with a finding here, by [`Detector::bit`].
    pub fired: DetectorBits,
    pub call: Hash128,
    /// Fingerprint; none where no detector needs it.
    pub fingerprint: Hash128,
    /// Hash of the file that it reads.
    pub read_target: Hash64,
    /// Outcome identity; none until observed.
    pub outcome: Hash64,
    /// State: description and output; none of a cut answer.
    pub state: Hash64,
    /// Hash of the beginning of its error.
    pub error: Hash64,
    /// Hash of the id that its producer gave the call.
    pub call_id: Hash64,
    /// Id of the event that requested it.
    pub event: Hash64,
    /// Id of the event that brought its result, where another.
    pub result_event: Hash64,
    /// Id of the requesting event as text: evidence names it.
    pub event_id: Box<str>,
    /// Tokens of description and output.
    pub tokens: Signature,
    /// Bits of `tokens`, for a quick look; not stored.
    pub token_bits: u64,
    /// What it brought; only where a detector needs it.
    pub evidence: Option<Evidence>,
    /// Start of the description, only with `evidence.excerpts`.
    pub excerpt: Box<str>,
}

/// Whether a step counts, or why runs, streaks and windows look through it. Of several reasons the last of this list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountedAs {
    Step,
    /// It met an outage: counted by what looks at outages.
    Outage,
    /// The same call was made earlier in the same turn.
    SameTurn,
    Refused,
    Exempt,
}

/// Evidence of a step that has none.
static NO_EVIDENCE: LazyLock<Evidence> = LazyLock::new(Evidence::default);

/// Between two equal calls of one reply at most, ms of event time. A model that is asked again needs longer.
const PARALLEL_MS: i64 = 2_000;

impl Step {
    /// Whether it and an equal call before it may be of one reply by their times.
    #[must_use]
    pub(crate) const fn is_parallel_to(&self, before: &Self) -> bool {
        self.time.0.saturating_sub(before.time.0) < PARALLEL_MS
    }

    /// What it brought; nothing where no detector needs it.
    pub fn evidence(&self) -> &Evidence {
        self.evidence.as_ref().unwrap_or_else(|| &NO_EVIDENCE)
    }

    pub const fn counted_as(&self) -> CountedAs {
        if self.flags.contains(Flags::EXEMPT) {
            CountedAs::Exempt
        } else if self.flags.contains(Flags::REFUSED) {
            CountedAs::Refused
        } else if self.flags.contains(Flags::SAME_TURN) {
            CountedAs::SameTurn
        } else if self.flags.contains(Flags::RETRYABLE) {
            CountedAs::Outage
        } else {
            CountedAs::Step
        }
    }

    /// Whether runs, streaks and windows look through it: it counts as anything but a step.
    #[must_use]
    pub const fn is_transparent(&self) -> bool {
        self.flags.intersects(Flags::TRANSPARENT)
    }

    /// Whether it counts, or would but for an outage that it met.
    pub const fn counts_or_met_outage(&self) -> bool {
        matches!(self.counted_as(), CountedAs::Step | CountedAs::Outage)
    }

    /// Whether it is known to the rates and to swarms: neither exempt nor refused.
    pub const fn was_made(&self) -> bool {
        !matches!(self.counted_as(), CountedAs::Refused | CountedAs::Exempt)
    }

    /// Whether outcome-phase detectors see it.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.flags.contains(Flags::OBSERVED) && !self.is_transparent()
    }

    /// Whether it is known what it brought, and that counts: an outage does, other transparent steps do not.
    #[must_use]
    pub const fn is_evidence(&self) -> bool {
        self.flags.contains(Flags::OBSERVED) && self.counts_or_met_outage()
    }

    /// Whether its outcome is known and a failure.
    #[must_use]
    pub const fn failed(&self) -> bool {
        self.flags.contains(Flags::OBSERVED) && !self.flags.contains(Flags::OK)
    }

    /// A threshold or `block_at` of a count for this call of a tool.
    #[must_use]
    pub fn scaled(&self, tool: &ToolPolicy, count: u32) -> u32 {
        tool.scaled(count, self.flags.contains(Flags::POLL))
    }

    pub const fn fire(&mut self, detector: Detector) {
        self.fired |= detector.bit();
    }

    /// Whether a detector had a finding here.
    #[must_use]
    pub const fn has_fired(&self, detector: Detector) -> bool {
        self.fired & detector.bit() != 0
    }
}
