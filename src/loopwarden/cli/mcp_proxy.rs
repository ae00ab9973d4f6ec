//! `mcp-proxy`: an MCP server behind a proxy that asks the guard about each call of a tool.

use std::ffi::OsString;

use clap::Args;
use loopwarden_mcp::Options;

use crate::failure::{Failure, Outcome};

/// `mcp-proxy`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example, as an MCP client runs its server:
  loopwarden mcp-proxy -- npx -y @modelcontextprotocol/server-filesystem .

Where the guard is, says ~/.config/loopwarden/hook-address; without it, 127.0.0.1:9464. Whatever is
wrong with it, calls run. Ends with the exit code of the server.")]
pub struct McpProxyArgs {
    /// Name of the server in the session's; default: that of its program
    #[arg(long)]
    pub name: Option<String>,
    /// Session of the agent, where it is known; default: a new one at each start
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Where the guard is: HOST:PORT, or unix: and the path of its socket file
    #[arg(long)]
    pub address: Option<String>,
    /// The server's program and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Runs the server until it ends.
///
/// # Errors
/// The server's exit code, if it is not 0.
pub fn run(args: &McpProxyArgs) -> Outcome {
    let options = Options {
        name: args.name.clone(),
        session: args.session.clone(),
        address: args.address.clone(),
        command: args.command.clone(),
    };
    match loopwarden_mcp::run(&options) {
        0 => Ok(()),
        code => Err(Failure::silent(code)),
    }
}
