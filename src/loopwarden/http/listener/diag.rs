//! One question to the operating system about one connection (Linux, `sock_diag`): a table of all of them takes milliseconds to read.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::{io, sync::OnceLock, time::Duration};

use socket2::{Domain, Protocol, Socket, Type};

/// `AF_NETLINK`.
const NETLINK: i32 = 16;
/// `NETLINK_SOCK_DIAG`.
const SOCK_DIAG: i32 = 4;
/// `SOCK_DIAG_BY_FAMILY`, of the question and of its answer.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// `AF_INET` and `AF_INET6`.
const FAMILIES: [u8; 2] = [2, 10];
/// The kernel answers before the question returns.
const WAIT: Duration = Duration::from_millis(100);

/// The end of a connection that some program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// As the kernel counts them: 1 is established.
    pub(crate) state: u8,
    pub(crate) user: u32,
    /// 0: no program has it any more.
    pub(crate) inode: u32,
}

/// Whether the system answers such questions. Asked once, about a connection of this process.
pub(crate) fn is_there() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    let of_own = || -> io::Result<bool> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        Ok(end_of(client.local_addr()?, client.peer_addr()?)?.is_some_and(|end| end.inode != 0))
    };
    *IS_THERE.get_or_init(|| of_own().unwrap_or(false))
}

/// The end of a connection at `own`, whose other one is at `other`; none where there is no such connection.
///
/// # Errors
/// The system does not answer such questions.
pub(crate) fn end_of(own: SocketAddr, other: SocketAddr) -> io::Result<Option<End>> {
    let mut socket = Socket::new(Domain::from(NETLINK), Type::DGRAM, Some(Protocol::from(SOCK_DIAG)))?;
    socket.set_read_timeout(Some(WAIT))?;
    socket.write_all(&question(own, other))?;
    let mut answer = [0; 1_024];
    let length = socket.read(&mut answer)?;
    Ok(answer.get(..length).and_then(|answer| read(answer, own.port(), other.port())))
}

fn question(own: SocketAddr, other: SocketAddr) -> Vec<u8> {
    let (own_ip, other_ip) = (own.ip().to_canonical(), other.ip().to_canonical());
    let [of_four, of_six] = FAMILIES;
    let mut body = vec![if own_ip.is_ipv4() { of_four } else { of_six }, TCP, 0, 0];
    // Whatever its state.
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(own.port().to_be_bytes());
    body.extend(other.port().to_be_bytes());
    for ip in [own_ip, other_ip] {
        let mut place = [0; 16];
        match ip {
            IpAddr::V4(ip) => place.iter_mut().zip(ip.octets()).for_each(|(place, byte)| *place = byte),
            IpAddr::V6(ip) => place = ip.octets(),
        }
        body.extend(place);
    }
    // On any interface, and no cookie of an earlier answer.
    body.extend(0_u32.to_ne_bytes());
    body.extend([0xFF; 8]);
    let mut question = Vec::with_capacity(16 + body.len());
    question.extend((16 + body.len() as u32).to_ne_bytes());
    question.extend(BY_FAMILY.to_ne_bytes());
    question.extend(REQUEST.to_ne_bytes());
    // Its number, and who asks: the kernel knows.
    question.extend([0; 8]);
    question.extend(body);
    question
}

/// What an answer says of a connection between these ports; a listener there is none, and an error says that there is none.
fn read(answer: &[u8], own: u16, other: u16) -> Option<End> {
    let two = |at: usize| answer.get(at..at + 2)?.try_into().ok();
    let four = |at: usize| answer.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let is_of = two(20).map(u16::from_be_bytes) == Some(own) && two(22).map(u16::from_be_bytes) == Some(other);
    if two(4).map(u16::from_ne_bytes) != Some(BY_FAMILY) || !is_of {
        return None;
    }
    Some(End { state: *answer.get(17)?, user: four(80)?, inode: four(84)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_about_another_connection_or_of_another_kind_is_none() {
        let mut answer = vec![0; 88];
        answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        answer[17] = 1;
        answer[20..22].copy_from_slice(&40_000_u16.to_be_bytes());
        answer[22..24].copy_from_slice(&9_464_u16.to_be_bytes());
        answer[80..84].copy_from_slice(&1_000_u32.to_ne_bytes());
        answer[84..88].copy_from_slice(&7_u32.to_ne_bytes());
        assert_eq!(read(&answer, 40_000, 9_464), Some(End { state: 1, user: 1_000, inode: 7 }));
        // A listener has no other end.
        answer[22..24].copy_from_slice(&[0, 0]);
        assert_eq!(read(&answer, 40_000, 9_464), None);
        assert_eq!(read(&answer[..80], 40_000, 0), None);
        answer[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(read(&answer, 40_000, 0), None);
        assert_eq!(read(&[], 0, 0), None);
    }
}
