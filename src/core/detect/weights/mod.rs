//! The sequential test: what a step shows, what it weighs, and the sum (page `detection`).

pub mod evidence;
pub mod facts;
pub mod in_vain;
pub mod measure;
pub mod news;
pub mod score;
