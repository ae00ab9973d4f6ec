//! Sessions, double reports, partial success, bounds.

use loopwarden_sources::otlp::{Form, Signal};
use loopwarden_sources::{Fault, Sessions, Sources};
use serde_json::{Value, json};

use crate::oracle::{both, protobuf};
use crate::{attributes, events, log, logs, of_json, span, traces, with};

fn call(number: u8, more: &Value) -> Value {
    let mut of = json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": "{}" });
    of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    span(number, "execute_tool t", &of)
}

fn sessions_of(sessions: &mut Sessions, spans: &[Value]) -> Vec<String> {
    let batch = with(sessions, Signal::Traces, Form::Json, traces(spans).to_string().as_bytes()).unwrap();
    batch.events.into_iter().map(|made| made.session_id).collect()
}

#[test]
fn a_trace_is_one_session_whatever_comes_later() {
    let chat = |number| span(number, "chat", &json!({ "gen_ai.operation.name": "chat", "gen_ai.conversation.id": "talk" }));
    // The conversation is known before, in, or only after the body with the first call.
    let mut sessions = Sessions::default();
    assert_eq!(sessions_of(&mut sessions, &[chat(1)]), Vec::<String>::new());
    assert_eq!(sessions_of(&mut sessions, &[call(2, &json!({}))]), ["talk"]);
    assert_eq!(sessions_of(&mut Sessions::default(), &[call(1, &json!({})), chat(2)]), ["talk"]);
    let mut sessions = Sessions::default();
    let trace = "a".repeat(32);
    assert_eq!(sessions_of(&mut sessions, &[call(1, &json!({}))]), [trace.as_str()]);
    assert_eq!(sessions_of(&mut sessions, &[chat(2), call(3, &json!({ "session.id": "late" }))]), [trace]);
    // Two names in one trace: the first call's.
    let named = [chat(1), call(2, &json!({ "session.id": "one" })), call(3, &json!({ "session.id": "two" }))];
    assert_eq!(sessions_of(&mut Sessions::default(), &named), ["one", "one"]);
}

