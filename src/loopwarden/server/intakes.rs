//! The intakes of a process: a lane for each `[[input]]`, which makes events of a foreign topic.

use std::sync::Arc;

use loopwarden_core::engine::SessionEngine;
use loopwarden_kafka::{KafkaLog, KafkaOptions};
use loopwarden_lane::{
    Exit, Fleet, Foreign, ForeignSettings, Form, GroupRestorer, IntakeReport, Lane, LaneHandle, LaneSettings, Leases,
};
use loopwarden_log::Log as _;
use loopwarden_settings::{Config, InputConfig, InputForm, OtlpSignal};
use loopwarden_sources::mapping::Mapping;
use loopwarden_sources::{Grant, Tenants, otlp};
use loopwarden_state::MemoryStore;

use crate::http::{Role, Roles};
use crate::{failure::Failure, mapping_file, server::spec::DeploymentSpec};

/// Longest wait of one poll. Milliseconds.
const POLL_MS_MAX: u64 = 100;

/// What they show of themselves, as far as they have opened their logs.
pub(super) fn reports(intakes: &[LaneHandle]) -> Vec<IntakeReport> {
    intakes.iter().filter_map(|intake| intake.report().intake).collect()
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
pub(super) fn start(spec: &DeploymentSpec<'_>, options: &KafkaOptions, mappings: Vec<Option<Mapping>>) -> Result<Fleet, Failure> {
    let inputs = &spec.config.input;
    let mut fleet = Fleet::new(spec.clock, inputs.len());
    for (input, mapping) in inputs.iter().zip(mappings) {
        let lane_settings =
            Arc::new(LaneSettings { poll_ms_max: POLL_MS_MAX, swarm: false, aligns_sources: false, ..spec.settings() });
        let options = options.of_intake(&input.topic);
        let (settings, sources, policy) = (settings(spec.config, input), Arc::clone(&spec.sources), Arc::clone(spec.policy));
        let input = input.clone();
        fleet.spawn(move || {
            let foreign = Foreign::new(form_of(&input, mapping)?, settings, sources);
            let log = KafkaLog::open(options)?;
            let offsets = log.changelog()?.ok_or_else(|| Exit::Failed("there is no reader of the group's offsets".to_owned()))?;
            let restorer = Box::new(GroupRestorer::new(offsets, input.topic, lane_settings.on_input_loss));
            let engine = SessionEngine::new("loopwarden", policy);
            Ok(Lane::new(log, MemoryStore::new(), engine, restorer, Leases::new(), lane_settings).with_foreign(foreign))
        })?;
    }
    Ok(fleet)
}

/// What the senders of a topic may say. Only the broker knows who they are: their acts have the name of the topic.
fn grant(input: &InputConfig) -> Grant {
    let roles = Roles::named(&input.roles());
    let may = |role| roles.meet(Roles::of(&[role]));
    let tenants = input.tenants().map_or(Tenants::ALL, |names| Tenants::only(&names));
    let actor = Some(format!("topic:{}", input.topic).into());
    Grant { tenants, may_report: may(Role::Source), may_act: may(Role::Operator), actor }
}

fn settings(config: &Config, input: &InputConfig) -> ForeignSettings {
    ForeignSettings {
        app: config.app().to_owned(),
        topic: input.topic.clone(),
        grant: grant(input),
        form: input.form.as_str(),
        event_bytes_max: config.limits.record_bytes_max,
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_settings::Layers;

    use super::*;

    #[test]
    fn acts_of_a_topic_have_its_name_and_none_that_they_bring() {
        let file = std::env::temp_dir().join(format!("loopwarden-intakes-{}.toml", std::process::id()));
        let text = "[kafka]\nbootstrap_servers = \"h:1\"\n[[input]]\ntopic = \"a\"\nroles = \"operator\"\n";
        std::fs::write(&file, text).unwrap();
        let config = loopwarden_settings::load(&Layers { file: Some(file.clone()), ..Layers::default() }).unwrap().config;
        std::fs::remove_file(file).unwrap();
        let input = config.input.first().unwrap();
        assert_eq!(grant(input).actor.as_deref(), Some("topic:a"));
    }
}
