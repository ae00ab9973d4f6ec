//! Whole conversations with the guard: checks in, answers and events out.

use loopwarden_core::event::EventTime;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::wire::verdict::tests::{command, row};
use crate::{
    Action, Answer, Capabilities, Check, Client, Counts, Decision, Dropped, Guard, KEPT_BYTES_MAX, Kept, Knowledge, NotKept,
    Options, Placement, Source, WithoutChannel,
};

const START_MS: i64 = 1_767_225_660_000;

/// A guard with a clock, and an agent that asks it.
struct Talk {
    guard: Guard,
    now_ms: i64,
    as_of_ms: i64,
    late_ms: i64,
    can: Capabilities,
    number: u32,
}

/// An answer with the events that were recorded.
struct Deliveries {
    answer: Answer,
    events: Vec<Value>,
}

impl Talk {
    fn new(words: &[&str]) -> Self {
        let can = serde_json::from_value(json!(words)).unwrap();
        Self { guard: Guard::new(Options::default()), now_ms: START_MS, as_of_ms: i64::MAX, late_ms: 0, can, number: 0 }
    }

    fn now(&self) -> EventTime {
        EventTime(self.now_ms)
    }

    fn counts(&self) -> Counts {
        self.guard.counts(self.now())
    }

    fn take(&mut self, command: &Value) {
        let now = self.now();
        self.guard.command(command.to_string().as_bytes(), now);
    }

    fn ask(&mut self, event: &Value) -> Deliveries {
        let event = RawValue::from_string(event.to_string()).unwrap();
        let client = Client { can: self.can, ..Client::default() };
        self.put(Check::new(event, client))
    }

    fn put(&mut self, check: Check) -> Deliveries {
        let now = self.now();
        let knowledge =
            Knowledge { as_of: Some(EventTime(self.as_of_ms.min(self.now_ms))), late_ms: self.late_ms, source: Source::Kafka };
        let mut opened = self.guard.open(check, now).unwrap();
        let mut events = opened.take_events();
        let answer = self.guard.decide(&mut opened, knowledge, now);
        events.extend(opened.take_events());
        Deliveries { answer, events: events.iter().map(|record| serde_json::from_str(&record.event).unwrap()).collect() }
    }

    fn event(&mut self, kind: &str, call_id: Option<&str>) -> Value {
        self.number += 1;
        json!({
            "id": format!("e{}", self.number), "kind": kind, "session_id": "s", "tool": "Bash",
            "args": { "command": "cargo test -p core" }, "call_id": call_id,
        })
    }

    fn before(&mut self, call_id: &str) -> Deliveries {
        let event = self.event("tool_call", Some(call_id));
        self.ask(&event)
    }

    fn after(&mut self, call_id: &str, outcome: &str) -> Deliveries {
        let mut event = self.event("tool_result", Some(call_id));
        event["outcome"] = outcome.into();
        self.ask(&event)
    }
}

#[test]
fn a_standing_block_refuses_every_matching_call_and_no_other() {
    let mut talk = Talk::new(&["deny"]);
    talk.take(&command("b", "block", 1));
    for call_id in ["1", "2", "3"] {
        let asked = talk.before(call_id);
        assert_eq!((asked.answer.decision, asked.answer.action), (Decision::Deny, Action::Block));
        assert_eq!(asked.answer.message.as_deref(), Some("You've called Bash 3 times."));
        assert_eq!(asked.answer.command_id.as_deref(), Some("b"));
        assert_eq!(asked.answer.placement, Some(Placement::Before));
        let event = &asked.events[0];
        assert_eq!((&event["kind"], &event["outcome"], &event["command_id"]), (&json!("tool"), &json!("denied"), &json!("b")));
        assert_eq!(
            (asked.events.len(), &event["call_id"], &event["args"]["command"]),
            (1, &json!(call_id), &json!("cargo test -p core"))
        );
    }
    let mut other = talk.event("tool_call", Some("4"));
    other["args"]["command"] = "cargo test".into();
    let asked = talk.ask(&other);
    assert_eq!((asked.answer.decision, asked.answer.action, asked.answer.message), (Decision::Allow, Action::None, None));
    assert_eq!(asked.events, [other]);
    talk.now_ms += 600_000;
    assert_eq!(talk.before("5").answer.decision, Decision::Allow, "it has expired");
    assert_eq!(talk.counts().refused, 3);
}

