//! `map`: what is shown of a mapping.

use crate::cli::{Scratch, program, run, stdout};

const RECORDS: &str = r#"{"type":"tool.finished","run":{"id":"r1"},"ts":"2026-01-05T09:00:00Z","call":{"name":"Bash","arguments":{"command":"ls"},"output":"a","ok":true}}
{"type":"tool.finished","run":{"id":"r1"},"ts":"2026-01-05T09:00:01Z","call":{"name":"Bash","output":"a","ok":false}}

{"type":"chat","text":"\u001b[31mred"}
not json
{"type":"tool.finished","call":{"name":"Bash"}}
"#;

#[test]
fn a_mapping_shows_what_becomes_of_each_record() {
    let scratch = Scratch::new("map");
    let records = scratch.write("records.ndjson", RECORDS);
    let mapping = "filter = \"type == 'tool.finished'\"\n[fields]\nsession_id = \"run.id\"\ntool = \"call.name\"\n\
        args = \"call.arguments\"\nresult = \"call.output\"\noutcome = \"call.ok && 'ok' || 'error'\"\ntime = \"ts\"\n";
    let mapping = scratch.write("map.toml", mapping);
    let tried = run(&["map", "--try", &records, "--mapping", &mapping]);
    let told = stdout(&tried);
    assert_eq!(tried.status.code(), Some(3), "one record has no session: {told}");
    assert!(told.contains("5 records: 2 events, 1 left out by the filter, 2 refused"), "{told}");
    for line in [
        r#"  after    {"args":{"command":"ls"},"#,
        "  refused  not_json",
        "  refused  missing_field at /session_id",
        "  missing  args",
        "without args: 2: only names can be compared",
    ] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
    assert!(!told.contains('\u{1b}'), "a record reached the terminal as it is");
    let one = stdout(&run(&["map", "--try", &records, "--mapping", &mapping, "--records", "1"]));
    assert!(one.contains("record 1\n") && !one.contains("record 2\n") && one.contains("5 records"), "{one}");
}

#[test]
fn a_mapping_is_applied_to_a_file_and_its_events_are_replayed() {
    let scratch = Scratch::new("map-apply");
    let call = |number: u32| {
        format!(r#"{{"run":"r","at":"2026-01-05T09:00:{number:02}Z","name":"Bash","input":{{"command":"ls"}},"failed":true}}"#)
    };
    let records = scratch.write("records.ndjson", &(0..8).map(|number| call(number) + "\n").collect::<String>());
    let mapping = "[fields]\nsession_id = \"run\"\ntool = \"name\"\nargs = \"input\"\ntime = \"at\"\n\
        outcome = \"failed && 'error' || 'ok'\"\n";
    let mapping = scratch.write("map.toml", mapping);
    let applied = run(&["map", "--apply", &records, "--mapping", &mapping]);
    assert_eq!(applied.status.code(), Some(0), "{applied:?}");
    let events = scratch.write("events.ndjson", &stdout(&applied));
    let replayed = stdout(&run(&["replay", &events, "--output", "ndjson"]));
    assert!(replayed.contains("\"action\":\"nudge\""), "{replayed}");
    let broken = scratch.write("broken.ndjson", "{}\n");
    let refused = run(&["map", "--apply", &broken, "--mapping", &mapping]);
    assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(3), ""));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("1 refused"), "{refused:?}");
}

#[test]
fn a_wrong_mapping_is_a_wrong_configuration() {
    let scratch = Scratch::new("map-wrong");
    let records = scratch.write("records.ndjson", RECORDS);
    for (text, said) in [
        ("[fields]\nsessionid = \"a\"", "an event has no field `sessionid`"),
        ("[fields]\nsession_id = \"a[\"\ntool = \"b\"", "the expression of `session_id` cannot be read"),
        ("[fields", "TOML"),
    ] {
        let mapping = scratch.write("map.toml", text);
        let output = run(&["map", "--try", &records, "--mapping", &mapping]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{told}");
        assert!(told.contains(said), "{told}");
        let checked = run(&["check", "--set", &format!("http.mapping={mapping}")]);
        let told = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert_eq!(checked.status.code(), Some(78), "{told}");
        assert!(told.contains("E0202") && told.contains("http.mapping") && told.contains(said), "{told}");
    }
    let without = program().args(["map", "--try", &records]).output().unwrap();
    assert_eq!(without.status.code(), Some(2));
}
