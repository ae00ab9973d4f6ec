//! Effects to outputs: commands, state rows, dead letters (page `operations`). The JSON is that of [`loopwarden_core::wire`], the headers
//! are made here; the same effects give the same bytes.

mod dead_letter;

use std::sync::Arc;

pub(super) use dead_letter::id as dead_letter_id;
pub(crate) use dead_letter::{output as dead_letter, why as dead_letter_why};
use loopwarden_core::engine::{Action, Board, Command, SubjectKey, Trigger};
use loopwarden_core::event::{EventTime, Record, Rejected, TaskId};
use loopwarden_core::identity::{base32, hash_parts};
use loopwarden_core::{policy::Policy, wire};
use loopwarden_log::{Destination, Headers, Output};

use crate::settings::{DeadLetterContent, ProcessMode};

/// Version in commands and dead letters.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What the JSON of a command is held to.
const COMMAND_SCHEMA: &str = "urn:loopwarden:schema:command:1";
/// The same of a state row.
const ROW_SCHEMA: &str = "urn:loopwarden:schema:session-state:1";
/// Most headers of a command.
const HEADERS: usize = 15;
/// Room for their values, unless names are long.
const HEADER_VALUES_BYTES: usize = 512;

/// Makes bytes of effects. Rebuilt when the policy changes.
#[derive(Debug, Clone)]
pub struct Encoder {
    app: Arc<str>,
    source: String,
    mode: ProcessMode,
    content: DeadLetterContent,
    profile: String,
    policy: String,
}

impl Encoder {
    /// An encoder for an application, a mode and a policy.
    pub fn new(app: &str, policy: &Policy, mode: ProcessMode, content: DeadLetterContent) -> Self {
        Self {
            app: app.into(),
            source: format!("/loopwarden/{}", escape(app)),
            mode,
            content,
            profile: policy.profile.clone(),
            policy: policy.hash.to_string(),
        }
    }

    /// Who is bound: a shadow detector binds nobody, whatever the process may do.
    pub const fn mode_of(&self, is_shadow: bool) -> ProcessMode {
        if is_shadow { ProcessMode::Shadow } else { self.mode }
    }

    /// A command with its place in its task's outputs.
    pub fn command(&self, command: &Command, task: TaskId, ordinal: u64) -> Output {
        let key = command.subject.record_key();
        // A report is made of values.
        let headers =
            if self.mode == ProcessMode::Replay { Headers::default() } else { self.headers(command, &key, task, ordinal) };
        Output {
            destination: Destination::Commands,
            key: key.into_owned().into_bytes(),
            value: Some(self.command_json(command)),
            headers,
            timestamp_ms: command.issued_at.0,
        }
    }

    fn headers(&self, command: &Command, key: &str, task: TaskId, ordinal: u64) -> Headers {
        let id = base32(&command.id.0);
        let mut headers = self.cloud_event(&id, command_type(command.action), key, command.issued_at, COMMAND_SCHEMA);
        push_sequence(&mut headers, command.epoch, command.seq);
        headers.push_display("ce_expirytime", command.expires_at);
        headers.push("ce_correlationid", base32(&command.episode.0));
        if let Trigger::Event { event_id, traceparent, .. } = &command.trigger {
            headers.push("ce_causationid", event_id);
            if let Some(traceparent) = traceparent {
                headers.push("ce_traceparent", traceparent);
            }
        }
        headers.push("content-type", "application/json");
        push_place(&mut headers, task, ordinal);
        headers
    }

    /// The command's JSON (`command.v1`).
    pub fn command_json(&self, command: &Command) -> Vec<u8> {
        let engine = wire::Engine { version: VERSION, profile: &self.profile, policy_sha256: &self.policy };
        wire::to_json(&wire::Command::of(command, self.mode_of(command.is_shadow).as_str(), engine))
    }

    /// The state row of a subject after an input at `at`; a tombstone where no verdict holds. `None` where rows are not
    /// written: only a live process says what is in force. A shadow one ends no row either: it may be that of a live one beside it.
    pub(crate) fn row(&self, subject: &SubjectKey, board: &Board, at: EventTime, task: TaskId) -> Option<Output> {
        if self.mode != ProcessMode::Live {
            return None;
        }
        let key = subject.row_key();
        let value = wire::Row::json(subject, board, at);
        // The id names the change: a second row of the subject at another time or after another command has another.
        let change = format!("\u{1f}{}\u{1f}{}\u{1f}{}", board.epoch, board.seq, at.0);
        let id = base32(&hash_parts(&[&key, &change]).hash128().0.to_be_bytes());
        let mut headers = self.cloud_event(&id, "dev.loopwarden.session_state.v1", &subject.record_key(), at, ROW_SCHEMA);
        push_sequence(&mut headers, board.epoch, board.seq);
        headers.push("content-type", "application/json");
        headers.push_display("lw_task", task);
        Some(Output { destination: Destination::State, key: key.into_bytes(), value, headers, timestamp_ms: at.0 })
    }

