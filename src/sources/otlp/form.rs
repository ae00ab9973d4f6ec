//! What is sent, and how it is written.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Traces,
    Logs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Protobuf,
    Json,
}
