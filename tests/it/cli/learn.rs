//! `learn` and `fit`: what people answered becomes labels, and a policy that is better on what it was not fitted on, or none.

use super::*;

/// A session whose call fails in one way until it ends, or one that looks five times at what does not change.
fn session(name: &str, is_loop: bool) -> String {
    let event = |at: u32| {
        let (tool, result, outcome) =
            if is_loop { ("deploy", "refused: no such target", "error") } else { ("look", "42 of 100 are done", "ok") };
        let event = serde_json::json!({
            "id": format!("{name}-{at}"), "kind": "tool", "session_id": name, "tool": tool, "args": { "target": name },
            "result": result, "outcome": outcome, "time": format!("2026-01-05T09:00:{:02}Z", 10 * at),
        });
        format!("{event}\n")
    };
    (0..if is_loop { 6 } else { 5 }).map(event).collect()
}

/// A fleet of fifteen loops and ten false alarms, each with a command.
struct AnsweredFleet {
    events: String,
    /// Session and episode of each, whether it is a loop.
    loops: Vec<(String, String, bool)>,
}

impl AnsweredFleet {
    fn new(scratch: &Scratch) -> Self {
        let names = (0..25).map(|at| (format!("{}-{at}", if at < 15 { "loop" } else { "work" }), at < 15));
        let events: String = names.map(|(name, is_loop)| session(&name, is_loop)).collect();
        let file = scratch.write("without.ndjson", &events);
        let commands = stdout(&expect(&["replay", &file, "--output", "ndjson"], exit_code::DONE));
        let mut loops: Vec<(String, String, bool)> = Vec::new();
        for command in commands.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let (session, episode) = (command["session_id"].as_str().unwrap(), command["episode"].as_str().unwrap());
            if loops.iter().all(|(known, ..)| known != session) {
                loops.push((session.to_owned(), episode.to_owned(), session.starts_with("loop")));
            }
        }
        assert_eq!(loops.len(), 25, "each has a command");
        Self { events, loops }
    }

    /// The events, and the answers of these actors to all of them: honest ones, or one who calls everything a false alarm.
    fn answered(&self, actors: &[(&str, bool)]) -> String {
        let mut text = self.events.clone();
        for (at, (session, episode, is_loop)) in self.loops.iter().enumerate() {
            for (actor, is_honest) in actors {
                // Two honest people share the work.
                if *is_honest && (*actor == "ann") != at.is_multiple_of(2) {
                    continue;
                }
                let answer = if *is_loop && *is_honest { "right" } else { "false_alarm" };
                let event = serde_json::json!({
                    "id": format!("{actor}-{at}"), "kind": "answer", "session_id": session, "episode": episode, "answer": answer,
                    "time": "2026-01-05T09:02:00Z", "labels": { "actor": actor },
                });
                let _ = writeln!(text, "{event}");
            }
        }
        text
    }
}

const HONEST: [(&str, bool); 2] = [("ann", true), ("bob", true)];

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap()
}