#[test]
fn a_nudge_is_delivered_once_and_its_receipt_is_recorded() {
    let mut talk = Talk::new(&["deny", "context_after"]);
    talk.take(&command("n", "nudge", 1));
    assert_eq!(talk.before("1").answer.message, None, "it cannot speak before a call");
    let asked = talk.after("1", "error");
    assert_eq!((asked.answer.decision, asked.answer.action), (Decision::Allow, Action::Nudge));
    assert_eq!(asked.answer.placement, Some(Placement::AppendToResult));
    assert_eq!(asked.answer.reason.unwrap().summary.as_deref(), Some("sum"));
    assert_eq!(talk.after("2", "error").answer.action, Action::None, "a parallel call");
    let mut again = Talk::new(&["deny", "context_after"]);
    again.take(&command("n", "nudge", 1));
    again.after("1", "error");
    let next = again.before("3");
    let ack = &next.events[0];
    assert_eq!((&ack["kind"], &ack["ack"], &ack["command_id"]), (&json!("ack"), &json!("applied"), &json!("n")));
    assert_eq!(ack["id"], "lw-66GFARS3QANKBD8EXGYG15Q27K", "an ack that is sent again counts once, whichever guard sends it");
    assert_eq!(next.events[1]["kind"], "tool_call");
    assert_eq!(again.before("4").events.len(), 1);
}

#[test]
fn what_agents_did_with_answers_is_counted() {
    let mut talk = Talk::new(&["deny", "context_after"]);
    talk.take(&command("n", "nudge", 1));
    talk.after("1", "error");
    assert_eq!((talk.counts().nudges, talk.counts().nudges_delivered), (1, 0), "nobody knows yet whether it arrived");
    talk.before("2");
    talk.take(&command("b", "block", 2));
    talk.before("3");
    talk.before("4");
    talk.after("4", "ok");
    let counts = talk.counts();
    assert_eq!((counts.allowed, counts.spoken, counts.denied), (2, 1, 2));
    assert_eq!((counts.nudges_delivered, counts.nudges_unheeded), (1, 1), "the same loop went on, counted once");
    assert_eq!((counts.refused, counts.in_spite, counts.asking), (2, 1, 1));
    talk.now_ms += 300_001;
    assert_eq!(talk.counts().asking, 0, "it has not asked for five minutes");
}

#[test]
fn an_answer_that_is_lost_is_given_once_more() {
    let mut talk = Talk::new(&["context_before"]);
    talk.take(&command("n", "nudge", 1));
    let mut actions = Vec::new();
    for _ in 0..4 {
        actions.push(talk.before("1").answer.action);
        talk.now_ms += 60_001;
    }
    assert_eq!(actions, [Action::Nudge, Action::Nudge, Action::None, Action::None]);
    assert_eq!(talk.counts().nudges_dropped, 1);
}

#[test]
fn a_person_who_speaks_voids_what_was_not_delivered() {
    let mut talk = Talk::new(&["context_after"]);
    talk.take(&command("n", "nudge", 1));
    talk.ask(&json!({ "id": "m", "kind": "message", "role": "user", "session_id": "s", "text": "go on" }));
    assert_eq!(talk.after("1", "error").answer.action, Action::None);
}

#[test]
fn who_can_only_refuse_refuses_the_repeat_once() {
    let mut talk = Talk::new(&["deny"]);
    talk.take(&command("n", "nudge", 1));
    let asked = talk.before("1");
    assert_eq!((asked.answer.decision, asked.answer.action), (Decision::Deny, Action::Nudge));
    assert!(asked.answer.message.unwrap().ends_with("The same call will be let through if it is needed."));
    assert_eq!((&asked.events[0]["outcome"], &asked.events[0]["command_id"]), (&json!("denied"), &json!("n")));
    assert_eq!(talk.before("2").answer.decision, Decision::Allow);
    talk.guard = Guard::new(Options { without_channel: WithoutChannel::Drop, ..Options::default() });
    talk.take(&command("n", "nudge", 1));
    assert_eq!(talk.before("3").answer.decision, Decision::Allow);
}

