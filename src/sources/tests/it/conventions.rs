//! What frameworks call a call, a row each: attributes, and what the event must say.

use loopwarden_sources::otlp::Signal;
use serde_json::{Value, json};

use crate::oracle::both;
use crate::{attributes, events, log, logs, span, traces};

/// The event of one span, without id, session and times.
fn event_of(span: Value) -> Value {
    let batch = both(Signal::Traces, &traces(&[span]));
    assert_eq!((batch.events.len(), &batch.refused), (1, &Vec::new()));
    told(events(&batch).remove(0))
}

fn told(mut event: Value) -> Value {
    for name in ["id", "session_id", "time", "traceparent", "duration_ms"] {
        event.as_object_mut().unwrap().remove(name);
    }
    event
}

#[test]
fn spans_of_every_convention_are_calls() {
    let rows = [
        (
            "execute_tool search",
            json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.id": "c1",
                "gen_ai.tool.call.arguments": { "q": "x", "n": [1, 2.5] }, "gen_ai.tool.call.result": "{\"hits\":0}", "gen_ai.agent.name": "fixer" }),
            json!({ "kind": "tool", "tool": "search", "call_id": "c1", "args": { "q": "x", "n": [1, 2.5] }, "result": "{\"hits\":0}",
                "outcome": "ok", "agent": { "id": "fixer" } }),
        ),
        // Without an operation, and with the argument as a text.
        (
            "execute_tool search",
            json!({ "gen_ai.tool.call.arguments": "{\"q\":\"x\"}", "gen_ai.tool.call.result": "r" }),
            json!({ "kind": "tool", "tool": "search", "args": "{\"q\":\"x\"}", "result": "r", "outcome": "ok" }),
        ),
        // PydanticAI, its second version.
        (
            "running tool",
            json!({ "gen_ai.tool.name": "search", "gen_ai.tool.call.id": "c1", "tool_arguments": "{\"q\":\"x\"}", "tool_response": "none" }),
            json!({ "kind": "tool", "tool": "search", "call_id": "c1", "args": "{\"q\":\"x\"}", "result": "none", "outcome": "ok" }),
        ),
        // Google ADK, with content and without.
        (
            "execute_tool search",
            json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search",
                "gcp.vertex.agent.tool_call_args": "{\"q\":\"x\"}", "gcp.vertex.agent.tool_response": "{}" }),
            json!({ "kind": "tool", "tool": "search", "args": "{\"q\":\"x\"}", "result": "{}", "outcome": "ok" }),
        ),
        (
            "execute_tool search",
            json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search",
                "gcp.vertex.agent.tool_call_args": "{}", "gcp.vertex.agent.tool_response": "{}" }),
            json!({ "kind": "tool", "tool": "search", "outcome": "ok", "truncated": true }),
        ),
        (
            "ai.toolCall",
            json!({ "operation.name": "ai.toolCall x", "ai.toolCall.name": "search", "ai.toolCall.id": "c1",
                "ai.toolCall.args": "{\"q\":\"x\"}", "ai.toolCall.result": "\"none\"" }),
            json!({ "kind": "tool", "tool": "search", "call_id": "c1", "args": "{\"q\":\"x\"}", "result": "\"none\"", "outcome": "ok" }),
        ),
        (
            "search",
            json!({ "openinference.span.kind": "TOOL", "tool.name": "search", "tool.parameters": "{\"type\":\"object\"}",
                "input.value": "{\"q\":\"x\"}", "input.mime_type": "application/json", "output.value": "none" }),
            json!({ "kind": "tool", "tool": "search", "args": "{\"q\":\"x\"}", "result": "none", "outcome": "ok" }),
        ),
        (
            "search.tool",
            json!({ "traceloop.span.kind": "tool", "traceloop.entity.name": "search",
                "traceloop.entity.input": "{\"args\":[],\"kwargs\":{\"q\":\"x\"}}", "traceloop.entity.output": "\"none\"" }),
            json!({ "kind": "tool", "tool": "search", "args": { "q": "x" }, "result": "\"none\"", "outcome": "ok" }),
        ),
        // Both of LangGraph, as their instrumentations of 2026 write it: ids and steps are new at each call.
        (
            "execute_tool search",
            json!({ "traceloop.span.kind": "tool", "traceloop.entity.name": "search", "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "search",
                "gen_ai.tool.call.arguments": "{\"input_str\":\"{'q': 'x'}\",\"metadata\":{\"langgraph_step\":2},\"inputs\":{\"q\":\"x\"},\"kwargs\":{\"tool_call_id\":\"c1\"}}",
                "gen_ai.tool.call.result": "{\"output\":{\"lc\":1,\"kwargs\":{\"content\":\"none\",\"tool_call_id\":\"c1\"}},\"kwargs\":{\"tags\":[\"seq:step:1\"]}}" }),
            json!({ "kind": "tool", "tool": "search", "call_id": "c1", "args": { "q": "x" }, "result": "none", "outcome": "ok" }),
        ),
        (
            "search",
            json!({ "openinference.span.kind": "TOOL", "tool.name": "search", "input.value": "x", "output.mime_type": "application/json",
                "output.value": "{\"type\":\"tool\",\"data\":{\"content\":\"none\",\"tool_call_id\":\"c1\",\"status\":\"success\"}}" }),
            json!({ "kind": "tool", "tool": "search", "call_id": "c1", "args": "x", "result": "none", "outcome": "ok" }),
        ),
        (
            "search",
            json!({ "langfuse.observation.type": "tool", "langfuse.observation.input": "{\"q\":\"x\"}", "langfuse.observation.level": "ERROR",
                "langfuse.observation.status_message": "no route" }),
            json!({ "kind": "tool", "tool": "search", "args": "{\"q\":\"x\"}", "outcome": "error", "error": { "message": "no route" } }),
        ),
        (
            "tools/call search",
            json!({ "mcp.method.name": "tools/call", "gen_ai.tool.name": "search", "gen_ai.tool.call.arguments": "{}", "error.type": "tool_error" }),
            json!({ "kind": "tool", "tool": "search", "args": "{}", "outcome": "error", "error": { "type": "tool_error" }, "truncated": true }),
        ),
    ];
    for (name, of, expected) in rows {
        assert_eq!(event_of(span(1, name, &of)), expected, "{name}: {of}");
    }
}

