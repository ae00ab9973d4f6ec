//! Tells the service manager how it goes: `sd_notify`'s protocol, a datagram of text to the socket that `NOTIFY_SOCKET` names.

use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::{os::linux::net::SocketAddrExt as _, os::unix::ffi::OsStrExt as _, time::Duration};

use loopwarden_log::clock::Deadline;

/// A word within a third of the time after which the manager gives the process up.
const WATCHDOG_PART: u32 = 3;

/// The service manager, if there is one.
#[derive(Debug)]
pub(super) struct SdNotify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that the process lives, and when next.
    watchdog: Option<(Duration, Deadline)>,
}

impl SdNotify {
    /// The one that started this process.
    pub(super) fn of_environment() -> Self {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|name| match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            [] => None,
            _ => SocketAddr::from_pathname(&name).ok(),
        });
        let watched_us = std::env::var("WATCHDOG_USEC").ok().and_then(|us| us.parse().ok());
        let every = watched_us.map(|us| Duration::from_micros(us) / WATCHDOG_PART);
        Self {
            socket: address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))),
            watchdog: every.map(|every| (every, Deadline::after(Duration::ZERO))),
        }
    }

    /// Says that the process lives, where that is asked for and due.
    pub(super) fn lives(&mut self) {
        if let Some((every, due)) = &mut self.watchdog
            && due.is_over()
        {
            *due = Deadline::after(*every);
            self.tell("WATCHDOG=1");
        }
    }

    /// Says something; a manager that does not listen notices by itself.
    pub(super) fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives() {
        let name = format!("loopwarden-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let receiver = UnixDatagram::bind_addr(&address).unwrap();
        let watchdog = Some((Duration::from_secs(3_600), Deadline::after(Duration::ZERO)));
        let mut manager = SdNotify { socket: Some((UnixDatagram::unbound().unwrap(), address)), watchdog };
        // Of many looks in an hour, one is due.
        for _ in 0..3 {
            manager.lives();
        }
        manager.tell("READY=1");
        for told in ["WATCHDOG=1", "READY=1"] {
            let mut bytes = [0; 16];
            let length = receiver.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], told.as_bytes());
        }
    }
}
