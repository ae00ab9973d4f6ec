//! A row of the kernel's tables of sockets, `/proc/net/tcp` and `tcp6` (Linux).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One end of a connection, or a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub local: SocketAddr,
    /// Where its other end is; nowhere, of a listener.
    pub remote: SocketAddr,
    /// As the kernel numbers them: 1 is established, 10 listens.
    pub state: u8,
    /// Whose it is; root's, where no program holds it any more.
    pub uid: u32,
    /// Zero where no program holds it any more.
    pub inode: u64,
}

impl Row {
    /// Reads a row: number, both addresses, state, queues, timer, retransmissions, user, timeout, inode. `None` where it is none, as the first
    /// line, which has names.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
        let state = u8::from_str_radix(words.next()?, 16).ok()?;
        let mut words = words.skip(3);
        let uid = words.next()?.parse().ok()?;
        let inode = words.nth(1)?.parse().ok()?;
        Some(Self { local, remote, state, uid, inode })
    }
}

/// An address as the kernel writes it: words of 32 bits in hexadecimal, their bytes in the order of the machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}
