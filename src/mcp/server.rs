//! The server's process: started, fed, told the signals that this one gets, and waited for.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::{
    ffi::OsString, io, io::Write as _, os::unix::process::ExitStatusExt as _, sync::Arc, sync::mpsc::sync_channel, thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{desk::Desk, line::LINE_BYTES_MAX, relay::Relay};

/// The program is not there, as shells say it.
const NOT_STARTED: u8 = 127;
/// Added to the number of a signal, as shells do it.
const OF_SIGNAL: i32 = 128;
/// For what an ended server has still in its pipe: its children may hold that open for ever.
const REST_WAIT: Duration = Duration::from_secs(1);

/// Runs the server until it ends; its exit code.
pub(crate) fn run(command: &[OsString], desk: Desk) -> u8 {
    match started(command).and_then(|child| relayed(child, desk)) {
        Ok(status) => code(status),
        Err(error) => {
            let program = command.first().map(|program| program.display().to_string()).unwrap_or_default();
            let _ = writeln!(io::stderr(), "loopwarden: {program} cannot be run: {error}");
            NOT_STARTED
        }
    }
}

fn started(command: &[OsString]) -> io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or_else(|| io::Error::other("no command"))?;
    Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

fn relayed(mut child: Child, desk: Desk) -> io::Result<ExitStatus> {
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    pass_on_signals(&child)?;
    let relay = Arc::new(Relay::new(desk, io::stdout(), LINE_BYTES_MAX));
    let asks = Arc::clone(&relay);
    // It waits for the client, maybe for ever; it ends with the process. Once the client ends, so does the server's input.
    thread::Builder::new().name("to-server".to_owned()).spawn(move || asks.to_server(io::stdin(), input))?;
    let (tell, ended) = sync_channel(1);
    thread::Builder::new().name("to-client".to_owned()).spawn(move || {
        // Nobody reads any more: the server finds out as without a proxy, at its next line.
        let _ = relay.to_client(output);
        let _ = tell.send(());
    })?;
    let status = child.wait()?;
    let _ = ended.recv_timeout(REST_WAIT);
    Ok(status)
}

/// What this process is told to do, the server is told.
fn pass_on_signals(child: &Child) -> io::Result<()> {
    let pid = Pid::from_child(child);
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGTERM => Signal::TERM,
                SIGINT => Signal::INT,
                _ => Signal::HUP,
            };
            // It has ended already.
            let _ = kill_process(pid, signal);
        }
    })?;
    Ok(())
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(OF_SIGNAL + status.signal()?)).unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}
