//! `topics`: the topics as they should be, created and compared.

use std::fmt::Write as _;

use loopwarden_kafka::admin::topics::{Admin, Created, Severity, TopicPlan, TopicProblem};
use loopwarden_kafka::{KafkaOptions, admin::topics, client::fate};
use loopwarden_lab::report::{Table, counted};
use loopwarden_log::LogError;
use loopwarden_settings::{Config, KafkaConfig};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::args::{ConfigArgs, LogArgs, PlainFormat, TopicFormat, TopicsCommand};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, OutputFormat, say};
use crate::server::{kafka_options, topic_problem, topic_problems};
use crate::{cli::grow, cli::shared::setup};

/// Prints, creates or compares.
///
/// # Errors
/// Settings, brokers, or topics that are not as they must be.
pub fn run(command: &TopicsCommand, log: &LogArgs) -> Outcome {
    match command {
        TopicsCommand::Print { config, size, format } => {
            let config = setup::load(config, log)?.config;
            let options = options_to_print(&config)?;
            let plans = topics::plan(&options, size.partitions, size.replication.unwrap_or(topics::REPLICATION_DEFAULT));
            print(&plans, *format)
        }
        TopicsCommand::Create { config, size, output } => {
            let (options, _, admin) = connect(config, log)?;
            let replication = match size.replication {
                Some(replication) => replication,
                None => topics::REPLICATION_DEFAULT.min(admin.brokers()?.max(1)),
            };
            create(&admin, &topics::plan(&options, size.partitions, replication), *output)
        }
        TopicsCommand::Grow(args) => {
            setup::log_quietly(log)?;
            grow::run(args, &setup::load(&args.config, log)?.config)
        }
        TopicsCommand::Check { config, output } => {
            let (options, inputs, admin) = connect(config, log)?;
            let problems = compare(&admin, &options, &inputs)?;
            let mut out = Output::stdout();
            let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
            let warnings = problems.len() - errors;
            match output {
                PlainFormat::Text => {
                    for (_, line) in topic_problems(&problems.iter().collect::<Vec<_>>()) {
                        out.line(line)?;
                    }
                    out.line(format!("{}, {}", counted(errors as u64, "error"), counted(warnings as u64, "warning")))?;
                }
                PlainFormat::Json => {
                    let told = |problem: &TopicProblem| {
                        json!({ "topic": problem.topic, "code": problem.code, "is_error": problem.severity == Severity::Error,
                            "message": topic_problem(problem) })
                    };
                    let problems: Vec<Value> = problems.iter().map(told).collect();
                    out.line(json!({ "errors": errors, "warnings": warnings, "problems": problems }).to_string())?;
                }
            }
            out.flush()?;
            match problems.iter().find(|problem| problem.severity == Severity::Error) {
                Some(problem) => Err(Failure::silent(crate::exit_code::of_error(problem.code))),
                None => Ok(()),
            }
        }
    }
}

fn connect(args: &ConfigArgs, log: &LogArgs) -> Result<(KafkaOptions, Vec<String>, Admin), Failure> {
    let config = setup::load(args, log)?.config;
    setup::log_quietly(log)?;
    let options = kafka_options(&config, setup::kafka_of(&config)?, 0)?;
    let admin = Admin::new(&options)?;
    // As `run` does: it alone says why no broker answers.
    admin.cluster_id(&|told| say(told))?;
    Ok((options, inputs(&config), admin))
}

/// Topics of others that are read from.
pub fn inputs(config: &Config) -> Vec<String> {
    config.input.iter().map(|input| input.topic.clone()).collect()
}

