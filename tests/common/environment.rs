//! A program of a test hears nothing of the environment that the test runs in, nor of the file of settings of whoever runs it.

use std::process::Command;

/// Takes all settings out of the command's environment.
pub(crate) fn told_nothing(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LOOPWARDEN_")) {
        command.env_remove(name);
    }
    // Empty: not the user's file either.
    command.env("LOOPWARDEN_CONFIG", "");
}
