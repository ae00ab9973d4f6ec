//! One contract for every `Log`, and what the single worlds add to it.

mod memory;

#[path = "../common/log_contract.rs"]
mod log_contract;