    /// A dead letter of at most `DEAD_LETTER_BYTES_MAX` bytes, with why: the record as it came, or where it is not to be `whole` the name
    /// of the record alone.
    pub fn dead_letter(&self, (record, whole): (&Record<'_>, bool), rejected: &Rejected, task: TaskId, ordinal: u64) -> Output {
        let mut own = dead_letter::why(record, rejected, &self.app);
        own.push("dlq.policy", &self.policy);
        own.push("dlq.version", VERSION);
        push_place(&mut own, task, ordinal);
        if whole { dead_letter::output(record, self.content, own) } else { dead_letter::name(record, own) }
    }

    fn cloud_event(&self, id: &str, kind: &str, subject: &str, time: EventTime, schema: &str) -> Headers {
        let mut headers = Headers::with_capacity(HEADERS, HEADER_VALUES_BYTES);
        headers.push("ce_specversion", "1.0");
        headers.push("ce_id", id);
        headers.push("ce_source", &self.source);
        headers.push("ce_type", kind);
        headers.push("ce_subject", subject);
        headers.push_display("ce_time", time);
        headers.push("ce_dataschema", schema);
        headers
    }
}

const fn command_type(action: Action) -> &'static str {
    match action {
        Action::Nudge => "dev.loopwarden.command.nudge.v1",
        Action::Block => "dev.loopwarden.command.block.v1",
        Action::Unblock => "dev.loopwarden.command.unblock.v1",
    }
}

fn push_sequence(headers: &mut Headers, epoch: i64, seq: u64) {
    headers.push_display("ce_sequence", format_args!("{:020}-{seq:020}", epoch.max(0)));
}

fn push_place(headers: &mut Headers, task: TaskId, ordinal: u64) {
    headers.push_display("lw_task", task);
    headers.push_display("lw_ordinal", ordinal);
}

