//! OpenLLMetry (Traceloop): spans whose kind is `tool`. Input and output are JSON texts that wrap what was meant, and some frameworks add to
//! the wrapping what is new at each call.

use loopwarden_core::event::Rejected;
use serde_json::{Map, Value};

use crate::draft::Call;
use crate::otlp::convention::{AGENT, Said, ended};
use crate::otlp::view::SpanView;

pub(super) fn span(view: SpanView<'_>) -> Result<Said, Rejected> {
    let attributes = view.attributes;
    if !attributes.is("traceloop.span.kind", "tool") {
        return Ok(Said::Other);
    }
    let tool = match attributes.owned(&["traceloop.entity.name", "gen_ai.tool.name"])? {
        Some(tool) => tool,
        None => view.name()?.trim_end_matches(".tool").to_owned(),
    };
    let mut call = Call {
        tool,
        call_id: attributes.owned(&["gen_ai.tool.call.id"])?,
        args: attributes.value(&["traceloop.entity.input"])?.map(args),
        result: attributes.value(&["traceloop.entity.output"])?.map(result),
        agent_id: attributes.owned(&AGENT)?,
        ..Call::default()
    };
    ended(view, false, &mut call)?;
    Ok(Said::Call(Box::new(call)))
}

/// The object that a text holds, or what it was.
fn object(value: Value) -> Result<Map<String, Value>, Value> {
    match value {
        Value::Object(object) => Ok(object),
        Value::String(text) => serde_json::from_str(&text).map_err(|_| Value::String(text)),
        other => Err(other),
    }
}

/// `{"args": [], "kwargs": {…}}` of a function; `{"input_str": "…", "inputs": {…}, …}` of LangChain.
fn args(value: Value) -> Value {
    let mut object = match object(value) {
        Ok(object) => object,
        Err(value) => return value,
    };
    if let Some(Value::Object(inputs)) = object.get_mut("inputs")
        && !inputs.is_empty()
    {
        return Value::Object(std::mem::take(inputs));
    }
    if let Some(input) = object.remove("input_str") {
        return input;
    }
    let has_unnamed = object.get("args").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    match object.get_mut("kwargs") {
        Some(Value::Object(named)) if !has_unnamed => Value::Object(std::mem::take(named)),
        _ => Value::Object(object),
    }
}

/// `{"output": …}` of LangChain, whose `ToolMessage` has its text at `kwargs.content`.
fn result(value: Value) -> Value {
    let mut object = match object(value) {
        Ok(object) => object,
        Err(value) => return value,
    };
    let Some(mut output) = object.remove("output") else { return Value::Object(object) };
    match output.pointer_mut("/kwargs/content") {
        Some(content) => content.take(),
        None => output,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{args, result};

    #[test]
    fn wrappings_are_taken_off() {
        let text = |value: serde_json::Value| value.to_string().into();
        assert_eq!(args(text(json!({ "args": [], "kwargs": { "q": 1 } }))), json!({ "q": 1 }));
        assert_eq!(args(text(json!({ "args": [1], "kwargs": { "q": 1 } }))), json!({ "args": [1], "kwargs": { "q": 1 } }));
        let langchain = json!({ "input_str": "{'q': 1}", "inputs": { "q": 1 }, "tags": [], "metadata": { "run": 7 } });
        assert_eq!(args(text(langchain)), json!({ "q": 1 }));
        assert_eq!(args(text(json!({ "input_str": "ls", "metadata": { "run": 7 } }))), json!("ls"));
        assert_eq!(args("plain".into()), json!("plain"));
        let message = json!({ "output": { "lc": 1, "kwargs": { "content": "done", "tool_call_id": "new" } }, "kwargs": {} });
        assert_eq!(result(text(message)), json!("done"));
        assert_eq!(result(text(json!({ "output": [1] }))), json!([1]));
        assert_eq!(result(text(json!({ "a": 1 }))), json!({ "a": 1 }));
    }
}
