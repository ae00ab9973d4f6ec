//! What is to be said of senders, and the form in which it is shown.

use loopwarden_lab::report::grouped;
use loopwarden_settings::Diagnostic;
use loopwarden_sources::{Calls, NATIVE_FORM, Received, Sender, Senders, Twofold, cloudevents, mapping};

use crate::operate::api;

/// Of so many records one may be refused, and more is worth a word.
const SHARE: u64 = 100;

/// A sender, and the topic of an intake that it was read from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    topic: Option<&'a str>,
    sender: &'a Sender,
    received: &'a Received,
}

impl<'a> Row<'a> {
    /// All of a way in: of a topic, or over HTTP.
    pub(crate) fn all(topic: Option<&'a str>, senders: &'a Senders) -> impl Iterator<Item = Self> {
        senders.iter().map(move |(sender, received)| Self { topic, sender, received })
    }

    /// Who it is, for people.
    fn name(&self) -> String {
        let Sender { form, name } = self.sender;
        let conventions: Vec<&str> = self.received.conventions.iter().copied().collect();
        let of = if conventions.is_empty() { (*form).to_owned() } else { conventions.join(", ") };
        let named = if name.is_empty() { of } else { format!("{name} ({of})") };
        self.topic.map_or_else(|| named.clone(), |topic| format!("topic {topic}, {named}"))
    }

    /// What to do about what most of its calls lack, or about records that are none.
    fn switch_on(&self) -> Vec<&'static str> {
        let Received { calls, hints, left_to_logs, .. } = self.received;
        let (without_args, without_results) = calls.lacks();
        if calls.compared().is_none() {
            return if *left_to_logs > 0 {
                vec!["export the logs of this program too: they have what its spans lack"]
            } else {
                Vec::new()
            };
        }
        if !without_args && !without_results {
            return Vec::new();
        }
        if !hints.is_empty() {
            return hints.iter().copied().collect();
        }
        match self.sender.form {
            mapping::FORM => vec!["let the mapping give `args` and `result`: `loopwarden map --try` shows what it finds"],
            NATIVE_FORM | cloudevents::FORM => {
                vec!["send `args` and `result`, or `args_sha256` and `result_sha256` where they must not leave"]
            }
            _ => vec!["switch on the capture of arguments and results in the instrumentation"],
        }
    }

    /// What is to be said of it; nothing where all is well.
    fn findings(&self) -> Vec<Diagnostic> {
        let Received { records, ignored, refused, calls, .. } = self.received;
        let (name, helps) = (self.name(), self.switch_on());
        let with_help = |found: Diagnostic| helps.iter().fold(found, |found, help| found.help(*help));
        let mut findings = Vec::new();
        let Calls { made, without_args, ended, without_results } = *calls;
        let (has_no_args, has_no_results) = calls.lacks();
        if let (Some(compared), true) = (calls.compared(), has_no_args || has_no_results) {
            let code = if has_no_args { "W0301" } else { "W0307" };
            let message = format!(
                "{name}: {} can be compared; {} of {} calls have no arguments, {} of {} have no result",
                compared.as_str(),
                grouped(without_args),
                grouped(made),
                grouped(without_results),
                grouped(ended)
            );
            findings.push(with_help(Diagnostic::new(code, message)));
        }
        if *refused > 0 && refused * SHARE >= *records {
            let message = format!("{name}: {} of {} records are refused", grouped(*refused), grouped(*records));
            findings.push(Diagnostic::new("W0308", message).help("the answer to the sender, or the dead letter, says why"));
        } else if *records > 0 && ignored == records {
            let message = format!("{name}: none of {} records is a call, a prompt or an end of a session", grouped(*records));
            findings.push(
                with_help(Diagnostic::new("W0308", message)).help("what is read of whom: the page ingest, `Who tells what`"),
            );
        }
        findings
    }

    fn shown(&self) -> api::Sender {
        let Self { topic, sender, received } = self;
        let Received { calls, conventions, .. } = received;
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        api::Sender {
            who: self.name(),
            topic: topic.map(str::to_owned),
            form: sender.form.to_owned(),
            name: sender.name.clone(),
            conventions: conventions.iter().map(|name| (*name).to_owned()).collect(),
            records: received.records,
            calls: calls.made,
            calls_with_arguments: calls.made - calls.without_args,
            results: calls.ended,
            results_with_content: calls.ended - calls.without_results,
            refused: received.refused,
            ignored: received.ignored,
            left_to_logs: received.left_to_logs,
            compared: calls.compared().map(|compared| compared.as_str().to_owned()),
            switch_on: words(&self.switch_on()),
        }
    }
}

