//! How settings of a policy are described: once, with type, default, range and text. Reading, checking and documentation follow from that.

mod check;
#[macro_use]
mod describe;
mod kind;
mod mode;
mod needs;
mod patterns;
mod section;
mod table;
mod tool;
mod value;

pub(crate) use check::Check;
pub use check::Problem;
pub(crate) use describe::settings;
pub(crate) use kind::{
    Amount, BLOCK_SCOPE, BlockAt, Flag, Growth, Kind, MODE, Maybe, Must, Name, NameOrNone, Names, NamesInOrder, Patterns,
    PatternsOrNameless, PhrasesInOrder, Regexes, Share, Text, Times, Tools, Usd, Whole, Window, chars, count, kinds, millis,
    one_of, steps,
};
pub use mode::{BlockScope, Mode};
pub use needs::Needs;
pub use patterns::TextPatterns;
pub(crate) use section::section_toml;
pub use section::{Section, Setting};
pub(crate) use table::{Key, SharedSettings, Table};
pub use tool::{ToolClass, ToolPolicy, ToolTable};
pub use value::Value;
