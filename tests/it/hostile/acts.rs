//! What operators are told of their acts: what is in force afterwards, and a code where nothing was changed. Nobody's narrower word ends the stop
//! of somebody who reaches farther.

use std::fs;

use loopwarden::limits::{STOPS_KEPT_MAX, STOPS_MAX};
use loopwarden::store::{KeyFamily, ScanFlow, StateStore as _};
use loopwarden::task::CommitTrigger;
use loopwarden_sim::MemoryTopic;
use serde_json::{Value, json};

use crate::cli::program;
use crate::hostile::access::{send, with_tokens};
use crate::http::client::{Answer, Client, PATIENCE};
use crate::http::{Running, Scratch};
use crate::world::{TestWorld, config, header, session_task, settings};

const START_MS: i64 = 1_795_291_200_000;

/// Status and code of an answer.
fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
}

fn refused(status: u16, word: &str) -> (u16, String) {
    (status, word.to_owned())
}

/// What a command says to the process, with its exit code.
fn typed(client: &Client, arguments: &[&str]) -> (Option<i32>, String) {
    let output = program().args(arguments).args(["--address", client.address()]).output().unwrap();
    let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), told)
}

#[test]
fn an_act_that_changes_nothing_says_so_with_a_code_and_an_exit_code() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live"]);
    let client = &running.client;
    let stop = |body: Value| client.post("/v1/stops", "application/json", body.to_string().as_bytes());
    let release = |query: &str| client.send("DELETE", &format!("/v1/stops?{query}"), &[], b"");
    let own = json!({ "scope": "session", "session_id": "s", "reason": "r", "for": "1h", "id": "one" });

    assert_eq!(code(&release("scope=tenant&tenant=neverstopped")), refused(409, "nothing_to_release"));
    let (exit, told) = typed(client, &["release", "--tenant", "neverstopped"]);
    assert!(exit == Some(3) && told.contains("nothing_to_release"), "{exit:?} {told}");

    assert_eq!(stop(own.clone()).json()["in_force"], true);
    assert_eq!(release("scope=session&session_id=s&id=two").json()["released"], true);
    let again = stop(json!({ "scope": "session", "session_id": "s", "reason": "r", "for": "1h", "id": "one" }));
    assert_eq!(code(&again), refused(409, "not_in_force"), "{}", again.text);
    assert!(again.text.contains("nobody of these is stopped"), "{}", again.text);
    assert_eq!(release("scope=session&session_id=s&id=two").json()["released"], true, "sent again, it has done what it did");
    assert_eq!(code(&release("scope=session&session_id=s&id=three")), refused(409, "nothing_to_release"));
    let (exit, told) = typed(client, &["release", "--session", "s"]);
    assert!(exit == Some(3) && told.contains("nothing_to_release"), "{exit:?} {told}");
    let other = stop(json!({ "scope": "session", "session_id": "s", "reason": "r", "for": "2h", "id": "four" })).json();
    let late = release("scope=session&session_id=s&id=two");
    assert_eq!(code(&late), refused(409, "not_in_force"));
    assert!(late.text.contains(other["until"].as_str().unwrap()), "what is in force instead: {}", late.text);

    for episode in ["NONSENSE", "0N3YD0FVQ1BGZM77K0D4YHYM5A"] {
        for more in [&["--right"][..], &["--false-alarm"], &["--allow", "2h"]] {
            let (exit, told) = typed(client, &[&["answer", episode, "--session", "nosuch"], more].concat());
            assert!(exit == Some(3) && told.contains("no_such_command"), "{episode} {more:?}: {exit:?} {told}");
        }
    }
    for (what, name) in [("session", "nosuch"), ("swarm", "nosuch")] {
        let (exit, told) = typed(client, &["reset", what, name]);
        assert!(exit == Some(3) && told.contains("nothing_to_reset"), "{exit:?} {told}");
    }
    let kept = client.whole("/v1/events", None).text;
    assert!(!kept.contains("answer"), "an answer to nothing is not kept: {kept}");
}

