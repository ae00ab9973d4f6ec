//! Reports for people and programs: tables, what a replay found, how it compares with labels.

mod table;

pub use table::Column;
pub use table::Table;