#[test]
fn a_call_without_an_id_gets_one_and_its_result_has_the_same() {
    let mut talk = Talk::new(&["deny"]);
    let open = |talk: &mut Talk| {
        let event = talk.event("tool_call", None);
        talk.ask(&event).events[0]["call_id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (open(&mut talk), open(&mut talk));
    assert_ne!(first, second);
    let close = |talk: &mut Talk, with_args: bool| {
        let mut event = talk.event("tool_result", None);
        event["result"] = "text".into();
        if !with_args {
            event["args"] = Value::Null;
        }
        talk.ask(&event).events[0]["call_id"].clone()
    };
    assert_eq!(close(&mut talk, true), json!(first));
    assert_eq!(close(&mut talk, false), json!(second));
    assert_eq!(close(&mut talk, true), Value::Null, "no call is open");
}

#[test]
fn the_echo_of_a_refused_call_is_not_recorded_and_a_call_made_in_spite_is_counted() {
    let mut talk = Talk::new(&["deny"]);
    talk.take(&command("b", "block", 1));
    talk.before("1");
    let echo = talk.after("1", "error");
    assert_eq!((echo.events.len(), echo.answer.dropped), (0, Some(Dropped::Echo)));
    assert_eq!(talk.after("1", "error").events.len(), 1, "one echo for each");
    talk.before("2");
    assert_eq!(talk.after("2", "ok").events.len(), 1);
    let counts = talk.counts();
    assert_eq!((counts.refused, counts.echoes, counts.in_spite), (2, 1, 1));
    talk.can = serde_json::from_value(json!(["context_before"])).unwrap();
    let asked = talk.before("3");
    assert_eq!((asked.answer.decision, asked.answer.action), (Decision::Allow, Action::Block));
    assert!(asked.answer.message.is_some());
    assert_eq!((asked.events[0]["kind"].as_str(), talk.counts().in_spite), (Some("tool_call"), 2));
}

#[test]
fn a_refused_call_without_an_id_leaves_no_open_one_behind() {
    let mut talk = Talk::new(&["deny"]);
    talk.take(&command("b", "block", 1));
    let event = talk.event("tool_call", None);
    let asked = talk.ask(&event);
    assert_eq!((&asked.events[0]["outcome"], asked.events[0].get("call_id")), (&json!("denied"), Some(&Value::Null)));
    let mut echo = talk.event("tool_result", None);
    echo["outcome"] = "error".into();
    assert_eq!(talk.ask(&echo).answer.dropped, Some(Dropped::Echo));
    talk.take(&command("u", "unblock", 2));
    let next = talk.event("tool_call", None);
    let opened = talk.ask(&next).events[0]["call_id"].clone();
    let mut result = talk.event("tool_result", None);
    result["outcome"] = "error".into();
    assert_eq!(talk.ask(&result).events[0]["call_id"], opened, "the result is that of the call that ran");
}

#[test]
fn an_answer_shows_what_is_stale_and_blocks_outlive_it_for_a_while() {
    let mut talk = Talk::new(&["deny", "context_after"]);
    talk.take(&command("b", "block", 1));
    talk.as_of_ms = START_MS;
    for (at_ms, decision, stale) in [
        (10_000, Decision::Deny, false),
        (10_001, Decision::Deny, true),
        (30_000, Decision::Deny, true),
        (30_001, Decision::Allow, true),
    ] {
        talk.now_ms = START_MS + at_ms;
        let asked = talk.before("1");
        assert_eq!((asked.answer.decision, asked.answer.state.stale), (decision, stale), "{at_ms}");
        assert_eq!(asked.answer.state.lag_ms, Some(at_ms as u64));
    }
    assert_eq!(talk.counts().stale, 3);
}

#[test]
fn rows_of_the_state_topic_are_obeyed_until_their_tombstone() {
    let mut talk = Talk::new(&["deny"]);
    let key = b"agent\x1f\x1fs\x1fmain";
    let now = talk.now();
    talk.guard.row(key, Some(row(1, &[command("b", "block", 1)]).as_bytes()), now);
    assert_eq!(talk.before("1").answer.decision, Decision::Deny);
    talk.guard.row(key, Some(b"nonsense"), now);
    talk.guard.row(b"\xff", None, now);
    assert_eq!((talk.before("2").answer.decision, talk.counts().not_understood), (Decision::Deny, 2));
    talk.guard.row(key, None, now);
    assert_eq!(talk.before("3").answer.decision, Decision::Allow);
    assert_eq!(talk.guard.held().0, 0);
}

#[test]
fn a_nudge_of_a_swarm_waits_for_the_end_of_a_matching_call() {
    let mut of_swarm = command("w", "nudge", 1);
    of_swarm["session_id"] = Value::Null;
    of_swarm["swarm_id"] = "w".into();
    of_swarm["scope"]["kind"] = "swarm".into();
    of_swarm["scope"]["agent_id"] = Value::Null;
    let mut talk = Talk::new(&["deny", "context_after"]);
    talk.take(&of_swarm);
    let in_swarm = |talk: &mut Talk, kind: &str, command: &str| {
        let mut event = talk.event(kind, Some(command));
        event["swarm_id"] = "w".into();
        if kind == "tool_call" {
            event["args"]["command"] = command.into();
        } else {
            event["args"] = Value::Null;
        }
        talk.ask(&event).answer.action
    };
    assert_eq!(in_swarm(&mut talk, "tool_call", "other"), Action::None);
    assert_eq!(in_swarm(&mut talk, "tool_result", "other"), Action::None, "no matching call yet");
    assert_eq!(in_swarm(&mut talk, "tool_call", "cargo test -p core"), Action::None);
    assert_eq!(in_swarm(&mut talk, "tool_result", "cargo test -p core"), Action::Nudge);
    assert_eq!(in_swarm(&mut talk, "tool_call", "cargo test -p core"), Action::None);
    assert_eq!(in_swarm(&mut talk, "tool_result", "cargo test -p core"), Action::None, "once");

    let mut lifted = Talk::new(&["context_after"]);
    lifted.take(&of_swarm);
    in_swarm(&mut lifted, "tool_call", "cargo test -p core");
    let mut unblock = of_swarm.clone();
    unblock["action"] = "unblock".into();
    unblock["seq"] = 2.into();
    lifted.take(&unblock);
    assert_eq!(in_swarm(&mut lifted, "tool_result", "cargo test -p core"), Action::None, "lifted while the call ran");
}

#[test]
fn level_four_ends_the_turn_of_who_can() {
    let mut stop = command("b", "block", 1);
    stop["level"] = 4.into();
    stop["advice"] = "stop".into();
    stop["scope"] = json!({ "kind": "session", "agent_id": "main" });
    let mut talk = Talk::new(&["deny", "stop"]);
    talk.take(&stop);
    assert!(talk.before("1").answer.stop);
    let asked = talk.after("2", "ok");
    assert_eq!((asked.answer.decision, asked.answer.action, asked.answer.stop), (Decision::Allow, Action::Block, true));
    talk.can = Capabilities::DENY;
    let asked = talk.before("3");
    assert_eq!((asked.answer.decision, asked.answer.stop), (Decision::Deny, false));
}

#[test]
fn who_only_asks_leaves_no_trace_in_the_log() {
    let mut talk = Talk::new(&["deny"]);
    talk.take(&command("b", "block", 1));
    let event = RawValue::from_string(talk.event("tool_call", Some("1")).to_string()).unwrap();
    let asked = talk.put(Check { record: false, ..Check::new(event, Client::default()) });
    assert_eq!((asked.answer.decision, asked.events.len()), (Decision::Deny, 0));
}

#[test]
fn an_event_that_is_none_is_named_with_its_place() {
    let mut guard = Guard::new(Options::default());
    let mut bad = |event: &str| {
        let check = Check::new(RawValue::from_string(event.to_owned()).unwrap(), Client::default());
        let bad = guard.open(check, EventTime(START_MS)).unwrap_err();
        (bad.code, bad.pointer)
    };
    assert_eq!(bad(r#"{"id":"a","kind":"tool_call","session_id":"s"}"#), ("missing_field", "/event/tool".to_owned()));
    assert_eq!(bad("[]"), ("unsupported_format", "/event".to_owned()));
    assert_eq!(bad(&format!("{}1{}", "[".repeat(100), "]".repeat(100))), ("too_deep", "/event".to_owned()));
}

#[test]
fn an_answer_shows_lanes_that_are_behind_and_known_blocks_stand_for_as_long_as_they_last() {
    let mut talk = Talk::new(&["deny"]);
    talk.take(&command("b", "block", 1));
    talk.late_ms = 9_000;
    let asked = talk.before("1").answer;
    assert_eq!((asked.decision, asked.state.lag_ms, asked.state.stale), (Decision::Deny, Some(9_000), false));
    talk.late_ms = 300_000;
    let asked = talk.before("2").answer;
    assert_eq!((asked.decision, asked.state.lag_ms, asked.state.stale), (Decision::Deny, Some(300_000), true));
    let as_of = EventTime(START_MS - 300_000).to_rfc3339();
    assert_eq!(asked.state.as_of.as_deref(), Some(as_of.as_str()));
    // A nudge may be outdated.
    let mut talk = Talk::new(&["deny", "context_before"]);
    talk.take(&command("n", "nudge", 1));
    talk.late_ms = 300_000;
    assert_eq!(talk.before("1").answer.message, None);
    talk.late_ms = 0;
    assert!(talk.before("2").answer.message.is_some());
}

/// A guard whose table has forgotten the verdict of the agent, with what the store still has of it.
fn forgetful() -> (Talk, String, String) {
    let mut talk = Talk::new(&["deny"]);
    let block = command("b", "block", 1);
    talk.take(&block);
    for number in 0..crate::table::rows::SUBJECTS_MAX {
        let mut other = command(&format!("other-{number}"), "block", 1);
        other["session_id"] = format!("other-{number}").into();
        other["expires_at"] = "2026-01-01T00:20:00Z".into();
        talk.take(&other);
    }
    assert_eq!(talk.counts().evicted, 1);
    (talk, "agent\u{1f}\u{1f}s\u{1f}main".to_owned(), row(1, &[block]))
}

#[test]
fn a_verdict_that_was_forgotten_is_stale_where_nobody_can_look_it_up() {
    let (mut talk, ..) = forgetful();
    let asked = talk.before("1").answer;
    assert_eq!((asked.decision, asked.state.stale, asked.state.lag_ms), (Decision::Allow, true, Some(0)));
    let mut event = talk.event("tool_call", Some("2"));
    event["session_id"] = "nobody".into();
    assert!(!talk.ask(&event).answer.state.stale, "of this session nothing was forgotten");
}

#[test]
fn a_verdict_that_was_forgotten_and_looked_up_binds_as_ever() {
    let (mut talk, key, value) = forgetful();
    let now = talk.now();
    let event = talk.event("tool_call", Some("1"));
    let check = Check::new(RawValue::from_string(event.to_string()).unwrap(), Client { can: talk.can, ..Client::default() });
    let mut opened = talk.guard.open(check, now).unwrap();
    assert_eq!(talk.guard.missing(&opened, now), ["agent\u{1f}\u{1f}s\u{1f}"]);
    talk.guard.found(&mut opened, [(key.as_bytes(), value.as_bytes())], now);
    assert!(talk.guard.missing(&opened, now).is_empty());
    let knowledge = Knowledge { as_of: Some(now), late_ms: 0, source: Source::Embedded };
    let asked = talk.guard.decide(&mut opened, knowledge, now);
    assert_eq!((asked.decision, asked.state.stale), (Decision::Deny, false));
    assert_eq!((talk.counts().looked_up, talk.guard.held().0), (1, crate::table::rows::SUBJECTS_MAX));
}

/// What another guard takes over of this one, by way of its text; what has no room is counted.
fn restarted(talk: &Talk) -> (Talk, usize) {
    let (text, left_out) = talk.guard.kept(talk.now()).text("source");
    let mut other = Talk { as_of_ms: 0, now_ms: talk.now_ms + 60_000, ..Talk::new(&["deny", "context_after"]) };
    let now = other.now();
    assert!(other.guard.restore(Kept::read(text.as_bytes(), "source").unwrap(), now));
    (other, left_out)
}

#[test]
fn a_block_that_was_kept_stands_over_a_restart_as_long_as_one_whose_source_is_silent_and_no_text_is_kept() {
    let mut talk = Talk::new(&["deny"]);
    talk.take(&command("b", "block", 1));
    let mut nudge = command("n", "nudge", 2);
    nudge["scope"]["agent_id"] = "other".into();
    talk.take(&nudge);
    let text = talk.guard.kept(talk.now()).text("source").0;
    assert!(!text.contains("[System]") && !text.contains("sum") && text.lines().count() == 3, "{text}");
    let (mut other, left_out) = restarted(&talk);
    assert_eq!(left_out, 0);
    let at_ms = other.now_ms;
    for (later_ms, decision) in [(0, Decision::Deny), (30_000, Decision::Deny), (30_001, Decision::Allow)] {
        other.now_ms = at_ms + later_ms;
        let asked = other.before(&later_ms.to_string()).answer;
        assert_eq!((asked.decision, asked.state.stale), (decision, true), "{later_ms}");
    }
    // The source was read: it has the last word.
    let now = other.now();
    other.as_of_ms = i64::MAX;
    other.guard.is_whole(true, now);
    let asked = other.before("last").answer;
    assert_eq!((asked.decision, asked.state.stale), (Decision::Allow, false));
}

#[test]
fn what_has_no_room_in_a_file_is_no_stop_as_long_as_there_is_a_block() {
    let mut talk = Talk::new(&["deny"]);
    let mut stop = command("stop", "block", 1);
    stop["scope"] = json!({ "kind": "session", "by": "stop" });
    // It ends before all others.
    stop["expires_at"] = "2026-01-01T00:05:00Z".into();
    for number in 0..40_000 {
        let mut other = command(&format!("{number}"), "block", 1);
        other["session_id"] = format!("other-{number}").into();
        talk.take(&other);
    }
    talk.take(&stop);
    let (text, left_out) = talk.guard.kept(talk.now()).text("source");
    assert!(text.len() <= KEPT_BYTES_MAX && left_out > 0, "{} {left_out}", text.len());
    let (mut other, _) = restarted(&talk);
    let asked = other.before("1").answer;
    assert_eq!((asked.decision, asked.state.stale), (Decision::Deny, true));
    assert!(asked.message.unwrap().starts_with("An operator has stopped this agent until "));
}

#[test]
fn a_text_is_believed_as_it_was_written_and_about_its_source_alone() {
    let mut talk = Talk::new(&["deny"]);
    talk.take(&command("b", "block", 1));
    let text = talk.guard.kept(talk.now()).text("source").0.into_bytes();
    assert!(Kept::read(&text, "source").is_ok());
    assert_eq!(Kept::read(&text, "another").unwrap_err(), NotKept::Foreign);
    for at in 0..text.len() {
        let mut flipped = text.clone();
        flipped[at] ^= 1;
        assert!(Kept::read(&flipped, "source").is_err(), "{at}");
        assert!(Kept::read(&text[..at], "source").is_err(), "{at}");
    }
    assert_eq!(Kept::read(b"", "source").unwrap_err(), NotKept::Damaged);
    assert_eq!(Kept::read(b"somebody's notes", "source").unwrap_err(), NotKept::Unknown);
}
