//! Bounds of foreign records: number, unit, reason.

/// A body after it was inflated. Bytes. A few kilobytes of gzip can hold gigabytes.
pub const INFLATED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Spans, log records or events of one body, and groups of them. An exporter sends 512, a collector 8,192.
pub const RECORDS_MAX: usize = 65_536;
/// One span or log record as it was sent. Bytes. Decoded it may take thirty times as much for a moment.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;
/// Attributes of one record. The SDKs' own bound is 128.
pub const ATTRIBUTES_MAX: usize = 1_024;
/// Span events looked at, from the first on.
pub const SPAN_EVENTS_MAX: usize = 128;
/// Traces whose session is remembered, and sessions whose source is. The longest unused are forgotten.
pub const SESSIONS_MAX: usize = 16_384;
/// Spans remembered as the parents of calls that were counted already.
pub const PARENTS_MAX: usize = 16_384;
/// Senders that have a row of their own; all others share one. A fleet has a handful of programs.
pub const SENDERS_MAX: usize = 64;
/// The name of a sender. Characters.
pub const SENDER_CHARS_MAX: usize = 128;
/// Sessions of two sources that are named; more are counted.
pub const NAMED_MAX: usize = 8;
/// An expression of a mapping. Bytes. Its parser goes as deep as there are brackets in it.
pub const EXPRESSION_BYTES_MAX: usize = 1_024;
