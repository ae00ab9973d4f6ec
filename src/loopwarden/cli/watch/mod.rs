//! `tail` and `sessions`: what agents are told and do, in a terminal, from a running process.

mod args;
mod feed;
mod line;
pub mod sessions;
pub mod tail;

use std::thread;

use feed::Feed;
use line::ShownCommand;

use crate::{cli::shared::ask::RunningProcess, output};

pub use args::{ProcessArgs, SessionsArgs, TailArgs};

/// Prints the commands of this very process as `tail` does, from now on and as long as it answers.
pub(crate) fn beside(process: RunningProcess) {
    let print = move || {
        let Ok(mut feed) = Feed::at_end(process) else { return };
        let is_styled = output::is_styled();
        while let Ok(slice) = feed.read(tail::WAIT) {
            // Whoever reads nothing any more has the page.
            if slice.commands.iter().any(|command| output::line(&ShownCommand(command).line(is_styled)).is_err()) {
                return;
            }
        }
    };
    // Without it nothing is missing but these lines.
    drop(thread::Builder::new().name("tail".to_owned()).spawn(print));
}
