//! LangChain's values, as tracers write them. What is new at each call stands around what was meant: ids of calls, numbers of steps.

use serde_json::{Map, Value};

/// What a call was given.
#[derive(Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) args: Value,
    pub(crate) call_id: Option<String>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Returned {
    pub(crate) result: Value,
    pub(crate) call_id: Option<String>,
    pub(crate) is_error: bool,
}

/// The object of a value, or of a text that holds one.
fn object(value: &Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object.clone()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

/// `{"args": [], "kwargs": {…}}` of a function; `{"input_str": "…", "inputs": {…}, "kwargs": {"tool_call_id": …}, …}` of LangChain. What has no
/// such wrapping stays as it was written: its numbers keep their digits.
pub(crate) fn given(value: Value) -> Given {
    let Some(mut object) = object(&value) else { return Given { args: value, call_id: None } };
    if let Some(input) = object.remove("input_str") {
        let call_id = text(object.get("kwargs").and_then(|kwargs| kwargs.get("tool_call_id")));
        let args = match object.remove("inputs") {
            Some(Value::Object(inputs)) if !inputs.is_empty() => Value::Object(inputs),
            _ => input,
        };
        return Given { args, call_id };
    }
    let is_named = object.len() == 2 && object.get("args").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let args = match object.remove("kwargs") {
        Some(Value::Object(named)) if is_named => Value::Object(named),
        _ => value,
    };
    Given { args, call_id: None }
}

/// A tool's message: its text stands at `kwargs.content` (serialized) or `data.content` (as a dictionary), maybe inside of `output`.
pub(crate) fn returned(value: Value) -> Returned {
    let bare = |result| Returned { result, call_id: None, is_error: false };
    let Some(mut object) = object(&value) else { return bare(value) };
    let is_wrapped = object.contains_key("output") && object.keys().all(|key| key == "output" || key == "kwargs");
    let (inner, whole) = if is_wrapped {
        let inner = object.remove("output").unwrap_or_default();
        (inner.clone(), inner)
    } else {
        (Value::Object(object), value)
    };
    let is_message = inner.get("lc").is_some() || inner.get("type").is_some_and(|kind| kind == "tool");
    let message = inner.get("kwargs").or_else(|| inner.get("data")).filter(|_| is_message);
    match message.and_then(|message| Some((message, message.get("content")?))) {
        Some((message, content)) => Returned {
            result: content.clone(),
            call_id: text(message.get("tool_call_id")),
            is_error: message.get("status").is_some_and(|status| status == "error"),
        },
        None => bare(whole),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{given, returned};

    #[test]
    fn what_was_given_is_taken_out_of_its_wrapping() {
        let read = |value: Value| match value {
            Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            other => other,
        };
        let args = |value: Value| read(given(value.to_string().into()).args);
        let digits = r#"{"n":12345678901234567890123}"#;
        assert_eq!((given(digits.into()).args, returned(digits.into()).result), (digits.into(), digits.into()));
        assert_eq!(args(json!({ "args": [], "kwargs": { "q": 1 } })), json!({ "q": 1 }));
        assert_eq!(args(json!({ "args": [1], "kwargs": { "q": 1 } })), json!({ "args": [1], "kwargs": { "q": 1 } }));
        // A tool may have arguments of these names.
        assert_eq!(args(json!({ "kwargs": { "q": 1 } })), json!({ "kwargs": { "q": 1 } }));
        assert_eq!(args(json!({ "args": [], "kwargs": {}, "x": 1 })), json!({ "args": [], "kwargs": {}, "x": 1 }));
        assert_eq!(args(json!({ "inputs": { "q": 1 } })), json!({ "inputs": { "q": 1 } }));
        let call = json!({ "input_str": "{'q': 1}", "inputs": { "q": 1 }, "metadata": { "step": 7 }, "kwargs": { "tool_call_id": "c" } });
        let found = given(call.to_string().into());
        assert_eq!((found.args, found.call_id.as_deref()), (json!({ "q": 1 }), Some("c")));
        assert_eq!(args(json!({ "input_str": "ls", "metadata": { "step": 7 } })), json!("ls"));
        assert_eq!(given("plain".into()).args, json!("plain"));
    }

    #[test]
    fn what_came_back_is_taken_out_of_its_message() {
        let serialized = json!({ "output": { "lc": 1, "kwargs": { "content": "done", "tool_call_id": "c", "status": "success" } }, "kwargs": {} });
        let dictionary = json!({ "type": "tool", "data": { "content": "done", "tool_call_id": "c", "status": "error" } });
        for (value, is_error) in [(serialized, false), (dictionary, true)] {
            let found = returned(value.to_string().into());
            assert_eq!((found.result, found.call_id.as_deref(), found.is_error), (json!("done"), Some("c"), is_error));
        }
        for (value, result) in [
            (json!({ "output": [1] }), json!([1])),
            (json!({ "output": "x", "more": 1 }), json!(r#"{"more":1,"output":"x"}"#)),
            (json!({ "data": { "content": "x" } }), json!(r#"{"data":{"content":"x"}}"#)),
            (json!("x"), json!("\"x\"")),
        ] {
            assert_eq!(returned(value.to_string().into()).result, result);
        }
    }
}
