//! Who answers hooks at an address, and whether agents will hear anything from it.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use crate::cli::shared::ask::RunningProcess;

/// Wait for the running process, when somebody looks whether it is there.
const ASK_WAIT: Duration = Duration::from_secs(2);
/// Bytes of its answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Where a process listens that is told nothing else.
const USUAL: &str = "127.0.0.1:9464";

/// What was found at an address.
pub(crate) struct Answering {
    address: SocketAddr,
    found: Found,
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// A process, and its mode; a guard tells none: the mode is that of the process whose commands it reads.
    Ready(Option<String>),
    /// A process that does not work yet, or not any more: its status line.
    NotReady(String),
    /// Nobody, or somebody who is not asked: why.
    Nobody(String),
}

impl Answering {
    /// Asks who answers there.
    pub(crate) fn at(address: SocketAddr) -> Self {
        let process = RunningProcess { address, token: None };
        let asked = |path| process.get(path, ASK_WAIT, ANSWER_BYTES_MAX);
        let found = match asked("/readyz") {
            Ok(answer) if answer.code == "200" => Found::Ready(asked("/version").ok().and_then(|version| mode(&version.body))),
            Ok(answer) => Found::NotReady(answer.status.chars().filter(|letter| !letter.is_control()).collect()),
            Err(error) => Found::Nobody(error.to_string()),
        };
        Self { address, found }
    }

    /// The same for programs.
    pub(super) fn to_json(&self) -> Value {
        let (state, mode, why) = match &self.found {
            Found::Ready(mode) => ("ready", mode.as_ref(), None),
            Found::NotReady(status) => ("not_ready", None, Some(status)),
            Found::Nobody(why) => ("absent", None, Some(why)),
        };
        json!({ "address": self.address.to_string(), "state": state, "mode": mode, "why": why })
    }

    /// What is to be said of it, and what to do.
    pub(crate) fn lines(&self) -> Vec<String> {
        let address = self.address;
        let listen = if address.to_string() == USUAL { String::new() } else { format!(" --set http.listen={address}") };
        match &self.found {
            Found::Ready(Some(mode)) if mode == "live" => vec![format!("loopwarden answers at {address}, in live mode")],
            Found::Ready(Some(mode)) if mode == "shadow" => vec![
                format!("loopwarden answers at {address}, in shadow mode: agents are heard, and nothing is told to them"),
                "  to have them told: start it with --set mode=live, or with mode = \"live\" in its configuration file"
                    .to_owned(),
            ],
            Found::Ready(_) => vec![format!("loopwarden answers at {address}")],
            Found::NotReady(status) => vec![format!("loopwarden at {address} is not ready: {status}")],
            Found::Nobody(why) => vec![
                format!("no loopwarden at {address}: {why}; agents work as without hooks, and nothing is told to them"),
                format!("  start one: loopwarden run --data-dir ./lw{listen} --set mode=live"),
            ],
        }
    }
}

/// The mode in an answer to `/version`.
fn mode(body: &str) -> Option<String> {
    let version: Value = serde_json::from_str(body).ok()?;
    Some(version.get("mode")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(address: &str, found: Found) -> String {
        Answering { address: address.parse().unwrap(), found }.lines().join("\n")
    }

    #[test]
    fn a_guard_tells_no_mode_and_none_is_made_up_for_it() {
        assert_eq!(mode("{}"), None);
        assert_eq!(mode("{\"mode\":\"shadow\"}").as_deref(), Some("shadow"));
        assert_eq!(told(USUAL, Found::Ready(None)), "loopwarden answers at 127.0.0.1:9464");
    }

    #[test]
    fn who_is_to_start_a_process_is_told_the_address_that_hooks_ask() {
        let nobody = || Found::Nobody("refused".to_owned());
        assert!(told(USUAL, nobody()).ends_with("loopwarden run --data-dir ./lw --set mode=live"));
        assert!(told("127.0.0.1:7", nobody()).ends_with("./lw --set http.listen=127.0.0.1:7 --set mode=live"));
    }
}
