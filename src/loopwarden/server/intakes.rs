//! The intakes of a process: a thread for each `[[input]]`.

use std::sync::{Arc, Mutex, PoisonError};

use loopwarden_ingest::mapping::Mapping;
use loopwarden_ingest::{Grant, Tenants};
use loopwarden_ingest::{Sources, otlp};
use loopwarden_intake::{Form, Intake, IntakeReport, IntakeSettings};
use loopwarden_kafka::{KafkaLog, KafkaOptions};
use loopwarden_lane::{Exit, Fleet, SystemClock};
use loopwarden_log::Log as _;
use loopwarden_settings::{Config, InputConfig, InputForm, OtlpSignal};

use crate::failure::Failure;
use crate::http::{Role, Roles};
use crate::mapping_file;

/// Longest wait of one poll. Milliseconds.
const POLL_MS_MAX: u64 = 100;

/// Intakes with what each shows of itself.
pub(super) struct Intakes {
    pub(super) fleet: Fleet,
    pub(super) reports: Reports,
}

/// What each intake shows of itself.
pub(super) type Reports = Vec<Arc<Mutex<IntakeReport>>>;

/// What they show now.
pub(super) fn shown(reports: &[Arc<Mutex<IntakeReport>>]) -> Vec<IntakeReport> {
    reports.iter().map(|report| report.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
}

/// Reads the mappings of all inputs. Nothing is opened yet: what is wrong here is a mistake of the settings.
///
/// # Errors
/// E0202.
pub(crate) fn mappings(config: &Config) -> Result<Vec<Option<Mapping>>, Failure> {
    let read = |(index, input): (usize, &InputConfig)| match &input.mapping {
        Some(path) => mapping_file::named(path, &format!("input[{index}].mapping")).map(Some),
        None => Ok(None),
    };
    config.input.iter().enumerate().map(read).collect::<Result<_, _>>().map_err(Failure::from)
}

/// What the records of a topic are.
fn form_of(input: &InputConfig, mapping: Option<Mapping>) -> Result<Form, Exit> {
    let signal = match input.signal {
        OtlpSignal::Traces => otlp::Signal::Traces,
        OtlpSignal::Logs => otlp::Signal::Logs,
    };
    Ok(match input.form {
        InputForm::Native => Form::Native,
        InputForm::Json => {
            let message = || format!("topic {} is of form json and has no mapping", input.topic);
            Form::Json(mapping.ok_or_else(|| Exit::Fatal { code: "E0202", message: message() })?)
        }
        InputForm::CloudEvents => Form::CloudEvents(mapping),
        InputForm::OtlpProto => Form::Otlp(signal, otlp::Form::Protobuf),
        InputForm::OtlpJson => Form::Otlp(signal, otlp::Form::Json),
    })
}

/// Starts them.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn start(
    config: &Config,
    options: &KafkaOptions,
    mappings: Vec<Option<Mapping>>,
    clock: SystemClock,
    sources: &Arc<Mutex<Sources>>,
) -> Result<Intakes, Failure> {
    let mut fleet = Fleet::new(clock, config.input.len());
    let mut reports = Vec::new();
    for (input, mapping) in config.input.iter().zip(mappings) {
        let (options, settings) = (options.of_intake(&input.topic), settings(config, input));
        let (topic, form) = (input.topic.clone(), input.form.as_str());
        let report = IntakeReport { topic, form, sources: Arc::clone(sources), ..IntakeReport::default() };
        let report = Arc::new(Mutex::new(report));
        reports.push(Arc::clone(&report));
        let input = input.clone();
        fleet.spawn(move || {
            let form = form_of(&input, mapping)?;
            let log = KafkaLog::open(options)?;
            let offsets = log.changelog()?.ok_or_else(|| Exit::Failed("there is no reader of the group's offsets".to_owned()))?;
            Ok(Intake::new(log, offsets, form, settings, report))
        })?;
    }
    Ok(Intakes { fleet, reports })
}

/// What the senders of a topic may say: the broker knows who they are. A reset keeps the name it comes with.
fn grant(input: &InputConfig) -> Grant {
    let roles = Roles::named(&input.roles());
    let may = |role| roles.meet(Roles::of(&[role]));
    let tenants = input.tenants().map_or(Tenants::ALL, |names| Tenants::only(&names));
    Grant { tenants, may_report: may(Role::Source), may_reset: may(Role::Operator), actor: None }
}

fn settings(config: &Config, input: &InputConfig) -> IntakeSettings {
    let kafka = config.kafka.as_ref();
    IntakeSettings {
        app: config.app().to_owned(),
        topic: input.topic.clone(),
        grant: grant(input),
        form: input.form.as_str(),
        dead_letters: kafka.map(|kafka| kafka.dlq_content).unwrap_or_default(),
        on_input_loss: kafka.map(|kafka| kafka.on_input_loss).unwrap_or_default(),
        commit_ms_max: config.commit.commit_ms_max,
        bytes_max: config.commit.overlay_bytes_max,
        records_max: config.commit.overlay_records_max,
        event_bytes_max: config.limits.record_bytes_max,
        poll_ms_max: POLL_MS_MAX,
    }
}
