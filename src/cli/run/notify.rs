//! Tells the service manager how it goes: `sd_notify`'s protocol, a datagram of text to the socket that `NOTIFY_SOCKET` names.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::SocketAddr;
use std::os::unix::net::UnixDatagram;

/// The service manager, if there is one.
#[derive(Debug)]
pub(super) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl Manager {
    /// The one that started this process.
    pub(super) fn of_environment() -> Self {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|name| match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            [] => None,
            _ => SocketAddr::from_pathname(&name).ok(),
        });
        Self { socket: address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address))) }
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
        let manager = Manager { socket: Some((UnixDatagram::unbound().unwrap(), address)) };
        manager.tell("READY=1");
        let mut bytes = [0; 16];
        let length = receiver.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"READY=1");
    }
}