/// What is to be said of senders, and of sessions that two of them report.
pub(crate) fn findings(rows: &[Row<'_>], (sessions, examples): (u64, &[Twofold])) -> Vec<Diagnostic> {
    let mut findings: Vec<Diagnostic> = rows.iter().flat_map(Row::findings).collect();
    if sessions > 0 {
        let example = |Twofold { session_id, sources: [first, second] }: &Twofold| format!("{session_id} ({first}, {second})");
        let examples: Vec<String> = examples.iter().map(example).collect();
        let more = if sessions > examples.len() as u64 { ", …" } else { "" };
        let message = format!(
            "sessions that two sources report, so that calls count twice: {}: {}{more}",
            grouped(sessions),
            examples.join(", ")
        );
        findings.push(
            Diagnostic::new("W0306", message).help("let one source report a session; hooks say more than an agent's own logs"),
        );
    }
    findings
}

/// Senders, sessions of two sources and all that is to be said, as `/overview` has it.
pub(crate) fn shown(
    rows: &[Row<'_>],
    others_records: u64,
    (sessions, examples): (u64, &[Twofold]),
    findings: &[Diagnostic],
) -> api::Input {
    let example = |Twofold { session_id, sources }: &Twofold| api::TwoSourcesOf {
        session_id: session_id.clone(),
        sources: sources.map(str::to_owned).to_vec(),
    };
    let found = |Diagnostic { code, message, help, .. }: &Diagnostic| api::InputFinding {
        code: (*code).to_owned(),
        message: message.clone(),
        help: help.clone(),
    };
    api::Input {
        senders: rows.iter().map(Row::shown).collect(),
        others_records,
        two_sources: api::TwoSources { sessions, examples: examples.iter().map(example).collect() },
        findings: findings.iter().map(found).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(received: Received) -> Vec<String> {
        let mut senders = Senders::default();
        let place = senders.place("OpenTelemetry", "agents");
        *senders.row(place) = received;
        let rows: Vec<Row<'_>> = Row::all(None, &senders).collect();
        findings(&rows, (0, &[])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_sender_that_tells_all_is_not_mentioned_and_one_that_tells_little_is_told_what_to_switch_on() {
        let calls = |without_args, without_results| Calls { made: 4, without_args, ended: 4, without_results };
        let received =
            |calls| Received { records: 200, refused: 1, calls, hints: ["switch it on"].into(), ..Received::default() };
        assert_eq!(said(received(calls(1, 1))), [""; 0]);
        let names = said(received(calls(4, 4)));
        assert!(
            names[0].starts_with("warning[W0301]: agents (OpenTelemetry): names only can be compared; 4 of 4 calls"),
            "{names:?}"
        );
        assert!(names[0].contains("switch it on") && names.len() == 1, "{names:?}");
        assert!(said(received(calls(0, 3)))[0].starts_with("warning[W0307]: agents (OpenTelemetry): names and arguments"));
    }

    #[test]
    fn records_that_become_nothing_are_told() {
        let all_ignored = said(Received { records: 7, ignored: 7, ..Received::default() });
        assert!(
            all_ignored[0].starts_with("warning[W0308]: agents (OpenTelemetry): none of 7 records is a call"),
            "{all_ignored:?}"
        );
        let refused = said(Received { records: 100, refused: 1, ..Received::default() });
        assert!(refused[0].starts_with("warning[W0308]: agents (OpenTelemetry): 1 of 100 records are refused"), "{refused:?}");
        assert_eq!(said(Received { records: 101, refused: 1, ..Received::default() }), [""; 0]);
    }
}
