//! A running process, as it tells itself.

use std::{collections::BTreeMap, time::Duration};

use loopwarden_lab::report::{counted, grouped};

use super::{args::DoctorArgs, finding::Finding, input};
use crate::cli::shared::ask::{RunningProcess, Unanswered};
use crate::operate::api::{Acks, Guarded, Overview};
use crate::{cli::args::LogArgs, cli::shared::setup, failure::Failure};

/// Bytes of an answer that are read. The overview shows what is in force, 256 rows at most.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// One dead letter, or one late event, in so many events is more than a slip.
const SHARE: u64 = 100;

/// What is to be said of it.
///
/// # Errors
/// It does not answer, or lets nobody in.
pub(super) fn findings(args: &DoctorArgs, log: &LogArgs) -> Result<Vec<Finding>, Failure> {
    let config = setup::load(&args.config, log)?.config;
    let process = RunningProcess::of(args.address.as_deref(), &config)?;
    let wait = Duration::from_millis(args.timeout_ms);
    let gone = |unanswered: Unanswered| match unanswered {
        Unanswered::Away(why) => {
            Failure::failed(format!("{why}\n  recorded exports need no process: loopwarden doctor --try FILE"))
        }
        refused @ Unanswered::Refused(_) => refused.into(),
    };
    let ready = process.heard("/readyz?verbose", wait, ANSWER_BYTES_MAX).map_err(gone)?;
    let mut findings = readiness(&ready.code, &ready.body);
    // No command has this number: only the numbers are wanted.
    let overview = process.json(&format!("/overview?after={}", u64::MAX), wait, ANSWER_BYTES_MAX).map_err(gone)?;
    findings.extend(of_overview(&overview));
    Ok(findings)
}

fn readiness(code: &str, body: &str) -> Vec<Finding> {
    if code == "200" {
        return vec![Finding::good("the process is ready")];
    }
    let wrong: Vec<Finding> = body.lines().filter_map(|line| line.strip_prefix("[-] ")).map(not_ready).collect();
    if wrong.is_empty() { vec![not_ready(body.trim())] } else { wrong }
}

fn not_ready(why: &str) -> Finding {
    Finding::todo(format!("the process is not ready: {why}"))
        .help("its log says why; `loopwarden check --connect` looks at the brokers")
}

fn of_overview(overview: &Overview) -> Vec<Finding> {
    let Overview { events, rejected, late, .. } = *overview;
    let is_live = overview.mode == "live";
    let mut findings = vec![if is_live {
        Finding::good("mode live: workers are to act on commands")
    } else {
        Finding::note("mode shadow: commands are published, and bind nobody")
            .help("set mode = \"live\" when you trust what you see")
    }];
    let up = format!("since the start {} ago", rounded(overview.uptime_ms));
    if events > 0 {
        let sessions = counted(overview.sessions, "session");
        findings.push(Finding::good(format!("{} {up}; {sessions} remembered", counted(events, "event"))));
    }
    if overview.is_idle {
        findings.push(Finding::note(format!("nothing consumed {up}: every partition is read, and no record waits")).help(
            "if agents work: do they write to the topic `kafka.input`? With kafka.start = \"latest\", older records are not read",
        ));
    }
    findings.extend(dead_letters(&overview.rejected_by_reason, rejected, events));
    if late > 0 && late * SHARE >= events {
        let message = format!("{} of {} events came after later ones of their session", grouped(late), grouped(events));
        findings.push(Finding::note(message).help("they are judged in the order in which they come; export in smaller batches"));
    }
    if let Some(lag) = overview.lag_records.filter(|lag| *lag > 0 && !overview.is_idle) {
        findings.push(Finding::note(format!("waiting to be read: {}", counted(lag, "record"))));
    }
    match &overview.input {
        Some(input) => findings.extend(input::findings(input)),
        None => findings.push(Finding::note("the process is of an older version, which tells nothing of its senders")),
    }
    if is_live {
        findings.extend(obedience(overview));
    }
    findings
}

/// Records that became no events, by their reasons.
fn dead_letters(reasons: &BTreeMap<String, u64>, rejected: u64, events: u64) -> Option<Finding> {
    let letters = match rejected {
        0 => return None,
        1 => "became a dead letter",
        _ => "became dead letters",
    };
    let reasons: Vec<String> = reasons.iter().map(|(reason, records)| format!("{reason} {}", grouped(*records))).collect();
    let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
    let message = format!("{} {letters}, beside {}{why}", counted(rejected, "record"), counted(events, "event"));
    let is_many = rejected * SHARE >= events;
    let found = if is_many { Finding::todo(message).coded("W0308") } else { Finding::note(message) };
    Some(found.help("the header dlq.reason of each says why"))
}

