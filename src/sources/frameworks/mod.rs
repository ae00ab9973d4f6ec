//! Conventions of OpenTelemetry that are no single agent's: a file for each, and a row.

mod langchain;
mod langfuse;
mod mcp;
mod openinference;
mod openllmetry;
mod semconv;
mod vercel;

use crate::otlp::convention::Convention;

/// In the order in which they are asked. The GenAI conventions come late: others have their names too, in part or with other content.
pub(crate) static CONVENTIONS: [Convention; 6] = [
    vercel::CONVENTION,
    openllmetry::CONVENTION,
    mcp::CONVENTION,
    semconv::CONVENTION,
    openinference::CONVENTION,
    langfuse::CONVENTION,
];
