//! What commands share before they do anything: settings from their layers, the policy, the log, the options of Kafka, the name of a task.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwarden_ask::{CONFIG_FOLDER, user_folder};
use loopwarden_core::{event::Stage, policy::Policy};
use loopwarden_settings::{Config, Diagnostic, Flag, KafkaConfig, Layers, Loaded};

use crate::cli::args::{ConfigArgs, LogArgs, QUIET_LOG};
use crate::{exit_code, failure::Failure, output, telemetry::logging, telemetry::logging::LogControl};

/// Loads the settings of a command.
///
/// # Errors
/// Every problem of every layer.
pub(crate) fn load(args: &ConfigArgs, log: &LogArgs) -> Result<Loaded, Failure> {
    let flag = |name: &str, key: &str, value: &str| Flag { name: name.to_owned(), key: key.to_owned(), value: value.to_owned() };
    let mut flags = args.set.iter().map(|text| Flag::set(text)).collect::<Result<Vec<_>, _>>()?;
    flags.extend(args.data_dir.iter().map(|dir| flag("--data-dir", "data_dir", dir)));
    flags.extend(args.kafka_debug.iter().map(|contexts| flag("--kafka-debug", "kafka.librdkafka.debug", contexts)));
    // Whoever says what is logged is not contradicted.
    let quiet = log.log_level.is_none() && output::is_quiet();
    flags.extend(quiet.then(|| flag("--quiet", "log.level", QUIET_LOG)));
    flags.extend(log.log_level.iter().map(|filter| flag("--log-level", "log.level", filter)));
    flags.extend(log.log_format.iter().map(|format| flag("--log-format", "log.format", format.as_str())));
    let layers = Layers { file: args.config.clone().or_else(usual_file), environment: environment(), flags };
    let loaded = loopwarden_settings::load(&layers)?;
    if let Err(bad) = logging::check(&loaded.config.log.level) {
        return Err(Diagnostic::new("E0202", bad.to_string())
            .help("a filter is a level, or target=level, separated by commas")
            .into());
    }
    Ok(loaded)
}

/// The file of settings where nobody names one: the user's, which `init` writes, else that of the host. `LOOPWARDEN_CONFIG` names another one,
/// or none where it is empty.
fn usual_file() -> Option<PathBuf> {
    if std::env::var_os("LOOPWARDEN_CONFIG").is_some() {
        return None;
    }
    let folders = user_folder(CONFIG_FOLDER).into_iter().chain([PathBuf::from("/etc")]);
    folders.map(|folder| settings_below(&folder)).find(|path| path.is_file())
}

/// The file of settings below a folder of settings.
pub(crate) fn settings_below(folder: &Path) -> PathBuf {
    folder.join("loopwarden/loopwarden.toml")
}

/// The environment. What is no UTF-8 cannot be a setting.
fn environment() -> Vec<(String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

/// Starts to log as the settings say.
///
/// # Errors
/// The filter cannot be understood.
pub(crate) fn log_as_configured(config: &Config) -> Result<LogControl, Failure> {
    logging::start(config.log.format, &config.log.level).map_err(|bad| Diagnostic::new("E0202", bad.to_string()).into())
}

/// Starts to log for a command without settings: warnings, unless asked for more.
///
/// # Errors
/// The filter cannot be understood.
pub(crate) fn log_quietly(args: &LogArgs) -> Result<LogControl, Failure> {
    let from_environment = || std::env::var("LOOPWARDEN_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = args
        .log_level
        .clone()
        .or_else(from_environment)
        .unwrap_or_else(|| if output::is_quiet() { QUIET_LOG } else { "warn" }.to_owned());
    logging::start(args.log_format.unwrap_or_default(), &filter).map_err(|bad| Diagnostic::new("E0202", bad.to_string()).into())
}

/// Loads the policy that the settings name.
///
/// # Errors
/// Every problem of the policy.
pub(crate) fn policy(name_or_path: &str) -> Result<Arc<Policy>, Failure> {
    Ok(Arc::new(loopwarden_settings::policy::load(name_or_path)?))
}

/// The settings of Kafka, for commands that make no sense without.
///
/// # Errors
/// There are none.
pub(crate) fn kafka_of(config: &Config) -> Result<&KafkaConfig, Failure> {
    config.kafka.as_ref().ok_or_else(|| {
        Diagnostic::new("E0202", "kafka.bootstrap_servers is not set, so there is no Kafka to ask")
            .help("as in: --set kafka.bootstrap_servers=localhost:9092, or in the file that --config names")
            .into()
    })
}

/// The stage and partition that an argument names.
pub(crate) fn task_of(id: &str) -> Result<(Stage, u32), Failure> {
    // As people write it, and as log lines do.
    let parsed = id.split_once([':', '/']).and_then(|(stage, partition)| {
        let stage = [Stage::Session, Stage::Swarm].into_iter().find(|known| known.as_str() == stage)?;
        Some((stage, partition.parse().ok()?))
    });
    parsed.ok_or_else(|| Failure::new(exit_code::USAGE, format!("error: {id:?} is no task; one is session:3, or swarm:0")))
}
