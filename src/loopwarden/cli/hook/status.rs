//! `hook status`: which hooks are there, and who answers them.

use std::path::PathBuf;

use clap::{Args, builder::PossibleValuesParser};
use loopwarden_settings::Diagnostic;
use loopwarden_sources::install::Target;
use serde_json::json;

use crate::cli::hook::setting::{PlaceArgs, Setting, agents, failed};
use crate::cli::hook::{files, program};
use crate::failure::{Failure, Outcome};
use crate::{cli::args::PlainFormat, cli::hook::answering::Answering, output::Output};

/// `hook status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The agent; without: a list of all
    #[arg(value_name = "AGENT", value_parser = PossibleValuesParser::new(agents()))]
    pub agent: Option<String>,
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t)]
    pub output: PlainFormat,
    /// Where its hooks are.
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// Columns of an agent's name in the list of all.
const NAME_COLUMNS: usize = 12;

/// Tells it of one agent, or of all.
///
/// # Errors
/// A file cannot be read or understood; nothing is installed.
pub(super) fn run(args: &StatusArgs) -> Outcome {
    let mut out = Output::stdout();
    if args.output == PlainFormat::Json {
        return as_json(args, &mut out);
    }
    let total = match &args.agent {
        Some(agent) => {
            out.line(program::line(agent))?;
            let found = look(agent, args)?;
            for line in &found.lines {
                out.line(line)?;
            }
            found.count
        }
        None => list(args, &mut out)?,
    };
    for line in Answering::at(args.place.address).lines() {
        out.line(line)?;
    }
    let setting = Setting::of("", &args.place, false)?;
    if let Ok(failures) = std::fs::read_to_string(setting.cache.join("loopwarden/hook-failures")) {
        let line: String = failures.lines().next().unwrap_or_default().chars().filter(|letter| !letter.is_control()).collect();
        out.line(format!("failures of loopwarden-hook in a row, and the last one: {line}"))?;
    }
    let forgotten = std::fs::read_to_string(setting.cache.join("loopwarden/hook-forgotten"));
    if let Some(count) = forgotten.ok().and_then(|text| text.trim().parse::<u64>().ok()) {
        let message = format!("{count} refusals of stopped agents had no room: where no guard answers, these agents go on");
        let help = "release what need not be stopped, then remove the file hook-forgotten";
        out.line(Diagnostic::new("W0703", message).help(help).to_string())?;
    }
    out.flush()?;
    if total == 0 { Err(Failure::answer_is_no()) } else { Ok(()) }
}

/// The same as a JSON object. Programs of agents are not started.
fn as_json(args: &StatusArgs, out: &mut Output) -> Outcome {
    let agents: Vec<&str> = args.agent.as_deref().map_or_else(|| agents().collect(), |agent| vec![agent]);
    let (mut rows, mut total) = (Vec::new(), 0);
    for agent in agents {
        rows.push(match look(agent, args) {
            Ok(found) => {
                total += found.count;
                json!({ "agent": agent, "hooks": found.count, "files": found.lines, "todo": found.todo })
            }
            Err(Failure { message, .. }) => json!({ "agent": agent, "hooks": null, "error": message }),
        });
    }
    out.line(json!({ "agents": rows, "process": Answering::at(args.place.address).to_json() }).to_string())?;
    out.flush()?;
    if total == 0 { Err(Failure::answer_is_no()) } else { Ok(()) }
}

/// What was found of one agent.
struct Found {
    /// Hooks of ours.
    count: usize,
    /// Its files, one each.
    lines: Vec<String>,
    /// What its user has to do first.
    todo: Option<String>,
}

/// A line for each agent. Their programs are not started: that takes seconds.
fn list(args: &StatusArgs, out: &mut Output) -> Result<usize, Failure> {
    let mut total = 0;
    for agent in agents() {
        let told = match look(agent, args) {
            Ok(found) => {
                total += found.count;
                let todo = found.todo.map(|todo| format!("; {todo}")).unwrap_or_default();
                format!("{}{todo}", if found.count == 0 { "no hooks of loopwarden" } else { "installed" })
            }
            // One file that cannot be read hides nothing of the others.
            Err(Failure { message, .. }) => message.unwrap_or_default(),
        };
        out.line(format!("{agent:<NAME_COLUMNS$} {told}"))?;
    }
    Ok(total)
}

fn look(agent: &str, args: &StatusArgs) -> Result<Found, Failure> {
    let mut setting = Setting::of(agent, &args.place, false)?;
    setting.place.program.get_or_insert_with(|| PathBuf::from("loopwarden-hook"));
    let mut found = Found { count: 0, lines: Vec::new(), todo: None };
    for target in setting.targets()? {
        let count = files::count(&target).map_err(|problem| failed(&problem))?;
        found.count += count;
        let (Target::Shared(path, _) | Target::Own(path, ..)) = &target;
        let state = if count == 0 { "no hooks of loopwarden" } else { "installed" };
        found.lines.push(format!("{}: {state}", path.display()));
        if agent == "codex" && count > 0 {
            let home = setting.place.moved.clone().unwrap_or_else(|| setting.place.home.join(".codex"));
            let config = std::fs::read_to_string(home.join("config.toml")).unwrap_or_default();
            let trusted = program::trusted_by_codex(&config, path);
            if trusted >= count {
                found.lines.push("trusted in Codex".to_owned());
            } else {
                let todo = format!("{trusted} of {count} trusted: Codex skips the others without a word; open /hooks in Codex");
                found.lines.push(todo.clone());
                found.todo = Some(todo);
            }
        }
    }
    Ok(found)
}
