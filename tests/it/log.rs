//! One contract for every `Log`, and what the single worlds add to it.

mod embedded;
mod file;
mod memory;

#[path = "../common/log_contract.rs"]
mod log_contract;
#[path = "../common/temp_dir.rs"]
mod temp_dir;
