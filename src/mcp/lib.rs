//! A proxy between an MCP client and its server on standard input and output.
//!
//! ```text
//!   client ──► relay ──► server      `tools/call`: asked before; a refused one is answered here and never reaches the server
//!   client ◄── relay ◄── server      its result: told after; a nudge is one more text of it
//! ```
//!
//! Every other byte passes as it is, in order. What is no JSON-RPC, or longer than [`LINE_BYTES_MAX`], passes unread. Whatever is wrong with
//! the guard, calls run.

mod calls;
mod circuit;
mod content;
mod desk;
mod events;
mod line;
mod message;
mod open_calls;
mod relay;
mod server;

use std::{ffi::OsString, path::Path, time::Duration};

pub use calls::{Answers, Calls, with};
pub use line::LINE_BYTES_MAX;
use loopwarden_ask::GuardEndpoint;
pub use loopwarden_ask::wait;

use crate::desk::Desk;

/// How it is called.
pub const USAGE: &str = "mcp-proxy [--name NAME] [--session ID] [--address ADDRESS] -- COMMAND [ARGUMENT...]";

/// What to run, and how it is called in events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Name of the server; none: that of its program.
    pub name: Option<String>,
    /// Session of the agent; none: one of its own for each start.
    pub session: Option<String>,
    /// Where the guard is: `host:port`, or `unix:` and a path; none: as for hooks.
    pub address: Option<String>,
    /// The server's program and its arguments.
    pub command: Vec<OsString>,
}

impl Options {
    /// Reads the arguments behind `mcp-proxy`.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let field = match argument.to_str() {
                Some("--") => {
                    options.command = arguments.collect();
                    break;
                }
                Some("--name") => &mut options.name,
                Some("--session") => &mut options.session,
                Some("--address") => &mut options.address,
                _ => return Err(format!("{} is no option; usage: {USAGE}", argument.display())),
            };
            let value = arguments.next().and_then(|value| value.into_string().ok());
            *field = Some(value.ok_or_else(|| format!("{} needs a value; usage: {USAGE}", argument.display()))?);
        }
        if options.command.is_empty() {
            return Err(format!("there is no command behind --; usage: {USAGE}"));
        }
        Ok(options)
    }

    /// Name of the server in events.
    fn server_name(&self) -> String {
        let program = || Some(Path::new(self.command.first()?).file_name()?.to_string_lossy().into_owned());
        self.name.clone().or_else(program).unwrap_or_default()
    }
}

/// Runs the server behind the proxy until it ends. Returns its exit code: that of a signal is 128 and its number; 127 if it cannot be started.
pub fn run(options: &Options) -> u8 {
    server::run(&options.command, desk(options, wait()))
}

/// Calls of a session that has no pipe of its own, for a proxy over HTTP.
pub fn calls(options: &Options, wait: Duration) -> Calls {
    Calls::new(desk(options, wait))
}

fn desk(options: &Options, wait: Duration) -> Desk {
    let mut place = GuardEndpoint::find();
    if let Some(address) = &options.address {
        address.clone_into(&mut place.address);
    }
    Desk::new(place, wait, &options.server_name(), options.session.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Options, String> {
        Options::read(arguments.iter().map(OsString::from))
    }

    #[test]
    fn what_stands_behind_the_dashes_is_the_server_s_own() {
        let options = read(&["--name", "db", "--", "npx", "--name", "--", "x"]).unwrap();
        assert_eq!(
            (options.name.as_deref(), options.command),
            (Some("db"), ["npx", "--name", "--", "x"].map(Into::into).to_vec())
        );
        assert_eq!(read(&["--", "/bin/db-server", "-v"]).unwrap().server_name(), "db-server");
        for bad in [&[][..], &["--"], &["npx"], &["--name"], &["--address", "x"]] {
            assert!(read(bad).unwrap_err().contains(USAGE), "{bad:?}");
        }
    }
}
