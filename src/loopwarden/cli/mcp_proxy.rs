//! `mcp-proxy`: an MCP server behind a proxy that asks the guard about each call of a tool.

use std::{ffi::OsString, net::SocketAddr};

use clap::Args;
use loopwarden_mcp::Options;

use crate::exit_code;
use crate::failure::{Failure, Outcome};

/// `mcp-proxy`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example, as an MCP client runs its server:
  loopwarden mcp-proxy -- npx -y @modelcontextprotocol/server-filesystem .
  loopwarden mcp-proxy --url http://127.0.0.1:8000/mcp   (the client gets http://127.0.0.1:9465/mcp)

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
    /// A server over Streamable HTTP in place of a program: http://HOST:PORT/PATH
    #[arg(long)]
    pub url: Option<String>,
    /// Where the client of such a server connects to, with the path of the server: an address of this host
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9465", requires = "url")]
    pub listen: SocketAddr,
    /// The server's program and its arguments
    #[arg(last = true, required_unless_present = "url", conflicts_with = "url")]
    pub command: Vec<OsString>,
}

/// Runs the server until it ends.
///
/// # Errors
/// The server's exit code, if it is not 0.
pub fn run(args: &McpProxyArgs) -> Outcome {
    let options = Options {
        name: args.name.clone().or_else(|| args.url.clone()),
        session: args.session.clone(),
        address: args.address.clone(),
        command: args.command.clone(),
    };
    if let Some(url) = &args.url {
        return loopwarden_mcp_http::run(url, args.listen, &options)
            .map_err(|error| Failure::new(exit_code::USAGE, format!("error: {error}")));
    }
    match loopwarden_mcp::run(&options) {
        0 => Ok(()),
        code => Err(Failure::silent(code)),
    }
}
