//! The claims of a message, counted again from the raw events and by other means than the program's: words instead of sketches.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use loopwarden::event::EventTime;

/// Two texts that share so much of the words of the shorter one may be told to be alike.
const ALIKE: f64 = 0.3;
/// The same of failures, whose quoted names are left out.
const FAILS_ALIKE: f64 = 0.2;
/// So much of an answer is new to nobody who says that it brought nothing.
const NEW_MAX: f64 = 0.45;
/// Texts of so few words are alike.
const FEW_WORDS: usize = 3;
/// Runs of three words that may be new, and words that an answer needs, before it counts as one that brought something.
const NEW_RUNS: usize = 3;
const LITTLE_WORDS: usize = 10;
/// Calls that an agent is remembered by.
const REMEMBERED: usize = 65;
/// Characters of the name of a tool that are shown.
const TOOL_CHARS: usize = 64;
/// A tool of class `exempt`.
const EXEMPT: &str = "log";

/// A call as its events tell it.
struct Call<'a> {
    /// Places of the events that asked and answered.
    asked: usize,
    answered: Option<usize>,
    tool: &'a str,
    args: &'a Value,
    turn: &'a Value,
    time_ms: i64,
    is_ok: bool,
    is_denied: bool,
    answer: String,
}

/// Whether the claims of a command are true of its session, in which its loop had so many nudges before.
pub(super) fn check(command: &Value, session: &[Value], nudges: u64) -> Result<(), String> {
    let message = command["message"].as_str().unwrap();
    let (message, times) = match message.strip_prefix("Reminder ").and_then(|rest| rest.split_once(": ")) {
        Some((times, message)) => (message, times.parse().unwrap()),
        None => (message, nudges),
    };
    same("nudges before", nudges, times)?;
    bound(command, message)?;
    let caused = |event: &&Value| event["id"] == command["trigger"]["event_id"];
    let Some(cause) = session.iter().find(caused) else { return Ok(()) };
    let of_agent: Vec<&Value> = session.iter().filter(|event| event["agent"]["id"] == cause["agent"]["id"]).collect();
    let until = of_agent.iter().position(caused).unwrap();
    let events = &of_agent[..=until];
    let calls = calls(events);
    let number = |before: &str, after: &str| number(message, before, after);
    match command["reason"]["code"].as_str().unwrap() {
        "text_only" => at_least(texts_without_calls(events, &calls), number("produced ", " text-only")),
        "own_words" => at_least(nearly_equal_texts(events), number("nearly the same ", " times")),
        "similar_repeat" => similar_calls(&calls, until, message, time_ms(cause)),
        "similar_failures" => failures(&calls, number("", " of the last")),
        "no_news" => barren(&calls, number("The last ", " steps").unwrap_or(1)),
        "call_rate" => {
            let (last, window_s) = (calls.last().unwrap(), number("within ", " s").unwrap());
            let is_equal = |call: &&Call<'_>| (call.tool, call.args) == (last.tool, last.args);
            let is_within = |call: &&Call<'_>| last.time_ms - call.time_ms <= window_s as i64 * 1_000;
            at_least(calls.iter().filter(is_equal).filter(is_within).count(), number("", " times with the same"))
        }
        "budget" => {
            let made = calls.iter().filter(|call| call.tool != EXEMPT);
            let (ran, all) = (made.clone().filter(|call| call.answered.is_some() && !call.is_denied).count(), made.count());
            let told = number("made ", " calls").map_or(all, |told| told as usize);
            if (ran..=all).contains(&told) { Ok(()) } else { Err(format!("{ran} to {all} calls, and it says {told}")) }
        }
        _ => Ok(()),
    }
}

