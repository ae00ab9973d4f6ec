//! What is learned from labels and answers: `labels`, `learn`, `fit`.

pub mod fit;
pub mod labels;
pub mod learn;