/// Compares the topics with the plan for as many partitions and copies as the event topic has, and looks for those of `inputs`.
///
/// # Errors
/// Brokers that do not answer, or do not allow to ask.
pub fn compare(admin: &Admin, options: &KafkaOptions, inputs: &[String]) -> Result<Vec<TopicProblem>, Failure> {
    // Where it may not be looked at, the comparison below says so.
    let input = match admin.describe(&options.topics.input) {
        Err(LogError::Fatal { code: fate::E_NOT_AUTHORISED, .. }) => None,
        input => input?,
    };
    let (partitions, replication) =
        input.map_or((topics::PARTITIONS_DEFAULT, topics::REPLICATION_DEFAULT), |facts| (facts.partitions, facts.replication));
    let plans = topics::plan(options, partitions, replication);
    let mut problems = admin.check(&plans, false)?;
    // Only where something is missing it matters whether the group has ever worked: then an internal topic has vanished.
    let is_missing = |problem: &TopicProblem| problem.code == fate::E_TOPIC_MISSING && problem.topic != options.topics.input;
    if problems.iter().any(is_missing) && admin.group_has_offsets(options).unwrap_or(false) {
        problems = admin.check(&plans, true)?;
    }
    problems.extend(admin.check_inputs(inputs)?);
    Ok(problems)
}

/// A topic after `topics create`.
#[derive(Serialize, Default)]
struct TopicRow {
    topic: String,
    partitions: Option<u32>,
    replication: Option<u16>,
    state: &'static str,
}

fn create(admin: &Admin, plans: &[TopicPlan], format: OutputFormat) -> Outcome {
    let row = |(topic, created): (String, Created)| {
        let plan = plans.iter().find(|plan| plan.name == topic);
        let state = match created {
            Created::New => "created",
            Created::Existed => "was there, unchanged",
        };
        let (partitions, replication) = (plan.map(|plan| plan.partitions), plan.map(|plan| plan.replication));
        TopicRow { topic, partitions, replication, state }
    };
    let table = Table::of(admin.create(plans)?.into_iter().map(row));
    let mut out = Output::stdout();
    out.table(&table, format)?;
    Ok(out.flush()?)
}

/// Without brokers the names alone are wanted: those of the defaults.
fn options_to_print(config: &Config) -> Result<KafkaOptions, Failure> {
    let layers = loopwarden_settings::Layers {
        flags: vec![
            loopwarden_settings::Flag::set("kafka.bootstrap_servers=localhost:9092")?,
            loopwarden_settings::Flag::set("instance=print")?,
        ],
        ..loopwarden_settings::Layers::default()
    };
    let defaults = loopwarden_settings::load(&layers)?.config;
    let none: Option<&KafkaConfig> = config.kafka.as_ref();
    match none.or(defaults.kafka.as_ref()) {
        // Neither a password nor a token is needed for names.
        Some(kafka) => kafka_options(config, &KafkaConfig { password_file: None, sasl_mechanism: None, ..kafka.clone() }, 0),
        None => Err(Failure::coded("E0202", "kafka.bootstrap_servers is not set")),
    }
}

fn print(plans: &[TopicPlan], format: TopicFormat) -> Outcome {
    let mut out = Output::stdout();
    match format {
        TopicFormat::Plain => {
            for plan in plans {
                out.line(format!("{}  ({} partitions, {} copies)", plan.name, plan.partitions, plan.replication))?;
                for (key, value) in &plan.config {
                    out.line(format!("  {key}={value}"))?;
                }
            }
        }
        TopicFormat::Strimzi => {
            for plan in plans {
                out.text(strimzi(plan))?;
            }
        }
        TopicFormat::Json => {
            let topics: Vec<Value> = plans
                .iter()
                .map(|plan| {
                    let config: serde_json::Map<String, Value> =
                        plan.config.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())).collect();
                    serde_json::json!({ "name": plan.name, "partitions": plan.partitions, "replication": plan.replication,
                        "internal": plan.purpose.is_internal(), "config": config })
                })
                .collect();
            out.line(format!("{:#}", Value::Array(topics)))?;
        }
    }
    Ok(out.flush()?)
}

/// A `KafkaTopic` resource. Names of topics and settings are plain words, so nothing needs quoting but what YAML would read as a
/// number or a boolean, and there both are meant.
fn strimzi(plan: &TopicPlan) -> String {
    let mut text = format!(
        "---\napiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata:\n  name: {}\n  labels: {{ strimzi.io/cluster: kafka }}\nspec:\n  \
         partitions: {}\n  replicas: {}\n  config:\n",
        plan.name, plan.partitions, plan.replication
    );
    for (key, value) in &plan.config {
        let _ = writeln!(text, "    {key}: {value}");
    }
    text
}
