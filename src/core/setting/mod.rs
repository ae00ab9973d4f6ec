//! How settings are described: once, with type, default, range and text. Reading, checking and documentation follow from that, of policies
//! and of the configuration of a process.

mod check;
mod describe;
mod kind;
mod mode;
mod needs;
mod patterns;
mod section;
mod table;
mod tool;
mod value;

pub use check::{Check, Problem};
pub use describe::{settings, words};
pub(crate) use kind::{
    Amount, BlockAt, Growth, Name, NameOrNone, Names, NamesInOrder, Patterns, PatternsOrNameless, PhrasesInOrder, Regexes, Share,
    Times, Tools, Usd, Window, count, millis,
};
pub use kind::{
    Begun, Flag, Kind, Maybe, Must, Needed, OneOf, Sub, Tables, Text, Within, chars, kind_of, kinds, one_of, steps, within,
};
pub(crate) use mode::{BLOCK_SCOPE, MODE};
pub use mode::{BlockScope, Mode};
pub use needs::Needs;
pub use patterns::TextPatterns;
pub use section::{Form, Section, Setting, section_toml};
pub use table::{Key, SharedSettings, Table};
pub use tool::{ToolClass, ToolPolicy, ToolTable};
pub use value::Value;
