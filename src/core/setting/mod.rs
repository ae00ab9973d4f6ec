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
    BLOCK_AT, BLOCK_SCOPE, FLAG, Kind, MASKS_OR_NONE, MODE, NAMES_IN_ORDER, SHARE, TOOLS, WINDOW, chars, count, millis, steps,
    words,
};
pub use mode::{BlockScope, Mode};
pub use needs::Needs;
pub use patterns::TextPatterns;
pub(crate) use table::{Key, Shared, Table};
pub use tool::{ToolClass, ToolPolicy, ToolTable};
pub use value::Value;