#[test]
fn answers_are_labels_in_the_form_that_a_replay_is_judged_by() {
    let scratch = Scratch::new("labels");
    let fleet = AnsweredFleet::new(&scratch);
    let mut text = fleet.answered(&HONEST);
    let (session, episode, _) = &fleet.loops[0];
    // Nobody knows this episode; one actor changes his mind and back; one contradicts another.
    for (id, episode, actor, answer) in [
        ("x1", "NOSUCHEPISODE", "ann", "right"),
        ("x2", episode, "ann", "false_alarm"),
        ("x3", episode, "ann", "right"),
        ("x4", &fleet.loops[1].1, "carol", "false_alarm"),
    ] {
        let event = serde_json::json!({
            "id": id, "kind": "answer", "session_id": session, "episode": episode, "answer": answer,
            "time": "2026-01-05T09:03:00Z", "labels": { "actor": actor },
        });
        let _ = writeln!(text, "{event}");
    }
    let file = scratch.write("events.ndjson", &text);
    let output = expect(&["learn", &file, "--print"], exit_code::DONE);
    let (lines, notes) = (stdout(&output), stderr(&output));
    assert_eq!(lines.lines().count(), 24, "{lines}");
    for note in ["24 labels of 29 answers", "2 answers by a later one", "1 answer to episodes that", "1 loop about which"] {
        assert!(notes.contains(note), "{note} in {notes}");
    }
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((first["label"].as_str(), first["answered_by"][0].as_str()), (Some("loop"), Some("ann")), "{first}");
    let labels = scratch.write("labels.jsonl", &lines);
    let judged = json(&expect(&["replay", &file, "--labels", &labels, "--output", "json"], exit_code::DONE));
    assert_eq!(judged["judgement"]["loops"]["found"], 14);
    assert_eq!(judged["judgement"]["look_alikes"]["nudged"], 10);
    expect(&["fit", &file, "--labels", &labels], exit_code::DONE);
    let document = json(&expect(&["-q", "learn", &file, "--print", "--quorum", "2", "-o", "json"], exit_code::DONE));
    assert_eq!((document["labels"].as_array().map(Vec::len), document["below_quorum"].as_u64()), (Some(0), Some(24)));
}

#[test]
fn a_policy_is_learned_and_written_where_it_is_better_on_what_was_held_out() {
    let scratch = Scratch::new("learn");
    let fleet = AnsweredFleet::new(&scratch);
    let file = scratch.write("events.ndjson", &fleet.answered(&HONEST));
    let policy = scratch.0.join("learned.toml").to_string_lossy().into_owned();
    let learned =
        json(&expect(&["-q", "learn", &file, "--spare", "30", "--write", &policy, "--output", "json"], exit_code::DONE));
    assert_eq!((&learned["is_better"], &learned["labels"]["loops"]), (&Value::Bool(true), &15.into()), "{learned:#}");
    let held_out = learned["held_out"].as_array().unwrap();
    assert_eq!(held_out.len(), 4, "by session and by actor: {held_out:?}");
    for row in held_out {
        let (before, after) = (row["before"].as_u64().unwrap(), row["after"].as_u64().unwrap());
        assert!(if row["measure"] == "loops" { after == before } else { after < before }, "{row}");
    }
    let commands = |policy: &str| -> Vec<String> {
        let text = stdout(&expect(&["replay", &file, "--policy", policy, "--output", "ndjson"], exit_code::DONE));
        let command = |line: &str| serde_json::from_str::<Value>(line).unwrap()["session_id"].as_str().unwrap().to_owned();
        text.lines().map(command).collect()
    };
    let (before, after) = (commands("default"), commands(&policy));
    let of = |commands: &[String], name: &str| commands.iter().filter(|session| session.starts_with(name)).count();
    assert_eq!(of(&before, "work"), 10);
    assert_eq!(of(&after, "work"), 0, "{after:?}");
    assert!(of(&after, "loop") >= 15, "{after:?}");
    // What would change is the difference of the two replays.
    let changes = learned["changes"].as_array().unwrap().last().unwrap();
    assert_eq!((changes["by"].as_str(), changes["no_longer_nudged"].as_u64()), (Some("agents"), Some(10)), "{changes}");
    // Learned again from the policy itself: another file, and the whole of it.
    let mine = scratch.write("mine.toml", "profile = \"mine\"\nbase = \"default\"\nhistory_steps = 200\n");
    expect(&["learn", &file, "--policy", &mine, "--write", &mine], exit_code::USAGE);
    expect(&["-q", "learn", &file, "--spare", "30", "--policy", &mine, "--write", &policy], exit_code::DONE);
    // Of those whom nobody calls a false alarm three in a hundred are spared at once, unless somebody wants more.
    expect(&["-q", "learn", &file], exit_code::ANSWER_IS_NO);
    let whole = fs::read_to_string(&policy).unwrap();
    assert!(whole.contains("history_steps = 200") && whole.contains("fit = \"loopwarden learn: 15 loops"), "{whole}");
    let (one, two) = (commands(&policy), after);
    assert_eq!(one.iter().collect::<std::collections::BTreeSet<_>>(), two.iter().collect());
}