/// An application name inside a URI reference.
fn escape(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::{Advice, CommandId, Fact, IdentityRecipe, PlacedBy, Placement, ReasonCode, Scope, Verdict};
    use loopwarden_core::identity::{CallRules, Hash128};
    use loopwarden_core::{event::Stage, policy::Detector};

    use super::*;

    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 3 };
    const TIME: EventTime = EventTime(1_795_291_203_120);

    fn encoder(mode: ProcessMode, content: DeadLetterContent) -> Encoder {
        Encoder {
            app: "loopwarden".into(),
            source: "/loopwarden/loopwarden".to_owned(),
            mode,
            content,
            profile: "default".to_owned(),
            policy: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".to_owned(),
        }
    }

    fn command() -> Command {
        let id = CommandId(0x3d_5d_29_0f_c3_c1_6b_0f_ed_3a_c0_8d_c8_7e_aa_u128.to_be_bytes());
        Command {
            id,
            action: Action::Nudge,
            subject: SubjectKey::Agent { tenant: String::new(), session_id: "sess-42".to_owned(), agent_id: "main".to_owned() },
            scope: Scope {
                tool: Some("Bash".to_owned()),
                tools: Vec::new(),
                fingerprint: Some((
                    Hash128(0xa440_4e81_f177_a67d_b9d0_8a78_ed56_6b35),
                    IdentityRecipe::Call(CallRules { args: Arc::default(), args_ignored: ["description".to_owned()].into() }),
                )),
                only: Vec::new(),
            },
            level: 1,
            epoch: 1_795_291_200_000,
            seq: 1,
            episode: id,
            issued_at: TIME,
            expires_at: TIME.plus_ms(600_000),
            is_shadow: false,
            arm: None,
            reason: ReasonCode::Detector(Detector::ExactRepeat),
            also: vec![Detector::OutcomeRepeat],
            confidence: Some(0.7),
            summary: "Bash: 3 calls in 3 s, same arguments, same failing result".to_owned(),
            evidence: vec![
                ("count", Fact::Count(3)),
                ("share", Fact::Ratio(0.5)),
                ("tools", Fact::Texts(vec!["a\"b".to_owned()])),
            ],
            message: Some("[System] \u{1f}".to_owned()),
            placement: Placement::AppendToResult { call_id: Some("c1".to_owned()) },
            advice: Some(Advice::ChangeApproach),
            trigger: Trigger::Event {
                event_id: "a3".to_owned(),
                call_id: None,
                topic: "agents.tool-events.v1".to_owned(),
                partition: 3,
                offset: 88_120,
                time: TIME,
                traceparent: Some("00-1-2-01".to_owned()),
            },
            contributors: Vec::new(),
            labels: vec![("team".to_owned(), "x".to_owned())],
        }
    }

    #[test]
    fn a_command_is_written_in_the_order_of_the_wire_page() {
        let output = encoder(ProcessMode::Live, DeadLetterContent::Full).command(&command(), TASK, 17);
        let id = base32(&command().id.0);
        let expected = format!(
            "{}{}{}{}{}{}{}{}",
            format_args!(r#"{{"v":1,"id":"{id}","action":"nudge","session_id":"sess-42","#),
            r#""scope":{"kind":"session","agent_id":"main","tool":"Bash","fingerprint":"a4404e81f177a67db9d08a78ed566b35","#,
            r#""identity":{"kind":"call","args_ignored":["description"]}},"level":1,"epoch":1795291200000,"seq":1,"#,
            format_args!(
                r#""episode":"{id}","issued_at":"2026-11-21T20:00:03.120Z","expires_at":"2026-11-21T20:10:03.120Z","mode":"live","#
            ),
            concat!(
                r#""reason":{"code":"exact_repeat","also":["outcome_repeat"],"confidence":0.7,"#,
                r#""summary":"Bash: 3 calls in 3 s, same arguments, same failing result","#,
                r#""evidence":{"count":3,"share":0.5,"tools":["a\"b"]}},"#
            ),
            r#""message":"[System] \u001f","placement":"append_to_result","advice":"change_approach","#,
            concat!(
                r#""trigger":{"event_id":"a3","call_id":"c1","topic":"agents.tool-events.v1","partition":3,"offset":88120,"#,
                r#""time":"2026-11-21T20:00:03.120Z"},"labels":{"team":"x"},"#
            ),
            format_args!(
                r#""engine":{{"version":"{VERSION}","profile":"default","policy_sha256":"{}"}}}}"#,
                encoder(ProcessMode::Live, DeadLetterContent::Full).policy
            ),
        );
        assert_eq!(String::from_utf8(output.value.unwrap()).unwrap(), expected);
        assert_eq!((output.key, output.timestamp_ms), (b"sess-42".to_vec(), TIME.0));
        let header = |name: &str| output.headers.get(name).map(|value| String::from_utf8(value.to_vec()).unwrap());
        assert_eq!(header("ce_sequence").unwrap(), "00000001795291200000-00000000000000000001");
        assert_eq!(header("ce_traceparent").unwrap(), "00-1-2-01");
        assert_eq!((header("lw_task").unwrap(), header("lw_ordinal").unwrap()), ("session/3".to_owned(), "17".to_owned()));
    }

    #[test]
    fn a_shadow_detector_binds_nobody_in_any_process() {
        for (mode, live) in [(ProcessMode::Live, "live"), (ProcessMode::Shadow, "shadow"), (ProcessMode::Replay, "replay")] {
            let encoder = encoder(mode, DeadLetterContent::Full);
            assert_eq!((encoder.mode_of(false).as_str(), encoder.mode_of(true).as_str()), (live, "shadow"));
        }
    }

    fn verdict() -> Verdict {
        let Command { id, action, scope, level, episode, placement, .. } = command();
        Verdict {
            command_id: id,
            action,
            scope,
            level,
            episode,
            by: PlacedBy::Detector(Detector::ExactRepeat),
            message: String::new(),
            placement,
            advice: None,
            issued_at: TIME,
            expires_at: TIME,
        }
    }

    #[test]
    fn only_a_live_process_writes_rows_and_ends_them() {
        let subject = SubjectKey::Agent { tenant: String::new(), session_id: "s".into(), agent_id: "main".into() };
        for verdicts in [vec![], vec![verdict()]] {
            let has_value = !verdicts.is_empty();
            let board = Board { epoch: 1, seq: 1, verdicts: verdicts.into(), ..Board::default() };
            let written = |mode| encoder(mode, DeadLetterContent::Full).row(&subject, &board, TIME, TASK);
            assert_eq!(written(ProcessMode::Live).map(|row| row.value.is_some()), Some(has_value));
            assert_eq!((written(ProcessMode::Shadow), written(ProcessMode::Replay)), (None, None));
        }
    }

    #[test]
    fn an_application_name_is_escaped_in_the_source() {
        assert_eq!(escape("my app/ü"), "my%20app%2F%C3%BC");
    }
}
