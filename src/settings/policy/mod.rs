//! Policy files: their layers, their schema, and keys that do nothing.

pub(crate) mod idle;
pub(crate) mod layers;
pub(crate) mod schema;
pub(crate) mod tools;

pub use layers::{LoadedPolicy, load, load_from_str, load_with, load_with_overrides};
