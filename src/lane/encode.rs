//! Effects to wire bytes: commands, state rows, dead letters (`config/schemas`, page `operations`). The order of fields is the order of the
//! structs; the same effects give the same bytes.

use std::sync::Arc;

use loopwarden_core::engine::{
    Action, Command, CommandId, Fact, Head, IdentityRecipe, Placement, Scope, SubjectKey, SwarmCounter, Trigger, Verdict,
};
use loopwarden_core::event::{EventTime, Record, Rejected, TaskId};
use loopwarden_core::identity::{base32, hash_bytes, hash_parts};
use loopwarden_core::limits::DEAD_LETTER_BYTES_MAX;
use loopwarden_core::policy::Policy;
use loopwarden_log::{Destination, Headers, Output};

use crate::json;
use crate::json::Object;
use crate::settings::{DeadLetterContent, ProcessMode};

/// Version in commands and dead letters.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What the JSON of a command is held to.
const COMMAND_SCHEMA: &str = "urn:loopwarden:schema:command:1";
/// The same of a state row.
const ROW_SCHEMA: &str = "urn:loopwarden:schema:session-state:1";
/// Prefix of the headers that a dead letter adds.
const DLQ: &str = "dlq.";
/// Bytes a header costs besides its name and value, and a record besides its headers: an upper bound of Kafka's varints.
const FRAME_BYTES: usize = 16;
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

/// What a state row says of its subject.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Verdicts in force.
    pub verdicts: &'a [Verdict],
    /// Epoch of the last live command.
    pub epoch: i64,
    /// Its number.
    pub seq: u64,
}

impl<'a> Row<'a> {
    /// Of a session's agent.
    #[must_use]
    pub fn of_head(head: &'a Head) -> Self {
        Self { verdicts: &head.verdicts, epoch: head.epoch, seq: head.live_seq }
    }

    /// Of a counter: of periods that overlap in time, the last.
    #[must_use]
    pub fn of_counter(counter: &'a SwarmCounter) -> Self {
        let last = counter.periods.values().map(|period| (period.epoch, period.seq)).max();
        let (epoch, seq) = last.unwrap_or_default();
        Self { verdicts: &counter.verdicts, epoch, seq }
    }
}

impl Encoder {
    /// An encoder for an application, a mode and a policy.
    #[must_use]
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