/// What a block is told to bind is what it binds, for as long.
fn bound(command: &Value, message: &str) -> Result<(), String> {
    let scope = &command["scope"];
    if command["action"] != "block" || !command["session_id"].is_string() {
        return Ok(());
    }
    let is_safe = |letter: &char| letter.is_ascii_alphanumeric() || "_-.:/".contains(*letter);
    let tool = scope["tool"].as_str().unwrap_or_default().chars().take(TOOL_CHARS);
    let tool: String = tool.map(|letter| if is_safe(&letter) { letter } else { '_' }).collect();
    let what = match (scope["fingerprint"].is_string(), scope["identity"]["kind"] == "coarse", tool.is_empty()) {
        (true, true, _) => format!("{tool} calls about this target are refused; other {tool} calls are free."),
        (true, false, _) => format!("{tool} calls with these arguments are refused; other {tool} calls are free."),
        (false, _, false) => format!("all {tool} calls are refused; other tools are free."),
        (false, _, true) => "all calls are refused.".to_owned(),
    };
    let said = format!(" Until {}, {what}", command["expires_at"].as_str().unwrap());
    if message.ends_with(&said) { Ok(()) } else { Err(format!("it does not say{said}")) }
}

fn same(what: &str, is: u64, told: u64) -> Result<(), String> {
    if is == told { Ok(()) } else { Err(format!("{is} {what}, and it says {told}")) }
}

fn at_least(is: usize, told: Option<u64>) -> Result<(), String> {
    let told = told.ok_or("it says no number")?;
    if is as u64 >= told { Ok(()) } else { Err(format!("{is}, and it says {told}")) }
}

/// The number between two pieces of a text.
fn number(text: &str, before: &str, after: &str) -> Option<u64> {
    let ends = text.match_indices(after).map(|(end, _)| &text[..end]);
    let digits = |head: &str| head.len() - head.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let mut numbers = ends.filter(|head| digits(head) > 0).map(|head| head.split_at(head.len() - digits(head)));
    numbers.find(|(head, _)| head.ends_with(before)).map(|(_, number)| number.parse().unwrap())
}

fn time_ms(event: &Value) -> i64 {
    let time = &event["time"];
    time.as_i64().unwrap_or_else(|| EventTime::parse_rfc3339(time.as_str().unwrap()).unwrap().0)
}

fn calls<'a>(events: &[&'a Value]) -> Vec<Call<'a>> {
    let (mut calls, mut by_id) = (Vec::<Call<'a>>::new(), BTreeMap::new());
    for (place, event) in events.iter().enumerate() {
        let kind = event["kind"].as_str().unwrap_or("tool");
        if matches!(kind, "tool" | "tool_call") {
            by_id.insert(event["call_id"].to_string(), calls.len());
            calls.push(Call {
                asked: place,
                answered: None,
                tool: event["tool"].as_str().unwrap(),
                args: &event["args"],
                turn: &event["turn"],
                time_ms: time_ms(event),
                is_ok: false,
                is_denied: false,
                answer: String::new(),
            });
        }
        let call = match kind {
            "tool" => calls.last_mut(),
            "tool_result" => by_id.get(&event["call_id"].to_string()).map(|at| &mut calls[*at]),
            _ => None,
        };
        if let Some(call) = call {
            let outcome = event["outcome"].as_str();
            call.answered = Some(place);
            call.is_denied = outcome == Some("denied");
            call.is_ok =
                outcome.map_or(event["error"].is_null() && event["exit_code"].as_i64().unwrap_or(0) == 0, |word| word == "ok");
            let texts = [&event["result"], &event["error"]["message"], &event["error"]["type"], &event["error"]];
            let text = texts.into_iter().find(|text| !text.is_null()).unwrap_or(&Value::Null);
            call.answer = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
        }
    }
    calls
}

/// Words without digits.
fn words(text: &str) -> Vec<String> {
    let parts = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    parts.filter(|word| word.len() > 1 && !word.contains(|letter: char| letter.is_ascii_digit())).map(str::to_lowercase).collect()
}

fn are_alike(one: &str, two: &str, share: f64) -> bool {
    let [one, two]: [BTreeSet<String>; 2] = [one, two].map(|text| words(text).into_iter().collect());
    let fewer = one.len().min(two.len());
    fewer <= FEW_WORDS || one.intersection(&two).count() as f64 >= share * fewer as f64
}