#[test]
fn lazy_hostile_and_few_answers_move_nothing() {
    let scratch = Scratch::new("hostile");
    let fleet = AnsweredFleet::new(&scratch);
    let learn = |answers: &str, more: &[&str], code: u8| {
        let file = scratch.write("events.ndjson", answers);
        json(&expect(&[&["-q", "learn", &file, "--spare", "30", "--output", "json"], more].concat(), code))
    };
    let honest = learn(&fleet.answered(&HONEST), &[], exit_code::DONE);
    let hostile = learn(&fleet.answered(&[HONEST[0], HONEST[1], ("mallory", false)]), &[], exit_code::DONE);
    let left_out = |learned: &Value| -> Vec<String> {
        let actors = learned["actors"].as_array().unwrap().iter().filter(|actor| !actor["left_out"].is_null());
        actors.map(|actor| actor["actor"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((left_out(&honest).len(), left_out(&hostile)), (0, vec!["mallory".to_owned()]));
    assert_eq!((&honest["weights"], &honest["nudge_at"]), (&hostile["weights"], &hostile["nudge_at"]));
    // Alone he teaches nothing, and neither do answers below the quorum.
    let policy = scratch.0.join("learned.toml");
    let write = policy.to_string_lossy();
    let alone = learn(&fleet.answered(&[("mallory", false)]), &["--write", &write], exit_code::ANSWER_IS_NO);
    let few = learn(&fleet.answered(&HONEST), &["--quorum", "2", "--write", &write], exit_code::ANSWER_IS_NO);
    for learned in [alone, few] {
        assert_eq!(learned["why_not"][0], "fewer than 5 loops are answered", "{learned:#}");
    }
    assert!(!policy.exists());
    // For people: why, and no table of what was not judged.
    let file = scratch.write("few.ndjson", &fleet.answered(&HONEST));
    let few = expect(&["learn", &file, "--quorum", "2"], exit_code::ANSWER_IS_NO);
    assert!(stdout(&few).is_empty() && stderr(&few).contains("not better: fewer than 5 loops are answered"), "{few:?}");
}

#[test]
fn three_sessions_are_too_few_to_fit_weights_on() {
    let scratch = Scratch::new("fit-few");
    let fit = |loops: usize, others: usize, code: u8| {
        let names = (0..loops).map(|at| (format!("loop-{at}"), true)).chain((0..others).map(|at| (format!("work-{at}"), false)));
        let (mut events, mut labels) = (String::new(), String::new());
        for (name, is_loop) in names {
            events += &session(&name, is_loop);
            let label = if is_loop { "loop" } else { "ok" };
            let row = serde_json::json!({ "session": name, "label": label, "first_event_index": 0, "last_event_index": 9 });
            let _ = writeln!(labels, "{row}");
        }
        let (events, labels) = (scratch.write("events.ndjson", &events), scratch.write("labels.jsonl", &labels));
        let policy = scratch.0.join("fitted.toml");
        let output = expect(&["fit", &events, "--labels", &labels, "--out", &policy.to_string_lossy()], code);
        (stdout(&output), stderr(&output), policy.exists())
    };
    let (out, notes, is_written) = fit(3, 0, exit_code::ANSWER_IS_NO);
    assert!(out.is_empty() && !is_written, "{out}");
    for why in ["not fitted: fewer than 5 loops are labelled", "not fitted: fewer than 3 false alarms are labelled"] {
        assert!(notes.contains(why), "{notes}");
    }
    let (out, notes, is_written) = fit(5, 3, exit_code::DONE);
    assert!(out.contains("proposed: nudge_at") && notes.contains("of 8 agents") && is_written, "{out}{notes}");
}
