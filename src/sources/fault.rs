//! Why a whole body cannot be read.

use crate::limits::RECORDS_MAX;

/// Why nothing of a body can be read. The codes are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is larger than the bound, possibly only when inflated.
    #[error("a body may have {0} bytes when it is inflated; send smaller batches")]
    TooLarge(usize),
    /// It was to be gzip and is not, or it ends early.
    #[error("the body is no gzip, or ends early")]
    NotGzip,
    /// It was to be protobuf and is not.
    #[error("the body is no protobuf of this kind")]
    NotProtobuf,
    /// It was to be JSON and is not.
    #[error("the body is no JSON")]
    NotJson,
    /// It is JSON of another shape.
    #[error("the JSON has another shape than this form")]
    OtherShape,
    /// It holds more records than one body may.
    #[error("a body may have {RECORDS_MAX} records; send smaller batches")]
    TooManyRecords,
}

impl Fault {
    /// The code for programs and dead letters.
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooLarge(_) => "too_large",
            Self::NotGzip => "not_gzip",
            Self::NotProtobuf => "not_protobuf",
            Self::NotJson => "not_json",
            Self::OtherShape => "unsupported_format",
            Self::TooManyRecords => "too_many_records",
        }
    }
}
