//! What an exporter is answered, in the form of its request.

use prost::Message;
use serde_json::{Value, json};

use crate::batch::Batch;
use crate::otlp::envelope::{Form, Signal};

/// `Export…ServiceResponse`: the same numbers for traces, logs and metrics.
#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// The body of a 200: empty, or how many records were refused and why. Without refusals its message is a warning. An exporter sends
/// none of it again.
pub fn success(form: Form, signal: Signal, batch: &Batch) -> Vec<u8> {
    let message: Vec<String> = batch.refusals().into_iter().chain(batch.warning()).collect();
    let (rejected, message) = (i64::try_from(batch.refused.len()).unwrap_or(i64::MAX), message.join("; "));
    let partial = (rejected > 0 || !message.is_empty()).then_some(PartialSuccess { rejected, error_message: message });
    match form {
        Form::Protobuf => Response { partial_success: partial }.encode_to_vec(),
        Form::Json => {
            let rejected_name = match signal {
                Signal::Traces => "rejectedSpans",
                Signal::Logs => "rejectedLogRecords",
            };
            // Readers must take a number for it, and some take no text.
            let partial =
                partial.map(|partial| json!({ rejected_name: partial.rejected, "errorMessage": partial.error_message }));
            partial.map_or_else(|| json!({}), |partial| json!({ "partialSuccess": partial })).to_string().into_bytes()
        }
    }
}

/// The body of any other status. `code` is one of gRPC's.
pub fn failure(form: Form, code: i32, message: &str) -> Vec<u8> {
    match form {
        Form::Protobuf => Status { code, message: message.to_owned() }.encode_to_vec(),
        Form::Json => Value::to_string(&json!({ "code": code, "message": message })).into_bytes(),
    }
}