    /// The word for who is bound: a shadow detector binds nobody, whatever the process may do.
    #[must_use]
    pub const fn mode_of(&self, is_shadow: bool) -> &'static str {
        if is_shadow { ProcessMode::Shadow.as_str() } else { self.mode.as_str() }
    }

    /// A command with its place in its task's outputs.
    #[must_use]
    pub fn command(&self, command: &Command, task: TaskId, ordinal: u64) -> Output {
        let key = command.subject.record_key();
        // A report is made of values.
        let headers =
            if self.mode == ProcessMode::Replay { Headers::default() } else { self.headers(command, &key, task, ordinal) };
        Output {
            destination: Destination::Commands,
            key: key.into_owned().into_bytes(),
            value: Some(self.command_json(command).into_bytes()),
            headers,
            timestamp_ms: command.issued_at.0,
        }
    }

    fn headers(&self, command: &Command, key: &str, task: TaskId, ordinal: u64) -> Headers {
        let id = text(&command.id);
        let mut headers = self.cloud_event(&id, command_type(command.action), key, command.issued_at, COMMAND_SCHEMA);
        push_sequence(&mut headers, command.epoch, command.seq);
        headers.push_display("ce_expirytime", command.expires_at);
        headers.push("ce_correlationid", text(&command.episode));
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
    #[must_use]
    pub fn command_json(&self, command: &Command) -> String {
        json::document(|json| {
            json.number("v", 1_u64);
            json.text("id", &text(&command.id));
            json.text("action", command.action.as_str());
            let agent_id = subject(json, &command.subject);
            json.object("scope", |json| scope(json, &command.scope, agent_id));
            json.number("level", command.level);
            json.number("epoch", command.epoch.max(0));
            json.number("seq", command.seq);
            json.text("episode", &text(&command.episode));
            json.time("issued_at", command.issued_at);
            json.time("expires_at", command.expires_at);
            json.text("mode", self.mode_of(command.is_shadow));
            json.object("reason", |json| reason(json, command));
            if let Some(message) = &command.message {
                json.text("message", message);
            }
            if matches!(command.placement, Placement::AppendToResult { .. }) {
                json.text("placement", "append_to_result");
            }
            if let Some(advice) = command.advice {
                json.text("advice", advice.as_str());
            }
            json.object("trigger", |json| trigger(json, &command.trigger, &command.placement));
            if !command.contributors.is_empty() {
                json.texts("contributors", &command.contributors);
            }
            if !command.labels.is_empty() {
                json.object("labels", |json| command.labels.iter().for_each(|(name, value)| json.text(name, value)));
            }
            json.object("engine", |json| {
                json.text("version", VERSION);
                json.text("profile", &self.profile);
                json.text("policy_sha256", &self.policy);
            });
        })
    }

    /// The state row of a subject after an input at `at`; a tombstone where no verdict holds. `None` where rows are not
    /// written: only a live process says what is in force. A shadow one ends no row either: it may be that of a live one beside it.
    #[must_use]
    pub fn row(&self, subject: &SubjectKey, row: &Row<'_>, at: EventTime, task: TaskId) -> Option<Output> {
        if self.mode != ProcessMode::Live {
            return None;
        }
        let key = subject.row_key();
        let value = row_json(subject, row, at);
        // The id names the change: a second row of the subject at another time or after another command has another.
        let change = format!("\u{1f}{}\u{1f}{}\u{1f}{}", row.epoch, row.seq, at.0);
        let id = base32(&hash_parts(&[&key, &change]).hash128().0.to_be_bytes());
        let mut headers = self.cloud_event(&id, "dev.loopwarden.session_state.v1", &subject.record_key(), at, ROW_SCHEMA);
        push_sequence(&mut headers, row.epoch, row.seq);
        headers.push("content-type", "application/json");
        headers.push_display("lw_task", task);
        Some(Output {
            destination: Destination::State,
            key: key.into_bytes(),
            value: value.map(String::into_bytes),
            headers,
            timestamp_ms: at.0,
        })
    }

    /// A dead letter: the record as it came, with why. What does not fit is cut: first the value, then foreign headers, then the key.
    #[must_use]
    pub fn dead_letter(&self, record: &Record<'_>, rejected: &Rejected, task: TaskId, ordinal: u64) -> Output {
        let meta = &record.meta;
        let mut own = Headers::default();
        own.push("dlq.reason", rejected.reason.as_str());
        if !rejected.field.is_empty() {
            own.push("dlq.field", &rejected.field);
        }
        own.push("dlq.topic", meta.topic);
        own.push_display("dlq.partition", meta.partition);
        own.push_display("dlq.offset", meta.offset.0);
        own.push_display("dlq.timestamp", meta.timestamp.0);
        own.push("dlq.app", self.app.as_bytes());
        own.push("dlq.policy", &self.policy);
        own.push("dlq.version", VERSION);
        push_place(&mut own, task, ordinal);
        // Room for dlq.bytes is kept in any case.
        let mut left =
            DEAD_LETTER_BYTES_MAX - headers_bytes(&own).min(DEAD_LETTER_BYTES_MAX / 2) - 2 * FRAME_BYTES - "dlq.bytes".len() - 20;
        let key = meta.key.unwrap_or_default();
        let key = key.get(..key.len().min(left)).unwrap_or_default();
        left -= key.len();
        let mut headers = Headers::default();
        for (name, value) in &meta.headers {
            // A dead letter that failed again says why it failed now.
            if name.starts_with(DLQ) || *name == "lw_task" || *name == "lw_ordinal" {
                continue;
            }
            let value = value.unwrap_or_default();
            let bytes = name.len() + value.len() + FRAME_BYTES;
            if bytes <= left {
                left -= bytes;
                headers.push((*name).to_owned(), value);
            }
        }
        headers.append(own);
        let value = match (self.content, record.value) {
            (_, None) | (DeadLetterContent::None, _) => None,
            (DeadLetterContent::Hash, Some(value)) => Some(hash_bytes(value).to_string().into_bytes()),
            (DeadLetterContent::Full, Some(value)) => {
                let kept = value.get(..value.len().min(left)).unwrap_or_default();
                if kept.len() < value.len() {
                    headers.push_display("dlq.bytes", value.len());
                }
                Some(kept.to_vec())
            }
        };
        Output {
            destination: Destination::DeadLetters { source_partition: meta.partition },
            key: key.to_vec(),
            value,
            headers,
            timestamp_ms: meta.timestamp.0,
        }
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

/// The id of a dead letter in a task's chain of outputs: the place it came from.
#[must_use]
pub(super) fn dead_letter_id(record: &Record<'_>) -> String {
    format!("{}/{}/{}", record.meta.topic, record.meta.partition, record.meta.offset.0)
}

const fn command_type(action: Action) -> &'static str {
    match action {
        Action::Nudge => "dev.loopwarden.command.nudge.v1",
        Action::Block => "dev.loopwarden.command.block.v1",
        Action::Unblock => "dev.loopwarden.command.unblock.v1",
    }
}

fn text(id: &CommandId) -> String {
    base32(&id.0)
}

fn push_sequence(headers: &mut Headers, epoch: i64, seq: u64) {
    headers.push_display("ce_sequence", format_args!("{:020}-{seq:020}", epoch.max(0)));
}

fn push_place(headers: &mut Headers, task: TaskId, ordinal: u64) {
    headers.push_display("lw_task", task);
    headers.push_display("lw_ordinal", ordinal);
}

fn headers_bytes(headers: &Headers) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len() + FRAME_BYTES).sum()
}

