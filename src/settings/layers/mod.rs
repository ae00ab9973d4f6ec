//! Layers of a configuration: files read as trees, merged, checked against the shape of the defaults.

pub(crate) mod file;
pub(crate) mod load;
pub(crate) mod names;
pub(crate) mod shape;
pub(crate) mod suggest;
pub(crate) mod tree;
