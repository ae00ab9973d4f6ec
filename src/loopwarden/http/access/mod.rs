//! Who may ask: the gate in front of every route, and what it knows of who stands there.

pub(crate) mod door;
pub(crate) mod gate;
pub(crate) mod host;
pub(crate) mod link_rights;
pub(crate) mod principal;
pub(crate) mod purse;
pub(crate) mod rate;
pub(crate) mod rule;
pub(crate) mod token;