#[test]
fn stops_in_force_have_a_bound_and_the_next_one_is_refused_with_a_code() {
    let scratch = Scratch::new();
    let running = Running::start(&scratch.0, &["mode=live", "embedded.partitions=1"]);
    let stop = |name: &str| {
        let body = json!({ "scope": "session", "session_id": name, "tenant": "acme", "reason": "r", "for": "1h" });
        running.client.post("/v1/stops", "application/json", body.to_string().as_bytes())
    };
    // As events of an operator, since requests of a person have a rate; of these so many at a time as may wait.
    let until = loopwarden::event::EventTime(loopwarden::clock::now_ms()).plus_ms(3_600_000).to_rfc3339();
    for first in (0..STOPS_MAX).step_by(128) {
        let act = |number: usize| {
            json!({
                "id": format!("a{number}"), "kind": "stop", "scope": "session", "session_id": format!("s{number}"), "tenant": "acme",
                "reason": "r", "until": until,
            })
        };
        let lines = (first..STOPS_MAX.min(first + 128)).map(|number| act(number).to_string()).collect::<Vec<_>>().join("\n");
        let deadline = loopwarden::clock::Deadline::after(PATIENCE);
        while running.client.post("/v1/events", "application/x-ndjson", lines.as_bytes()).status != 202 {
            assert!(!deadline.is_over(), "{first}");
        }
    }
    running.commands_until("", |all| all.len() >= STOPS_MAX);
    assert_eq!(code(&stop("more")), refused(409, "too_many_stops"));
    let (exit, told) = typed(&running.client, &["stop", "--session", "more", "--tenant", "acme", "--reason", "r", "--for", "1h"]);
    assert!(exit == Some(3) && told.contains("too_many_stops"), "{exit:?} {told}");
    running.until("/metrics", |answer| answer.text.contains("reason=\"too_many_stops\"} 2.0\n"));
    let released = running.client.send("DELETE", "/v1/stops?scope=session&session_id=s7&tenant=acme", &[], b"");
    assert_eq!(released.json()["released"], true, "{}", released.text);
    assert_eq!(stop("more").json()["in_force"], true, "what is over takes no room");
    let (exit, told) = typed(&running.client, &["stop", "--tenant", "acme", "--reason", "r", "--for", "1h"]);
    assert!(exit == Some(0) && told.contains("in force"), "the tenant as a whole always has its place: {told}");
}

/// An act about a session, as a record.
fn act(id: &str, kind: &str, session: &str) -> String {
    let until = START_MS + 3_600_000;
    json!({ "id": id, "kind": kind, "scope": "session", "session_id": session, "reason": "r", "until": until, "time": START_MS })
        .to_string()
}

#[test]
fn stops_that_are_over_count_nowhere_and_are_forgotten_where_there_are_too_many() {
    const OVER: usize = STOPS_KEPT_MAX + 100;
    let mut world = TestWorld::new(config(500), settings(CommitTrigger::Timed { max_ms: 100, min_ms: 2 }));
    let task = session_task(0);
    let append = |world: &TestWorld, id: &str, kind: &str, session: &str| {
        world.broker.append(task, Some(session.as_bytes()), Some(act(id, kind, session).as_bytes()), START_MS);
    };
    for number in 0..OVER {
        append(&world, &format!("stop-{number}"), "stop", &format!("over-{number}"));
        append(&world, &format!("release-{number}"), "release", &format!("over-{number}"));
    }
    (0..OVER).for_each(|number| append(&world, &format!("never-{number}"), "release", &format!("never-{number}")));
    (0..=STOPS_MAX).for_each(|number| append(&world, &format!("held-{number}"), "stop", &format!("held-{number}")));
    world.start("lw", 1);
    assert!(world.settle(), "{:?}", world.exits);
    world.audit();
    let commands = world.broker.committed(MemoryTopic::Commands).len();
    assert_eq!(commands, 2 * OVER + STOPS_MAX, "one is too many");
    let letters = world.broker.committed(MemoryTopic::DeadLetters);
    let reasons: Vec<_> = letters.iter().map(|letter| header(letter, "dlq.reason").unwrap()).collect();
    assert_eq!(reasons, ["too_many_stops"]);
    let mut kept = 0;
    let mut count = |_: &[u8], _: &[u8]| {
        kept += 1;
        ScanFlow::Continue(())
    };
    world.store_of(task).scan(task, KeyFamily::Stop, &[], &[], &mut count).unwrap();
    assert!((STOPS_MAX..=STOPS_KEPT_MAX).contains(&kept), "{kept}");
}