/// An application name inside a URI reference.
fn escape(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Tenant and session, or swarm; returns the agent.
fn subject<'a>(json: &mut Object<'_>, subject: &'a SubjectKey) -> Option<&'a str> {
    let (tenant, agent_id) = match subject {
        SubjectKey::Agent { tenant, agent_id, .. } => (tenant, Some(agent_id.as_str())),
        SubjectKey::Swarm { tenant, .. } | SubjectKey::Fleet { tenant, .. } => (tenant, None),
    };
    if !tenant.is_empty() {
        json.text("tenant", tenant);
    }
    match subject {
        SubjectKey::Agent { session_id, .. } => json.text("session_id", session_id),
        SubjectKey::Swarm { swarm_id, .. } => json.text("swarm_id", swarm_id),
        SubjectKey::Fleet { .. } => {}
    }
    agent_id
}

fn scope(json: &mut Object<'_>, scope: &Scope, agent_id: Option<&str>) {
    json.text("kind", scope.kind.as_str());
    if let Some(agent_id) = agent_id {
        json.text("agent_id", agent_id);
    }
    if let Some(tool) = &scope.tool {
        json.text("tool", tool);
    }
    if let Some((fingerprint, recipe)) = &scope.fingerprint {
        json.text("fingerprint", &fingerprint.to_string());
        json.object("identity", |json| identity(json, recipe));
    }
    if !scope.only.is_empty() {
        json.list("only", &scope.only, |(session_id, agent_id), out| {
            json::object(out, |json| {
                json.text("session_id", session_id);
                json.text("agent_id", agent_id);
            });
        });
    }
}

fn identity(json: &mut Object<'_>, recipe: &IdentityRecipe) {
    let (kind, args, ignored): (_, &[String], &[String]) = match recipe {
        IdentityRecipe::Call { args, args_ignored } => ("call", args, args_ignored),
        IdentityRecipe::Coarse { args } => ("coarse", args, &[]),
        IdentityRecipe::Args => ("args", &[], &[]),
        IdentityRecipe::Opaque => ("opaque", &[], &[]),
    };
    json.text("kind", kind);
    if !args.is_empty() {
        json.texts("args", args);
    }
    if !ignored.is_empty() {
        json.texts("args_ignored", ignored);
    }
}

fn reason(json: &mut Object<'_>, command: &Command) {
    json.text("code", command.reason.as_str());
    if !command.also.is_empty() {
        json.texts("also", command.also.iter().map(|detector| detector.as_str()));
    }
    if let Some(confidence) = command.confidence {
        json.ratio("confidence", confidence);
    }
    json.text("summary", &command.summary);
    if !command.evidence.is_empty() {
        json.object("evidence", |json| {
            for (name, fact) in &command.evidence {
                match fact {
                    Fact::Count(count) => json.number(name, *count),
                    Fact::Ratio(value) => json.ratio(name, *value),
                    Fact::Text(text) => json.text(name, text),
                    Fact::Texts(texts) => json.texts(name, texts),
                }
            }
        });
    }
}

fn trigger(json: &mut Object<'_>, trigger: &Trigger, placement: &Placement) {
    match trigger {
        Trigger::Event { event_id, call_id, topic, partition, offset, time, .. } => {
            json.text("event_id", event_id);
            let append_to = match placement {
                Placement::AppendToResult { call_id } => call_id.as_ref(),
                Placement::NextTurn => None,
            };
            if let Some(call_id) = append_to.or(call_id.as_ref()) {
                json.text("call_id", call_id);
            }
            json.text("topic", topic);
            json.number("partition", *partition);
            json.number("offset", *offset);
            json.time("time", *time);
        }
        Trigger::Window { end } => json.time("window_end", *end),
    }
}

fn row_json(of: &SubjectKey, row: &Row<'_>, at: EventTime) -> Option<String> {
    let expires_at = row.verdicts.iter().map(|verdict| verdict.expires_at).max()?;
    let is_blocked = row.verdicts.iter().any(|verdict| verdict.action == Action::Block);
    Some(json::document(|json| {
        json.number("v", 1_u64);
        let mut agent_id = None;
        json.object("subject", |json| {
            json.text(
                "kind",
                match of {
                    SubjectKey::Agent { .. } => "agent",
                    SubjectKey::Swarm { .. } => "swarm",
                    SubjectKey::Fleet { .. } => "fleet",
                },
            );
            agent_id = subject(json, of);
            if let Some(agent_id) = agent_id {
                json.text("agent_id", agent_id);
            }
            if let SubjectKey::Swarm { fingerprint, .. } | SubjectKey::Fleet { fingerprint, .. } = of {
                json.text("fingerprint", &fingerprint.to_string());
            }
        });
        json.text("status", if is_blocked { "blocked" } else { "nudged" });
        json.number("epoch", row.epoch.max(0));
        json.number("seq", row.seq);
        json.time("updated_at", at);
        json.time("expires_at", expires_at);
        json.list("active", row.verdicts, |active, out| json::object(out, |json| verdict(json, active, agent_id)));
    }))
}

fn verdict(json: &mut Object<'_>, verdict: &Verdict, agent_id: Option<&str>) {
    json.text("command_id", &text(&verdict.command_id));
    json.text("action", verdict.action.as_str());
    json.object("scope", |json| scope(json, &verdict.scope, agent_id));
    json.number("level", verdict.level);
    json.text("episode", &text(&verdict.episode));
    json.text("code", verdict.detector.as_str());
    json.text("message", &verdict.message);
    if let Placement::AppendToResult { call_id } = &verdict.placement {
        json.text("placement", "append_to_result");
        if let Some(call_id) = call_id {
            json.text("call_id", call_id);
        }
    }
    if let Some(advice) = verdict.advice {
        json.text("advice", advice.as_str());
    }
    json.time("issued_at", verdict.issued_at);
    json.time("expires_at", verdict.expires_at);
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::{Advice, ReasonCode, ScopeKind};
    use loopwarden_core::event::{Reason, RecordMeta, RecordOffset, Stage};
    use loopwarden_core::identity::Hash128;
    use loopwarden_core::policy::Detector;

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
                kind: ScopeKind::Agent,
                tool: Some("Bash".to_owned()),
                fingerprint: Some((
                    Hash128(0xa440_4e81_f177_a67d_b9d0_8a78_ed56_6b35),
                    IdentityRecipe::Call { args: Arc::default(), args_ignored: ["description".to_owned()].into() },
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
            r#""scope":{"kind":"agent","agent_id":"main","tool":"Bash","fingerprint":"a4404e81f177a67db9d08a78ed566b35","#,
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
            assert_eq!((encoder.mode_of(false), encoder.mode_of(true)), (live, "shadow"));
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
            detector: Detector::ExactRepeat,
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
        let none = Row { verdicts: &[], epoch: 1, seq: 1 };
        let verdict = [verdict()];
        let some = Row { verdicts: &verdict, ..none };
        for row in [none, some] {
            let has_value = !row.verdicts.is_empty();
            let told = |mode| encoder(mode, DeadLetterContent::Full).row(&subject, &row, TIME, TASK);
            assert_eq!(told(ProcessMode::Live).map(|row| row.value.is_some()), Some(has_value));
            assert_eq!((told(ProcessMode::Shadow), told(ProcessMode::Replay)), (None, None));
        }
    }

    fn letter(content: DeadLetterContent, key: &[u8], value: Option<&[u8]>, header: &[u8]) -> Output {
        let meta = RecordMeta {
            topic: "t",
            partition: 3,
            offset: RecordOffset(9),
            timestamp: TIME,
            key: Some(key),
            headers: vec![("h", Some(header))],
            value_bytes_max: 1,
        };
        let rejected = Rejected { reason: Reason::TooLarge, field: String::new() };
        encoder(ProcessMode::Live, content).dead_letter(&Record { meta, value }, &rejected, TASK, 1)
    }

    fn bytes(output: &Output) -> usize {
        output.key.len() + output.value.as_ref().map_or(0, Vec::len) + headers_bytes(&output.headers)
    }

    #[test]
    fn a_dead_letter_always_fits_and_says_how_large_its_value_was() {
        let large = vec![b'x'; 1_200_000];
        for (key, value, header) in [(10, 1_200_000, 10), (1_200_000, 10, 10), (10, 10, 1_200_000), (900_000, 900_000, 900_000)] {
            let output = letter(DeadLetterContent::Full, &large[..key], Some(&large[..value]), &large[..header]);
            assert!(bytes(&output) <= DEAD_LETTER_BYTES_MAX, "{key} {value} {header}: {}", bytes(&output));
            let kept = output.value.as_ref().unwrap().len();
            let said = output.headers.get("dlq.bytes").map(<[u8]>::to_vec);
            assert_eq!(said, (kept < value).then(|| value.to_string().into_bytes()));
        }
        let whole = letter(DeadLetterContent::Full, b"k", Some(&large[..990_000]), b"v");
        assert_eq!(whole.value.unwrap().len(), 990_000);
    }

    #[test]
    fn a_setting_sends_the_hash_of_a_value_or_nothing() {
        let hash = letter(DeadLetterContent::Hash, b"k", Some(b""), b"v");
        assert_eq!(hash.value.unwrap(), b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(letter(DeadLetterContent::None, b"k", Some(b"secret"), b"v").value, None);
        assert_eq!(letter(DeadLetterContent::Hash, b"k", None, b"v").value, None);
    }

    #[test]
    fn an_application_name_is_escaped_in_the_source() {
        assert_eq!(escape("my app/ü"), "my%20app%2F%C3%BC");
    }
}
