//! How settings of a policy are described: once, with type, default, range and text. Reading, checking and documentation follow from that.

mod check;
#[macro_use]
mod describe;
mod kind;
mod mode;
mod needs;
mod patterns;
mod table;
mod tool;
mod value;

pub(crate) use check::Check;
pub use check::Problem;
pub(crate) use describe::settings;
pub use describe::{Setting, section_toml};
pub(crate) use kind::{
    BLOCK_SCOPE, BlockAt, Flag, Kind, MODE, MasksOrNone, NamesInOrder, PhrasesInOrder, Share, Tools, Window, chars, count,
    millis, one_of, steps,
};
pub use mode::{BlockScope, Mode};
pub use needs::Needs;
pub use patterns::TextPatterns;
pub(crate) use table::{Key, SharedSettings, Table};
pub use tool::{ToolClass, ToolPolicy, ToolTable};
pub use value::Value;
