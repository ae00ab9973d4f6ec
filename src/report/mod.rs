//! Reports for people and programs: tables, what a replay found, how it compares with what people know.

mod judge;
mod replay;
mod said;
mod table;

pub use judge::BadRow;
pub use judge::EventIndex;
pub use judge::Judgement;
pub use judge::Label;
pub use judge::judge;
pub use judge::parse_outcome;
pub use replay::Counts;
pub use said::Deed;
pub use said::Said;
pub use table::Column;
pub use table::Table;