/// Replies of the agent since its last call, of which none has made one.
fn texts_without_calls(events: &[&Value], calls: &[Call<'_>]) -> usize {
    let since = calls.last().map_or(0, |call| call.asked + 1);
    let has_call = |turn: &Value| calls.iter().any(|call| !turn.is_null() && call.turn == turn);
    let texts = events.iter().enumerate().skip(since).filter(|(_, event)| event["role"] == "assistant");
    let replies = texts.filter(|(_, event)| !has_call(&event["turn"]));
    replies.map(|(place, event)| event["turn"].as_u64().ok_or(place)).collect::<BTreeSet<_>>().len()
}

fn nearly_equal_texts(events: &[&Value]) -> usize {
    let texts: Vec<&str> =
        events.iter().filter(|event| event["role"] == "assistant").filter_map(|event| event["text"].as_str()).collect();
    let last = texts.last().copied().unwrap_or_default();
    texts.iter().rev().take(9).filter(|text| are_alike(text, last, ALIKE)).count()
}

/// `The same or nearly the same TOOL call has returned much the same result N times in S s`.
fn similar_calls(calls: &[Call<'_>], until: usize, message: &str, now_ms: i64) -> Result<(), String> {
    let last = calls.iter().find(|call| call.answered == Some(until)).ok_or("no call was answered")?;
    let what = if last.is_ok { "result" } else { "failure" };
    let told = number(message, &format!("much the same {what} "), " times").ok_or("it ended otherwise")?;
    let span_ms = (number(message, "times in ", " s").unwrap_or(u64::from(u32::MAX)) as i64 + 1) * 1_000;
    let differs_in_one = |args: &Value| {
        let (Some(one), Some(two)) = (args.as_object(), last.args.as_object()) else { return false };
        one.len() == two.len() && one.len() > 1 && two.iter().filter(|(name, value)| one.get(*name) != Some(value)).count() <= 1
    };
    let is_like = |call: &&Call<'_>| {
        call.args == last.args || differs_in_one(call.args) || are_alike(&call.args.to_string(), &last.args.to_string(), ALIKE)
    };
    let of_kind = calls.iter().filter(|call| call.answered.is_some() && (call.tool, call.is_ok) == (last.tool, last.is_ok));
    let within = of_kind.filter(|call| now_ms - call.time_ms <= span_ms);
    let is = within.filter(is_like).filter(|call| are_alike(&call.answer, &last.answer, ALIKE)).count();
    if told < 2 { Err("once is no repetition".to_owned()) } else { at_least(is, Some(told)) }
}

/// `N of the last TOOL calls have failed in the same way`, or that the last one has.
fn failures(calls: &[Call<'_>], told: Option<u64>) -> Result<(), String> {
    let last = calls.iter().max_by_key(|call| call.answered).ok_or("no call was made")?;
    if last.is_ok {
        return Err("the last call worked".to_owned());
    }
    let kept = |text: &str| text.split(['"', '\'', '[', ']']).step_by(2).collect::<Vec<_>>().join(" ");
    let of_tool =
        calls.iter().rev().take(REMEMBERED).filter(|call| call.answered.is_some() && call.tool == last.tool && !call.is_ok);
    let alike = of_tool.filter(|call| {
        are_alike(&call.answer, &last.answer, FAILS_ALIKE) || are_alike(&kept(&call.answer), &kept(&last.answer), FAILS_ALIKE)
    });
    at_least(alike.count(), Some(told.unwrap_or(1)))
}

/// `The last N steps have brought nothing that was not known before them`: a call that the turn has made already
/// is no step, and arguments that identify none are not compared.
fn barren(calls: &[Call<'_>], told: u64) -> Result<(), String> {
    let (mut known, mut steps, mut seen) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    let mut answered: Vec<&Call<'_>> = calls.iter().filter(|call| call.answered.is_some() && call.tool != EXEMPT).collect();
    answered.sort_by_key(|call| call.answered);
    for call in answered {
        let is_first = call.turn.is_null() || seen.insert((call.turn.to_string(), call.tool));
        let words = words(&call.answer);
        let runs: BTreeSet<Vec<String>> = words.windows(3.min(words.len().max(1))).map(<[String]>::to_vec).collect();
        let new = runs.difference(&known).count();
        if !call.is_denied {
            let is_new = new as f64 > NEW_MAX * runs.len() as f64 && new > NEW_RUNS && words.len() >= LITTLE_WORDS;
            let brought_nothing = call.is_ok && !is_new;
            steps.extend((brought_nothing || is_first).then_some(brought_nothing));
        }
        known.extend(runs);
    }
    at_least(steps.iter().rev().take_while(|brought_nothing| **brought_nothing).count(), Some(told))
}
