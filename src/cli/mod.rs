//! The command line: arguments, a command each, exit codes.

pub mod cases;
