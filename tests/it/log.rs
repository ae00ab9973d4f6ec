//! One contract for every `Log`, and what the single worlds add to it.

mod embedded;
pub(crate) mod file;
mod memory;

#[path = "../common/log_contract.rs"]
mod log_contract;

use crate::store::temp_dir;
