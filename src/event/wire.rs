//! Serde shapes of the event topic.

/// Major version of the event schema.
pub const SCHEMA_VERSION: u32 = 1;
