//! The project's own messages of OpenTelemetry read what these messages read. They also make protobuf of the JSON tests are written in.

use loopwarden_sources::otlp::{Form, Signal};
use loopwarden_sources::{Batch, Sessions};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use opentelemetry_proto::{tonic::collector::logs::v1::ExportLogsServiceRequest, tonic::common::v1::any_value::Value as Any};
use proptest::prelude::*;
use prost::Message as _;
use serde_json::Value;

use crate::{NOW, events, span, traces, with};

/// The same body in protobuf.
pub(crate) fn protobuf(signal: Signal, body: &Value) -> Vec<u8> {
    let text = body.to_string();
    match signal {
        Signal::Traces => serde_json::from_str::<ExportTraceServiceRequest>(&text).unwrap().encode_to_vec(),
        Signal::Logs => serde_json::from_str::<ExportLogsServiceRequest>(&text).unwrap().encode_to_vec(),
    }
}

/// What is read of a body in both forms, which must be equal.
pub(crate) fn both(signal: Signal, body: &Value) -> Batch {
    let of_json = with(&mut Sessions::default(), signal, Form::Json, body.to_string().as_bytes()).unwrap();
    let of_protobuf = with(&mut Sessions::default(), signal, Form::Protobuf, &protobuf(signal, body)).unwrap();
    assert_eq!(of_json, of_protobuf);
    of_json
}

fn value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        ".{0,12}".prop_map(Any::StringValue),
        any::<bool>().prop_map(Any::BoolValue),
        any::<i64>().prop_map(Any::IntValue),
        any::<i32>().prop_map(|number| Any::DoubleValue(f64::from(number) / 8.0)),
    ];
    let some = |any| AnyValue { value: Some(any) };
    leaf.prop_map(some).prop_recursive(4, 24, 6, move |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..6).prop_map(|values| Any::ArrayValue(ArrayValue { values }));
        let object = proptest::collection::vec(("[a-d]{1,2}", inner), 0..6).prop_map(|fields| {
            let values = fields.into_iter().map(|(key, value)| KeyValue { key, value: Some(value), ..KeyValue::default() });
            Any::KvlistValue(KeyValueList { values: values.collect() })
        });
        prop_oneof![list, object].prop_map(some)
    })
}

/// What a value should become.
fn expected(value: &AnyValue) -> Value {
    match value.value.as_ref() {
        Some(Any::StringValue(text)) => text.as_str().into(),
        Some(Any::BoolValue(flag)) => (*flag).into(),
        Some(Any::IntValue(number)) => (*number).into(),
        Some(Any::DoubleValue(number)) => (*number).into(),
        Some(Any::ArrayValue(array)) => array.values.iter().map(expected).collect(),
        Some(Any::KvlistValue(list)) => {
            let fields = list.values.iter().map(|field| (field.key.clone(), expected(field.value.as_ref().unwrap())));
            Value::Object(fields.collect())
        }
        _ => Value::Null,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn what_their_messages_write_is_read(
        args in value(), name in "[a-zA-Z_]{1,12}", trace in any::<[u8; 16]>(), id in any::<[u8; 8]>(), end in 1_u64..i64::MAX as u64
    ) {
        prop_assume!(trace != [0; 16] && id != [0; 8]);
        let pair = |key: &str, value: AnyValue| KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() };
        let text = |text: &str| AnyValue { value: Some(Any::StringValue(text.to_owned())) };
        let is_empty = args.value == Some(Any::StringValue(String::new()));
        let span = Span {
            trace_id: trace.to_vec(), span_id: id.to_vec(), parent_span_id: vec![7; 8], name: name.clone(), end_time_unix_nano: end,
            attributes: vec![
                pair("gen_ai.operation.name", text("execute_tool")),
                pair("gen_ai.tool.name", text(&name)),
                pair("gen_ai.tool.call.arguments", args.clone()),
            ],
            trace_state: "k=v".to_owned(), dropped_links_count: 3, flags: 257,
            ..Span::default()
        };
        let scope = ScopeSpans { spans: vec![span], schema_url: "u".to_owned(), ..ScopeSpans::default() };
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }],
        };
        for (form, body) in
            [(Form::Protobuf, request.encode_to_vec()), (Form::Json, serde_json::to_vec(&request).unwrap())]
        {
            let batch = with(&mut Sessions::default(), Signal::Traces, form, &body).unwrap();
            prop_assert_eq!(batch.refused.len(), 0, "{:?}", batch.refused);
            let event = &events(&batch)[0];
            let found = event.get("args").cloned();
            prop_assert_eq!(found, (!is_empty).then(|| expected(&args)));
            prop_assert_eq!(&event["tool"], &name);
            let is_told = end / 1_000_000 <= NOW.0 as u64;
            prop_assert!(!is_told || batch.events[0].time.is_some_and(|time| time.0 as u64 == end / 1_000_000));
        }
    }
}

#[test]
fn answers_are_read_by_their_messages() {
    let good = span(1, "x", &serde_json::json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t" }));
    let bad = span(2, "x", &serde_json::json!({ "gen_ai.operation.name": "execute_tool" }));
    let mixed = both(Signal::Traces, &traces(&[good, bad]));
    let nothing = both(Signal::Traces, &traces(&[]));
    for (batch, rejected, said) in
        [(&mixed, 1, "1 of 2 records refused: 1 × bad_value at /tool; 1 of 1 calls have no arguments"), (&nothing, 0, "")]
    {
        let bytes = loopwarden_sources::otlp::success(Form::Protobuf, Signal::Traces, batch);
        let text = loopwarden_sources::otlp::success(Form::Json, Signal::Traces, batch);
        for answer in [
            ExportTraceServiceResponse::decode(&*bytes).unwrap(),
            serde_json::from_slice::<ExportTraceServiceResponse>(&text).unwrap(),
        ] {
            let partial = answer.partial_success.unwrap_or_default();
            assert_eq!(partial.rejected_spans, rejected);
            assert!(partial.error_message.starts_with(said), "{}", partial.error_message);
        }
    }
    assert_eq!(loopwarden_sources::otlp::success(Form::Protobuf, Signal::Traces, &nothing), b"");
    assert_eq!(loopwarden_sources::otlp::success(Form::Json, Signal::Traces, &nothing), b"{}");
}
