//! A lane as a thread: it polls, commits, takes and gives back tasks, and says how it is.

pub(crate) mod exit;
pub(crate) mod health;
pub(crate) mod hold;
pub(crate) mod lane;
pub(crate) mod looks;
pub(crate) mod made;
pub(crate) mod pace;
pub(crate) mod rebalance;
pub(crate) mod supervise;
