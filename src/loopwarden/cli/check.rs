//! `check`: configuration, policy and native settings; with `--connect` what the brokers say.

use loopwarden_core::policy::{Detector, Policy};
use loopwarden_kafka::admin::topics::{Admin, Severity, TopicProblem};
use loopwarden_kafka::client::{fate, settings};
use loopwarden_kafka::{KafkaOptions, admin::permissions};
use loopwarden_settings::{Config, Diagnostic, KafkaConfig};

use crate::cli::args::{CheckArgs, LogArgs};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, say};
use crate::server::{kafka_options, topic_problem, topic_problems};
use crate::{cli::shared::setup, cli::topics, exit_code, mapping_file, server};

/// Looks for mistakes.
///
/// # Errors
/// All that were found, with the exit code of the first.
pub fn run(args: &CheckArgs, log: &LogArgs) -> Outcome {
    let config = setup::load(&args.config, log)?.config;
    let mut failures = Vec::new();
    let mut out = Output::stdout();
    out.line(format!("configuration  ok: mode {}, instance {}, {} lanes", config.mode.as_str(), config.instance, config.lanes))?;
    match loopwarden_settings::policy::load_with(&config.policy, &serde_json::Map::new()) {
        Ok(loaded) => {
            out.line(format!("policy         ok: {} ({})", loaded.policy.profile, loaded.policy.hash))?;
            if loaded.adds_no_tool {
                out.line(
                    "               warning: tool = [] leaves the base's [[tool]] in force; base_tools = false takes them away",
                )?;
            }
            for told in &loaded.without_effect {
                out.line(format!("               warning: {told}"))?;
            }
            if let Some(told) = nudging(&loaded.policy) {
                out.line(told)?;
            }
        }
        Err(problems) => failures.push(problems.into()),
    }
    // May be for another machine, whose environment names it.
    if config.data_dir.is_none() {
        out.line("data_dir       not set: `run` needs it, from here, from LOOPWARDEN_DATA_DIR or from --data-dir")?;
    }
    failures.extend(server::door(&config).err());
    if let Err(problem) = mapping_file::of_settings(&config) {
        failures.push(problem.into());
    }
    failures.extend(server::mappings(&config).err());
    failures.extend(server::webhooks(&config).err());
    match &config.kafka {
        None => out.line("kafka          not set: embedded mode, events come in over HTTP")?,
        Some(kafka) => match native(&config, kafka) {
            Err(failure) => failures.push(failure),
            Ok(options) => {
                out.line(format!("kafka          settings ok: {}", kafka.bootstrap_servers))?;
                if args.connect {
                    setup::log_as_configured(&config)?;
                    let webhooks: Vec<&str> = config.webhook.iter().map(|webhook| webhook.name.as_str()).collect();
                    failures.extend(connect(&options, (&topics::inputs(&config), &webhooks), &mut out)?);
                }
            }
        },
    }
    if args.connect && config.kafka.is_none() {
        failures.push(match setup::kafka_of(&config) {
            Err(failure) => failure,
            Ok(_) => Failure::silent(exit_code::FAILED),
        });
    }
    out.flush()?;
    let Some(first) = failures.first() else { return Ok(()) };
    let messages: Vec<String> = failures.iter().filter_map(|failure| failure.message.clone()).collect();
    Err(Failure::new(first.exit, messages.join("\n\n")))
}

/// Who asks for blocks where only nudges can come.
fn nudging(policy: &Policy) -> Option<String> {
    let names: Vec<&str> = policy.detectors.that_only_nudge().into_iter().map(Detector::as_str).collect();
    (!names.is_empty() && !policy.fusion.decides).then(|| {
        format!(
            "               mode \"block\" is as \"nudge\" for {}: they have no count of a block, and detectors do not decide together",
            names.join(", ")
        )
    })
}

fn native(config: &Config, kafka: &KafkaConfig) -> Result<KafkaOptions, Failure> {
    let options = kafka_options(config, kafka, 0)?;
    settings::check(&options).map_err(|bad| Diagnostic::new("E0207", bad.to_string()))?;
    Ok(options)
}

fn connect(options: &KafkaOptions, (inputs, webhooks): (&[String], &[&str]), out: &mut Output) -> Result<Vec<Failure>, Failure> {
    let admin = match Admin::new(options).and_then(|admin| admin.cluster_id(&|told| say(told)).map(|cluster| (admin, cluster))) {
        Ok((admin, cluster)) => {
            out.line(format!("brokers        ok: cluster {cluster} on {}", options.bootstrap_servers))?;
            admin
        }
        Err(error) => return Ok(vec![error.into()]),
    };
    let problems = match topics::compare(&admin, options, inputs) {
        Ok(problems) => problems,
        Err(failure) => return Ok(vec![failure]),
    };
    for problem in problems.iter().filter(|problem| problem.severity == Severity::Warning) {
        out.line(topic_problem(problem))?;
    }
    let errors: Vec<&TopicProblem> = problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
    if errors.is_empty() {
        out.line("topics         ok")?;
    }
    let is_hidden = |problem: &TopicProblem| problem.code == fate::E_NOT_AUTHORISED;
    let (hidden, unknown): (Vec<_>, Vec<_>) = errors.iter().partition(|problem| is_hidden(problem));
    let names = |problems: Vec<&&TopicProblem>| problems.iter().map(|problem| problem.topic.clone()).collect::<Vec<_>>();
    let denied = permissions::missing(options, (inputs, webhooks), &names(unknown), &names(hidden))?;
    if denied.is_empty() && !problems.iter().any(is_hidden) {
        out.line("permissions    ok")?;
    }
    // A topic that is not even seen is told by the permission that is needed there.
    let is_told = |topic: &str| denied.iter().any(|missing| missing.topic.as_deref() == Some(topic));
    let shown: Vec<&TopicProblem> =
        errors.iter().copied().filter(|problem| !is_hidden(problem) || !is_told(&problem.topic)).collect();
    let mut failures: Vec<Failure> =
        topic_problems(&shown).into_iter().map(|(code, line)| Failure::new(exit_code::of_error(code), line)).collect();
    failures.extend(denied.into_iter().map(|missing| Failure::coded(fate::E_NOT_AUTHORISED, missing.message)));
    Ok(failures)
}
