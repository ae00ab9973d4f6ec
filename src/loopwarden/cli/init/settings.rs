//! The configuration file that `init` writes: few keys, each with a reason, and checked before anything is written.

use std::net::SocketAddr;
use std::path::PathBuf;

use loopwarden_settings::{Flag, Layers, ProcessMode};

use crate::cli::init::args::On;
use crate::failure::Failure;

/// Where a process listens that is told nothing else.
const USUAL: &str = "127.0.0.1:9464";

/// What goes into the file.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) on: On,
    /// Brokers; empty without Kafka.
    pub(super) bootstrap: String,
    pub(super) mode: ProcessMode,
    pub(super) data_dir: PathBuf,
    pub(super) listen: SocketAddr,
}

impl Settings {
    /// That a process takes them.
    ///
    /// # Errors
    /// All that is wrong, as `check` says it.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let flag = |name: &str, key: &str, value: String| Flag { name: name.to_owned(), key: key.to_owned(), value };
        let mut flags = vec![
            flag("--mode", "mode", self.mode.as_str().to_owned()),
            flag("--address", "http.listen", self.listen.to_string()),
            flag("--data-dir", "data_dir", self.data_dir.to_string_lossy().into_owned()),
        ];
        if self.on == On::Kafka {
            flags.push(flag("--bootstrap", "kafka.bootstrap_servers", self.bootstrap.clone()));
        }
        // The name of the host stands in for one that a variable may give the process.
        let environment = vec![("HOSTNAME".to_owned(), "init".to_owned())];
        loopwarden_settings::load(&Layers { file: None, environment, flags })?;
        Ok(())
    }

    /// The file.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "# Written by loopwarden init. Every key, with its default: loopwarden config init\n\
             \n\
             # shadow: judge, and tell agents nothing. live: nudge and block.\n\
             mode = {}\n\
             # Events and state, for the user alone.\n\
             data_dir = {}\n",
            quoted(self.mode.as_str()),
            quoted(&self.data_dir.to_string_lossy()),
        );
        if self.listen.to_string() != USUAL {
            text = format!("{text}\n[http]\nlisten = {}\n", quoted(&self.listen.to_string()));
        }
        if self.on == On::Kafka {
            text = format!("{text}\n[kafka]\nbootstrap_servers = {}\n", quoted(&self.bootstrap));
        }
        text
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(on: On, bootstrap: &str, data_dir: &str) -> Settings {
        let listen = USUAL.parse().unwrap();
        Settings { on, bootstrap: bootstrap.to_owned(), mode: ProcessMode::Live, data_dir: data_dir.into(), listen }
    }

    #[test]
    fn what_is_written_reads_back_as_it_was_meant_whatever_stands_in_it() {
        let odd = "/srv/a \"b\" \\ c = # %s";
        let read: toml::Table = settings(On::Kafka, "a:1,b:2", odd).text().parse().unwrap();
        assert_eq!(read["data_dir"].as_str(), Some(odd));
        assert_eq!(read["kafka"]["bootstrap_servers"].as_str(), Some("a:1,b:2"));
        assert_eq!((read["mode"].as_str(), read.get("http")), (Some("live"), None));
    }

    #[test]
    fn settings_that_no_process_takes_are_refused_with_their_code() {
        settings(On::Kafka, "localhost:9092", "/srv/lw").check().unwrap();
        for (bootstrap, data_dir) in [("", "/srv/lw"), ("localhost", "/srv/lw"), ("h:1", "/tmp/lw")] {
            let told = settings(On::Kafka, bootstrap, data_dir).check().unwrap_err().message.unwrap();
            assert!(told.contains("error[E0202]"), "{told}");
        }
    }
}