#[test]
fn the_nearest_name_of_a_session_counts() {
    let mut body = traces(&[call(1, &json!({})), call(2, &json!({ "langfuse.session.id": "of the span" }))]);
    body["resourceSpans"][0]["resource"] = json!({ "attributes": attributes(&json!({ "session.id": "of the resource" })) });
    body["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["traceId"] = "b".repeat(32).into();
    let keys: Vec<String> = both(Signal::Traces, &body).events.into_iter().map(|made| made.session_id).collect();
    assert_eq!(keys, ["of the resource", "of the span"]);
}

#[test]
fn a_log_record_without_any_session_is_refused_and_one_of_a_trace_has_its_id() {
    let said = json!({ "event.name": "gemini_cli.tool_call", "function_name": "f" });
    let mut traced = log(2, &said);
    traced["traceId"] = "c".repeat(32).into();
    let batch = both(Signal::Logs, &logs("x", &[log(1, &said), traced]));
    assert_eq!(batch.events[0].session_id, "c".repeat(32));
    assert_eq!(batch.refusals().unwrap(), "1 of 2 records refused: 1 × missing_field at /session_id");
}

#[test]
fn a_call_through_mcp_counts_once_whichever_span_comes_first() {
    let mcp = |number: u8, parent: u8| {
        let mut span = span(number, "tools/call t", &json!({ "mcp.method.name": "tools/call", "gen_ai.tool.name": "t" }));
        span["parentSpanId"] = format!("{parent:016x}").into();
        span["kind"] = 3.into();
        span
    };
    let ids = |spans: &[Value], sessions: &mut Sessions| {
        let batch = with(sessions, Signal::Traces, Form::Json, traces(spans).to_string().as_bytes()).unwrap();
        events(&batch).iter().map(|event| event["id"].as_str().unwrap()[33..].to_owned()).collect::<Vec<_>>()
    };
    let id = |number: u8| format!("{number:016x}");
    assert_eq!(ids(&[mcp(1, 2), call(2, &json!({}))], &mut Sessions::default()), [id(2)]);
    let mut sessions = Sessions::default();
    assert_eq!(ids(&[mcp(1, 2)], &mut sessions), [id(1)]);
    assert_eq!(ids(&[call(2, &json!({}))], &mut sessions), Vec::<String>::new());
    // Under an agent's own span each call is one.
    assert_eq!(ids(&[mcp(4, 3), mcp(5, 3)], &mut sessions), [id(4), id(5)]);
    let mut served = mcp(6, 5);
    served["kind"] = 2.into();
    assert_eq!(ids(&[served], &mut sessions), Vec::<String>::new());
}

#[test]
fn one_session_of_two_sources_is_named() {
    let other =
        span(2, "t", &json!({ "openinference.span.kind": "TOOL", "tool.name": "t", "input.value": "{}", "output.value": "x" }));
    let mut batch = of_json(Signal::Traces, &traces(&[call(1, &json!({ "session.id": "s" })), other]));
    Sources::default().note_all(&mut batch);
    assert_eq!(batch.twofold.iter().collect::<Vec<_>>(), ["s"]);
    assert!(batch.warning().unwrap().contains("reported by two sources, so that calls may count twice: s"));
}

#[test]
fn a_call_that_two_spans_report_and_that_counts_once_is_no_second_source() {
    let (mut sessions, mut sources) = (Sessions::default(), Sources::default());
    let mcp = |number: u8| span(number, "tools/call t", &json!({ "mcp.method.name": "tools/call", "gen_ai.tool.name": "t" }));
    for spans in [[mcp(1)], [call(2, &json!({}))], [mcp(3)]] {
        let mut batch = with(&mut sessions, Signal::Traces, Form::Json, traces(&spans).to_string().as_bytes()).unwrap();
        assert_eq!(batch.events.len(), 1);
        sources.note_all(&mut batch);
        assert!(batch.twofold.is_empty());
    }
}

#[test]
fn a_bad_record_costs_itself_alone() {
    let mut spans: Vec<Value> = (1..=9).map(|number| call(number, &json!({ "gen_ai.tool.call.result": "r" }))).collect();
    spans[1]["spanId"] = "zz".into();
    spans[2]["spanId"] = "ab".into();
    spans[3]["attributes"] = 7.into();
    spans[4]["attributes"][0]["value"]["stringValue"] = 7.into();
    spans[5] = json!([]);
    spans[6] = call(7, &json!({ "session.id": "x".repeat(300) }));
    spans[7] = call(8, &json!({ "gen_ai.tool.name": "a\u{1}" }));
    let batch = of_json(Signal::Traces, &traces(&spans));
    let found: Vec<(usize, String)> = batch.refused.iter().map(|refused| (refused.index, refused.rejected.to_string())).collect();
    let expected = [
        (1, "bad_type"),
        (2, "bad_value at /span_id"),
        (3, "bad_type"),
        (4, "bad_type"),
        (5, "missing_field at /span"),
        (6, "bad_value at /session_id"),
        (7, "bad_value at /tool"),
    ];
    let expected: Vec<(usize, String)> = expected.iter().map(|(index, text)| (*index, (*text).to_owned())).collect();
    // An array is read as the fields of a span in their order; without a span there is no call.
    let expected: Vec<_> = expected.into_iter().filter(|(index, _)| *index != 5).collect();
    assert_eq!(found, expected);
    assert_eq!((batch.events.len(), batch.ignored), (2, 1));
}

#[test]
fn text_that_is_no_utf8_costs_its_span_alone() {
    let body = traces(&[call(1, &json!({ "gen_ai.agent.name": "QQQQ" })), call(2, &json!({}))]);
    let mut bytes = protobuf(Signal::Traces, &body);
    let at = bytes.windows(4).position(|window| window == b"QQQQ").unwrap();
    bytes[at] = 0xff;
    let batch = with(&mut Sessions::default(), Signal::Traces, Form::Protobuf, &bytes).unwrap();
    assert_eq!(batch.events.len(), 1);
    assert_eq!(batch.refused[0].rejected.to_string(), "not_utf8 at /gen_ai.agent.name");
}

#[test]
fn a_broken_body_is_refused_as_a_whole() {
    let read = |signal, form, body: &[u8]| with(&mut Sessions::default(), signal, form, body);
    let good = traces(&[call(1, &json!({}))]).to_string();
    for (body, fault) in [
        (&b"{"[..], Fault::NotJson),
        (b"", Fault::NotJson),
        (b"[]", Fault::OtherShape),
        (b"{\"resourceSpans\":{}}", Fault::OtherShape),
        (b"{\"resourceSpans\":[7]}", Fault::OtherShape),
        (&good.as_bytes()[..good.len() - 2], Fault::NotJson),
        (b"\xff", Fault::NotJson),
    ] {
        assert_eq!(read(Signal::Traces, Form::Json, body), Err(fault), "{}", String::from_utf8_lossy(body));
    }
    let bytes = protobuf(Signal::Traces, &traces(&[call(1, &json!({}))]));
    for body in [&bytes[..bytes.len() - 1], b"\x0a\x7f", b"\x08\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"] {
        assert_eq!(read(Signal::Traces, Form::Protobuf, body), Err(Fault::NotProtobuf));
    }
    for form in [Form::Json, Form::Protobuf] {
        let body: &[u8] = if form == Form::Json { b"{}" } else { b"" };
        assert_eq!(read(Signal::Logs, form, body).unwrap().records, 0, "an empty request is a success");
    }
    let many = format!("{{\"resourceSpans\":[{{\"scopeSpans\":[{{\"spans\":[{}]}}]}}]}}", vec!["{}"; 70_000].join(","));
    assert_eq!(read(Signal::Traces, Form::Json, many.as_bytes()), Err(Fault::TooManyRecords));
    let inner: Vec<u8> = [0x12, 0].repeat(70_000);
    let wrap = |tag: u8, bytes: &[u8]| {
        let mut out = vec![tag];
        prost::encoding::encode_varint(bytes.len() as u64, &mut out);
        [out, bytes.to_vec()].concat()
    };
    let many = wrap(0x0a, &wrap(0x12, &inner));
    assert_eq!(read(Signal::Traces, Form::Protobuf, &many), Err(Fault::TooManyRecords));
}

#[test]
fn depth_and_size_are_bounded_span_by_span() {
    let deep = (0..40).fold(json!(1), |inner, _| json!({ "a": inner }));
    let deeper = (0..70).fold(json!(1), |inner, _| json!({ "a": inner }));
    let large = "x".repeat(900_000);
    let spans = [
        call(1, &json!({ "gen_ai.tool.call.arguments": deep })),
        call(2, &json!({ "gen_ai.tool.call.arguments": deeper })),
        call(3, &json!({ "gen_ai.tool.call.result": large })),
        call(4, &json!({ "gen_ai.tool.call.result": "x".repeat(2_000_000) })),
    ];
    // In JSON four levels stand for one.
    let json = of_json(Signal::Traces, &traces(&spans));
    assert_eq!(json.refused.len(), 3, "{:?}", json.refused);
    let bytes = with(&mut Sessions::default(), Signal::Traces, Form::Protobuf, &protobuf_of(&spans)).unwrap();
    let refused: Vec<String> = bytes.refused.iter().map(|refused| refused.rejected.to_string()).collect();
    assert_eq!(refused, ["bad_value", "too_large"], "{:?}", bytes.refused);
    let result = events(&bytes)[1]["result"].as_str().unwrap().len();
    assert!((30_000..50_000).contains(&result), "{result}");
}

/// Their reader of JSON has a bound of its own: arguments so deep are put in afterwards.
fn protobuf_of(spans: &[Value]) -> Vec<u8> {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, KeyValueList};
    use opentelemetry_proto::{
        tonic::collector::trace::v1::ExportTraceServiceRequest, tonic::common::v1::any_value::Value as Any,
    };
    use prost::Message as _;
    let mut spans = spans.to_vec();
    for span in spans.iter_mut().take(2) {
        *span = call(if span["spanId"] == "0000000000000001" { 1 } else { 2 }, &json!({ "gen_ai.tool.call.arguments": 1 }));
    }
    let mut request: ExportTraceServiceRequest = serde_json::from_str(&traces(&spans).to_string()).unwrap();
    for (span, levels) in request.resource_spans[0].scope_spans[0].spans.iter_mut().zip([30, 70]) {
        let argument = span.attributes.iter_mut().find(|attribute| attribute.key == "gen_ai.tool.call.arguments").unwrap();
        let mut value = AnyValue { value: Some(Any::IntValue(1)) };
        for _ in 0..levels {
            let field = KeyValue { key: "a".to_owned(), value: Some(value), ..KeyValue::default() };
            value = AnyValue { value: Some(Any::KvlistValue(KeyValueList { values: vec![field] })) };
        }
        argument.value = Some(value);
    }
    request.encode_to_vec()
}

#[test]
fn a_repeated_export_makes_the_same_ids_and_another_record_another() {
    let said = |name: &str| json!({ "event.name": "gemini_cli.tool_call", "session.id": "s", "function_name": name });
    let ids = |body: &Value| -> Vec<String> {
        events(&of_json(Signal::Logs, body)).iter().map(|event| event["id"].to_string()).collect()
    };
    let body = logs("x", &[log(1, &said("f")), log(1, &said("g")), log(2, &said("f"))]);
    let first = ids(&body);
    assert_eq!(first, ids(&body));
    assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
}

#[test]
fn events_stand_in_the_order_of_their_ends() {
    let batch = of_json(Signal::Traces, &traces(&[call(3, &json!({})), call(1, &json!({})), call(2, &json!({}))]));
    let times: Vec<String> = events(&batch).iter().map(|event| event["time"].to_string()).collect();
    assert!(times.is_sorted() && times.len() == 3, "{times:?}");
}
