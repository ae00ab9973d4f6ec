//! `webhook test`: what a receiver of commands answers, without a loop.

use clap::{Args, Subcommand};
use loopwarden_settings::closest;

use crate::cli::args::{ConfigArgs, LogArgs};
use crate::failure::{Failure, Outcome};
use crate::{cli::shared::setup, exit_code, output::Output, server};

/// `webhook`: whoever receives commands at a URL.
#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Send made-up commands, one of each action that a webhook sends, and show what the receiver answers
    ///
    /// They have the mode `replay`, which binds nobody, and the session `loopwarden-webhook-test`. No process needs to run.
    #[command(after_long_help = "Examples:
  loopwarden webhook test --config loopwarden.toml
  loopwarden webhook test team-chat --config loopwarden.toml")]
    Test(TestArgs),
}

/// Which webhooks `webhook test` is about.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Of this webhook; without: of all
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Where the tables `[[webhook]]` stand.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Sends to one webhook, or to each of them.
///
/// # Errors
/// Settings, no webhook of that name, or a receiver that does not take a command.
pub fn run(command: &WebhookCommand, log: &LogArgs) -> Outcome {
    let WebhookCommand::Test(args) = command;
    let config = setup::load(&args.config, log)?.config;
    setup::log_quietly(log)?;
    let mut webhooks = server::webhooks(&config)?;
    if let Some(name) = &args.name {
        webhooks.retain(|webhook| webhook.name == *name);
    }
    if webhooks.is_empty() {
        return Err(nothing(args.name.as_deref(), &config));
    }
    let mut out = Output::stdout();
    let mut failed = Vec::new();
    for webhook in &webhooks {
        match webhook.client.test() {
            Ok(answers) => {
                for (action, status) in answers {
                    out.line(format!("{}: {action} taken, {status}", webhook.name))?;
                }
            }
            Err((action, why)) => failed.push(format!("error: {}: {action} not taken: {why}", webhook.name)),
        }
    }
    out.flush()?;
    if failed.is_empty() {
        return Ok(());
    }
    failed.push(
        "  does `url` fit `format`, and are the token and the certificates right? The page webhooks has an example of each"
            .to_owned(),
    );
    Err(Failure::new(exit_code::FAILED, failed.join("\n")))
}

/// Why there is nothing to test.
fn nothing(name: Option<&str>, config: &loopwarden_settings::Config) -> Failure {
    let names: Vec<&str> = config.webhook.iter().map(|webhook| webhook.name.as_str()).collect();
    let message = match name {
        Some(name) if !names.is_empty() => {
            let meant =
                closest(name, names.iter().copied()).map(|meant| format!(" (did you mean {meant:?}?)")).unwrap_or_default();
            format!("error: there is no webhook {name:?}{meant}; those there: {}", names.join(", "))
        }
        _ => "error: the settings have no table [[webhook]]; name their file: --config FILE".to_owned(),
    };
    Failure::new(exit_code::USAGE, message)
}