/// A client that got no answer sends all of it again.
#[test]
fn a_release_that_is_delivered_again_lets_nobody_go_who_was_stopped_since() {
    let mut world = TestWorld::new(config(501), settings(CommitTrigger::Timed { max_ms: 100, min_ms: 2 }));
    for _ in 0..2 {
        for (id, kind) in [("before", "release"), ("stop", "stop")] {
            world.broker.append(session_task(0), Some(b"s"), Some(act(id, kind, "s").as_bytes()), START_MS);
        }
    }
    world.start("lw", 1);
    assert!(world.settle(), "{:?}", world.exits);
    world.audit();
    let commands = world.broker.committed(MemoryTopic::Commands);
    let actions = commands.iter().map(|command| {
        let command: Value = serde_json::from_slice(command.value.as_deref().unwrap()).unwrap();
        command["action"].as_str().unwrap().to_owned()
    });
    assert_eq!(actions.collect::<Vec<_>>(), ["block"], "nothing ends it");
}

#[test]
fn an_operator_of_one_tenant_neither_ends_nor_shortens_a_stop_of_one_who_reaches_farther() {
    let scratch = Scratch::new();
    let running = with_tokens(&scratch, &[]);
    let client = &running.client;
    let (own, all) = ("operator-acme", "operator");
    let until = || -> Vec<String> {
        let found = send(client, own, "GET", "/v1/stops", "").json();
        found["stops"].as_array().unwrap().iter().map(|stop| stop["until"].as_str().unwrap().to_owned()).collect()
    };
    for (whom, query) in [
        (json!({ "scope": "tenant", "tenant": "acme" }), "scope=tenant&tenant=acme"),
        (json!({ "scope": "session", "session_id": "s", "tenant": "acme" }), "scope=session&session_id=s&tenant=acme"),
        (json!({ "scope": "swarm", "swarm_id": "w", "tenant": "acme" }), "scope=swarm&swarm_id=w&tenant=acme"),
    ] {
        let stop = |token: &str, span: &str| {
            let mut body = whom.clone();
            body["reason"] = "r".into();
            body["for"] = span.into();
            send(client, token, "POST", "/v1/stops", &body.to_string())
        };
        let release = |token: &str| send(client, token, "DELETE", &format!("/v1/stops?{query}"), "");
        let first = stop(all, "2h").json();
        assert_eq!(first["in_force"], true, "{first}");
        let placed = vec![first["until"].as_str().unwrap().to_owned()];
        assert_eq!(code(&release(own)), refused(409, "wider_stop"), "{query}");
        assert_eq!(code(&stop(own, "1s")), refused(409, "wider_stop"), "{query}");
        // An event of his own says what he likes, and reaches no farther.
        for (kind, id) in [("release", "r"), ("stop", "s")] {
            let mut event = whom.clone();
            let soon = loopwarden::event::EventTime(loopwarden::clock::now_ms() + 1_000).to_rfc3339();
            let more = json!({ "id": format!("{id}-{query}"), "kind": kind, "reach": "all", "reason": "r", "until": soon });
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let taken = send(client, own, "POST", "/v1/events", &event.to_string());
            assert_eq!(taken.json()["accepted"], 1, "{}", taken.text);
        }
        assert_eq!(code(&release(own)), refused(409, "wider_stop"), "{query}");
        assert_eq!(until(), placed, "{query}");
        // He may prolong it, and does not make it his by that.
        let longer = stop(own, "3h").json();
        assert_eq!(
            (&longer["in_force"], until()),
            (&json!(true), vec![longer["until"].as_str().unwrap().to_owned()]),
            "{longer}"
        );
        assert_eq!(code(&release(own)), refused(409, "wider_stop"), "{query}");
        assert_eq!(release(all).json()["released"], true, "{query}");
        // His own stop is his to end, and that of whoever reaches farther.
        for token in [own, all] {
            assert_eq!(stop(own, "1h").json()["in_force"], true);
            assert_eq!(release(token).json()["released"], true, "{query} {token}");
        }
        assert!(until().is_empty(), "{query}");
    }
    let metrics = client.get("/metrics").text;
    assert!(metrics.contains("reason=\"wider_stop\"}"), "what he tried is a dead letter each time");
    assert_eq!(running.terminate(), Some(0));
    assert!(!fs::read_to_string(scratch.0.join("stderr")).unwrap().contains("panic"));
}
