//! Confidence fusion (corteX): several findings of one event, taken together. Page `detection`.

use crate::detect::Finding;
use crate::policy::{Detector, FusionPolicy, Policy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recommended {
    Replan,
    /// Undo to the point before the repeated error.
    Backtrack,
    /// Stop and let a person look.
    Escalate,
}

impl Recommended {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replan => "replan",
            Self::Backtrack => "backtrack",
            Self::Escalate => "escalate",
        }
    }
}

/// The findings of one event, taken together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fused {
    /// min(1, mean of confidences + bonus per further finding).
    pub combined: f64,
    /// Highest confidence; ties in corteX's order.
    pub primary: Detector,
    pub recommended: Recommended,
}

/// Takes the live findings of one event together; none of none.
#[must_use]
pub fn fuse(policy: &Policy, findings: &[Finding]) -> Option<Fused> {
    let FusionPolicy { bonus, escalate_above, escalate_count, .. } = policy.fusion;
    let primary = findings.iter().min_by(|one, two| {
        two.confidence
            .total_cmp(&one.confidence)
            .then_with(|| tie_rank(one.detector).cmp(&tie_rank(two.detector)))
            .then_with(|| rank(policy, one.detector).cmp(&rank(policy, two.detector)))
    })?;
    let number = findings.len() as f64;
    let mean = findings.iter().map(|finding| finding.confidence).sum::<f64>() / number;
    let combined = bonus.mul_add(number - 1.0, mean).min(1.0);
    let recommended = if combined > escalate_above || findings.iter().any(|finding| finding.count > escalate_count) {
        Recommended::Escalate
    } else if primary.detector == Detector::DeadEnd {
        Recommended::Backtrack
    } else {
        Recommended::Replan
    };
    Some(Fused { combined, primary: primary.detector, recommended })
}

/// Rank among findings of equal confidence, as in corteX.
const fn tie_rank(detector: Detector) -> u8 {
    match detector {
        Detector::StateRepeat => 0,
        Detector::Oscillation => 1,
        Detector::DeadEnd => 2,
        Detector::SemanticRepeat => 3,
        _ => 4,
    }
}

/// Rank of a detector in the policy's priority; smaller speaks first.
pub(crate) fn rank(policy: &Policy, detector: Detector) -> u8 {
    policy.priority.get(usize::from(detector.number())).copied().unwrap_or(u8::MAX)
}
