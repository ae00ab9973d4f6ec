//! The real binary: exit codes, help, cases, replay, demo. Everything without a broker and without a network.

mod disk;
mod doctor;
mod ends;
mod hook;
mod hook_answering;
mod init;
mod input;
mod learn;
mod logs;
mod mapping;
mod reports;
mod words;

use crate::environment::told_nothing;
use crate::golden::RULES;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fmt::Write as _, fs, net::TcpListener};

use loopwarden::exit_code;
use serde_json::Value;

/// A directory of one test. Not the system's temporary one: state is refused there.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{}-{name}", std::process::id()));
        // A run that was killed may have had the same id, and left its files.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn root(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).to_string_lossy().into_owned()
}

/// The program, in an environment that says nothing to it.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    told_nothing(&mut command);
    command.env("HOSTNAME", "host-7").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs, and expects an exit code.
#[track_caller]
pub(crate) fn expect(arguments: &[&str], code: u8) -> Output {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(i32::from(code)), "{arguments:?}\n{}\n{}", stdout(&output), stderr(&output));
    output
}

#[test]
fn help_is_an_answer_and_a_wrong_word_is_not() {
    let help = stdout(&expect(&["--help"], exit_code::DONE));
    for word in ["run ", "demo ", "replay ", "test ", "check ", "topics ", "explain ", "Examples:", "Exit codes:"] {
        assert!(help.contains(word), "{word} in\n{help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 120), "a line is too wide:\n{help}");
    let wrong = expect(&["rnu"], exit_code::USAGE);
    assert!(wrong.stdout.is_empty() && stderr(&wrong).contains("rnu"));
    expect(&[], exit_code::USAGE);
}

#[test]
fn every_command_explains_itself_with_examples_where_they_help() {
    for command in ["run", "demo", "replay", "learn", "fit", "test", "check", "doctor"] {
        let help = stdout(&expect(&[command, "--help"], exit_code::DONE));
        assert!(help.contains("Example"), "{command}: {help}");
    }
    for command in
        [&["topics"][..], &["topics", "print"], &["config"], &["config", "print"], &["schema"], &["healthcheck"], &["explain"]]
    {
        let output = run(&[command, &["--help"]].concat());
        assert!(output.status.success() && stdout(&output).contains("Usage:"), "{command:?}");
    }
}

#[test]
fn version_man_and_completions_are_printed() {
    assert_eq!(stdout(&expect(&["version"], exit_code::DONE)).trim(), format!("loopwarden {}", env!("CARGO_PKG_VERSION")));
    let json: Value = serde_json::from_str(&stdout(&expect(&["version", "--output", "json"], exit_code::DONE))).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(stdout(&expect(&["man"], exit_code::DONE)).contains(".SH REPLAY"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&expect(&["completions", shell], exit_code::DONE)).contains("healthcheck"), "{shell}");
    }
}

#[test]
fn a_reader_that_stops_is_no_failure() {
    let mut child = program().args(["config", "init"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Nobody ever reads: the pipe breaks at the first write.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn a_page_is_printed_for_each_code_and_others_are_refused() {
    assert!(stdout(&expect(&["explain", "e0102"], exit_code::DONE)).starts_with("# E0102"));
    assert!(stdout(&expect(&["explain"], exit_code::DONE)).contains("E0501"));
    assert!(stderr(&expect(&["explain", "E0199"], exit_code::USAGE)).contains("E0199"));
}

#[test]
fn the_example_cases_pass() {
    let mut files: Vec<String> = fs::read_dir(root("config/examples"))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    let arguments: Vec<&str> = ["test"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let told = stdout(&expect(&arguments, exit_code::DONE));
    assert!(told.ends_with("cases passed\n"), "{told}");
}

const CASE: &str = r#"{"name":"twice","events":[
{"id":"a","kind":"tool","session_id":"s","tool":"Bash","args":{"command":"ls"},"result":"x","outcome":"ok"},
{"id":"b","kind":"tool","session_id":"s","tool":"Bash","args":{"command":"ls"},"result":"x","outcome":"ok"}],
"expect":[{"after":1,"verdict":"block"}]}"#;

#[test]
fn a_failing_case_shows_the_event_what_was_expected_and_what_came() {
    let scratch = Scratch::new("failing-case");
    let file = scratch.write("cases.jsonl", &CASE.replace('\n', ""));
    let output = stdout(&expect(&["test", &file], exit_code::ANSWER_IS_NO));
    for part in [
        "FAILED default/twice",
        "event 1   tool Bash args={\"command\":\"ls\"}",
        "expected  block",
        "got       ",
        "0 of 1 cases passed",
    ] {
        assert!(output.contains(part), "{part} in\n{output}");
    }
}

#[test]
fn a_case_bounds_the_commands_of_all_its_events() {
    let scratch = Scratch::new("bounded-case");
    let case = |most: u32| {
        let event = r#"{"times":4,"tool":"a","args":{},"error":"no such thing","outcome":"error"}"#;
        format!(r#"{{"name":"work","nudges_max":{most},"blocks_max":0,"events":[{event}]}}"#)
    };
    let test = |most, code| stdout(&expect(&["test", &scratch.write("cases.jsonl", &case(most))], code));
    assert!(test(1, exit_code::DONE).contains("1 of 1 cases passed"));
    let output = test(0, exit_code::ANSWER_IS_NO);
    assert!(output.contains("at most 0 nudges") && output.contains("got       1"), "{output}");
}

#[test]
fn a_failing_case_counts_an_event_that_stands_for_several_as_each_of_them() {
    let scratch = Scratch::new("failing-times");
    let case = r#"{"name":"thrice","events":[{"times":3,"tool":"a","args":{},"outcome":"ok"},{"tool":"b","args":{},"outcome":"ok"}],"expect":[{"after":1,"verdict":"block"}]}"#;
    let output = stdout(&expect(&["test", &scratch.write("cases.jsonl", case)], exit_code::ANSWER_IS_NO));
    assert!(output.contains("event 1   tool a"), "{output}");
}

#[test]
fn cases_are_chosen_by_a_part_of_their_id() {
    let scratch = Scratch::new("filter");
    let passing = CASE.replace("\"block\"", "\"none\"").replace("twice", "calm");
    let file = scratch.write("cases.jsonl", &format!("{}\n{}\n", CASE.replace('\n', ""), passing.replace('\n', "")));
    assert!(stdout(&expect(&["test", &file, "--filter", "default/calm"], exit_code::DONE)).contains("1 of 1 cases passed"));
    assert!(stderr(&expect(&["test", &file, "--filter", "storm"], exit_code::CONFIG)).contains("E0602"));
}

#[test]
fn a_case_file_that_cannot_be_read_names_its_line() {
    let scratch = Scratch::new("bad-case");
    let file = scratch.write("cases.jsonl", "\n{\"name\":\"x\"\n");
    let told = stderr(&expect(&["test", &file], exit_code::CONFIG));
    assert!(told.contains("error[E0602]") && told.contains("cases.jsonl:2: "), "{told}");
    let yaml = scratch.write("cases.yaml", "name: x\nevents: []\nexpekt: []\n");
    assert!(stderr(&expect(&["test", &yaml], exit_code::CONFIG)).contains("cases.yaml:"));
    assert!(stderr(&expect(&["test", "no-such-file.yaml"], exit_code::CONFIG)).contains("no-such-file.yaml"));
}

#[test]
fn check_tells_the_mistakes_of_a_configuration_before_those_of_what_it_names_and_says_so() {
    let told = stderr(&expect(&["check", "--set", "lanes=-3", "--set", "policy=defualt"], exit_code::CONFIG));
    assert!(told.contains("lanes is -3") && !told.contains("E0601"), "{told}");
    let help = stdout(&expect(&["check", "--help"], exit_code::DONE));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("all mistakes of the configuration at once; once there are none, that of the log filter"), "{help}");
}

#[test]
fn check_tells_every_mistake_at_once() {
    let told = stderr(&expect(&["check", "--set", "lanes=-3", "--set", "mode=loud"], exit_code::CONFIG));
    assert!(told.contains("lanes is -3") && told.contains("mode is \"loud\""), "{told}");
    let told = stderr(&expect(&["check", "--set", "policy=defualt"], exit_code::CONFIG));
    assert!(told.contains("E0601") && told.contains("did you mean \"default\""), "{told}");
    let native = ["check", "--set", "kafka.bootstrap_servers=h:1", "--set", "kafka.librdkafka.sasl.mecanism=PLAIN"];
    assert!(stderr(&expect(&native, exit_code::CONFIG)).contains("E0207"));
    assert!(stderr(&expect(&["check", "--log-level", "a=b=c"], exit_code::CONFIG)).contains("E0202"));
    let owned = ["check", "--set", "kafka.bootstrap_servers=h:1", "--set", "kafka.librdkafka.isolation.level=read_uncommitted"];
    assert!(stderr(&expect(&owned, exit_code::CONFIG)).contains("E0208"));
    // Files that are not there, a secret among them: both are named, and so is the policy.
    let files = [
        "check",
        "--set",
        "http.token_file=/no/such/token",
        "--set",
        "policy=/no/such/policy.toml",
        "--set",
        "kafka.bootstrap_servers=h:1",
        "--set",
        "kafka.sasl_mechanism=PLAIN",
        "--set",
        "kafka.username=u",
        "--set",
        "kafka.password_file=/no/such/password",
    ];
    let told = stderr(&expect(&files, exit_code::CONFIG));
    for part in ["E0601", "/no/such/policy.toml", "E0202", "/no/such/token", "/no/such/password"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let told = stdout(&expect(&["check"], exit_code::DONE));
    assert!(told.contains("embedded mode") && told.contains("data_dir       not set"), "{told}");
}

#[test]
fn a_command_that_needs_kafka_or_a_directory_says_so() {
    assert!(stderr(&expect(&["topics", "create"], exit_code::CONFIG)).contains("kafka.bootstrap_servers"));
    assert!(stderr(&expect(&["check", "--connect"], exit_code::CONFIG)).contains("kafka.bootstrap_servers"));
    assert!(stderr(&expect(&["run"], exit_code::CONFIG)).contains("data_dir"));
}

#[test]
fn topics_are_printed_in_three_forms() {
    let names: Vec<String> = {
        let json: Value =
            serde_json::from_str(&stdout(&expect(&["topics", "print", "--format", "json"], exit_code::DONE))).unwrap();
        json.as_array().unwrap().iter().map(|topic| topic["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names.len(), 7);
    let strimzi = stdout(&expect(&["topics", "print", "--format", "strimzi", "--partitions", "6"], exit_code::DONE));
    let plain = stdout(&expect(&["topics", "print"], exit_code::DONE));
    for name in &names {
        assert!(strimzi.contains(&format!("name: {name}\n")) && plain.contains(name.as_str()), "{name}");
    }
    assert_eq!(strimzi.matches("partitions: 6\n").count(), 7);
}

#[test]
fn settings_are_printed_with_their_origin_and_init_loads_again() {
    let scratch = Scratch::new("config");
    let init = stdout(&expect(&["config", "init"], exit_code::DONE));
    let file = scratch.write("loopwarden.toml", &init);
    expect(&["check", "--config", &file], exit_code::DONE);
    let effective = stdout(&expect(&["config", "print", "--effective", "--output", "json", "--set", "lanes=3"], exit_code::DONE));
    let rows: Vec<Value> = serde_json::from_str(&effective).unwrap();
    let lanes = rows.iter().find(|row| row["key"] == "lanes").unwrap();
    assert_eq!((lanes["value"].as_str(), lanes["origin"].as_str()), (Some("3"), Some("--set")));
    let short = stdout(&expect(&["config", "print", "--output", "csv"], exit_code::DONE));
    assert!(short.starts_with("key,value,origin\n") && short.contains("host-7"), "{short}");
    let schema: Value = serde_json::from_str(&stdout(&expect(&["config", "schema"], exit_code::DONE))).unwrap();
    assert_eq!(schema["properties"]["commit"]["properties"]["commit_ms_max"]["type"], "integer");
    let policy: Value = serde_json::from_str(&stdout(&expect(&["config", "schema", "policy"], exit_code::DONE))).unwrap();
    assert_eq!(policy["properties"]["history_steps"]["type"], "integer");
}

#[test]
fn schemas_are_printed_as_they_ship() {
    for (name, file) in
        [("command.v1", "command.v1.schema.json"), ("tool-event", "tool-event.v1.schema.json"), ("asyncapi", "asyncapi.yaml")]
    {
        let shipped = fs::read_to_string(root("config/schemas") + "/" + file).unwrap();
        assert_eq!(stdout(&expect(&["schema", "print", name], exit_code::DONE)), shipped, "{name}");
    }
}

/// Answers one request with this, on a port of its own.
fn answering(answer: impl Into<String>) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer: String = answer.into();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = vec![0; 1024];
        let read = stream.read(&mut request).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    (address, server)
}

#[test]
fn a_healthcheck_believes_the_status_and_shows_why_not() {
    let (address, server) = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    expect(&["healthcheck", "--timeout-ms", "60000", "--address", &address], exit_code::DONE);
    assert!(server.join().unwrap().starts_with("GET /readyz"));
    let (address, server) = answering("HTTP/1.1 503 Service Unavailable\r\n\r\nsession/3 is restoring");
    let told = stderr(&expect(&["healthcheck", "--timeout-ms", "60000", "--address", &address], exit_code::FAILED));
    server.join().unwrap();
    assert!(told.contains("503") && told.contains("session/3 is restoring"), "{told}");
}

#[test]
fn whoever_asks_without_the_token_is_told_how_to_give_it() {
    for (code, told_so) in [("401 Unauthorized", true), ("403 Forbidden", false)] {
        let body = r#"{"error":"x","message":"this route needs a token"}"#;
        let (address, server) = answering(format!("HTTP/1.1 {code}\r\n\r\n{body}"));
        let told = stderr(&expect(&["inspect", "session", "s", "--address", &address], exit_code::FAILED));
        server.join().unwrap();
        assert!(told.contains("this route needs a token"), "{told}");
        assert_eq!(told.contains("a token; give --config, or --set http.token_file=FILE"), told_so, "{told}");
    }
}

pub(crate) fn fleet() -> String {
    root("config/demo/fleet.ndjson")
}

#[test]
fn a_replay_says_the_same_in_the_same_order_on_one_thread_and_on_several() {
    let one = expect(&["replay", &fleet(), "--output", "ndjson", "--lanes", "1"], exit_code::DONE);
    assert!(stdout(&one).lines().count() > 6, "{}", stdout(&one));
    for lanes in ["2", "3", "0"] {
        let other = expect(&["replay", &fleet(), "--output", "ndjson", "--lanes", lanes], exit_code::DONE);
        assert!(other.stdout == one.stdout, "--lanes {lanes}");
    }
    let again = expect(&["replay", &fleet(), "--output", "ndjson", "--lanes", "1"], exit_code::DONE);
    assert!(again.stdout == one.stdout);
    for line in stdout(&one).lines() {
        let command: Value = serde_json::from_str(line).unwrap();
        assert!(["replay", "shadow"].contains(&command["mode"].as_str().unwrap()), "{line}");
    }
}

#[test]
fn a_swarm_is_told_the_same_however_many_threads_add_it_up() {
    let scratch = Scratch::new("swarm");
    // Every partition commits several times, new loops begin all along, and sums come back from other partitions in between.
    let event = |n: u32| {
        let (session, second) = (n % 97, n / 20);
        let time = format!("2026-01-05T09:{:02}:{:02}Z", second / 60, second % 60);
        format!(
            r#"{{"id":"{n}","kind":"tool","session_id":"s{session}","swarm_id":"w{}","tool":"get","args":{{"page":{}}},"result":"busy","outcome":"error","time":"{time}"}}"#,
            session % 3,
            n / 150
        )
    };
    let events: Vec<String> = (0..24_000).map(event).collect();
    let file = scratch.write("events.ndjson", &events.join("\n"));
    let one = expect(&["replay", &file, "--output", "ndjson", "--lanes", "1"], exit_code::DONE);
    assert!(stdout(&one).contains("swarm_repeat"));
    for lanes in ["2", "3", "8"] {
        let other = expect(&["replay", &file, "--output", "ndjson", "--lanes", lanes], exit_code::DONE);
        assert!(other.stdout == one.stdout, "--lanes {lanes}");
    }
}

#[test]
fn a_replay_counts_by_detector_in_every_form() {
    let table = stdout(&expect(&["replay", &fleet(), "--policy", RULES], exit_code::DONE));
    assert!(table.starts_with("668 events of 22 sessions, 0 rejected; policy rules"), "{table}");
    let csv = stdout(&expect(&["replay", &fleet(), "--policy", RULES, "--output", "csv"], exit_code::DONE));
    assert!(csv.starts_with("detector,sessions,nudges,blocks,shadow,in_loops,loop_tokens,loop_cost_usd\nexact_repeat,"), "{csv}");
    let json: Value =
        serde_json::from_str(&stdout(&expect(&["replay", &fleet(), "--policy", RULES, "--output", "json"], exit_code::DONE)))
            .unwrap();
    assert_eq!((json["events"].as_u64(), json["sessions"].as_u64(), json["rejected"].as_u64()), (Some(668), Some(22), Some(0)));
    // A sum is no detector: whoever adds up the rows gets it.
    let (rows, total) = (json["detectors"].as_array().unwrap(), &json["total"]);
    let nudges: u64 = rows.iter().map(|row| row["nudges"].as_u64().unwrap()).sum();
    assert_eq!((Some(nudges), csv.lines().count()), (total["nudges"].as_u64(), rows.len() + 1));
    assert!(total["told"].as_u64() < total["sessions"].as_u64() && table.contains("\ntotal "), "{table}");
    assert!(table.contains(&format!("of these {} were nudged or blocked", total["told"])), "{table}");
}

#[test]
fn a_replay_under_another_policy_finds_something_else() {
    let with = |set: &str| {
        let json = stdout(&expect(&["replay", &fleet(), "--output", "json", "--set", set], exit_code::DONE));
        let json: Value = serde_json::from_str(&json).unwrap();
        json["detectors"].as_array().unwrap().iter().any(|row| row["detector"] == "text_only")
    };
    assert!(with("detectors.text_only.mode=nudge"));
    assert!(!with("detectors.text_only.mode=\"off\""));
    let told = stderr(&expect(&["replay", &fleet(), "--set", "detectors.text_onyl.mode=off"], exit_code::CONFIG));
    assert!(told.contains("E0601"), "{told}");
    expect(&["replay", &fleet(), "--policy", "no-such-policy"], exit_code::CONFIG);
    // Settings are of a topic; with a file they would be read by nobody.
    let told = stderr(&expect(&["replay", &fleet(), "--config", "loopwarden.toml"], exit_code::USAGE));
    assert!(told.contains("--config"), "{told}");
}

/// Two weeks of a quiet fleet: every twelve hours the agents of another swarm meet the same dead endpoint within minutes.
fn sparse_fleet(swarms: u32) -> String {
    const START_MS: u64 = 1_760_000_000_000;
    const HOUR_MS: u64 = 3_600_000;
    let mut lines = String::new();
    for swarm in 0..swarms {
        let begun_ms = START_MS + 12 * HOUR_MS * u64::from(swarm);
        let mut event = |session: String, at_ms: u64, rest: String| {
            let id = lines.len();
            writeln!(lines, r#"{{"id":"{id}","kind":"tool","session_id":"{session}","time":{},{rest}}}"#, begun_ms + at_ms)
                .unwrap();
        };
        for worker in 0..12 {
            let rest = format!(
                r#""swarm_id":"w{swarm}","tool":"get","args":{{"url":"http://dead"}},"outcome":"error","error":"refused""#
            );
            event(format!("w{swarm}-{worker}"), worker * 20_000, rest);
        }
        for other in 0..100 {
            let rest = format!(r#""tool":"read_file","args":{{"path":"{swarm}-{other}.rs"}},"result":"{swarm} {other}""#);
            event(format!("s{swarm}-{other}"), 600_000 + other * 400_000, rest);
        }
    }
    lines
}

#[test]
fn a_loop_of_a_swarm_is_found_however_far_apart_commits_lie_in_event_time() {
    let scratch = Scratch::new("sparse");
    let file = scratch.write("sparse.ndjson", &sparse_fleet(40));
    let told = |lanes: &str| stdout(&expect(&["replay", &file, "--lanes", lanes, "--output", "ndjson"], exit_code::DONE));
    let one = told("1");
    for swarm in 0..40 {
        assert_eq!(one.matches(&format!(r#""swarm_id":"w{swarm}","#)).count(), 1, "swarm w{swarm}");
    }
    assert_eq!(told("2"), one);
}

#[test]
fn a_line_that_is_no_event_is_told_with_its_place_and_the_rest_goes_on() {
    let scratch = Scratch::new("malformed");
    let event = |id: u32| format!(r#"{{"id":"{id}","kind":"tool","session_id":"s{id}","tool":"t","args":{{}},"result":"{id}"}}"#);
    let text = format!("{}\nnot json\n\n{{\"kind\":\"tool\"}}\n{}\n", event(1), event(2));
    let first = scratch.write("a.ndjson", &event(0));
    let second = scratch.write("b.ndjson", &text);
    let output = expect(&["replay", &first, &second, "--output", "json"], exit_code::DONE);
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((json["events"].as_u64(), json["sessions"].as_u64(), json["rejected"].as_u64()), (Some(3), Some(3), Some(2)));
    assert!(stderr(&output).contains(&format!("{second}:2: no event: not_json")), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("{second}:4: no event: missing_field")), "{}", stderr(&output));
    let strict = expect(&["replay", &first, &second, "--strict"], exit_code::ANSWER_IS_NO);
    assert_eq!(stderr(&strict).matches(": no event: ").count(), 1, "{}", stderr(&strict));
    assert!(stderr(&expect(&["replay", "no-such-file"], exit_code::FAILED)).contains("no-such-file"));
}

#[test]
fn a_replay_fails_on_what_it_was_told_to() {
    expect(&["replay", &fleet(), "--fail-on", "nudge"], exit_code::ANSWER_IS_NO);
    let scratch = Scratch::new("fail-on");
    let calm = scratch.write("calm.ndjson", r#"{"id":"1","kind":"tool","session_id":"s","tool":"t","args":{},"result":"1"}"#);
    expect(&["replay", &calm, "--fail-on", "nudge"], exit_code::DONE);
}

#[test]
fn a_replay_is_judged_by_labels_and_outcomes() {
    let scratch = Scratch::new("labels");
    let labels = scratch.write(
        "labels.jsonl",
        "{\"session\":\"coding-01\",\"label\":\"loop\",\"first_event_index\":0,\"last_event_index\":999,\"kind\":\"exact\"}\n\
         {\"session\":\"coding-08\",\"label\":\"ok\",\"first_event_index\":0,\"last_event_index\":999,\"kind\":\"pagination\"}\n\
         {\"session\":\"coding-08\",\"label\":\"loop\",\"first_event_index\":0,\"last_event_index\":998,\"kind\":\"none\"}\n\
         {\"session\":\"elsewhere\",\"label\":\"loop\",\"first_event_index\":0,\"last_event_index\":1,\"kind\":\"exact\"}\n",
    );
    let outcomes = scratch
        .write("outcomes.jsonl", "{\"session\":\"coding-01\",\"success\":false}\n{\"session\":\"coding-08\",\"success\":true}\n");
    let arguments = ["replay", &fleet(), "--labels", &labels, "--outcomes", &outcomes];
    let json: Value =
        serde_json::from_str(&stdout(&expect(&[&arguments[..], &["--output", "json"]].concat(), exit_code::DONE))).unwrap();
    let judged = &json["judgement"];
    assert_eq!((judged["loops"]["labelled"].as_u64(), judged["loops"]["found"].as_u64()), (Some(2), Some(1)));
    assert_eq!(judged["look_alikes"], serde_json::json!({ "sessions": 1, "nudged": 0, "blocked": 0 }));
    assert_eq!(judged["labels_without_session"], 1);
    assert_eq!(judged["successful"], serde_json::json!({ "sessions": 1, "nudged": 0, "blocked": 0 }));
    assert!(stdout(&expect(&arguments, exit_code::DONE)).contains("1 of 2 loops found (50.0 %)"));
    let bad = scratch.write("bad.jsonl", "{\"session\":\"a\",\"label\":\"loop\"}\n");
    assert!(stderr(&expect(&["replay", &fleet(), "--labels", &bad], exit_code::FAILED)).contains("bad.jsonl:1: "));
}

#[test]
fn events_without_arguments_are_a_warning() {
    let scratch = Scratch::new("blind");
    let event = |id: u32| format!("{{\"id\":\"{id}\",\"kind\":\"tool\",\"session_id\":\"s\",\"tool\":\"t\"}}");
    let text = [event(0), event(1), event(2)].join("\n");
    let told = stderr(&expect(&["replay", &scratch.write("blind.ndjson", &text)], exit_code::DONE));
    assert!(told.contains("warning[W0301]: 100 % of 3 calls have no arguments"), "{told}");
}

#[test]
fn the_demo_finds_loops_names_what_to_try_next_and_leaves_nothing_behind() {
    let scratch = Scratch::new("demo");
    let output = program().arg("demo").env("TMPDIR", &scratch.0).output().unwrap();
    let shown = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for part in ["coding-01", "similar_repeat", "similar calls", "nudge", "loopwarden replay", "loopwarden run --data-dir ./lw"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    for trap in ["coding-07", "coding-08", "coding-09", "coding-10", "research-03", "support-03", "support-04"] {
        assert!(!shown.contains(trap), "{trap} in\n{shown}");
    }
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
}

#[test]
fn the_demo_writes_the_same_bytes_each_time() {
    let first = expect(&["demo", "--output", "ndjson"], exit_code::DONE);
    let second = expect(&["demo", "--output", "ndjson"], exit_code::DONE);
    assert!(first.stdout == second.stdout);
    assert!(stdout(&first).lines().count() > 6);
    let schema: Value = serde_json::from_str(&stdout(&expect(&["schema", "print", "command"], exit_code::DONE))).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    for line in stdout(&first).lines() {
        let command: Value = serde_json::from_str(line).unwrap();
        let problems: Vec<String> = schema.iter_errors(&command).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{line}\n{problems:?}");
    }
}

/// Sends a signal to a process of ours.
pub(crate) fn signal(child: &std::process::Child, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn an_embedded_process_gets_ready_and_stops_when_it_is_told_to() {
    let scratch = Scratch::new("embedded");
    let dir = scratch.0.join("state").to_string_lossy().into_owned();
    // A host that is renamed goes on with its log.
    for instance in ["instance=laptop", "instance=renamed"] {
        let mut child = program()
            .args(["run", "--data-dir", &dir, "--set", "http.listen=127.0.0.1:0", "--set", "lanes=2", "--set", instance])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut first).unwrap();
        assert!(first.starts_with("ready: mode shadow, policy default"), "{first}");
        // A second process must not touch the state of the first.
        let second = expect(&["run", "--data-dir", &dir, "--set", "http.listen=127.0.0.1:0"], exit_code::FENCED);
        assert!(stderr(&second).contains("E0401"), "{}", stderr(&second));
        signal(&child, "TERM");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
}

#[test]
fn a_token_that_cannot_be_read_is_a_mistake_of_the_settings() {
    let scratch = Scratch::new("token");
    let (dir, missing) = (scratch.0.join("state"), scratch.0.join("none"));
    let set = format!("http.token_file={}", missing.display());
    let output = expect(&["run", "--data-dir", &dir.to_string_lossy(), "--set", &set], exit_code::CONFIG);
    assert!(stderr(&output).starts_with("error[E0202]: http.token_file: "), "{}", stderr(&output));
    assert!(!dir.exists(), "something was opened before");
}

#[test]
fn the_exit_codes_are_those_of_the_documentation() {
    let page = fs::read_to_string(root("src/docs/operations.md")).unwrap();
    let section = page.split("## Exit codes").nth(1).unwrap().split("\n## ").next().unwrap();
    let documented: Vec<(u8, String)> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|line| line.trim_end_matches(" |").split_once(" | "))
        .filter_map(|(code, meaning)| Some((code.parse().ok()?, meaning.to_owned())))
        .collect();
    let ours: Vec<(u8, String)> = exit_code::ALL.iter().map(|(code, meaning)| (*code, (*meaning).to_owned())).collect();
    assert_eq!(documented, ours);
}

#[test]
fn a_key_that_a_case_must_not_have_is_told_once_with_its_place() {
    let scratch = Scratch::new("once");
    let file =
        scratch.write("cases.yaml", "name: a\nevents: [{ tool: t }]\nexpect:\n  - { after: 0, verdict: none, colour: 1 }\n");
    let told = stderr(&expect(&["test", &file], exit_code::CONFIG));
    assert!(
        told.contains("cases.yaml:4: expect[0]: unknown field `colour`, expected one of `after`, `at_or_before`, "),
        "{told}"
    );
    assert_eq!((told.matches("colour`").count(), told.matches("at_or_before").count()), (1, 1), "{told}");
    assert!(told.contains("  - { after: 0, verdict: none, colour: 1 }\n") && told.contains('^'), "{told}");
}

#[test]
fn a_case_that_cannot_fail_is_none() {
    let scratch = Scratch::new("hollow");
    let event = r#"{"id":"c1","kind":"tool","session_id":"s","tool":"Bash"}"#;
    for (expected, why) in [
        ("", "expects nothing"),
        (r#","expect":[]"#, "expects nothing"),
        (r#","expect":[{"after":0}]"#, "expectation 0 checks nothing"),
        (r#","expect":[{"after":0,"verdict":"none"},{"after":0,"why":"no reason"}]"#, "expectation 1 checks nothing"),
        (r#","expect":[{"after":0,"detector":"exact_repeat"}]"#, "names a detector and not what it should have said"),
    ] {
        let file = scratch.write("cases.jsonl", &format!("\n{{\"name\":\"hollow\",\"events\":[{event}]{expected}}}\n"));
        let told = stderr(&expect(&["test", &file], exit_code::CONFIG));
        assert!(told.contains("error[E0602]") && told.contains("cases.jsonl:2: ") && told.contains(why), "{told}");
    }
    let file = scratch.write("cases.yaml", &format!("name: hollow\nevents: [{event}]\nexpect: [{{ after: 0 }}]\n"));
    let told = stderr(&expect(&["test", &file], exit_code::CONFIG));
    assert!(told.contains("error[E0602]") && told.contains("checks nothing"), "{told}");
}

#[test]
fn what_a_running_process_is_asked_takes_settings_and_refuses_what_is_none() {
    for (set, code) in [("http.lisen=127.0.0.1:1", "E0201"), ("detectors.exact_repeat.threshold=1", "E0201")] {
        let told = stderr(&expect(&["inspect", "session", "s", "--set", set], exit_code::CONFIG));
        assert!(told.contains(code), "{told}");
    }
    let told = stderr(&expect(&["inspect", "session", "s", "--set", "http.listen=127.0.0.1:1"], exit_code::FAILED));
    assert!(told.contains("http://127.0.0.1:1/sessions/s"), "{told}");
}

#[test]
fn a_sweep_needs_something_to_judge_by_and_says_what() {
    let told = stderr(&expect(&["replay", &fleet(), "--sweep", "detectors.exact_repeat.threshold=2,3"], exit_code::USAGE));
    assert!(told.contains("--labels <FILE>|--outcomes <FILE>"), "{told}");
}