/// A time in the unit that a person would say it in.
fn rounded(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ ..=119 => format!("{seconds} s"),
        seconds @ ..=7_199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

/// Whether anybody says what became of commands.
fn obedience(overview: &Overview) -> Option<Finding> {
    let commands = overview.commands.nudge + overview.commands.block;
    let Guarded { agents, checks, .. } = overview.guard.clone().unwrap_or_default();
    let Acks { received, applied, ignored, failed } = overview.acks;
    if failed > 0 {
        let message = format!("workers failed to carry out {}, and carried out {}", counted(failed, "command"), grouped(applied));
        return Some(Finding::todo(message).help("what workers must do: the page workers"));
    }
    if checks > 0 {
        let who = format!("{} {}", counted(agents, "agent"), if agents == 1 { "asks" } else { "ask" });
        return Some(Finding::good(format!("{who} before and after calls")));
    }
    if received + applied + ignored > 0 {
        return Some(Finding::good(format!(
            "workers report: {} applied, {} ignored",
            counted(applied, "command"),
            grouped(ignored)
        )));
    }
    (commands > 0).then(|| {
        Finding::note(format!("commands sent: {}; no worker reports what it does with them", grouped(commands)))
            .help("workers may send `ack` events; agents may ask: the pages workers and guard")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::doctor::finding::Level;

    fn read(overview: &Value) -> Overview {
        serde_json::from_value(overview.clone()).unwrap()
    }

    fn told(overview: &Value) -> Vec<String> {
        of_overview(&read(overview)).iter().flat_map(Finding::lines).collect()
    }

    #[test]
    fn a_process_in_shadow_is_no_mistake() {
        let told = told(
            &json!({ "mode": "shadow", "events": 3, "sessions": 1, "uptime_ms": 4_000, "commands": { "nudge": 1 }, "input": {} }),
        );
        assert_eq!(told[0], "note  mode shadow: commands are published, and bind nobody");
        assert_eq!(told[2..], ["ok    3 events since the start 4 s ago; 1 session remembered"]);
    }

    #[test]
    fn a_fleet_without_work_is_told_and_has_nothing_to_do() {
        let idle = json!({ "mode": "live", "events": 0, "uptime_ms": 30_000, "is_idle": true, "lag_records": 2, "input": {} });
        let findings = of_overview(&read(&idle));
        assert!(findings.iter().all(|finding| finding.level != Level::Todo), "{findings:?}");
        assert!(
            told(&idle)[1].starts_with("note  nothing consumed since the start 30 s ago: every partition is read")
                && !told(&idle).join("").contains("waiting to be read"),
            "{:?}",
            told(&idle)
        );
        let rejecting = json!({ "mode": "live", "events": 0, "uptime_ms": 30_000, "is_idle": false, "rejected": 4,
            "rejected_by_reason": { "missing_field": 1, "not_json": 3 }, "input": {} });
        assert!(told(&rejecting)[1].ends_with("4 records became dead letters, beside 0 events: missing_field 1, not_json 3"));
    }

    #[test]
    fn what_workers_do_is_told_as_far_as_they_say_so() {
        let base = |more: Value| {
            let mut overview = json!({ "mode": "live", "events": 1, "commands": { "nudge": 2, "block": 1 }, "input": {} });
            overview.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            told(&overview)[2..].join("\n")
        };
        assert!(base(json!({})).starts_with("note  commands sent: 3; no worker reports"));
        assert_eq!(
            base(json!({ "acks": { "applied": 2, "ignored": 1 } })),
            "ok    workers report: 2 commands applied, 1 ignored"
        );
        assert!(
            base(json!({ "acks": { "failed": 2, "applied": 1 } })).starts_with("todo  workers failed to carry out 2 commands")
        );
        assert_eq!(base(json!({ "guard": { "agents": 1, "checks": 9 } })), "ok    1 agent asks before and after calls");
    }

    #[test]
    fn each_thing_that_is_not_ready_is_named() {
        let found =
            readiness("503", "[+] joined\n[-] lanes go on: 1 cannot commit\n[-] task session/3: stopped itself\nnot ok\n");
        let lines: Vec<String> = found.iter().flat_map(Finding::lines).collect();
        assert_eq!((lines.len(), lines[0].as_str()), (4, "todo  the process is not ready: lanes go on: 1 cannot commit"));
        assert_eq!(readiness("500", "broken").len(), 1);
    }

    #[test]
    fn many_dead_letters_are_a_thing_to_do_and_few_are_not() {
        let of =
            |what: &str, count: u64| told(&json!({ "mode": "live", "events": 200, what: count, "input": {} }))[2..].join("\n");
        assert!(of("rejected", 2).starts_with("todo  [W0308] 2 records became dead letters, beside 200 events"));
        assert!(of("rejected", 1).starts_with("note  1 record became a dead letter, beside 200 events"));
        assert!(of("late", 2).starts_with("note  2 of 200 events came after later ones of their session"));
        assert_eq!(of("late", 1), "");
    }
}
