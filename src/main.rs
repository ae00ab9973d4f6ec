//! Arguments to `cli`, errors to the exit code.

fn main() {}
