//! What to say to a word that the command line does not know: the command, or the setting, that was meant.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, Error};
use loopwarden_settings::closest;

use crate::cli::command_line::CommandLine;

/// Flags that other programs have, and the setting that is meant: before and behind the value.
const SETTINGS: [(&str, &str, &str); 4] = [
    ("--mode", "mode=", "live"),
    ("--port", "http.listen=127.0.0.1:", "9464"),
    ("--listen", "http.listen=", "127.0.0.1:9464"),
    ("--policy", "policy=", "default"),
];

/// The same error, with a tip where one is known.
pub(crate) fn advised(mut error: Error, arguments: &[OsString]) -> Error {
    let words: Vec<&str> = arguments.iter().skip(1).filter_map(|argument| argument.to_str()).collect();
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand if error.get(ContextKind::SuggestedSubcommand).is_none() => {
            let Some(written) = text(ContextKind::InvalidSubcommand) else { return error };
            let mut root = CommandLine::command();
            // The help of each command is one of its commands.
            root.build();
            let names = of(&root, &words, &written);
            match closest(&written, names.iter().map(String::as_str)).map(str::to_owned) {
                Some(meant) => {
                    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant]));
                }
                None => tip(&mut error, format!("commands there: {}", names.join(", "))),
            }
        }
        ErrorKind::UnknownArgument => {
            let Some(written) = text(ContextKind::InvalidArg) else { return error };
            let flag = written.split('=').next().unwrap_or_default();
            let Some((_, before, default)) = SETTINGS.iter().find(|(name, ..)| *name == flag) else { return error };
            // Only `run` and `check` are about the whole of the settings.
            if words.iter().any(|word| ["run", "check"].contains(word)) {
                let value = value(&words, flag).unwrap_or(default);
                // What clap thinks similar is not.
                error.remove(ContextKind::SuggestedArg);
                tip(&mut error, format!("it is a setting: --set {before}{value}"));
            }
        }
        _ => {}
    }
    error
}

fn tip(error: &mut Error, text: String) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(text)]));
}

/// The names of the commands where a word stands that is none.
fn of(root: &Command, words: &[&str], written: &str) -> Vec<String> {
    let before = words.iter().take_while(|word| **word != written).filter(|word| **word != "help");
    let place = before.fold(root, |command, word| command.find_subcommand(word).unwrap_or(command));
    place.get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// What is written behind a flag.
fn value<'a>(words: &[&'a str], flag: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| word.split('=').next() == Some(flag))?;
    match words.get(at)?.split_once('=') {
        Some((_, value)) => Some(value),
        None => words.get(at + 1).copied().filter(|word| !word.starts_with('-')),
    }
}