#[test]
fn a_failure_has_the_words_of_its_exception_or_status() {
    let base = json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": "{}" });
    let mut failed = span(1, "execute_tool t", &base);
    failed["status"] = json!({ "code": 2, "message": "it broke" });
    assert_eq!(event_of(failed.clone())["error"], json!({ "message": "it broke" }));
    let said = json!({ "exception.type": "ValueError", "exception.message": "bad q" });
    failed["events"] = json!([{ "name": "exception", "attributes": attributes(&said) }]);
    let event = event_of(failed);
    assert_eq!((&event["outcome"], &event["error"]), (&json!("error"), &json!({ "type": "ValueError", "message": "bad q" })));
}

#[test]
fn arguments_and_results_may_be_events_of_the_span() {
    let mut asked = span(1, "execute_tool t", &json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t" }));
    asked["events"] = json!([
        { "name": "gen_ai.tool.message", "attributes": attributes(&json!({ "role": "tool", "content": "{\"q\":1}", "id": "c" })) },
        { "name": "gen_ai.choice", "attributes": attributes(&json!({ "message": "[{\"text\":\"none\"}]", "id": "c" })) },
    ]);
    let event = event_of(asked);
    assert_eq!((&event["args"], &event["result"]), (&json!("{\"q\":1}"), &json!("[{\"text\":\"none\"}]")));
}

/// The events of one log record.
fn logged(service: &str, of: &Value) -> Vec<Value> {
    events(&both(Signal::Logs, &logs(service, &[log(1, of)]))).into_iter().map(told).collect()
}

#[test]
fn refusals_prompts_and_mcp_tools_of_claude_code() {
    let denied = json!({ "event.name": "tool_decision", "session.id": "s", "decision": "reject", "tool_name": "Bash", "tool_use_id": "c",
        "tool_parameters": "{\"full_command\":\"rm -r x\",\"description\":\"d\"}" });
    assert_eq!(
        logged("claude-code", &denied),
        [
            json!({ "kind": "tool", "tool": "Bash", "call_id": "c", "args": { "command": "rm -r x", "description": "d" }, "outcome": "denied" })
        ]
    );
    let accepted = json!({ "event.name": "tool_decision", "session.id": "s", "decision": "accept", "tool_name": "Bash", "tool_use_id": "c" });
    assert_eq!(logged("claude-code", &accepted), Vec::<Value>::new());
    let mcp = json!({ "event.name": "tool_result", "session.id": "s", "tool_name": "mcp_tool", "tool_use_id": "c", "success": "true",
        "tool_result_size_bytes": "12", "tool_parameters": "{\"mcp_server_name\":\"db\",\"mcp_tool_name\":\"query\"}", "tool_input": "{\"q\":1}" });
    assert_eq!(
        logged("claude-code", &mcp),
        [
            json!({ "kind": "tool", "tool": "mcp__db__query", "call_id": "c", "args": { "q": 1 }, "outcome": "ok", "truncated": true, "result_bytes": 12 })
        ]
    );
    let prompt = json!({ "event.name": "user_prompt", "session.id": "s", "prompt": "<REDACTED>" });
    assert_eq!(logged("claude-code", &prompt), [json!({ "kind": "message", "role": "user" })]);
    // The same words of another program are not its events.
    assert_eq!(logged("other", &prompt), Vec::<Value>::new());
    let mut prefixed = prompt.clone();
    prefixed["event.name"] = "claude_code.user_prompt".into();
    assert_eq!(logged("other", &prefixed).len(), 1);
}

#[test]
fn tools_of_servers_and_failures_of_codex() {
    let mut call = json!({ "event.name": "codex.tool_result", "conversation.id": "s", "tool_name": "query", "mcp_server": "db", "call_id": "c",
        "arguments": "{}", "output": "aborted by user", "success": "false" });
    assert_eq!(
        logged("codex", &call),
        [
            json!({ "kind": "tool", "tool": "mcp__db__query", "call_id": "c", "args": "{}", "result": "aborted by user", "outcome": "cancelled" })
        ]
    );
    call["output"] = "Exit code: 124\nWall time: 9 seconds\nOutput:\nslow".into();
    let event = logged("codex", &call).remove(0);
    assert_eq!((&event["outcome"], &event["result"]), (&json!("timeout"), &json!("slow")));
    assert_eq!(event["error"], json!({ "message": "slow", "exit_code": 124 }));
}

#[test]
fn a_refused_call_of_gemini_and_a_subagent_of_qwen() {
    let call = json!({ "event.name": "gemini_cli.tool_call", "session.id": "s", "function_name": "f", "function_args": "{}",
        "success": false, "decision": "reject", "error": "no" });
    assert_eq!(logged("gemini-cli", &call)[0]["outcome"], "denied");
    let call = json!({ "event.name": "qwen-code.tool_call", "session.id": "s", "function_name": "f", "function_args": "{}",
        "success": true, "subagent_name": "explorer", "content_length": 4 });
    let event = logged("qwen-code", &call).remove(0);
    assert_eq!(
        (&event["agent"], &event["result_bytes"], &event["truncated"]),
        (&json!({ "id": "explorer" }), &json!(4), &json!(true))
    );
}
